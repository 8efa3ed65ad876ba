use super::*;
use crate::http::response::Limits;

struct One(Parser);

impl Responses for One {
    fn parser(&mut self, _: u32) -> &mut Parser {
        &mut self.0
    }
}

struct Run {
    client: Client,
    responses: One,
    events: Vec<Event>,
}

const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: h\r\nX-Own: v\r\n\r\n";

/// A client that sent one GET and was greeted.
fn asked() -> Run {
    let mut run = Run { client: Client::new(), responses: One(Parser::new(Limits::default())), events: Vec::new() };
    run.responses.0.begin(false, true);
    run.feed(&frame(4, 0, 0, b"")).expect("a greeting");
    assert_eq!(run.client.open(7, false, REQUEST), 1);
    run.sent();
    run
}

impl Run {
    fn feed(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        self.client.feed(bytes, &mut self.responses, &mut self.events)
    }

    /// What it wants to send: kind, flags, stream and payload of each frame.
    fn sent(&mut self) -> Vec<(u8, u8, u32, Vec<u8>)> {
        let bytes = self.client.unsent().to_vec();
        self.client.wrote(bytes.len());
        let mut rest = bytes.strip_prefix(PREFACE).unwrap_or(&bytes);
        let mut found = Vec::new();
        while let Some(head) = Head::read(rest) {
            let payload = rest[9..9 + head.length].to_vec();
            found.push((rest[3], head.flags, head.stream, payload));
            rest = &rest[9 + head.length..];
        }
        assert!(rest.is_empty());
        found
    }

    fn broken(&mut self, bytes: &[u8], part: &str) {
        let found = self.feed(bytes).expect_err(part);
        assert!(found.message.contains(part), "{part}: {found:?}");
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::default();
    fields.iter().for_each(|(name, value)| encoder.field(&mut bytes, name.as_bytes(), value.as_bytes(), false));
    bytes
}

fn ok(length: &str) -> Vec<u8> {
    block(&[(":status", "200"), ("content-length", length), ("set-cookie", "a=b"), ("set-cookie", "c=d")])
}

#[test]
fn greets_asks_and_understands() {
    let mut run = Run { client: Client::new(), responses: One(Parser::new(Limits::default())), events: Vec::new() };
    assert!(run.client.unsent().starts_with(PREFACE));
    let first = run.sent();
    assert_eq!((first[0].0, first[0].2, first[1].0), (4, 0, 8));
    run.responses.0.begin(false, true);
    run.client.open(7, true, b"POST /x?y HTTP/1.1\r\nHost: h:1\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody");
    let sent = run.sent();
    assert_eq!((sent[0].0, sent[0].1, sent[1].0, sent[1].1, &sent[1].3[..]), (1, 4, 0, 1, &b"body"[..]));
    let mut fields = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let decoded = Decoder::default().decode(&sent[0].3, 9, 999, |n, v| fields.push(text(n) + "=" + &text(v)));
    assert_eq!(decoded, Ok(()));
    assert_eq!(fields, [":method=POST", ":scheme=https", ":path=/x?y", ":authority=h:1", "content-length=4"]);
    let mut response = frame(4, 0, 0, &[0, 3, 0, 0, 0, 9]);
    response.extend(frame(1, 4, 1, &block(&[(":status", "103"), ("location", "/no")])));
    response.extend(frame(1, 0, 1, &ok("5")[..3]));
    response.extend(frame(9, 4, 1, &ok("5")[3..]));
    response.extend(frame(0, 8, 1, &[2, b'h', b'e', b'l', 0, 0]));
    response.extend(frame(0, 0, 1, b"lo"));
    response.extend(frame(1, 5, 1, &block(&[("x-trailer", "1")])));
    for byte in &response {
        run.feed(&[*byte]).expect("a valid response in single bytes");
    }
    assert_eq!(run.events, [Event::Begun { line: 7, stream: 1 }, Event::Complete { line: 7, stream: 1 }]);
    let head = &run.responses.0.head;
    assert_eq!((head.status, head.cookies.len(), &head.location), (200, 2, &None));
    assert_eq!(run.responses.0.body, b"hello");
    assert!(run.client.is_idle() && run.client.most_streams() == 9);
    assert_eq!(run.sent()[0].1, 1, "SETTINGS are acknowledged");
}

#[test]
fn bodies_keep_to_the_windows() {
    let mut run = asked();
    let mut request = b"PUT / HTTP/1.1\r\nHost: h\r\n\r\n".to_vec();
    request.extend([b'x'; 100_000]);
    run.client.open(8, false, &request);
    let count = |run: &mut Run| run.sent().iter().filter(|f| f.0 == 0).map(|f| f.3.len()).sum::<usize>();
    assert_eq!(count(&mut run), 65_535);
    run.feed(&frame(8, 0, 3, &[0, 1, 0, 0])).expect("a window");
    assert_eq!(count(&mut run), 0, "the connection's window is used up");
    run.feed(&frame(8, 0, 0, &[0, 0, 0, 9])).expect("a window");
    assert_eq!(count(&mut run), 9);
    // A smaller first window takes back what was granted.
    run.feed(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 0])).expect("settings");
    run.feed(&frame(8, 0, 0, &[0, 1, 0, 0])).expect("a window");
    assert_eq!(count(&mut run), 0);
    run.feed(&frame(8, 0, 3, &[0, 1, 0, 0])).expect("a window");
    assert_eq!(count(&mut run), 100_000 - 65_535 - 9);
}

