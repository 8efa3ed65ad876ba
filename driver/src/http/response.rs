//! An incremental HTTP/1.1 response parser that bounds what it keeps and never panics.

use super::encoding::{Encoding, MOST_CODINGS};
use super::error::ParseError;
use super::events::EventStream;
use memchr::memchr_iter;
use std::mem::MaybeUninit;

/// Bounds on what a server may make the driver hold for one response.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub head: usize,
    pub headers: usize,
    pub body: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { head: 64 << 10, headers: MOST_HEADERS, body: 16 << 20 }
    }
}

const MOST_HEADERS: usize = 256;
/// Interim responses (1xx) before the real one.
pub(super) const MOST_INTERIM: u32 = 16;
const LONGEST_CHUNK_LINE: usize = 4096;

#[derive(Debug, PartialEq, Clone, Copy)]
pub(super) enum State {
    Head,
    Length(u64),
    UntilClose,
    ChunkLine,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    Done,
}

/// What the head of a response said; buffers are kept between responses.
#[derive(Debug, Default)]
pub struct Head {
    pub status: u16,
    pub keep_alive: bool,
    pub location: Option<Vec<u8>>,
    /// As they were applied.
    pub codings: Vec<Encoding>,
    pub cookies: Vec<Vec<u8>>,
    /// Its body is a stream of events, and such were asked for.
    pub event_stream: bool,
    /// All headers, where they were asked for.
    pub fields: Vec<(String, Vec<u8>)>,
}

#[derive(Debug)]
pub struct Parser {
    pub(super) limits: Limits,
    pub(super) state: State,
    /// Head (or chunk line, or trailers) seen so far, when it came in pieces.
    partial: Vec<u8>,
    pub(super) head_request: bool,
    keep_body: bool,
    pub(super) received: u64,
    /// What a response over HTTP/2 said it would be.
    pub(super) announced: Option<u64>,
    pub(super) interim: u32,
    pub(super) started: bool,
    trailer_bytes: usize,
    /// Keep the headers of the next response too.
    pub keep_headers: bool,
    /// The next response may be 101, after which something else is spoken.
    pub upgrade: bool,
    /// Where the next response may be a stream of events.
    pub events: Option<Box<EventStream>>,
    pub head: Head,
    pub body: Vec<u8>,
}

impl Default for Parser {
    fn default() -> Self {
        Parser::new(Limits::default())
    }
}

impl Parser {
    pub fn new(limits: Limits) -> Self {
        Parser {
            limits,
            state: State::Done,
            partial: Vec::new(),
            head_request: false,
            keep_body: false,
            received: 0,
            announced: None,
            interim: 0,
            started: false,
            trailer_bytes: 0,
            keep_headers: false,
            upgrade: false,
            events: None,
            head: Head::default(),
            body: Vec::new(),
        }
    }

    /// Bytes of the response's body so far, as they came.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The next response may be a stream of events, or (true) of gRPC's messages, or is neither.
    pub fn await_events(&mut self, awaited: Option<bool>) {
        self.events = awaited.map(|grpc| Box::new(EventStream::new(self.limits.body, grpc)));
    }

    /// Events came that nobody took yet.
    pub fn has_events(&self) -> bool {
        self.events.as_ref().is_some_and(|events| !events.ready.is_empty())
    }

    /// The type of the content, as a header says it.
    pub(super) fn content_type(&mut self, value: &[u8]) {
        let kind = value.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
        self.head.event_stream = self.events.as_ref().is_some_and(|events| events.is_of(kind));
    }

    /// Bytes its body may have: a stream of events ends when it ends.
    pub(super) fn most(&self) -> u64 {
        if self.head.event_stream {
            u64::MAX
        } else {
            self.limits.body
        }
    }

