//! Server-sent events: text/event-stream (HTML Living Standard, 9.2), read as it comes, within bounds.

use super::error::ParseError;
use memchr::memchr2;

/// The type of an event that names none.
const MESSAGE: &[u8] = b"message";

#[derive(Debug, PartialEq)]
pub struct ServerEvent {
    /// Empty for one that names none.
    kind: Vec<u8>,
    pub data: Vec<u8>,
}

impl ServerEvent {
    pub fn kind(&self) -> &[u8] {
        if self.kind.is_empty() {
            MESSAGE
        } else {
            &self.kind
        }
    }
}

#[derive(Debug)]
pub struct EventStream {
    /// It is a stream of gRPC's messages.
    grpc: bool,
    /// Bytes of an event at most.
    most: u64,
    line: Vec<u8>,
    after_return: bool,
    begun: bool,
    kind: Vec<u8>,
    /// With a newline after each of its lines.
    data: Vec<u8>,
    /// Complete events that nobody took yet.
    pub ready: Vec<ServerEvent>,
}

impl EventStream {
    pub fn new(most: u64, grpc: bool) -> Self {
        let (line, kind, data, ready) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        EventStream { grpc, most, line, after_return: false, begun: false, kind, data, ready }
    }

    /// Forgets what came.
    pub fn begin(&mut self) {
        *self = EventStream::new(self.most, self.grpc);
    }

    /// A message has begun and not ended.
    pub fn is_cut(&self) -> bool {
        self.grpc && !self.line.is_empty()
    }

    /// Whether a body of this type is one.
    pub fn is_of(&self, kind: &[u8]) -> bool {
        match self.grpc {
            true => kind.len() >= 16 && kind[..16].eq_ignore_ascii_case(b"application/grpc"),
            false => kind.eq_ignore_ascii_case(b"text/event-stream"),
        }
    }

    /// Messages with a flag and a length before each.
    fn feed_messages(&mut self, bytes: &[u8]) -> Result<(), ParseError> {
        self.line.extend_from_slice(bytes);
        let mut rest = &self.line[..];
        while let [flag, a, b, c, d, more @ ..] = rest {
            let length = u32::from_be_bytes([*a, *b, *c, *d]);
            if *flag != 0 {
                return Err(ParseError::CodedEvents);
            }
            if u64::from(length) > self.most {
                return Err(ParseError::EventTooLong);
            }
            let Some(data) = more.get(..length as usize) else { break };
            self.ready.push(ServerEvent { kind: Vec::new(), data: data.to_vec() });
            rest = &more[length as usize..];
        }
        let used = self.line.len() - rest.len();
        self.line.drain(..used);
        Ok(())
    }

    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), ParseError> {
        if self.grpc {
            return self.feed_messages(bytes);
        }
        let mut rest = bytes;
        if std::mem::take(&mut self.after_return) {
            if let [b'\n', more @ ..] = rest {
                rest = more;
            }
        }
        while let Some(end) = memchr2(b'\r', b'\n', rest) {
            self.keep(&rest[..end])?;
            self.end_line()?;
            let pair = rest[end] == b'\r' && rest.get(end + 1) == Some(&b'\n');
            self.after_return = rest[end] == b'\r' && end + 1 == rest.len();
            rest = &rest[end + 1 + usize::from(pair)..];
        }
        self.keep(rest)
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), ParseError> {
        if (self.line.len() + self.data.len() + part.len()) as u64 > self.most {
            return Err(ParseError::EventTooLong);
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), ParseError> {
        let line = std::mem::take(&mut self.line);
        let mut text = &line[..];
        if !std::mem::replace(&mut self.begun, true) {
            text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        }
        if text.is_empty() {
            let mut data = std::mem::take(&mut self.data);
            let kind = std::mem::take(&mut self.kind);
            if data.pop().is_some() {
                self.ready.push(ServerEvent { kind, data });
            }
        } else {
            let colon = memchr::memchr(b':', text).unwrap_or(text.len());
            let value = text.get(colon + 1..).unwrap_or_default();
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match &text[..colon] {
                b"data" => {
                    self.data.extend_from_slice(value);
                    self.data.push(b'\n');
                }
                b"event" => self.kind = value.to_vec(),
                _ => {} // a comment, an id, a time to reconnect
            }
        }
        self.line = line;
        self.line.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut stream = EventStream::new(100, false);
        pieces.iter().for_each(|piece| stream.feed(piece).expect("an event stream"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        stream.ready.iter().map(|event| (text(event.kind()), text(&event.data))).collect()
    }

    #[test]
    fn the_examples_of_the_standard() {
        let stock = b"data: YHOO\ndata: +2\ndata: 10\n\n";
        assert_eq!(read(&[stock]), [("message".into(), "YHOO\n+2\n10".into())]);
        let four =
            b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\ndata: lost";
        let data: Vec<String> = read(&[four]).into_iter().map(|(_, data)| data).collect();
        assert_eq!(data, ["first event", "second event", " third event"]);
        let data: Vec<String> = read(&[b"data\n\ndata\ndata\n\ndata:"]).into_iter().map(|(_, data)| data).collect();
        assert_eq!(data, ["", "\n"]);
        assert_eq!(read(&[b"event: add\ndata: 7\n\nevent: none\n\ndata: 8\n\n"])[1], ("message".into(), "8".into()));
    }

    #[test]
    fn any_line_ends_in_any_pieces() {
        for end in ["\n", "\r", "\r\n"] {
            let text = "\u{feff}event: a\ndata: 1\n\n: hello\n\ndata: 2\n\n".replace('\n', end);
            let whole = read(&[text.as_bytes()]);
            assert_eq!(whole, [("a".into(), "1".into()), ("message".into(), "2".into())], "{end:?}");
            for at in 0..text.len() {
                let (head, tail) = text.as_bytes().split_at(at);
                assert_eq!(read(&[head, tail]), whole, "{end:?} cut at {at}");
            }
        }
    }

    #[test]
    fn messages_of_grpc_in_any_pieces() {
        let bytes = b"\0\0\0\0\x02hi\0\0\0\0\0\0\0\0\0\x01!";
        for at in 0..bytes.len() {
            let mut stream = EventStream::new(9, true);
            assert_eq!((stream.feed(&bytes[..at]), stream.feed(&bytes[at..])), (Ok(()), Ok(())));
            let data: Vec<&[u8]> = stream.ready.iter().map(|event| &event.data[..]).collect();
            assert_eq!(data, [&b"hi"[..], b"", b"!"], "cut at {at}");
        }
        assert_eq!(EventStream::new(9, true).feed(b"\0\0\0\0\x0a"), Err(ParseError::EventTooLong));
        assert_eq!(EventStream::new(9, true).feed(b"\x01\0\0\0\x01x"), Err(ParseError::CodedEvents));
    }

    #[test]
    fn an_event_has_a_bound() {
        let mut stream = EventStream::new(100, false);
        assert_eq!(stream.feed(&b"data: 12345678\n".repeat(20)), Err(ParseError::EventTooLong));
        assert_eq!(EventStream::new(100, false).feed(&[b'x'; 101]), Err(ParseError::EventTooLong));
        assert_eq!(EventStream::new(100, false).feed(&b"data: 12345678\n\n".repeat(99)), Ok(()));
    }
}