#[test]
fn what_nobody_reads_is_bounded() {
    let mut run = asked();
    run.feed(&frame(4, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff])).expect("settings");
    run.feed(&frame(8, 0, 0, &[0x7f, 0, 0, 0])).expect("a window");
    let mut request = b"PUT / HTTP/1.1\r\nHost: h\r\n\r\n".to_vec();
    request.resize(request.len() + MOST_QUEUED + 1, b'x');
    let stream = run.client.open(8, false, &request);
    run.feed(&frame(6, 0, 0, &[0; 8])).expect("the body of a request under way");
    run.client.cancel(stream);
    run.broken(&frame(6, 0, 0, &[0; 8]), "does not read");
}

#[test]
fn windows_are_given_back() {
    let mut run = asked();
    run.responses.0.begin(false, false);
    run.feed(&frame(1, 4, 1, &block(&[(":status", "200")]))).expect("a head");
    let part = frame(0, 0, 1, &[0; 16_384]);
    let mut given = [0u32; 2];
    for _ in 0..900 {
        run.feed(&part).expect("within the windows");
        for (kind, _, stream, payload) in run.sent() {
            assert_eq!(kind, 8);
            given[stream as usize] += u32::from_be_bytes(payload.try_into().expect("four bytes"));
        }
    }
    assert!(given.iter().all(|sum| *sum > 900 * 16_384 - CONNECTION_WINDOW / 2 - 1), "{given:?}");
}

#[test]
fn streams_end_in_every_way() {
    let mut run = asked();
    run.feed(&frame(3, 0, 1, &[0, 0, 0, 2])).expect("a reset");
    run.feed(&frame(1, 5, 1, &ok("0"))).expect("a late response is no longer of interest");
    run.client.open(7, false, REQUEST);
    run.feed(&frame(3, 0, 3, &[0, 0, 0, 7])).expect("a refusal");
    run.client.open(7, false, REQUEST);
    run.feed(&frame(7, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0])).expect("good-bye");
    let expected = [
        Event::Reset { line: 7, stream: 1, code: 2 },
        Event::Refused { line: 7, stream: 3, others: false },
        Event::Refused { line: 7, stream: 5, others: true },
    ];
    assert_eq!(run.events, expected);
    assert!(run.client.is_leaving() && !run.client.may_open());
    let mut run = asked();
    run.client.cancel(3);
    assert!(run.sent().is_empty() && run.client.under_way() == 1, "nobody opened it");
    run.client.cancel(1);
    assert_eq!((run.sent()[0].0, run.client.is_idle()), (3, true));
    run.feed(&frame(1, 4, 1, &ok("9"))).expect("a late response");
    run.feed(&frame(0, 1, 1, b"x")).expect("a late response");
    assert!(run.events.is_empty());
}

#[test]
fn malformed_answers_fail_their_stream_only() {
    let status = (":status", "200");
    let head = |fields: &[(&str, &str)]| frame(1, 5, 1, &block(fields));
    let raw = |name: &[u8], value: &[u8]| {
        let mut bytes = block(&[status]);
        bytes.extend([0, name.len() as u8]);
        bytes.extend(name);
        bytes.push(value.len() as u8);
        bytes.extend(value);
        frame(1, 5, 1, &bytes)
    };
    let mut short = frame(1, 4, 1, &ok("9"));
    short.extend(frame(0, 1, 1, b"short"));
    let mut long = frame(1, 4, 1, &ok("2"));
    long.extend(frame(0, 1, 1, b"longer"));
    let mut twice = frame(1, 4, 1, &ok("2"));
    twice.extend(frame(1, 4, 1, &ok("2")));
    for (bytes, error) in [
        (short, ParseError::BadLength),
        (long, ParseError::BadLength),
        (twice, ParseError::BadHead),
        (head(&[("x", "y")]), ParseError::BadHead),
        (head(&[(":status", "20")]), ParseError::BadHead),
        (head(&[(":status", "101")]), ParseError::BadHead),
        (head(&[(":status", "100")]), ParseError::BadHead),
        (head(&[status, (":status", "200")]), ParseError::BadHead),
        (head(&[("x", "y"), status]), ParseError::BadHead),
        (head(&[status, (":path", "/")]), ParseError::BadHead),
        (head(&[status, ("connection", "close")]), ParseError::BadHead),
        (head(&[status, ("content-length", "x")]), ParseError::BadLength),
        (raw(b"Upper", b""), ParseError::BadHead),
        (raw(b"", b""), ParseError::BadHead),
        (raw(b"a", b"b\r\nc"), ParseError::BadHead),
        (frame(0, 1, 1, b"x"), ParseError::BadHead),
    ] {
        let mut run = asked();
        run.feed(&bytes).expect("the connection goes on");
        assert_eq!(run.events.last(), Some(&Event::Malformed { line: 7, stream: 1, error }), "{bytes:?}");
        assert_eq!((run.sent()[0].0, run.client.is_idle()), (3, true));
    }
}

