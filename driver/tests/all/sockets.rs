//! WebSockets as steps of a session, against servers of another implementation.

use crate::support::tls::{config, trusted};
use crate::support::{answering, count, page, run, server, Run};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tungstenite::handshake::server::{Request, Response};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::CloseFrame;
use tungstenite::{accept_hdr, Message, WebSocket};

const ECHO: &str = r#"
scenario: chat
pause: { shape: fixed, mean: 5ms }
headers: { X-Own: "${session}" }
mix: { talk: 1 }
transactions:
  talk:
    - { websocket: /chat, check: { header: { x-greets: '^yes$' } } }
    - { send: { op: hello, session: "${number:${session}}" } }
    - await: { where: { json: { /op: hello } } }
      extract: { id: { json: /session } }
      check: { contains: '"session":${session}' }
    - repeat: 3
      requests: [{ send: 'ping ${id}' }, { await: { where: { contains: 'ping ${id}' } } }]
    - { close: 3001 }
"#;

#[derive(Default)]
struct Log {
    opened: AtomicU64,
    came: AtomicU64,
    went: AtomicU64,
    closes: Mutex<Vec<u16>>,
}

/// Takes connections, greets, and lets `talk` speak over them until the client closes.
#[allow(clippy::result_large_err)] // of tungstenite's callback
fn chat<S: Read + Write>(stream: S, log: &Log, talk: impl Fn(&str) -> Vec<Message>) {
    let greet = |request: &Request, mut response: Response| {
        assert!(request.headers().contains_key("x-own"));
        response.headers_mut().append("X-Greets", "yes".parse().expect("a value"));
        Ok(response)
    };
    let Ok(mut socket) = accept_hdr(stream, greet) else { return };
    log.opened.fetch_add(1, Ordering::Relaxed);
    loop {
        match socket.read() {
            Ok(Message::Text(text)) => {
                log.came.fetch_add(1, Ordering::Relaxed);
                for message in talk(&text) {
                    log.went.fetch_add(u64::from(message.is_text()), Ordering::Relaxed);
                    let _ = socket.send(message);
                }
            }
            Ok(Message::Close(frame)) => {
                log.closes.lock().expect("a lock").push(frame.map_or(0, |frame| frame.code.into()));
            }
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

fn echo(text: &str) -> Vec<Message> {
    vec![Message::text("noise"), Message::Ping(vec![1].into()), Message::text(text)]
}

fn mean(run: &Run, what: &str) -> f64 {
    run.number(&format!("/steady/all/{what}_ms/mean"))
}

#[test]
fn what_the_driver_counts_is_what_the_server_logs() {
    for (secure, more) in [(false, ""), (false, "--http 2"), (true, "")] {
        let log = Arc::new(Log::default());
        let noted = Arc::clone(&log);
        let url = server(move |stream: TcpStream| match secure {
            false => chat(stream, &noted, echo),
            true => {
                let connection = rustls::ServerConnection::new(config(&["h2", "http/1.1"])).expect("TLS");
                chat(rustls::StreamOwned::new(connection, stream), &noted, echo);
            }
        });
        let (url, more) = match secure {
            true => (url.replace("http://", "https://"), trusted()),
            false => (url, more.to_string()),
        };
        let run = run(&url, ECHO, &format!("--users 2 --steady 400ms {more}"));
        assert_eq!(run.code, 0, "{}{}", run.errors, run.output);
        let ok = run.total("talk", "ok");
        assert!(ok > 1, "{}", run.summary);
        assert_eq!((ok, 4 * ok), (log.opened.load(Ordering::Relaxed), log.came.load(Ordering::Relaxed)));
        assert_eq!((count(&run, "messages_sent"), count(&run, "events")), (4 * ok, log.went.load(Ordering::Relaxed)));
        assert_eq!(run.summary["statuses"]["101"], ok);
        let closes = log.closes.lock().expect("a lock");
        assert!(closes.len() as u64 == ok && closes.iter().all(|code| *code == 3001), "{closes:?}");
        assert!(mean(&run, "first_event") > 0.0 && mean(&run, "response") >= mean(&run, "first_event"));
    }
}

#[test]
fn a_socket_stays_over_transactions_and_the_session_says_good_bye() {
    let text = "scenario: long\nheaders: { X-Own: a }\nlogin: open\npause: { shape: fixed, mean: 5ms }\n\
                mix: { ask: 1 }\narrivals: { session_length: 4 }\ntransactions:\n  open: [{ websocket: / }]\n  \
                ask: [{ send: x }, { await: { count: 1, where: { contains: x } } }]\n";
    let log = Arc::new(Log::default());
    let noted = Arc::clone(&log);
    let url = server(move |stream| chat(stream, &noted, echo));
    let run = run(&url, text, "--arrivals constant --rate 20 --steady 500ms --ramp-down 500ms");
    assert_eq!(run.code, 0, "{}{}", run.errors, run.output);
    assert_eq!(run.total("open", "ok"), log.opened.load(Ordering::Relaxed));
    assert_eq!(run.total("ask", "ok"), log.came.load(Ordering::Relaxed));
    assert!(run.total("ask", "ok") > run.total("open", "ok"), "{}", run.summary);
    assert!(log.closes.lock().expect("a lock").iter().all(|code| *code == 1001));
}

#[test]
fn missing_messages_fail_by_how_they_are_missed() {
    let text = |wait: &str| {
        format!(
            "scenario: one\nheaders: {{ X-Own: a }}\npause: {{ shape: fixed, mean: 5ms }}\nmix: {{ ask: 1 }}\n\
             transactions:\n  ask: [{{ websocket: / }}, {{ send: x }}, {{ await: {wait} }}]\n"
        )
    };
    let talking = |talk: fn(&str) -> Vec<Message>| server(move |stream| chat(stream, &Log::default(), talk));
    let run = |talk, wait: &str| run(&talking(talk), &text(wait), "--users 1 --steady 250ms");
    let late = run(echo, "{ count: 9, within: 500ms }");
    assert!(late.error("timeout") > 0 && late.output.contains("2 of 9 events or messages in time"), "{}", late.output);
    let bounds = &late.summary["steady"]["all"]["times_at_least"];
    assert!(bounds["gap"].is_array() && bounds.get("first_event").is_none(), "{bounds}");
    let bye = |_: &str| {
        let frame = CloseFrame { code: CloseCode::Restart, reason: "maintenance".into() };
        vec![Message::text("one"), Message::Close(Some(frame))]
    };
    let closed = run(bye, "{ count: 2 }");
    assert!(closed.error("event") > 0, "{}", closed.summary);
    assert!(closed.output.contains("1 of 2 events or messages: the server closed the WebSocket: 1012 maintenance"));
    let listened = run(echo, "{ duration: 500ms, count: 2 }");
    assert!(listened.code == 0 && mean(&listened, "response") >= 500.0, "{}", listened.output);
    let few = run(echo, "{ duration: 500ms, count: 3 }");
    assert!(few.error("event") > 0 && few.output.contains("2 of 3 messages"), "{}", few.output);
    let long = crate::support::run(
        &talking(|_| vec![Message::text("0123456789")]),
        &format!("max_body: 9\n{}", text("{ count: 1 }")),
        "--users 1 --steady 200ms",
    );
    assert!(long.error("protocol") > 0 && long.output.contains("too long"), "{}", long.output);
}

const TALK: &str = "scenario: one\nheaders: { X-Own: a }\npause: { shape: fixed, mean: 5ms }\nmix: { ask: 1 }\n";

/// Answers each message with these bytes, at once.
fn writing(bytes: Vec<u8>) -> String {
    server(move |stream| {
        let writer = stream.try_clone().expect("a second handle");
        chat(stream, &Log::default(), |_| {
            let _ = (&writer).write_all(&bytes);
            Vec::new()
        });
    })
}

#[test]
fn messages_that_no_step_took_go_with_their_transaction() {
    let text = format!(
        "{TALK}login: open\ntransactions:\n  open: [{{ websocket: / }}]\n  \
         ask: [{{ send: x }}, {{ await: {{ count: 1 }}, check: {{ contains: first }} }}]\n"
    );
    let url = writing(b"\x81\x05first\x81\x06second".to_vec());
    let run = run(&url, &text, "--users 1 --steady 300ms");
    assert!(run.code == 0 && run.total("ask", "ok") > 3, "{}", run.output);
}

#[test]
fn many_small_messages_that_a_step_waits_for() {
    let text = format!(
        "{TALK}transactions:\n  ask: [{{ websocket: / }}, {{ send: x }}, {{ await: {{ count: 25000 }} }}, {{ close: normal }}]\n"
    );
    let url = writing(b"\x81\x01x".repeat(25_000));
    let run = run(&url, &text, "--users 1 --steady 300ms");
    assert!(run.code == 0 && run.total("ask", "ok") > 0, "{}", run.output);
}

#[test]
fn a_server_that_never_stops_is_left() {
    let talk = |step: &str| format!("{TALK}transactions:\n  ask: [{{ websocket: / }}, {{ send: x }}, {step}]\n");
    let most = Arc::new(AtomicU64::new(0));
    let noted = Arc::clone(&most);
    let url = server(move |stream| {
        let writer = stream.try_clone().expect("a second handle");
        let noted = Arc::clone(&noted);
        chat(stream, &Log::default(), move |_| {
            let mut sent = (&writer).write_all(b"\x88\x02\x03\xe8");
            let junk = b"\x82\x7e\xff\xf6".iter().copied().chain([0; 65_526]).collect::<Vec<u8>>();
            for _ in 0..1024 {
                sent = sent.and_then(|()| (&writer).write_all(&junk));
                noted.fetch_add(u64::from(sent.is_ok()), Ordering::Relaxed);
            }
            Vec::new()
        });
    });
    let text = format!(
        "{TALK}login: open\ntransactions:\n  open: [{{ websocket: / }}, {{ send: x }}]\n  ask: [{{ get: / }}]\n"
    );
    let idle = run(&url, &text.replace("5ms", "1s"), "--users 1 --steady 1s --timeout 1s");
    let count = most.load(Ordering::Relaxed);
    assert!(idle.total("open", "ok") == 1 && count < 256, "{count} of 1024 times 64 KiB after the last word");
    let url = server(|stream| {
        let writer = stream.try_clone().expect("a second handle");
        chat(stream, &Log::default(), move |_| {
            let pings = [&b"\x89\x7d"[..], &[b'x'; 125]].concat().repeat(1000);
            while (&writer).write_all(&pings).is_ok() {}
            Vec::new()
        });
    });
    let deaf = run(&url, &talk("{ await: { within: 20s } }"), "--users 1 --steady 300ms");
    assert!(deaf.error("protocol") > 0 && deaf.output.contains("does not read"), "{}", deaf.output);
}

#[test]
fn closing_takes_its_time_and_may_fail() {
    let text = format!("{TALK}transactions:\n  ask: [{{ websocket: / }}, {{ close: normal }}]\n");
    let slow = server(|stream: TcpStream| {
        let Ok(mut socket) = tungstenite::accept(stream) else { return };
        let _ = socket.read();
        std::thread::sleep(std::time::Duration::from_millis(100));
        while socket.read().is_ok() {}
    });
    let slow = run(&slow, &text, "--users 1 --steady 300ms");
    assert!(slow.code == 0 && mean(&slow, "response") >= 100.0, "{}{}", slow.output, slow.summary);
    let wrong = server(|stream: TcpStream| {
        let mut writer = stream.try_clone().expect("a second handle");
        let Ok(mut socket) = tungstenite::accept(stream) else { return };
        let _ = socket.get_mut().read(&mut [0; 64]);
        let _ = writer.write_all(&[0xff; 64]);
    });
    let wrong = run(&wrong, &text, "--users 1 --steady 200ms");
    assert!(wrong.error("protocol") > 0, "{}", wrong.output);
}

#[test]
fn what_is_no_websocket() {
    let text = "scenario: one\npause: { shape: fixed, mean: 5ms }\nmix: { ask: 1 }\ntransactions:\n  \
                ask: [{ websocket: / }, { send: x }]\n";
    let run = |url: &str, options: &str| run(url, text, &format!("--users 1 --steady 200ms {options}"));
    let plain = run(&answering(|_| page("200 OK", "", "hello")), "");
    assert!(plain.error("status_2xx") > 0 && plain.output.contains("status 200, not 101"), "{}", plain.output);
    let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n";
    let liar = run(&answering(move |_| head.as_bytes().to_vec()), "");
    assert!(liar.error("protocol") > 0 && liar.output.contains("Sec-WebSocket-Accept"), "{}", liar.output);
    let noise = |stream: TcpStream| {
        let mut writer = stream.try_clone().expect("a second handle");
        if let Ok(WebSocket { .. }) = tungstenite::accept(stream) {
            let _ = writer.write_all(&[0xff; 64]);
        }
    };
    let text = text.replace("{ send: x }", "{ await: { count: 1 } }");
    let broken = crate::support::run(&server(noise), &text, "--users 1 --steady 200ms");
    assert!(broken.error("protocol") > 0, "{}", broken.summary);
    let shared = crate::support::run("http://127.0.0.1:1", &text, "--users 1 --steady 1s --connections shared");
    assert!(shared.code == 2 && shared.errors.contains("a WebSocket belongs to one session"), "{}", shared.errors);
    let closed =
        text.replace("[{ websocket: / }, { await: { count: 1 } }]", "[{ await: { count: 1 } }, { websocket: / }]");
    let closed = crate::support::run("http://127.0.0.1:1", &closed, "--users 1 --steady 200ms");
    assert!(closed.error("closed") > 0 && closed.output.contains("no WebSocket is open"), "{}", closed.output);
}