    /// Gets ready for the response to one request.
    pub fn begin(&mut self, head_request: bool, keep_body: bool) {
        self.state = State::Head;
        self.partial.clear();
        self.head_request = head_request;
        self.keep_body = keep_body;
        self.received = 0;
        self.announced = None;
        self.interim = 0;
        self.started = false;
        self.trailer_bytes = 0;
        self.forget_head();
        if let Some(events) = &mut self.events {
            events.begin();
        }
        self.body.clear();
        if self.body.capacity() > 256 << 10 {
            self.body.shrink_to(256 << 10);
        }
    }

    /// Gets ready for another response to the same request.
    pub fn begin_again(&mut self) {
        self.begin(self.head_request, self.keep_body);
    }

    pub(super) fn forget_head(&mut self) {
        self.head.status = 0;
        self.head.location = None;
        self.head.codings.clear();
        self.head.cookies.clear();
        self.head.event_stream = false;
        self.head.fields.clear();
    }

    /// True once any byte of the awaited response came.
    pub fn started(&self) -> bool {
        self.started
    }

    pub fn waiting(&self) -> bool {
        self.state != State::Done
    }

    /// Takes in `data`; Some(n) when the response is complete after its first n bytes.
    pub fn feed(&mut self, data: &[u8]) -> Result<Option<usize>, ParseError> {
        let mut at = 0;
        self.started |= !data.is_empty();
        loop {
            let rest = &data[at..];
            match self.state {
                State::Done => return Ok(Some(at)),
                _ if rest.is_empty() => return Ok(None),
                State::Head => match self.feed_head(rest)? {
                    Some(used) => at += used,
                    None => return Ok(None),
                },
                State::Length(left) => {
                    let take = left.min(rest.len() as u64);
                    self.take_body(&rest[..take as usize])?;
                    at += take as usize;
                    self.state = if take == left { State::Done } else { State::Length(left - take) };
                }
                State::UntilClose => {
                    self.take_body(rest)?;
                    at += rest.len();
                }
                State::Chunk(left) => {
                    let take = left.min(rest.len() as u64);
                    self.take_body(&rest[..take as usize])?;
                    at += take as usize;
                    self.state = if take == left { State::ChunkEnd } else { State::Chunk(left - take) };
                }
                State::ChunkLine | State::ChunkEnd | State::Trailers => match self.feed_line(rest)? {
                    Some(used) => at += used,
                    None => return Ok(None),
                },
            }
        }
    }

    /// The connection ended, `cut` off without the good-bye of TLS or not. Ok when that completes the response.
    pub fn end(&mut self, cut: bool) -> Result<(), ParseError> {
        match self.state {
            State::UntilClose if cut => Err(ParseError::Cut),
            State::UntilClose => {
                self.state = State::Done;
                Ok(())
            }
            State::Done => Ok(()),
            _ => Err(ParseError::Truncated),
        }
    }

    /// Undoes the content codings of a complete response, also of one that nobody looks at: a damaged body is no
    /// response. `scratch` is reused between calls.
    pub fn decode(&mut self, scratch: &mut Vec<u8>) -> Result<(), ParseError> {
        if self.head.codings.is_empty() || self.body.is_empty() {
            return Ok(());
        }
        if self.head.codings.len() > MOST_CODINGS {
            return Err(ParseError::BadEncoding);
        }
        if !self.keep_body && self.head.codings.contains(&Encoding::Other) {
            return Ok(()); // whether it is damaged cannot be told
        }
        while let Some(coding) = self.head.codings.pop() {
            coding.decode(&self.body, scratch, self.limits.body)?;
            std::mem::swap(&mut self.body, scratch);
        }
        Ok(())
    }