#[test]
fn broken_connections() {
    let mut fresh = Run { client: Client::new(), responses: One(Parser::default()), events: Vec::new() };
    fresh.broken(b"HTTP/1.1 400 Bad Request\r\n", "is it HTTP/2?");
    for (bytes, part) in [
        (frame(0, 0, 0, b""), "nobody opened"),
        (frame(0, 0, 3, b""), "nobody opened"),
        (frame(1, 4, 2, &ok("0")), "nobody opened"),
        (frame(0, 8, 1, &[9, 0]), "more padding"),
        (frame(5, 4, 1, &[0; 8]), "push"),
        (frame(9, 4, 1, b""), "interrupted"),
        ([frame(1, 0, 1, b""), frame(6, 0, 0, &[0; 8])].concat(), "interrupted"),
        ([frame(1, 0, 1, b""), frame(9, 4, 3, b"")].concat(), "another stream"),
        (frame(1, 4, 1, &[0xff]), "malformed header block"),
        (frame(1, 4, 1, &[0x88; 300]), "more than 256"),
        (frame(3, 0, 1, b"x"), "RST_STREAM"),
        (frame(4, 0, 1, b""), "SETTINGS of a stream"),
        (frame(4, 0, 0, b"12345"), "wrong length"),
        (frame(4, 0, 0, &[0, 4, 255, 0, 0, 0]), "above 2^31"),
        (frame(4, 0, 0, &[0, 5, 0, 0, 0, 1]), "frame size"),
        (frame(6, 0, 0, b"x"), "malformed PING"),
        (frame(7, 0, 0, b"x"), "malformed GOAWAY"),
        (frame(8, 0, 0, &[0; 4]), "of nothing"),
        (frame(8, 0, 1, &[127, 255, 255, 255]), "above 2^31"),
        (vec![255, 255, 255, 0, 0, 0, 0, 0, 1], "longer than allowed"),
    ] {
        asked().broken(&bytes, part);
    }
}

#[test]
fn floods_are_ended() {
    let pings = frame(6, 0, 0, &[1; 8]).repeat(20_000);
    asked().broken(&pings, "thousands of frames");
    let mut run = asked();
    run.feed(&frame(1, 4, 1, &block(&[(":status", "200")]))).expect("a head");
    run.broken(&frame(0, 0, 1, b"").repeat(20_000), "thousands of frames");
    let mut endless = frame(1, 0, 1, b"");
    endless.extend(frame(9, 0, 1, &[0; 16_000]).repeat(5));
    asked().broken(&endless, "64 KiB");
    let mut interim = asked();
    interim.feed(&frame(1, 4, 1, &block(&[(":status", "103")])).repeat(100)).expect("the stream fails");
    assert!(matches!(interim.events[..], [Event::Begun { .. }, Event::Malformed { .. }]));
}

#[test]
fn bodies_under_way_are_no_unread_answers() {
    let mut run = asked();
    run.feed(&frame(4, 0, 0, &[0, 4, 127, 255, 255, 255])).expect("a window");
    run.feed(&frame(8, 0, 0, &[0, 255, 255, 255])).expect("a window");
    run.sent();
    let head = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n";
    run.client.open(8, false, &[&head[..], &[b'x'; 1_000_000]].concat());
    assert!(run.client.unsent().len() > 1_000_000);
    run.client.wrote(500_000);
    for _ in 0..9_000 {
        run.feed(&frame(8, 0, 3, &[0, 0, 0, 1])).expect("more room for the body");
    }
}

#[test]
fn answers_that_are_not_read_are_counted() {
    let pings = frame(6, 0, 0, &[1; 8]).repeat(9_000);
    let mut run = asked();
    run.feed(&frame(1, 4, 1, &block(&[(":status", "200")]))).expect("a head");
    for _ in 0..9 {
        run.feed(&pings).expect("pings");
        assert_eq!(run.sent().len(), 9_000);
        run.feed(&frame(0, 0, 1, b"x")).expect("a part of the response");
    }
    run.feed(&pings).expect("pings");
    run.client.wrote(17 * 4_000);
    run.feed(&frame(0, 0, 1, b"x")).expect("a part of the response");
    run.feed(&pings).expect("pings");
    run.feed(&frame(0, 0, 1, b"x")).expect("a part of the response");
    run.broken(&pings, "does not read");
}
