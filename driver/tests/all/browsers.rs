//! What browsers do: redirects, links, fragments, cookies, contents, requests that a server would not look at.

use crate::support::h2::{frame, greeting, head, Frames};
use crate::support::{all_well, answering, count, page, run, server, Request, GET};
use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

type Seen = Arc<Mutex<HashMap<String, Vec<String>>>>;

/// Keeps the last request for each path.
fn recording(answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> (String, Seen) {
    let seen = Seen::default();
    let known = Arc::clone(&seen);
    let url = answering(move |request| {
        let lines = [vec![request.line.clone()], request.headers.clone(), vec![request.body.clone()]].concat();
        known.lock().expect("a lock").insert(request.path().to_string(), lines);
        answer(request)
    });
    (url, seen)
}

fn has(seen: &Seen, path: &str, line: &str) -> bool {
    seen.lock().expect("a lock").get(path).is_some_and(|lines| lines.iter().any(|other| other == line))
}

#[test]
fn redirects_keep_what_the_request_said() {
    let (other, elsewhere) = recording(|_| page("200 OK", "", "fine"));
    let target = other.clone();
    let (url, seen) = recording(move |request| match request.path() {
        "/get" => page("302 Found", "Location: /got\r\n", ""),
        "/post" => page("301 Moved", "Location: /posted\r\n", ""),
        "/put" => page("302 Found", "Location: /putted\r\n", ""),
        "/again" => page("308 Moved", "Location: /repeated\r\n", ""),
        "/away" => page("302 Found", &format!("Location: {target}/secret\r\n"), ""),
        _ => page("200 OK", "", "fine"),
    });
    let own = "headers: { Authorization: Bearer x, X-Own: \"${seq}\" }";
    let scenario = format!(
        "scenario: moved\nmix: {{ each: 1 }}\ntransactions:\n  each:\n    - {{ get: /get, {own} }}\n    \
         - {{ post: /post, {own}, form: {{ a: b }} }}\n    - {{ put: /put, {own}, text: kept }}\n    \
         - {{ post: /again, {own}, json: {{ a: 1 }} }}\n"
    );
    all_well(&run(&url, &scenario, "--steady 200ms"));
    for path in ["/got", "/posted", "/putted", "/repeated"] {
        assert!(has(&seen, path, "Authorization: Bearer x"), "{path}: {seen:?}");
    }
    assert!(has(&seen, "/posted", "GET /posted HTTP/1.1") && !has(&seen, "/posted", "Content-Length: 3"), "{seen:?}");
    assert!(!has(&seen, "/posted", "Content-Type: application/x-www-form-urlencoded"), "{seen:?}");
    assert!(has(&seen, "/putted", "PUT /putted HTTP/1.1") && has(&seen, "/putted", "kept"), "{seen:?}");
    assert!(has(&seen, "/repeated", "POST /repeated HTTP/1.1") && has(&seen, "/repeated", "{\"a\":1}"), "{seen:?}");
    let away = GET.replace("get: /,", &format!("get: /away, {own},"));
    let found = run(&url, &away, "--steady 200ms");
    assert!(found.error("redirect") > 0 && elsewhere.lock().expect("a lock").is_empty(), "{elsewhere:?}");
}

#[test]
fn paths_go_out_as_a_browser_writes_them() {
    let (url, seen) = recording(|_| page("200 OK", "", "fine"));
    let scenario = "scenario: paths\nvariables: { term: \"a b&c/d+\" }\nmix: { each: 1 }\ntransactions:\n  each:\n    \
                    - { get: \"/p/${url:a b}#top\" }\n    - { get: \"/q?x=${url:${term}}#${term}\" }\n    \
                    - { post: /f, form: { x: \"${term}\" } }\n    - { post: /t, text: \"x=${url:${term}}\" }\n";
    all_well(&run(&url, scenario, "--steady 200ms"));
    assert!(has(&seen, "/p/a%20b", "GET /p/a%20b HTTP/1.1"), "{seen:?}");
    assert!(has(&seen, "/q?x=a%20b%26c%2Fd%2B", "GET /q?x=a%20b%26c%2Fd%2B HTTP/1.1"), "{seen:?}");
    assert!(has(&seen, "/f", "x=a+b%26c%2Fd%2B") && has(&seen, "/t", "x=a%20b%26c%2Fd%2B"), "{seen:?}");
}

#[test]
fn links_are_relative_to_the_base_of_their_page() {
    let (url, seen) = recording(|request| match request.path() {
        "/app/page" => page(
            "200 OK",
            "",
            "<base href=/deep/er/><a href=next>x</a><img src=i.png><template><img src=t.png></template>\
             <noscript><img src=n.png></noscript><!-- <img src=c.png> -->",
        ),
        "/deep/er/next" | "/deep/er/i.png" => page("200 OK", "", "fine"),
        _ => page("404 Gone", "", ""),
    });
    let scenario = "scenario: linked\nmix: { each: 1 }\ntransactions:\n  each:\n    \
                    - { get: /page, embedded: 2, extract: { link: { css: a, attribute: href } } }\n    - { get: \"${link}\" }\n";
    all_well(&run(&format!("{url}/app"), scenario, "--steady 200ms"));
    let paths: Vec<String> = seen.lock().expect("a lock").keys().cloned().collect();
    assert!(paths.len() == 3, "{paths:?}");
}

#[test]
fn a_cookie_is_not_sent_after_its_time() {
    let late = AtomicUsize::new(0);
    let url = answering(move |request| {
        let cookie = request.headers.iter().any(|line| line.contains("short=1"));
        match request.path() {
            "/in" => page("200 OK", "Set-Cookie: short=1; Max-Age=1\r\n", ""),
            "/soon" if cookie => page("200 OK", "", ""),
            "/late" if !cookie => {
                late.fetch_add(1, Ordering::SeqCst);
                page("200 OK", "", "")
            }
            _ => page("400 Bad", "", ""),
        }
    });
    let scenario =
        "scenario: ends\npause: { shape: fixed, mean: 1100ms }\ngraph: { start: { a: 1 }, a: { b: 1 }, b: { a: 1 } }\n\
                    transactions:\n  a: [{ get: /in }, { get: /soon }]\n  b: [{ get: /late }]\n";
    let found = run(&url, scenario, "--steady 1500ms");
    assert_eq!(found.code, 0, "{}", found.output);
    assert_eq!(found.total("b", "ok"), 1, "{}", found.summary);
    let hours = scenario.replace("1100ms", "10h");
    let refused = run(&url, &hours, "--steady 1500ms");
    assert_eq!(refused.code, 2);
    assert!(refused.errors.contains("a user pauses for 36000s between transactions"), "{}", refused.errors);
}

#[test]
fn damaged_contents_fail_though_nobody_looks() {
    use flate2::{write::GzEncoder, Compression};
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&b"the quick brown fox ".repeat(50)).expect("in memory");
    let gzip = gzip.finish().expect("gzip");
    // `brotli -q 1` of sixty bytes of a.
    let brotli: &[u8] = &[0x1b, 0x3b, 0x00, 0x00, 0x24, 0xc2, 0xc2, 0x12, 0x4c, 0x01];
    let plain = "scenario: one\nmix: { get: 1 }\ntransactions:\n  get: [{ get: / }]\n";
    let coded = |coding: &'static str, body: Vec<u8>| {
        answering(move |_| {
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n", body.len());
            [head.as_bytes(), &body].concat()
        })
    };
    let damaged = |bytes: &[u8], at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 0x55;
        bytes
    };
    all_well(&run(&coded("gzip", gzip.clone()), plain, "--steady 100ms"));
    for (coding, body) in [
        ("gzip", gzip[..gzip.len() - 9].to_vec()),
        ("gzip", damaged(&gzip, gzip.len() - 5)),
        ("gzip", b"no gzip at all".to_vec()),
        ("deflate", gzip.clone()),
        ("br", brotli[..brotli.len() - 3].to_vec()),
        ("gzip, gzip", gzip.clone()),
    ] {
        let found = run(&coded(coding, body), plain, "--steady 100ms");
        assert!(found.error("protocol") > 0 && found.total("get", "ok") == 0, "{coding}: {}", found.summary);
    }
    let embedded = answering(move |request| match request.path() {
        "/" => page("200 OK", "", "<img src=i>"),
        _ => page("200 OK", "Content-Encoding: gzip\r\n", "no gzip at all"),
    });
    let found = run(&embedded, &GET.replace("check: { lacks: nonsense }", "embedded: true"), "--steady 100ms");
    assert!(found.error("protocol") > 0 && found.total("get", "ok") == 0, "{}", found.summary);
}