    pub(super) fn take_body(&mut self, bytes: &[u8]) -> Result<(), ParseError> {
        self.received += bytes.len() as u64;
        if let (Some(events), true) = (&mut self.events, self.head.event_stream) {
            return if self.head.codings.is_empty() { events.feed(bytes) } else { Err(ParseError::CodedEvents) };
        }
        if self.received > self.limits.body {
            return Err(ParseError::BodyTooLong);
        }
        if self.keep_body || !self.head.codings.is_empty() {
            self.body.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Bytes of `data` used when the head is complete.
    fn feed_head(&mut self, data: &[u8]) -> Result<Option<usize>, ParseError> {
        if self.partial.is_empty() {
            if let Some(end) = head_end(data, 0) {
                if end > self.limits.head {
                    return Err(ParseError::HeadTooLong);
                }
                self.parse_head(&data[..end])?;
                return Ok(Some(end));
            }
            if data.len() > self.limits.head {
                return Err(ParseError::HeadTooLong);
            }
            self.partial.extend_from_slice(data);
            return Ok(None);
        }
        let before = self.partial.len();
        let room = (self.limits.head + 1).saturating_sub(before).min(data.len());
        self.partial.extend_from_slice(&data[..room]);
        match head_end(&self.partial, before.saturating_sub(3)) {
            Some(end) if end <= self.limits.head => {
                let whole = std::mem::take(&mut self.partial);
                let parsed = self.parse_head(&whole[..end]);
                self.partial = whole;
                self.partial.clear();
                parsed?;
                Ok(Some(end - before))
            }
            None if self.partial.len() <= self.limits.head => Ok(None),
            _ => Err(ParseError::HeadTooLong),
        }
    }

    fn parse_head(&mut self, bytes: &[u8]) -> Result<(), ParseError> {
        let mut headers = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; MOST_HEADERS];
        let room = self.limits.headers.min(MOST_HEADERS);
        let mut response = httparse::Response::new(&mut []);
        match httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            bytes,
            &mut headers[..room],
        ) {
            Ok(httparse::Status::Complete(_)) => {}
            Err(httparse::Error::TooManyHeaders) => return Err(ParseError::TooManyHeaders),
            _ => return Err(ParseError::BadHead),
        }
        let status = response.code.unwrap_or(0);
        let mut keep_alive = response.version == Some(1);
        let mut length: Option<u64> = None;
        let mut encoded = false;
        let mut chunked = false;
        for header in response.headers.iter() {
            let (name, value) = (header.name, header.value);
            if name.eq_ignore_ascii_case("content-length") {
                let number = parse_length(value).ok_or(ParseError::BadLength)?;
                if length.is_some_and(|known| known != number) {
                    return Err(ParseError::BadLength);
                }
                length = Some(number);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                encoded = true;
                let last = value.rsplit(|b| *b == b',').next().unwrap_or_default().trim_ascii();
                chunked = last.eq_ignore_ascii_case(b"chunked");
            } else if name.eq_ignore_ascii_case("connection") {
                for token in value.split(|b| *b == b',') {
                    let token = token.trim_ascii();
                    if token.eq_ignore_ascii_case(b"close") {
                        keep_alive = false;
                    } else if token.eq_ignore_ascii_case(b"keep-alive") && response.version == Some(0) {
                        keep_alive = true;
                    }
                }
            } else if name.eq_ignore_ascii_case("location") {
                self.head.location = Some(value.to_vec());
            } else if name.eq_ignore_ascii_case("content-encoding") {
                self.head.codings.extend(Encoding::list(value));
            } else if name.eq_ignore_ascii_case("content-type") {
                self.content_type(value);
            } else if name.eq_ignore_ascii_case("set-cookie") {
                self.head.cookies.push(value.to_vec());
            }
        }
        if (100..200).contains(&status) && status != 101 {
            self.interim += 1;
            if self.interim > MOST_INTERIM {
                return Err(ParseError::BadHead);
            }
            self.forget_head();
            return Ok(()); // interim: the real response follows
        }
        let upgraded = self.upgrade && status == 101;
        if status < 200 && !upgraded {
            return Err(ParseError::BadHead);
        }
        if encoded && length.is_some() {
            return Err(ParseError::BadLength);
        }
        if self.keep_headers {
            let fields = response.headers.iter().map(|h| (h.name.to_string(), h.value.to_vec()));
            self.head.fields.extend(fields);
        }
        self.head.status = status;
        self.state = if self.head_request || upgraded || status == 204 || status == 304 {
            State::Done
        } else if chunked {
            State::ChunkLine
        } else if encoded {
            State::UntilClose
        } else {
            match length {
                Some(0) => State::Done,
                Some(number) if number > self.most() => return Err(ParseError::BodyTooLong),
                Some(number) => State::Length(number),
                None => State::UntilClose,
            }
        };
        // HTTP/1.0 knows no transfer coding: what follows such a response is not to be trusted (RFC 9112, 6.1).
        let faulty = encoded && response.version == Some(0);
        self.head.keep_alive = keep_alive && !faulty && self.state != State::UntilClose;
        Ok(())
    }

