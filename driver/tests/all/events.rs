//! Server-sent events, over HTTP/1.1 and HTTP/2.

use crate::support::h2::{frame, greeting, head, Frames};
use crate::support::{count, page, read_request, run, server, Run};
use std::io::{BufReader, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

const HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";

fn scenario(events: &str) -> String {
    format!(
        "scenario: live\npause: {{ shape: fixed, mean: 5ms }}\nmix: {{ watch: 1 }}\ntransactions:\n  watch:\n    \
         - get: /live\n      events: {events}\n      extract: {{ id: 'id-([0-9]+)' }}\n    \
         - post: /ack\n      text: '${{id}}'\n"
    )
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// Answers `/live` with `parts`, each `pause` after the one before, then with the end of the stream or silence; counts
/// acknowledgements of the last part's id.
fn live(parts: &'static [&'static str], pause: u64, ends: bool) -> (String, Arc<AtomicU64>) {
    let acknowledged = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&acknowledged);
    let url = server(move |stream| {
        let mut writer = stream.try_clone().expect("a second handle");
        let mut reader = BufReader::new(stream);
        while let Some(request) = read_request(&mut reader) {
            if request.path() == "/ack" {
                let last = parts.last().and_then(|part| part.split("id-").nth(1)).unwrap_or("-");
                counted.fetch_add(u64::from(last.starts_with(&request.body)), Ordering::Relaxed);
                let _ = writer.write_all(&page("200 OK", "", ""));
                continue;
            }
            let mut send = |text: &str| writer.write_all(text.as_bytes()).is_ok();
            let mut there = send(HEAD);
            for part in parts {
                std::thread::sleep(Duration::from_millis(pause));
                there = there && send(&chunk(part));
            }
            if ends {
                there = there && send("0\r\n\r\n");
            } else {
                let _ = read_request(&mut reader); // until the driver goes
                return;
            }
            if !there {
                return;
            }
        }
    });
    (url, acknowledged)
}

fn mean(run: &Run, what: &str) -> f64 {
    run.number(&format!("/steady/all/{what}_ms/mean"))
}

const THREE: &[&str] = &[": hello\n\n", "event: tick\ndata: id-1\n\n", "data: other\n\ndata: id-22\n\n"];

#[test]
fn so_many_events_and_what_the_last_one_says() {
    let (url, acknowledged) = live(THREE, 10, false);
    let run = run(&url, &scenario("{ count: 2, where: { contains: id- } }"), "--users 2 --steady 400ms");
    assert_eq!((run.code, run.summary["errors"].as_object().map(|e| e.len())), (0, Some(0)), "{}", run.summary);
    assert_eq!(run.total("watch", "ok"), acknowledged.load(Ordering::Relaxed));
    assert!(mean(&run, "response") >= 30.0 && mean(&run, "first_event") >= 20.0, "{}", run.summary);
    assert!(mean(&run, "first_byte") < mean(&run, "first_event") && mean(&run, "gap") > 0.0);
    let log = |name: &str| std::fs::read_to_string(run.directory.join("out").join(name)).expect("a log");
    assert!(["first_byte.hlog", "first_event.hlog", "gap.hlog"].iter().all(|name| log(name).contains("Tag=watch")));
}

#[test]
fn events_of_a_type() {
    let (url, _) = live(THREE, 2, false);
    let text = scenario("{ type: tick }").replace("[0-9]+", "1");
    let ticks = run(&url, &text, "--users 1 --steady 200ms");
    assert_eq!(ticks.error("event") + ticks.error("timeout") + ticks.error("extract"), 0, "{}", ticks.summary);
    assert!(ticks.total("watch", "ok") > 0);
}