/// Answers `most` requests of a connection, then says so and looks at no more, as nginx does at keepalive_requests.
fn limited(most: u32, served: Arc<AtomicUsize>) -> String {
    server(move |stream| {
        let mut frames = Frames::new(stream);
        frames.send(&greeting());
        for number in 1..=most {
            let Some(stream) = frames.request() else { return };
            served.fetch_add(1, Ordering::SeqCst);
            let goodbye = frame(7, 0, 0, &[&stream.to_be_bytes()[..], &[0; 4]].concat());
            let answer = head(5, stream, b"");
            if !frames.send(&if number == most { [goodbye, answer].concat() } else { answer }) {
                return;
            }
        }
        frames.wait();
    })
}

#[test]
fn a_limit_of_requests_per_connection_fails_nothing() {
    for (most, options) in
        [(3, "--users 16 --connections shared"), (1, "--users 8 --connections shared"), (2, "--users 4")]
    {
        let served = Arc::new(AtomicUsize::new(0));
        let url = limited(most, Arc::clone(&served));
        let plain = "scenario: one\nmix: { post: 1 }\ntransactions:\n  post: [{ post: /, text: x }]\n";
        let found = run(&url, plain, &format!("--http 2 --steady 400ms --timeout 5s {options}"));
        all_well(&found);
        assert_eq!(count(&found, "count"), served.load(Ordering::SeqCst) as u64, "{}", found.summary);
        assert_eq!(count(&found, "sent"), count(&found, "count") + count(&found, "repeated"), "{}", found.summary);
    }
}
