//! What is fuzzed: each function takes any bytes and panics where the code does not keep its promises. Shared by the
//! targets of cargo-fuzz and by a short run in `cargo test`.
#![allow(dead_code)] // each target uses one of them

use leadline_load::http::cookies::Jar;
use leadline_load::http::encoding::Encoding;
use leadline_load::http::error::ParseError;
use leadline_load::http::h2::{Client, Event, Responses};
use leadline_load::http::response::{Limits, Parser};
use leadline_load::http::target::Target;
use leadline_load::scenario::read;
use leadline_load::select::{base_of, resources, text_of, Css, Pointer};

const LIMITS: Limits = Limits { head: 4096, headers: 64, body: 20_000 };

/// Takes one choice off the front.
fn choice(data: &mut &[u8]) -> u8 {
    let (first, rest) = data.split_first().unwrap_or((&0, &[]));
    *data = rest;
    *first
}

fn pieces(data: &[u8], size: u8) -> impl Iterator<Item = &[u8]> {
    data.chunks(usize::from(size).max(1))
}

type Parsed = (Result<Option<usize>, ParseError>, u16, Vec<u8>, usize);

fn parsed(data: &[u8], size: usize, flags: u8) -> Parsed {
    let mut parser = Parser::new(LIMITS);
    parser.keep_headers = flags & 4 != 0;
    parser.begin(flags & 1 != 0, flags & 2 != 0);
    let mut used = 0;
    let mut result = Ok(None);
    for piece in data.chunks(size.max(1)) {
        result = parser.feed(piece);
        match result {
            Ok(None) => used += piece.len(),
            Ok(Some(more)) => {
                result = Ok(Some(used + more));
                break;
            }
            Err(_) => break,
        }
    }
    if result == Ok(None) {
        result = parser.end(false).map(|()| None);
    }
    assert!(parser.body.len() as u64 <= LIMITS.body);
    assert!(parser.head.cookies.len() + parser.head.fields.len() <= 2 * LIMITS.headers);
    let mut scratch = Vec::new();
    if result.is_ok() && parser.decode(&mut scratch).is_ok() {
        assert!(parser.body.len() as u64 <= LIMITS.body);
    }
    (result, parser.head.status, parser.body, parser.head.cookies.len())
}

/// An answer over HTTP/1.1: however it is cut, it means the same.
pub fn response(mut data: &[u8]) {
    let (flags, size) = (choice(&mut data), choice(&mut data));
    let whole = parsed(data, data.len(), flags);
    let cut = parsed(data, usize::from(size), flags);
    if whole.0.is_ok() || cut.0.is_ok() {
        assert_eq!(whole, cut);
    }
}

struct Lines(Vec<Parser>);

impl Responses for Lines {
    fn parser(&mut self, line: u32) -> &mut Parser {
        &mut self.0[line as usize]
    }
}

type Streamed = (bool, Vec<Event>, Vec<(u16, Vec<u8>)>, usize);

fn streamed(data: &[u8], size: usize) -> Streamed {
    let mut client = Client::new();
    client.wrote(client.unsent().len());
    let mut lines = Lines((0..3).map(|_| Parser::new(LIMITS)).collect());
    let mut request = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n".to_vec();
    request.resize(100_000, b'x');
    for line in 0..3 {
        lines.0[line].begin(line == 2, true);
        client.open(line as u32, line == 1, if line == 0 { &request } else { b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" });
    }
    let mut events = Vec::new();
    let mut sound = true;
    for piece in data.chunks(size.max(1)) {
        sound = client.feed(piece, &mut lines, &mut events).is_ok();
        if !sound {
            break;
        }
    }
    let ended = events.iter().filter(|event| !matches!(event, Event::Begun { .. })).count();
    assert!(ended + client.active().count() == 3, "every stream ends once: {events:?}");
    assert!(client.unsent().len() < 600_000);
    let answers = lines.0.iter().map(|parser| (parser.head.status, parser.body.clone())).collect();
    for parser in &lines.0 {
        assert!(parser.body.len() as u64 <= LIMITS.body);
    }
    (1..=5).step_by(2).for_each(|stream| client.cancel(stream));
    assert!(client.is_idle());
    (sound, events, answers, client.unsent().len())
}

/// Frames of HTTP/2 after three requests: however they are cut, they mean the same.
pub fn frames(mut data: &[u8]) {
    let size = choice(&mut data);
    let whole = streamed(data, data.len());
    let cut = streamed(data, usize::from(size));
    assert_eq!(whole, cut);
}

/// Lines of Set-Cookie: what is sent back is one header line of bounded length.
pub fn cookies(mut data: &[u8]) {
    let mut jar = Jar::default();
    let target = Target::parse("https://127.0.0.1").expect("an address");
    let path_at = usize::from(choice(&mut data)).min(data.len());
    let (path, lines) = data.split_at(path_at);
    for line in lines.split(|b| *b == b'\n') {
        jar.store(line, path, &target);
    }
    assert!(jar.len() <= 64);
    let mut out = Vec::new();
    jar.write(path, &mut out);
    if let Some(line) = out.strip_suffix(b"\r\n") {
        assert!(line.starts_with(b"Cookie: ") && !line.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)));
        assert!(line.len() < 64 * 4100);
    } else {
        assert!(out.is_empty());
    }
}

/// A compressed body: never more than the limit.
pub fn encoding(mut data: &[u8]) {
    let encoding = match choice(&mut data) % 4 {
        0 => Encoding::Gzip,
        1 => Encoding::Deflate,
        2 => Encoding::Brotli,
        _ => Encoding::Other,
    };
    let mut out = Vec::new();
    if encoding.decode(data, &mut out, 10_000).is_ok() {
        assert!(out.len() <= 10_000);
    }
}

/// A page and the links on it: none of them can end a request line, and none leads to another server.
pub fn page(data: &[u8]) {
    let target = Target::parse("http://127.0.0.1:9/app").expect("a target");
    let css = Css::parse("a.x, p > b", None).expect("a selector");
    let href = Css::parse("a[href]", Some("href".into())).expect("a selector");
    let embedded = resources(data).into_iter().map(|found| (found.link, found.base));
    let base = base_of(data);
    let links = href.find(data).into_iter().chain(css.find(data)).map(|link| (link, base.clone()));
    for (link, base) in embedded.chain(links) {
        if let Some(path) = target.follow_on(&link, b"/app/page?x=1", base.as_deref()) {
            assert!(path.first() == Some(&b'/') || path.first() == Some(&b'?'), "{:?}", String::from_utf8_lossy(&path));
            assert!(path.iter().all(|b| (b'!'..=b'~').contains(b)), "{:?}", String::from_utf8_lossy(&path));
        }
    }
    let Ok(document) = serde_json::from_slice(data) else { return };
    for text in ["", "/a/*", "/*/*", "/0/a~1b"] {
        let found = Pointer::parse(text).expect("a pointer");
        assert!(found.find(&document).iter().all(|value| text_of(value).is_some() || value.is_null()));
    }
}

/// A scenario file: it is read, or the message names a line.
pub fn scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if text.contains("file") {
        return; // feeds open files
    }
    if let Err(message) = read::parse(text, &[]) {
        assert!(!message.is_empty());
    }
}

pub type Entry = fn(&[u8]);

pub const ALL: [(&str, Entry); 6] = [
    ("response", response),
    ("frames", frames),
    ("cookies", cookies),
    ("encoding", encoding),
    ("page", page),
    ("scenario", scenario),
];
