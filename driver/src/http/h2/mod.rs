//! HTTP/2 as a client (RFC 9113): one connection's frames, without input or output.

mod encoder;
mod frame;
mod hpack;
mod message;
mod receive;

use super::error::ParseError;
use super::response::Parser;
use encoder::Encoder;
use frame::{flags, Code, Head};
use hpack::Decoder;

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
/// Frames that bring no response further, in a row.
const MOST_IDLE: u32 = 10_000;
/// Bytes of responses to PING and SETTINGS that the server does not read.
const MOST_UNSENT: usize = 256 << 10;
/// Bytes to be written besides the bodies of requests under way.
const MOST_QUEUED: usize = 16 << 20;
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
    /// The response begins.
    Begun { line: u32, stream: u32 },
    /// Events are in the parser of the line.
    Part { line: u32, stream: u32 },
    /// A complete response is in the parser of the line.
    Complete { line: u32, stream: u32 },
    /// The response is no valid one.
    Malformed { line: u32, stream: u32, error: ParseError },
    /// The server gave the stream up.
    Reset { line: u32, stream: u32, code: u32 },
    /// The server did not look at the request; whether it did at others of this connection.
    Refused { line: u32, stream: u32, others: bool },
}

/// Where responses go.
pub trait Responses {
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
    /// Bytes of `out` that answer PING and SETTINGS and may not be written yet.
    owed: usize,
    partial: Vec<u8>,
    decoder: Decoder,
    encoder: Encoder,
    /// The header block under way: stream and flags of its HEADERS frame.
    block: Vec<u8>,
    heading: Option<(u32, u8)>,
    streams: Vec<Stream>,
    next: u32,
    opened: u32,
    answered: u32,
    most_streams: u32,
    most_frame: usize,
    first_window: i64,
    send: i64,
    room: i64,
    greeted: bool,
    leaving: bool,
    idle: u32,
    /// Bytes for streams that are over, since the last one ended.
    late: u32,
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
            owed: 0,
            partial: Vec::new(),
            decoder: Decoder::default(),
            encoder: Encoder::default(),
            block: Vec::new(),
            heading: None,
            streams: Vec::new(),
            next: 1,
            opened: 0,
            answered: 0,
            most_streams: STREAMS,
            most_frame: LONGEST_FRAME,
            first_window: DEFAULT_WINDOW,
            send: DEFAULT_WINDOW,
            room: i64::from(CONNECTION_WINDOW),
            greeted: false,
            leaving: false,
            idle: 0,
            late: 0,
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
        self.owed = self.owed.min(self.unsent().len());
    }

    /// Whether more waits to be written than requests under way account for.
    fn queues_too_much(&self) -> bool {
        let waiting = self.unsent().len();
        waiting > MOST_QUEUED && waiting > MOST_QUEUED + self.streams.iter().map(|stream| stream.sent).sum::<usize>()
    }

    /// Lines of the requests under way.
    pub fn active(&self) -> impl Iterator<Item = u32> + '_ {
        self.streams.iter().map(|stream| stream.line)
    }

    pub fn under_way(&self) -> u32 {
        self.streams.len() as u32
    }

    pub fn is_idle(&self) -> bool {
        self.streams.is_empty()
    }

    /// Requests sent so far.
    pub fn opened(&self) -> u32 {
        self.opened
    }

    /// The server said what it allows.
    pub fn is_greeted(&self) -> bool {
        self.greeted
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
        let body = message::encode(&mut self.encoder, &mut block, secure, request);
        let end = if body.is_empty() { flags::END_STREAM } else { 0 };
        frame::headers(&mut self.out, id, &block, end, self.most_frame);
        block.clear();
        self.block = block;
        let send = self.first_window;
        self.streams.push(Stream { id, line, send, room: i64::from(STREAM_WINDOW), body: body.to_vec(), sent: 0 });
        self.send_bodies();
        id
    }

    /// Gives the request of `stream` up, if it is under way.
    pub fn cancel(&mut self, stream: u32) {
        if let Some(at) = self.position(stream) {
            self.streams.swap_remove(at);
            self.late = 0;
            frame::reset(&mut self.out, stream, Code::Cancel);
        }
    }

    /// Sends no further request here.
    pub fn retire(&mut self) {
        self.leaving = true;
    }

    /// Says good-bye because of `broken`.
    pub fn leave(&mut self, broken: &Broken) {
        self.leaving = true;
        frame::go_away(&mut self.out, broken.code);
    }

    /// Takes in `data`; what it ended is appended to `events`.
    pub fn feed(&mut self, data: &[u8], responses: &mut dyn Responses, events: &mut Vec<Event>) -> Result<(), Broken> {
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
            let result = self.on_frame(&head, &whole[frame::HEAD..], responses, events);
            self.partial = whole;
            self.partial.clear();
            result?;
        }
        while let Some(head) = Head::read(rest) {
            let length = bounded(&head)?;
            let Some(payload) = rest.get(frame::HEAD..frame::HEAD + length) else { break };
            self.on_frame(&head, payload, responses, events)?;
            rest = &rest[frame::HEAD + length..];
        }
        self.partial.extend_from_slice(rest);
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
