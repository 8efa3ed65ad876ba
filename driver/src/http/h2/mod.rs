//! HTTP/2 as a client (RFC 9113): one connection's frames, without input or output.

mod frame;
mod hpack;
mod message;

use super::response::{ParseError, Parser};
use frame::{flags, Code, Head, Kind};
use hpack::{Decoder, Problem};

pub use frame::Code as ErrorCode;

/// Windows as browsers ask for them: of a stream, and of the connection.
const STREAM_WINDOW: u32 = 6 << 20;
const CONNECTION_WINDOW: u32 = 15 << 20;
const DEFAULT_WINDOW: i64 = 65_535;
/// Streams at once while the server has not said otherwise.
const STREAMS: u32 = 100;
/// Longest frame accepted: the least every implementation has to allow.
const LONGEST_FRAME: usize = 16_384;
/// Longest header block, and how many fields it may have.
const LONGEST_BLOCK: usize = 64 << 10;
const MOST_FIELDS: usize = 256;
/// Frames that bring no answer further, in a row.
const MOST_IDLE: u32 = 10_000;
/// Answers to PING and SETTINGS that the server does not take off.
const MOST_UNSENT: usize = 256 << 10;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Why the whole connection is useless.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Broken {
    pub code: Code,
    pub message: &'static str,
}

/// What became of a stream; `line` is what [`Client::open`] was given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    /// A complete answer is in the parser of the line.
    Complete { line: u32, stream: u32 },
    /// The answer is no valid one.
    Malformed { line: u32, stream: u32, error: ParseError },
    /// The server gave the stream up.
    Reset { line: u32, stream: u32, code: u32 },
    /// The server did not look at the request.
    Refused { line: u32, stream: u32 },
}

/// Where answers go.
pub trait Answers {
    fn parser(&mut self, line: u32) -> &mut Parser;
}

#[derive(Debug)]
struct Stream {
    id: u32,
    line: u32,
    /// What may still be sent, and what may still come.
    send: i64,
    room: i64,
    /// The rest of the request's body.
    body: Vec<u8>,
    sent: usize,
}

impl Stream {
    fn sending(&self) -> bool {
        self.sent < self.body.len()
    }
}

#[derive(Debug)]
pub struct Client {
    out: Vec<u8>,
    written: usize,
    partial: Vec<u8>,
    decoder: Decoder,
    /// The header block under way: stream and flags of its HEADERS frame.
    block: Vec<u8>,
    heading: Option<(u32, u8)>,
    streams: Vec<Stream>,
    next: u32,
    opened: u32,
    most_streams: u32,
    most_frame: usize,
    first_window: i64,
    send: i64,
    room: i64,
    greeted: bool,
    leaving: bool,
    idle: u32,
}

impl Default for Client {
    fn default() -> Self {
        Client::new()
    }
}

impl Client {
    pub fn new() -> Self {
        let mut out = PREFACE.to_vec();
        frame::settings(&mut out, &[(2, 0), (4, STREAM_WINDOW), (6, LONGEST_BLOCK as u32)]);
        frame::window_update(&mut out, 0, CONNECTION_WINDOW - DEFAULT_WINDOW as u32);
        Client {
            out,
            written: 0,
            partial: Vec::new(),
            decoder: Decoder::default(),
            block: Vec::new(),
            heading: None,
            streams: Vec::new(),
            next: 1,
            opened: 0,
            most_streams: STREAMS,
            most_frame: LONGEST_FRAME,
            first_window: DEFAULT_WINDOW,
            send: DEFAULT_WINDOW,
            room: i64::from(CONNECTION_WINDOW),
            greeted: false,
            leaving: false,
            idle: 0,
        }
    }

    /// Bytes to be written; [`Client::wrote`] says how many were.
    pub fn unsent(&self) -> &[u8] {
        &self.out[self.written..]
    }

    pub fn wrote(&mut self, count: usize) {
        self.written += count;
        if self.written >= self.out.len() {
            self.out.clear();
            self.written = 0;
        } else if self.written > MOST_UNSENT {
            self.out.drain(..self.written);
            self.written = 0;
        }
    }

    /// Lines and streams of the requests under way.
    pub fn active(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.streams.iter().map(|stream| (stream.line, stream.id))
    }

    pub fn is_idle(&self) -> bool {
        self.streams.is_empty()
    }

    /// Requests sent so far.
    pub fn opened(&self) -> u32 {
        self.opened
    }

    /// No further request may be sent here.
    pub fn is_leaving(&self) -> bool {
        self.leaving || self.next > 0x7fff_fff0
    }

    /// One more request may be sent now.
    pub fn may_open(&self) -> bool {
        !self.is_leaving() && (self.streams.len() as u64) < u64::from(self.most_streams)
    }