    /// One line of chunked framing; bytes of `data` used when the line is complete.
    fn feed_line(&mut self, data: &[u8]) -> Result<Option<usize>, ParseError> {
        let end = memchr::memchr(b'\n', data);
        let used = end.map_or(data.len(), |at| at + 1);
        let limit = if self.state == State::Trailers { self.limits.head } else { LONGEST_CHUNK_LINE };
        if self.partial.len() + used > limit {
            return Err(ParseError::BadChunk);
        }
        if self.partial.is_empty() && end.is_some() {
            self.chunk_line(&data[..used])?;
            return Ok(Some(used));
        }
        self.partial.extend_from_slice(&data[..used]);
        if end.is_none() {
            return Ok(None);
        }
        let line = std::mem::take(&mut self.partial);
        let result = self.chunk_line(&line);
        self.partial = line;
        self.partial.clear();
        result?;
        Ok(Some(used))
    }

    fn chunk_line(&mut self, line: &[u8]) -> Result<(), ParseError> {
        let Some(line) = line.strip_suffix(b"\r\n") else { return Err(ParseError::BadChunk) };
        match self.state {
            State::ChunkEnd => {
                if !line.is_empty() {
                    return Err(ParseError::BadChunk);
                }
                self.state = State::ChunkLine;
            }
            State::ChunkLine => {
                let digits = line.split(|b| *b == b';').next().unwrap_or_default().trim_ascii_end();
                let size = parse_hex(digits).ok_or(ParseError::BadChunk)?;
                if size > self.most().saturating_sub(self.received) {
                    return Err(ParseError::BodyTooLong);
                }
                self.state = if size == 0 { State::Trailers } else { State::Chunk(size) };
            }
            _ => {
                self.trailer_bytes += line.len() + 2;
                if self.trailer_bytes > self.limits.head {
                    return Err(ParseError::HeadTooLong);
                }
                if line.is_empty() {
                    self.state = State::Done;
                }
            }
        }
        Ok(())
    }
}

/// Offset after the empty line that ends a head; `from` says where to start looking.
fn head_end(data: &[u8], from: usize) -> Option<usize> {
    for newline in memchr_iter(b'\n', &data[from..]) {
        let at = from + newline;
        match data.get(at + 1..) {
            Some([b'\n', ..]) => return Some(at + 2),
            Some([b'\r', b'\n', ..]) => return Some(at + 3),
            _ => {}
        }
    }
    None
}

/// A Content-Length; a list of equal numbers is one number (RFC 9112, 6.3).
pub(super) fn parse_length(value: &[u8]) -> Option<u64> {
    let mut found = None;
    for item in value.split(|b| *b == b',') {
        let item = item.trim_ascii();
        if item.is_empty() || item.len() > 18 || !item.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let number = item.iter().fold(0u64, |sum, b| sum * 10 + u64::from(b - b'0'));
        if found.is_some_and(|known| known != number) {
            return None;
        }
        found = Some(number);
    }
    found
}

fn parse_hex(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 15 {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, b| Some(sum << 4 | u64::from((*b as char).to_digit(16)?)))
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
