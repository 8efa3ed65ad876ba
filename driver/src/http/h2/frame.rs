//! Frames of HTTP/2 (RFC 9113, 4 and 6).

use super::{broken, Broken};

/// Bytes before each payload.
pub const HEAD: usize = 9;
/// REFUSED_STREAM.
pub const REFUSED: u32 = 7;

pub mod flags {
    pub const ACK: u8 = 1;
    pub const END_STREAM: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 32;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Data,
    Headers,
    Priority,
    Reset,
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    Unknown,
}

/// Error codes that are sent (RFC 9113, 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    Protocol = 1,
    FlowControl = 3,
    FrameSize = 6,
    Cancel = 8,
    Compression = 9,
    EnhanceYourCalm = 11,
}

impl Code {
    /// The name of any code.
    pub fn name(code: u32) -> &'static str {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        NAMES.get(code as usize).copied().unwrap_or("an unknown code")
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Head {
    pub length: usize,
    pub kind: Kind,
    pub flags: u8,
    pub stream: u32,
}

impl Head {
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, id @ ..] = bytes.first_chunk::<HEAD>()?;
        Some(Head {
            length: usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c),
            kind: match kind {
                0 => Kind::Data,
                1 => Kind::Headers,
                2 => Kind::Priority,
                3 => Kind::Reset,
                4 => Kind::Settings,
                5 => Kind::PushPromise,
                6 => Kind::Ping,
                7 => Kind::GoAway,
                8 => Kind::WindowUpdate,
                9 => Kind::Continuation,
                _ => Kind::Unknown,
            },
            flags: *flags,
            stream: u32::from_be_bytes(*id) & 0x7fff_ffff,
        })
    }
}

/// The payload without its padding.
pub fn unpadded<'a>(head: &Head, payload: &'a [u8]) -> Result<&'a [u8], Broken> {
    if head.flags & flags::PADDED == 0 {
        return Ok(payload);
    }
    match payload.split_first() {
        Some((padding, rest)) if usize::from(*padding) <= rest.len() => Ok(&rest[..rest.len() - usize::from(*padding)]),
        _ => broken(Code::Protocol, "more padding than payload"),
    }
}

/// A payload that is one number.
pub fn number(payload: &[u8], length: usize, name: &'static str) -> Result<u32, Broken> {
    match payload.first_chunk::<4>() {
        Some(bytes) if payload.len() == length => Ok(u32::from_be_bytes(*bytes)),
        _ => broken(Code::FrameSize, name),
    }
}

fn head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    out.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

pub fn settings(out: &mut Vec<u8>, values: &[(u16, u32)]) {
    head(out, values.len() * 6, 4, 0, 0);
    for (name, value) in values {
        out.extend_from_slice(&name.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

pub fn settings_ack(out: &mut Vec<u8>) {
    head(out, 0, 4, flags::ACK, 0);
}

pub fn ping_ack(out: &mut Vec<u8>, payload: &[u8]) {
    head(out, payload.len(), 6, flags::ACK, 0);
    out.extend_from_slice(payload);
}

pub fn window_update(out: &mut Vec<u8>, stream: u32, more: u32) {
    head(out, 4, 8, 0, stream);
    out.extend_from_slice(&more.to_be_bytes());
}

pub fn reset(out: &mut Vec<u8>, stream: u32, code: Code) {
    head(out, 4, 3, 0, stream);
    out.extend_from_slice(&(code as u32).to_be_bytes());
}

pub fn go_away(out: &mut Vec<u8>, code: Code) {
    head(out, 8, 7, 0, 0);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(code as u32).to_be_bytes());
}

pub fn data(out: &mut Vec<u8>, stream: u32, bytes: &[u8], last: bool) {
    head(out, bytes.len(), 0, if last { flags::END_STREAM } else { 0 }, stream);
    out.extend_from_slice(bytes);
}

/// A header block in as many frames as it takes.
pub fn headers(out: &mut Vec<u8>, stream: u32, block: &[u8], end_stream: u8, most: usize) {
    let mut parts = block.chunks(most).peekable();
    let mut kind = 1;
    while let Some(part) = parts.next() {
        let end = if parts.peek().is_none() { flags::END_HEADERS } else { 0 };
        head(out, part.len(), kind, end | if kind == 1 { end_stream } else { 0 }, stream);
        out.extend_from_slice(part);
        kind = 9;
    }
}