    /// Streams the server allows at once.
    pub fn most_streams(&self) -> u32 {
        self.most_streams
    }

    /// Sends `request`, which is written as for HTTP/1.1; the number of its stream.
    pub fn open(&mut self, line: u32, secure: bool, request: &[u8]) -> u32 {
        let id = self.next;
        self.next += 2;
        self.opened += 1;
        self.idle = 0;
        let mut block = std::mem::take(&mut self.block);
        block.clear();
        let body = message::encode(&mut block, secure, request);
        let end = if body.is_empty() { flags::END_STREAM } else { 0 };
        frame::headers(&mut self.out, id, &block, end, self.most_frame);
        block.clear();
        self.block = block;
        let send = self.first_window;
        self.streams.push(Stream { id, line, send, room: i64::from(STREAM_WINDOW), body: body.to_vec(), sent: 0 });
        self.send_bodies();
        id
    }

    /// Gives every request under way up.
    pub fn cancel(&mut self) {
        for stream in std::mem::take(&mut self.streams) {
            frame::reset(&mut self.out, stream.id, Code::Cancel);
        }
    }

    /// Says good-bye because of `broken`.
    pub fn leave(&mut self, broken: &Broken) {
        self.leaving = true;
        frame::go_away(&mut self.out, broken.code);
    }

    /// Takes in `data`; what it ended is appended to `events`.
    pub fn feed(&mut self, data: &[u8], answers: &mut dyn Answers, events: &mut Vec<Event>) -> Result<(), Broken> {
        let mut rest = data;
        if !self.partial.is_empty() {
            let head = loop {
                let head = Head::read(&self.partial);
                let wanted = frame::HEAD + head.as_ref().map_or(Ok(0), bounded)?;
                let missing = wanted - self.partial.len();
                match head {
                    Some(head) if missing == 0 => break head,
                    _ if rest.is_empty() => return Ok(()),
                    _ => {}
                }
                let take = missing.min(rest.len());
                self.partial.extend_from_slice(&rest[..take]);
                rest = &rest[take..];
            };
            let whole = std::mem::take(&mut self.partial);
            let result = self.on_frame(&head, &whole[frame::HEAD..], answers, events);
            self.partial = whole;
            self.partial.clear();
            result?;
        }
        while let Some(head) = Head::read(rest) {
            let length = bounded(&head)?;
            let Some(payload) = rest.get(frame::HEAD..frame::HEAD + length) else { break };
            self.on_frame(&head, payload, answers, events)?;
            rest = &rest[frame::HEAD + length..];
        }
        self.partial.extend_from_slice(rest);
        Ok(())
    }

    fn on_frame(
        &mut self,
        head: &Head,
        payload: &[u8],
        answers: &mut dyn Answers,
        events: &mut Vec<Event>,
    ) -> Result<(), Broken> {
        self.idle += 1;
        if self.idle > MOST_IDLE {
            return broken(Code::EnhanceYourCalm, "thousands of frames without an answer");
        }
        if self.out.len() - self.written > MOST_UNSENT && self.streams.iter().all(|stream| !stream.sending()) {
            return broken(Code::EnhanceYourCalm, "the server takes no answers to its frames off");
        }
        if !self.greeted && (head.kind != Kind::Settings || head.flags & flags::ACK != 0) {
            return broken(Code::Protocol, "the first frame is not SETTINGS: is it HTTP/2?");
        }
        if self.heading.is_some() != (head.kind == Kind::Continuation) {
            return broken(Code::Protocol, "a header block was interrupted");
        }
        match head.kind {
            Kind::Data => self.on_data(head, payload, answers, events),
            Kind::Headers => self.on_headers(head, payload, answers, events),
            Kind::Continuation => self.on_continuation(head, payload, answers, events),
            Kind::Reset => self.on_reset(head, payload, events),
            Kind::Settings => self.on_settings(head, payload),
            Kind::Ping => self.on_ping(head, payload),
            Kind::GoAway => self.on_go_away(head, payload, events),
            Kind::WindowUpdate => self.on_window_update(head, payload),
            Kind::PushPromise => broken(Code::Protocol, "a push that was not allowed"),
            Kind::Priority | Kind::Unknown => Ok(()),
        }
    }