#[test]
fn a_stream_may_be_longer_than_any_event() {
    let (url, acknowledged) = live(&["data: 0123456789\n\n", "data: 0123456789\n\n", "data: id-3\n\n"], 1, true);
    let text = format!("max_body: 20\n{}", scenario("{ end: true, count: 3 }"));
    let run = run(&url, &text, "--users 1 --steady 200ms");
    assert_eq!(run.code, 0, "{}{}", run.errors, run.output);
    assert!(run.total("watch", "ok") > 0 && run.total("watch", "ok") == acknowledged.load(Ordering::Relaxed));
}

#[test]
fn the_wait_began_before_a_redirect() {
    let url = crate::support::answering(|request| {
        std::thread::sleep(Duration::from_millis(60));
        match request.path() {
            "/live" => page("302 Found", "Location: /there\r\nContent-Type: text/event-stream\r\n", "data: id-7\n"),
            "/there" => page("200 OK", "Content-Type: text/event-stream\r\n", "data: id-1\n\n"),
            _ => page("200 OK", "", ""),
        }
    });
    let text = scenario("{ count: 1, where: { lacks: id-7 } }").replace("[0-9]+", "1");
    let run = run(&url, &text, "--users 1 --steady 400ms");
    assert_eq!(run.code, 0, "{}{}", run.errors, run.output);
    assert!(mean(&run, "first_event") >= 120.0, "{}", run.summary);
}

#[test]
fn to_the_end_and_the_connection_stays() {
    let (url, acknowledged) = live(THREE, 1, true);
    let run = run(&url, &scenario("{ end: true, count: 3 }"), "--users 1 --steady 300ms");
    assert_eq!(run.code, 0, "{}{}", run.errors, run.output);
    assert_eq!(run.total("watch", "ok"), acknowledged.load(Ordering::Relaxed));
    assert_eq!(count(&run, "connects"), 1);
}

#[test]
fn for_a_time() {
    let (url, acknowledged) = live(THREE, 1, false);
    let run = run(&url, &scenario("{ duration: 500ms, count: 2 }"), "--users 1 --steady 400ms");
    assert_eq!(run.code, 0, "{}{}", run.errors, run.output);
    assert!(run.total("watch", "ok") > 0 && run.total("watch", "ok") == acknowledged.load(Ordering::Relaxed));
    assert!(mean(&run, "response") >= 500.0);
    let few = crate::support::run(&url, &scenario("{ duration: 500ms, count: 9 }"), "--users 1 --steady 200ms");
    assert!(few.error("event") > 0 && few.output.contains("3 of 9 events"), "{}", few.output);
}

#[test]
fn missing_events_fail_by_how_they_are_missed() {
    let (url, _) = live(THREE, 1, true);
    let few = run(&url, &scenario("{ count: 9 }"), "--users 1 --steady 200ms");
    assert!(few.error("event") > 0 && few.output.contains("3 of 9 events when the stream ended"), "{}", few.output);
    let (url, _) = live(THREE, 1, false);
    let late = run(&url, &scenario("{ count: 9, within: 500ms }"), "--users 1 --steady 200ms");
    assert!(late.error("timeout") > 0 && late.output.contains("3 of 9 events"), "{}", late.output);
    let bounds = &late.summary["steady"]["all"]["times_at_least"];
    assert!(bounds["gap"].as_array().is_some_and(|list| list.iter().any(|name| name == "max")), "{bounds}");
    assert_eq!(bounds.get("first_event"), None);
    let (url, _) = live(&[], 0, false);
    let none = run(&url, &scenario("{ count: 1 }"), "--users 1 --steady 200ms --timeout 80ms");
    let bounds = &none.summary["steady"]["all"]["times_at_least"];
    assert!(bounds["first_event"].is_array() && bounds.get("first_byte").is_none(), "{bounds}");
    assert!(mean(&none, "first_event") >= 80.0, "{}", none.summary);
    let (url, _) = live(&["data: 0123456789012345\n\n"], 0, false);
    let long = run(&url, &format!("max_body: 9\n{}", scenario("{ count: 1 }")), "--users 1 --steady 200ms");
    assert!(long.error("protocol") > 0, "{}", long.summary);
}

