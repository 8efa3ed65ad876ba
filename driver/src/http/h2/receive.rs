//! What each kind of frame from the server means (RFC 9113, 6).

use super::frame::{self, flags, Code, Head, Kind};
use super::hpack::Problem;
use super::{broken, Broken, Client, Event, Responses, Stream};
use super::{CONNECTION_WINDOW, LONGEST_BLOCK, MOST_FIELDS, MOST_IDLE, MOST_UNSENT, STREAM_WINDOW};
use crate::http::error::ParseError;

impl Client {
    pub(super) fn on_frame(
        &mut self,
        head: &Head,
        payload: &[u8],
        responses: &mut dyn Responses,
        events: &mut Vec<Event>,
    ) -> Result<(), Broken> {
        self.idle += 1;
        if self.idle > MOST_IDLE {
            return broken(Code::EnhanceYourCalm, "thousands of frames without a response");
        }
        if self.owed > MOST_UNSENT || self.queues_too_much() {
            return broken(Code::EnhanceYourCalm, "the server does not read what it is sent");
        }
        if !self.greeted && (head.kind != Kind::Settings || head.flags & flags::ACK != 0) {
            return broken(Code::Protocol, "the first frame is not SETTINGS: is it HTTP/2?");
        }
        if self.heading.is_some() != (head.kind == Kind::Continuation) {
            return broken(Code::Protocol, "a header block was interrupted");
        }
        match head.kind {
            Kind::Data => self.on_data(head, payload, responses, events),
            Kind::Headers => self.on_headers(head, payload, responses, events),
            Kind::Continuation => self.on_continuation(head, payload, responses, events),
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
        responses: &mut dyn Responses,
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
        let Some(at) = self.position(head.stream) else {
            self.late += payload.len() as u32;
            if self.late > CONNECTION_WINDOW {
                return broken(Code::EnhanceYourCalm, "the server goes on with streams that are over");
            }
            return Ok(());
        };
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
        let parser = responses.parser(stream.line);
        let result = parser.stream_data(content);
        if parser.has_events() {
            events.push(Event::Part { line: stream.line, stream: stream.id });
        }
        self.settle(at, last, result, responses, events);
        Ok(())
    }

    fn on_headers(
        &mut self,
        head: &Head,
        payload: &[u8],
        responses: &mut dyn Responses,
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
            return self.end_block(responses, events);
        }
        Ok(())
    }

    fn on_continuation(
        &mut self,
        head: &Head,
        payload: &[u8],
        responses: &mut dyn Responses,
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
            return self.end_block(responses, events);
        }
        Ok(())
    }

    /// A whole header block is there: an interim response, the head of one, or trailers.
    fn end_block(&mut self, responses: &mut dyn Responses, events: &mut Vec<Event>) -> Result<(), Broken> {
        let Some((id, bits)) = self.heading.take() else { return Ok(()) };
        let block = std::mem::take(&mut self.block);
        let at = self.position(id);
        let last = bits & flags::END_STREAM != 0;
        let mut result = Ok(());
        let decoded = match at {
            None => self.decoder.decode(&block, MOST_FIELDS, LONGEST_BLOCK, |_, _| {}),
            Some(at) => {
                let (line, stream) = (self.streams[at].line, self.streams[at].id);
                let parser = responses.parser(line);
                if !parser.started() {
                    events.push(Event::Begun { line, stream });
                }
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
            self.settle(at, last, result, responses, events);
        }
        Ok(())
    }

    /// What a frame of the stream at `at` means for it.
    fn settle(
        &mut self,
        at: usize,
        last: bool,
        result: Result<(), ParseError>,
        responses: &mut dyn Responses,
        events: &mut Vec<Event>,
    ) {
        let (line, stream) = (self.streams[at].line, self.streams[at].id);
        let result = match result {
            Ok(()) if !last => return,
            Ok(()) => responses.parser(line).stream_end(),
            error => error,
        };
        let unfinished = self.streams[at].sending();
        self.streams.swap_remove(at);
        match result {
            Ok(()) => {
                (self.idle, self.late) = (0, 0);
                self.answered += 1;
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
                frame::REFUSED => Event::Refused { line, stream, others: self.answered > 0 },
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
                1 => self.encoder.limit(value as usize),
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
        self.owed += frame::HEAD;
        self.send_bodies();
        Ok(())
    }

    fn on_ping(&mut self, head: &Head, payload: &[u8]) -> Result<(), Broken> {
        if payload.len() != 8 || head.stream != 0 {
            return broken(Code::FrameSize, "a malformed PING");
        }
        if head.flags & flags::ACK == 0 {
            frame::ping_ack(&mut self.out, payload);
            self.owed += frame::HEAD + payload.len();
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
        events.extend(self.streams.iter().filter(|stream| refused(stream)).map(|stream| Event::Refused {
            line: stream.line,
            stream: stream.id,
            others: last > 0,
        }));
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
}