    fn on_data(
        &mut self,
        head: &Head,
        payload: &[u8],
        answers: &mut dyn Answers,
        events: &mut Vec<Event>,
    ) -> Result<(), Broken> {
        self.known(head.stream)?;
        let content = frame::unpadded(head, payload)?;
        let size = payload.len() as i64;
        self.room -= size;
        if self.room < 0 {
            return broken(Code::FlowControl, "more than the connection's window");
        }
        if self.room < i64::from(CONNECTION_WINDOW / 2) {
            frame::window_update(&mut self.out, 0, CONNECTION_WINDOW - self.room as u32);
            self.room = i64::from(CONNECTION_WINDOW);
        }
        let Some(at) = self.position(head.stream) else { return Ok(()) };
        let stream = &mut self.streams[at];
        stream.room -= size;
        if stream.room < 0 {
            return broken(Code::FlowControl, "more than a stream's window");
        }
        let last = head.flags & flags::END_STREAM != 0;
        if !last && stream.room < i64::from(STREAM_WINDOW / 2) {
            frame::window_update(&mut self.out, stream.id, STREAM_WINDOW - stream.room as u32);
            stream.room = i64::from(STREAM_WINDOW);
        }
        if !content.is_empty() {
            self.idle = 0;
        }
        let parser = answers.parser(stream.line);
        let result = parser.stream_data(content);
        self.settle(at, last, result, answers, events);
        Ok(())
    }

    fn on_headers(
        &mut self,
        head: &Head,
        payload: &[u8],
        answers: &mut dyn Answers,
        events: &mut Vec<Event>,
    ) -> Result<(), Broken> {
        self.known(head.stream)?;
        let mut content = frame::unpadded(head, payload)?;
        if head.flags & flags::PRIORITY != 0 {
            content = match content.get(5..) {
                Some(content) => content,
                None => return broken(Code::FrameSize, "HEADERS too short"),
            };
        }
        self.heading = Some((head.stream, head.flags));
        self.block.clear();
        self.block.extend_from_slice(content);
        if head.flags & flags::END_HEADERS != 0 {
            return self.end_block(answers, events);
        }
        Ok(())
    }

    fn on_continuation(
        &mut self,
        head: &Head,
        payload: &[u8],
        answers: &mut dyn Answers,
        events: &mut Vec<Event>,
    ) -> Result<(), Broken> {
        if self.heading.map(|(stream, _)| stream) != Some(head.stream) {
            return broken(Code::Protocol, "CONTINUATION of another stream");
        }
        if self.block.len() + payload.len() > LONGEST_BLOCK {
            return broken(Code::EnhanceYourCalm, "header block longer than 64 KiB");
        }
        self.block.extend_from_slice(payload);
        if head.flags & flags::END_HEADERS != 0 {
            return self.end_block(answers, events);
        }
        Ok(())
    }

    /// A whole header block is there: an interim answer, the head of one, or trailers.
    fn end_block(&mut self, answers: &mut dyn Answers, events: &mut Vec<Event>) -> Result<(), Broken> {
        let Some((id, bits)) = self.heading.take() else { return Ok(()) };
        let block = std::mem::take(&mut self.block);
        let at = self.position(id);
        let last = bits & flags::END_STREAM != 0;
        let mut result = Ok(());
        let decoded = match at {
            None => self.decoder.decode(&block, MOST_FIELDS, LONGEST_BLOCK, |_, _| {}),
            Some(at) => {
                let parser = answers.parser(self.streams[at].line);
                let mut head = parser.stream_head();
                let decoded = self.decoder.decode(&block, MOST_FIELDS, LONGEST_BLOCK, |n, v| head.field(n, v));
                if decoded.is_ok() {
                    result = head.end(last);
                }
                decoded
            }
        };
        self.block = block;
        match decoded {
            Ok(()) => {}
            Err(Problem::Malformed) => return broken(Code::Compression, "malformed header block"),
            Err(Problem::TooMany) => return broken(Code::EnhanceYourCalm, "more than 256 headers or 64 KiB of them"),
        }
        if let Some(at) = at {
            self.settle(at, last, result, answers, events);
        }
        Ok(())
    }

    /// What a frame of the stream at `at` means for it.
    fn settle(
        &mut self,
        at: usize,
        last: bool,
        result: Result<(), ParseError>,
        answers: &mut dyn Answers,
        events: &mut Vec<Event>,
    ) {
        let (line, stream) = (self.streams[at].line, self.streams[at].id);
        let result = match result {
            Ok(()) if !last => return,
            Ok(()) => answers.parser(line).stream_end(),
            error => error,
        };
        let unfinished = self.streams[at].sending();
        self.streams.swap_remove(at);
        match result {
            Ok(()) => {
                self.idle = 0;
                if unfinished {
                    frame::reset(&mut self.out, stream, Code::Cancel);
                }
                events.push(Event::Complete { line, stream });
            }
            Err(error) => {
                frame::reset(&mut self.out, stream, Code::Protocol);
                events.push(Event::Malformed { line, stream, error });
            }
        }
    }