#[test]
fn what_is_no_event_stream() {
    let answer = |status: &'static str, kind: &'static str| {
        crate::support::answering(move |_| page(status, &format!("Content-Type: {kind}\r\n"), "data: id-1\n\n"))
    };
    let text = scenario("{ count: 1 }");
    let html = run(&answer("200 OK", "text/html"), &text, "--users 1 --steady 200ms");
    assert!(html.error("event") > 0 && html.output.contains("no event stream"), "{}", html.output);
    let gone = run(&answer("404 Not Found", "text/event-stream"), &text, "--users 1 --steady 200ms");
    assert!(gone.error("status_4xx") > 0, "{}", gone.output);
    let coded =
        run(&answer("200 OK", "text/event-stream\r\nContent-Encoding: gzip"), &text, "--users 1 --steady 200ms");
    assert!(coded.error("protocol") > 0, "{}", coded.output);
}

#[test]
fn streams_of_http2_are_left_and_the_connection_stays() {
    let url = server(|stream| {
        let mut frames = Frames::new(stream);
        let mut greeted = false;
        while let Some(id) = frames.request() {
            if !std::mem::replace(&mut greeted, true) {
                frames.send(&greeting());
            }
            let kind = [&[0x0f, 0x10, 17][..], b"text/event-stream"].concat();
            let events = frame(0, 0, id, b"data: id-1\n\ndata: id-2\n\nda");
            if !frames.send(&[head(4, id, &kind), events].concat()) {
                return;
            }
        }
    });
    let text = "scenario: live\npause: { shape: fixed, mean: 5ms }\nmix: { watch: 1 }\ntransactions:\n  \
                watch: [{ get: /live, events: { count: 2 }, check: { contains: id-2 } }]\n";
    let run = run(&url, text, "--users 1 --steady 300ms --http 2");
    assert_eq!(run.code, 0, "{}{}", run.errors, run.output);
    assert!(run.total("watch", "ok") > 3 && count(&run, "connects") == 1, "{}", run.summary);
    assert!(mean(&run, "first_byte") > 0.0 && mean(&run, "first_event") > 0.0);
}

const LEFT: &str = "scenario: live\npause: { shape: fixed, mean: 5ms }\nmix: { watch: 1 }\ntransactions:\n  \
                    watch: [{ get: /live, events: { count: 1 } }]\n";

fn event_head(id: u32) -> Vec<u8> {
    head(4, id, &[&[0x0f, 0x10, 17][..], b"text/event-stream"].concat())
}

#[test]
fn what_was_on_its_way_as_a_stream_was_left_ends_no_connection() {
    let url = server(|stream| {
        let mut frames = Frames::new(stream);
        let rest = b": 012345\n".repeat(1800);
        let mut sent = 0;
        while let Some(id) = frames.request() {
            let mut bytes = if sent == 0 { greeting() } else { Vec::new() };
            sent += 1;
            bytes.extend([event_head(id), frame(0, 0, id, b"data: id-1\n\n")].concat());
            bytes.extend(frame(0, 0, id, &rest).repeat(100));
            if !frames.send(&bytes) {
                return;
            }
        }
    });
    let run = run(&url, LEFT, "--users 1 --steady 1s --http 2");
    assert!(run.code == 0 && run.total("watch", "ok") > 12, "{}{}", run.errors, run.output);
    assert_eq!(count(&run, "connects"), 1);
}

#[test]
fn a_connection_of_streams_that_were_left_may_close() {
    let url = server(|stream| {
        let mut frames = Frames::new(stream);
        let Some(id) = frames.request() else { return };
        frames.send(&[greeting(), event_head(id), frame(0, 0, id, b"data: id-1\n\n")].concat());
        frames.request();
    });
    let run = run(&url, LEFT, "--users 1 --steady 200ms --http 2");
    assert!(run.code == 0 && run.total("watch", "ok") > 1, "{}{}", run.errors, run.output);
    assert!(count(&run, "repeated") > 0, "{}", run.summary);
}
