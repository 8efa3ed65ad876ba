use super::*;
use crate::random::{Random, Stream};

/// Status, body, keep-alive, bytes used.
type Parsed = (u16, Vec<u8>, bool, usize);

/// Feeds `text` in pieces of `step` bytes; then the end of the connection if `close`.
fn parse(text: &[u8], step: usize, close: bool) -> Result<Option<Parsed>, ParseError> {
    let mut parser = Parser::default();
    parser.begin(false, true);
    let mut used = 0;
    for piece in text.chunks(step) {
        match parser.feed(piece)? {
            Some(n) => {
                used += n;
                return Ok(Some((parser.head.status, parser.body.clone(), parser.head.keep_alive, used)));
            }
            None => used += piece.len(),
        }
    }
    if close {
        parser.end(false)?;
        return Ok(Some((parser.head.status, parser.body.clone(), parser.head.keep_alive, used)));
    }
    Ok(None)
}

fn every_split(text: &[u8], status: u16, body: &[u8], keep_alive: bool, length: usize) {
    for step in 1..=text.len() {
        let found = parse(text, step, true).expect("a valid response").expect("complete");
        assert_eq!(found, (status, body.to_vec(), keep_alive, length), "pieces of {step}");
    }
}

fn fails(text: &[u8], error: ParseError) {
    for step in [1, 2, 3, 7, text.len()] {
        assert_eq!(parse(text, step, true), Err(error), "{:?}", String::from_utf8_lossy(text));
    }
}

#[test]
fn content_length() {
    let text = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    every_split(text, 200, b"hello", true, text.len());
    every_split(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiEXTRA", 200, b"hi", true, 40);
    every_split(b"HTTP/1.1 303 x\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n", 303, b"", false, 56);
    every_split(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", 200, b"hi", true, 37);
}

#[test]
fn chunked() {
    let text =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nwiki\r\nA\r\n0123456789\r\n0\r\nT: v\r\n\r\n";
    every_split(text, 200, b"wiki0123456789", true, text.len());
}

#[test]
fn until_close_and_old_versions() {
    every_split(b"HTTP/1.1 200 OK\r\n\r\nall of it", 200, b"all of it", false, 28);
    every_split(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, b"x", false, 39);
    let kept = b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx";
    every_split(kept, 200, b"x", true, kept.len());
    let coded = b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    every_split(coded, 200, b"x", false, coded.len());
}

#[test]
fn no_body_and_interim() {
    every_split(b"HTTP/1.1 204 none\r\n\r\n", 204, b"", true, 21);
    every_split(b"HTTP/1.1 304 same\r\nContent-Length: 10\r\n\r\n", 304, b"", true, 41);
    let text = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    every_split(text, 200, b"x", true, text.len());
    let mut parser = Parser::default();
    parser.begin(true, true);
    assert_eq!(parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), Ok(Some(38)));
}

#[test]
fn headers_of_use() {
    let mut parser = Parser::default();
    parser.begin(false, true);
    let head = b"HTTP/1.1 302 F\r\nLocation: /home\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\ncontent-length: 0\r\n\r\n";
    assert!(parser.feed(head).unwrap().is_some());
    assert_eq!(parser.head.location.as_deref(), Some(&b"/home"[..]));
    assert_eq!(parser.head.cookies, vec![b"a=1".to_vec(), b"b=2".to_vec()]);
}

#[test]
fn wrong_lengths() {
    fails(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", ParseError::Truncated);
    fails(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", ParseError::BadLength);
    fails(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", ParseError::BadLength);
    fails(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", ParseError::BadLength);
    fails(b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n", ParseError::BadLength);
    fails(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", ParseError::BadLength);
    fails(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n", ParseError::BodyTooLong);
}

#[test]
fn bad_chunks() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let with = |rest: &str| format!("{head}{rest}").into_bytes();
    fails(&with("zz\r\n"), ParseError::BadChunk);
    fails(&with("\r\n"), ParseError::BadChunk);
    fails(&with("-1\r\n"), ParseError::BadChunk);
    fails(&with("4\r\nwikiXX\r\n"), ParseError::BadChunk);
    fails(&with("4\nwiki"), ParseError::BadChunk);
    fails(&with("ffffffffffffffffffff\r\n"), ParseError::BadChunk);
    fails(&with("fffffffffff\r\n"), ParseError::BodyTooLong);
    fails(&with("4\r\nwi"), ParseError::Truncated);
    fails(&with(&format!("4;{}", "x".repeat(5000))), ParseError::BadChunk);
    fails(&with(&format!("0\r\n{}", "A: b\r\n".repeat(20_000))), ParseError::HeadTooLong);
}

#[test]
fn bad_heads() {
    fails(b"SSH-2.0-OpenSSH\r\n\r\n", ParseError::BadHead);
    fails(b"HTTP/1.1 abc OK\r\n\r\n", ParseError::BadHead);
    fails(b"HTTP/1.1 101 Switching\r\n\r\n", ParseError::BadHead);
    fails(b"HTTP/1.1 200 O", ParseError::Truncated);
    fails(&[b'x'; 70_000], ParseError::HeadTooLong);
    let endless = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"A: b\r\n".repeat(20_000)].concat();
    fails(&endless, ParseError::HeadTooLong);
    let many = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"A: b\r\n".repeat(300), b"\r\n".to_vec()].concat();
    fails(&many, ParseError::TooManyHeaders);
}

#[test]
fn an_endless_body_is_cut() {
    let mut parser = Parser::new(Limits { body: 1000, ..Limits::default() });
    parser.begin(false, true);
    parser.feed(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
    let mut fed = 0;
    let error = loop {
        match parser.feed(&[b'x'; 100]) {
            Ok(_) => fed += 100,
            Err(error) => break error,
        }
        assert!(fed < 10_000);
    };
    assert_eq!(error, ParseError::BodyTooLong);
    assert!(parser.body.len() <= 1000);
}

#[test]
fn random_damage_never_panics_or_runs_away() {
    let whole: &[u8] =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nSet-Cookie: a=b; Path=/\r\n\r\n4\r\nwiki\r\n5\r\npedia\r\n0\r\n\r\n";
    let mut random = Random::new(11, 0, Stream::Data);
    let mut outcomes = [0u32; 3];
    for _ in 0..5000 {
        let mut text = whole.to_vec();
        for _ in 0..random.between(1, 4) {
            if text.len() < 2 {
                break;
            }
            let at = random.between(0, text.len() as i64 - 1) as usize;
            match random.between(0, 3) {
                0 => text[at] = random.word() as u8,
                1 => {
                    text.remove(at);
                }
                2 => text.insert(at, random.word() as u8),
                _ => text.truncate(at + 1),
            }
        }
        let step = random.between(1, 40) as usize;
        match parse(&text, step, true) {
            Ok(Some((_, body, _, used))) => {
                assert!(used <= text.len() && body.len() <= text.len());
                outcomes[0] += 1;
            }
            Ok(None) => outcomes[1] += 1,
            Err(_) => outcomes[2] += 1,
        }
    }
    assert!(outcomes[0] > 0 && outcomes[2] > 0, "{outcomes:?}");
}