    fn on_reset(&mut self, head: &Head, payload: &[u8], events: &mut Vec<Event>) -> Result<(), Broken> {
        self.known(head.stream)?;
        let code = frame::number(payload, 4, "RST_STREAM")?;
        if let Some(at) = self.position(head.stream) {
            let Stream { line, id: stream, .. } = self.streams.swap_remove(at);
            events.push(match code {
                frame::REFUSED => Event::Refused { line, stream },
                code => Event::Reset { line, stream, code },
            });
        }
        Ok(())
    }

    fn on_settings(&mut self, head: &Head, payload: &[u8]) -> Result<(), Broken> {
        if head.stream != 0 {
            return broken(Code::Protocol, "SETTINGS of a stream");
        }
        self.greeted = true;
        if head.flags & flags::ACK != 0 {
            return if payload.is_empty() { Ok(()) } else { broken(Code::FrameSize, "SETTINGS with wrong length") };
        }
        if payload.len() % 6 != 0 {
            return broken(Code::FrameSize, "SETTINGS with wrong length");
        }
        for setting in payload.chunks_exact(6) {
            let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
            match u16::from_be_bytes([setting[0], setting[1]]) {
                3 => self.most_streams = value,
                4 if value > 0x7fff_ffff => return broken(Code::FlowControl, "a window above 2^31 - 1"),
                4 => {
                    let change = i64::from(value) - self.first_window;
                    self.first_window = i64::from(value);
                    self.streams.iter_mut().for_each(|stream| stream.send += change);
                }
                5 if !(16_384..=16_777_215).contains(&value) => return broken(Code::Protocol, "a wrong frame size"),
                5 => self.most_frame = value as usize,
                _ => {}
            }
        }
        frame::settings_ack(&mut self.out);
        self.send_bodies();
        Ok(())
    }

    fn on_ping(&mut self, head: &Head, payload: &[u8]) -> Result<(), Broken> {
        if payload.len() != 8 || head.stream != 0 {
            return broken(Code::FrameSize, "a malformed PING");
        }
        if head.flags & flags::ACK == 0 {
            frame::ping_ack(&mut self.out, payload);
        }
        Ok(())
    }

    fn on_go_away(&mut self, head: &Head, payload: &[u8], events: &mut Vec<Event>) -> Result<(), Broken> {
        if payload.len() < 8 || head.stream != 0 {
            return broken(Code::FrameSize, "a malformed GOAWAY");
        }
        let last = frame::number(&payload[..4], 4, "GOAWAY")? & 0x7fff_ffff;
        self.leaving = true;
        let refused = |stream: &Stream| stream.id > last;
        events.extend(
            self.streams
                .iter()
                .filter(|stream| refused(stream))
                .map(|stream| Event::Refused { line: stream.line, stream: stream.id }),
        );
        self.streams.retain(|stream| !refused(stream));
        Ok(())
    }

    fn on_window_update(&mut self, head: &Head, payload: &[u8]) -> Result<(), Broken> {
        let more = i64::from(frame::number(payload, 4, "WINDOW_UPDATE")? & 0x7fff_ffff);
        let window = if head.stream == 0 {
            Some(&mut self.send)
        } else {
            self.known(head.stream)?;
            self.streams.iter_mut().find(|stream| stream.id == head.stream).map(|stream| &mut stream.send)
        };
        if more == 0 {
            return broken(Code::Protocol, "WINDOW_UPDATE of nothing");
        }
        if let Some(window) = window {
            *window += more;
            if *window > 0x7fff_ffff {
                return broken(Code::FlowControl, "a window above 2^31 - 1");
            }
        }
        self.send_bodies();
        Ok(())
    }

    /// Sends of the bodies what the windows allow.
    fn send_bodies(&mut self) {
        for stream in &mut self.streams {
            while stream.sending() && stream.send > 0 && self.send > 0 {
                let left = stream.body.len() - stream.sent;
                let count = left.min(self.most_frame).min(stream.send.min(self.send) as usize);
                let part = &stream.body[stream.sent..stream.sent + count];
                frame::data(&mut self.out, stream.id, part, count == left);
                stream.sent += count;
                stream.send -= count as i64;
                self.send -= count as i64;
                self.idle = 0;
            }
        }
    }

    /// A stream that is or was.
    fn known(&self, stream: u32) -> Result<(), Broken> {
        if stream % 2 == 1 && stream < self.next {
            return Ok(());
        }
        broken(Code::Protocol, "a frame of a stream that nobody opened")
    }

    fn position(&self, stream: u32) -> Option<usize> {
        self.streams.iter().position(|other| other.id == stream)
    }
}

fn bounded(head: &Head) -> Result<usize, Broken> {
    if head.length > LONGEST_FRAME {
        return broken(Code::FrameSize, "a frame longer than allowed: is it HTTP/2?");
    }
    Ok(head.length)
}

fn broken<T>(code: Code, message: &'static str) -> Result<T, Broken> {
    Err(Broken { code, message })
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
