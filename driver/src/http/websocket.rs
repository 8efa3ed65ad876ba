//! A WebSocket as a client (RFC 6455): bytes in, messages out, without input or output. Tungstenite does the framing.

use std::io::{self, Read, Write};
use tungstenite::handshake::{client::generate_key, derive_accept_key};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tungstenite::{Error, Message, WebSocket};

/// Adds to the GET in `out`, which has no body, what asks for a WebSocket; the key.
pub fn ask(out: &mut Vec<u8>) -> String {
    let key = generate_key();
    out.truncate(out.len().saturating_sub(2));
    out.extend_from_slice(b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n");
    out.extend_from_slice(format!("Sec-WebSocket-Key: {key}\r\n\r\n").as_bytes());
    key
}

/// What is wrong with the headers of the response to the request with this key, if anything.
pub fn refusal(key: &str, headers: &[(String, Vec<u8>)]) -> Option<&'static str> {
    let value = |wanted: &str| headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, v)| &v[..]);
    let upgraded = value("upgrade").is_some_and(|value| value.eq_ignore_ascii_case(b"websocket"));
    match value("sec-websocket-accept") {
        _ if !upgraded => Some("status 101 without `Upgrade: websocket`"),
        Some(accept) if accept.trim_ascii() == derive_accept_key(key.as_bytes()).as_bytes() => None,
        _ => Some("its Sec-WebSocket-Accept does not fit the key"),
    }
}

/// What came.
#[derive(Debug, PartialEq)]
pub enum Incoming {
    Message(Vec<u8>),
    /// The server said good-bye: code and reason.
    Close(String),
}

/// Bytes that came and are to go.
#[derive(Debug, Default)]
struct Pipe {
    input: Vec<u8>,
    taken: usize,
    output: Vec<u8>,
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = &self.input[self.taken..];
        if rest.is_empty() {
            self.input.clear();
            self.taken = 0;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        Ok(count)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
pub struct Socket(WebSocket<Pipe>);

impl Socket {
    /// Messages of at most `most` bytes; `rest` came behind the response that opened it.
    pub fn new(most: u64, rest: &[u8]) -> Self {
        let most = usize::try_from(most).ok();
        let config = WebSocketConfig::default().max_message_size(most).max_frame_size(most).read_buffer_size(4 << 10);
        let pipe = Pipe { input: rest.to_vec(), ..Pipe::default() };
        Socket(WebSocket::from_raw_socket(pipe, Role::Client, Some(config)))
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.0.get_mut().input.extend_from_slice(bytes);
    }

    /// The next of what was fed; None where nothing complete is there. Pings are answered.
    pub fn read(&mut self) -> Result<Option<Incoming>, String> {
        loop {
            return match self.0.read() {
                Ok(Message::Text(text)) => Ok(Some(Incoming::Message(text.as_bytes().to_vec()))),
                Ok(Message::Binary(bytes)) => Ok(Some(Incoming::Message(bytes.to_vec()))),
                Ok(Message::Close(frame)) => {
                    let said = frame.map_or_else(String::new, |f| format!("{} {}", u16::from(f.code), f.reason));
                    Ok(Some(Incoming::Close(said.trim_end().to_string())))
                }
                Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {
                    let _ = self.0.flush();
                    continue;
                }
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                Err(error) => Err(error.to_string()),
            };
        }
    }

    /// Sends text, or bytes that are none as they are; false once it is closed.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        let message = match std::str::from_utf8(bytes) {
            Ok(text) => Message::text(text),
            Err(_) => Message::binary(bytes.to_vec()),
        };
        self.0.send(message).is_ok()
    }

    pub fn close(&mut self, code: u16) {
        let frame = CloseFrame { code: CloseCode::from(code), reason: "".into() };
        let _ = self.0.close(Some(frame)).and_then(|()| self.0.flush());
    }

    pub fn unsent(&self) -> &[u8] {
        &self.0.get_ref().output
    }

    pub fn wrote(&mut self, count: usize) {
        self.0.get_mut().output.drain(..count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handshake_of_the_standard() {
        let mut out = b"GET /chat HTTP/1.1\r\nHost: h\r\n\r\n".to_vec();
        let key = ask(&mut out);
        let text = String::from_utf8(out).expect("text");
        assert!(text.ends_with(&format!("\r\nSec-WebSocket-Key: {key}\r\n\r\n")) && !text.contains("h\r\n\r\n"));
        let key = "dGhlIHNhbXBsZSBub25jZQ=="; // RFC 6455, 1.3
        let answer = |accept: &str| {
            let accept = ("SEC-WebSocket-Accept".to_string(), accept.as_bytes().to_vec());
            refusal(key, &[("Upgrade".to_string(), b"WebSocket".to_vec()), accept])
        };
        assert_eq!(answer("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), None);
        assert!(answer("s3pPLMBiTxaQ9kYGzzhZRbK+xO0=").is_some() && refusal(key, &[]).is_some());
    }

    #[test]
    fn messages_in_pieces_pings_and_the_end() {
        let frames =
            [&b"\x01\x02he"[..], b"\x89\x01p", b"\x80\x03llo", b"\x82\x01\xff", b"\x88\x05\x03\xe8bye"].concat();
        for at in 0..frames.len() {
            let mut socket = Socket::new(100, &frames[..at]);
            let mut incoming = Vec::new();
            while let Ok(Some(one)) = socket.read() {
                incoming.push(one);
            }
            socket.feed(&frames[at..]);
            while let Ok(Some(one)) = socket.read() {
                incoming.push(one);
            }
            let expected = [
                Incoming::Message(b"hello".to_vec()),
                Incoming::Message(b"\xff".to_vec()),
                Incoming::Close("1000 bye".into()),
            ];
            assert_eq!(incoming, expected, "cut at {at}");
            assert_eq!(socket.unsent()[0], 0x8a, "the ping was answered first");
            assert!(!socket.send(b"late"));
        }
    }

    #[test]
    fn a_message_has_a_bound() {
        let mut socket = Socket::new(3, b"\x81\x04long");
        assert!(socket.read().is_err_and(|text| text.contains("too long")), "a frame above the limit");
        assert!(Socket::new(3, b"\x01\x02lo\x80\x02ng").read().is_err(), "in pieces");
        for wrong in [&b"\x83\x00"[..], b"\x81\x81\0\0\0\0x", b"\xc1\x01x"] {
            assert!(Socket::new(3, wrong).read().is_err(), "a reserved opcode, a mask, a compressed message");
        }
    }
}
