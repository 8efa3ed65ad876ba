//! Requests and responses over HTTP/2, in the terms of HTTP/1.1 (RFC 9113, 8).

use super::encoder::Encoder;
use crate::http::encoding::Encoding;
use crate::http::error::ParseError;
use crate::http::response::{parse_length, Parser, State, MOST_INTERIM};

/// Fields that belong to a connection of HTTP/1.1.
const CONNECTION_FIELDS: [&[u8]; 5] =
    [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];

/// Writes the header block of `request`, which this program wrote for HTTP/1.1; its body.
pub fn encode<'a>(encoder: &mut Encoder, block: &mut Vec<u8>, secure: bool, request: &'a [u8]) -> &'a [u8] {
    encoder.begin(block);
    let mut rest = request;
    let mut words = line(&mut rest).splitn(3, |b| *b == b' ');
    encoder.field(block, b":method", words.next().unwrap_or_default(), true);
    encoder.field(block, b":scheme", if secure { b"https" } else { b"http" }, true);
    encoder.field(block, b":path", words.next().unwrap_or_default(), false);
    let mut name = Vec::new();
    loop {
        let field = line(&mut rest);
        let Some(colon) = memchr::memchr(b':', field) else { return rest };
        let value = field[colon + 1..].trim_ascii();
        name.clear();
        name.extend(field[..colon].iter().map(u8::to_ascii_lowercase));
        if name == b"host" {
            encoder.field(block, b":authority", value, true);
        } else if !CONNECTION_FIELDS.contains(&&name[..]) {
            encoder.field(block, &name, value, name != b"content-length");
        }
    }
}

fn line<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let end = memchr::memmem::find(rest, b"\r\n").unwrap_or(rest.len());
    let line = &rest[..end];
    *rest = rest.get(end + 2..).unwrap_or_default();
    line
}

/// A header block of a response, field by field.
pub struct Fields<'a> {
    parser: &'a mut Parser,
    trailers: bool,
    length: Option<u64>,
    regular: bool,
    problem: Option<ParseError>,
}

impl Fields<'_> {
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        if self.problem.is_none() {
            self.problem = self.take(name, value).err();
        }
    }

    fn take(&mut self, name: &[u8], value: &[u8]) -> Result<(), ParseError> {
        if value.iter().any(|b| matches!(b, 0 | b'\r' | b'\n')) {
            return Err(ParseError::BadHead);
        }
        let head = &mut self.parser.head;
        if name.first() == Some(&b':') {
            if name != b":status" || self.regular || self.trailers || head.status != 0 || value.len() != 3 {
                return Err(ParseError::BadHead);
            }
            head.status = std::str::from_utf8(value).ok().and_then(|t| t.parse().ok()).ok_or(ParseError::BadHead)?;
            return Ok(());
        }
        self.regular = true;
        let token = |b: &u8| b.is_ascii_graphic() && !b.is_ascii_uppercase() && *b != b':';
        if name.is_empty() || !name.iter().all(token) || CONNECTION_FIELDS.contains(&name) {
            return Err(ParseError::BadHead);
        }
        if self.trailers {
            if self.parser.keep_headers {
                let name = String::from_utf8_lossy(name).into_owned();
                self.parser.head.fields.push((name, value.to_vec()));
            }
            return Ok(());
        }
        match name {
            b"content-length" => {
                let number = parse_length(value).ok_or(ParseError::BadLength)?;
                if self.length.is_some_and(|known| known != number) {
                    return Err(ParseError::BadLength);
                }
                self.length = Some(number);
            }
            b"location" => head.location = Some(value.to_vec()),
            b"content-encoding" => head.codings.extend(Encoding::list(value)),
            b"content-type" => self.parser.content_type(value),
            b"set-cookie" => head.cookies.push(value.to_vec()),
            _ => {}
        }
        if self.parser.keep_headers {
            let name = String::from_utf8_lossy(name).into_owned();
            self.parser.head.fields.push((name, value.to_vec()));
        }
        Ok(())
    }

    /// The block is complete; `last`: nothing follows it.
    pub fn end(self, last: bool) -> Result<(), ParseError> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let parser = self.parser;
        if self.trailers {
            return if last { Ok(()) } else { Err(ParseError::BadHead) };
        }
        match parser.head.status {
            101 | 0..=99 => return Err(ParseError::BadHead),
            100..=199 => {
                parser.interim += 1;
                if last || parser.interim > MOST_INTERIM {
                    return Err(ParseError::BadHead);
                }
                parser.forget_head();
                return Ok(());
            }
            _ => {}
        }
        parser.head.keep_alive = true;
        let empty = parser.head_request || matches!(parser.head.status, 204 | 304);
        parser.announced = if empty { Some(0) } else { self.length };
        if self.length.is_some_and(|length| !empty && length > parser.most()) {
            return Err(ParseError::BodyTooLong);
        }
        parser.state = State::UntilClose;
        Ok(())
    }
}

impl Parser {
    /// A header block begins.
    pub(super) fn stream_head(&mut self) -> Fields<'_> {
        self.started = true;
        let trailers = self.state != State::Head;
        Fields { parser: self, trailers, length: None, regular: false, problem: None }
    }

    pub(super) fn stream_data(&mut self, bytes: &[u8]) -> Result<(), ParseError> {
        self.started = true;
        if self.state != State::UntilClose {
            return Err(ParseError::BadHead);
        }
        self.take_body(bytes)?;
        if self.announced.is_some_and(|length| self.received > length) {
            return Err(ParseError::BadLength);
        }
        Ok(())
    }

    pub(super) fn stream_end(&mut self) -> Result<(), ParseError> {
        if self.state != State::UntilClose {
            return Err(ParseError::Truncated);
        }
        if self.announced.is_some_and(|length| self.received != length) {
            return Err(ParseError::BadLength);
        }
        if self.events.as_ref().is_some_and(|events| events.is_cut()) {
            return Err(ParseError::Truncated);
        }
        self.state = State::Done;
        Ok(())
    }
}
