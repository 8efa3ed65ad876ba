//! Servers that answer wrongly: every failure is counted under its kind, nothing panics, hangs or grows.

use crate::support::{answering, nothing_succeeded, page, read_request, reset_on_close, run, server, GET, POST};
use std::io::{BufReader, Read, Write};
use std::net::TcpListener;
use std::time::Duration;

const SHORT: &str = "--steady 300ms --timeout 150ms";

/// All transactions fail with `kind`.
fn only(url: &str, scenario: &str, kind: &str) {
    let patient = SHORT.replace("150ms", "10s");
    let run = run(url, scenario, if kind == "timeout" { SHORT } else { &patient });
    nothing_succeeded(&run);
    let name = if scenario == POST { "post" } else { "get" };
    assert!(run.error(kind) > 0, "{kind}: {}", run.summary);
    assert_eq!(run.total(name, "ok"), 0, "{}", run.summary);
    let unfinished = run.error("unfinished");
    assert_eq!(run.error(kind) + unfinished, run.total(name, "failed"), "{}", run.summary);
    assert!(run.summary["error_samples"][kind][0].as_str().is_some_and(|text| text.starts_with(name)));
}

/// Sends `bytes` after each request and then closes.
fn closing_after(bytes: &'static [u8]) -> String {
    server(move |stream| {
        let mut writer = stream.try_clone().expect("a second handle");
        let mut reader = BufReader::new(stream);
        if read_request(&mut reader).is_some() {
            let _ = writer.write_all(bytes);
        }
    })
}

#[test]
fn wrong_lengths() {
    only(&closing_after(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort"), GET, "protocol");
    only(&closing_after(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nlonger"), GET, "protocol");
    only(&closing_after(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), POST, "protocol");
}

#[test]
fn half_a_response_then_silence() {
    let url = server(|stream| {
        let mut writer = stream.try_clone().expect("a second handle");
        let mut reader = BufReader::new(stream);
        let _ = read_request(&mut reader);
        let _ = writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort");
        let _ = reader.read(&mut [0; 1]); // until the driver gives up
    });
    only(&url, GET, "timeout");
}

#[test]
fn slow_bytes() {
    let url = server(|stream| {
        let mut writer = stream.try_clone().expect("a second handle");
        let _ = read_request(&mut BufReader::new(stream));
        for byte in page("200 OK", "", "slow").iter().cycle() {
            if writer.write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    only(&url, GET, "timeout");
}

#[test]
fn never_answers() {
    let url = server(|mut stream| {
        let mut buffer = [0; 1024];
        while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
    });
    only(&url, POST, "timeout");
}

#[test]
fn resets() {
    let url = server(|stream| {
        reset_on_close(&stream);
        let _ = read_request(&mut BufReader::new(stream));
    });
    only(&url, GET, "reset");
    let inside = server(|stream| {
        reset_on_close(&stream);
        let mut writer = stream.try_clone().expect("a second handle");
        let mut reader = BufReader::new(stream);
        let _ = read_request(&mut reader);
        let _ = writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort");
    });
    let run = run(&inside, GET, SHORT);
    // The kernel may drop what was received before the reset, or hand it out first: both are resets.
    assert!(run.error("reset") > 0 && run.total("get", "ok") == 0, "{}", run.summary);
}

/// Sends `bytes` after the `number`-th request of a connection and resets it; the requests before are answered.
fn resetting(number: usize, bytes: &'static [u8]) -> String {
    server(move |stream| {
        reset_on_close(&stream);
        let mut writer = stream.try_clone().expect("a second handle");
        let mut reader = BufReader::new(stream);
        for request in 1..=number {
            if read_request(&mut reader).is_none() {
                return;
            }
            let fine = page("200 OK", "", "fine");
            let _ = writer.write_all(if request == number { bytes } else { &fine });
        }
        std::thread::sleep(Duration::from_millis(20)); // what was sent has been read before the reset
    })
}

#[test]
fn resets_inside_an_answer() {
    for part in [
        &b"HTTP/1.1 2"[..],
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\n\r\nuntil the end",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    ] {
        only(&resetting(1, part), GET, "reset");
    }
}

#[test]
fn kept_connections_that_are_reset() {
    // At rest: between a request and the next one.
    let resting = GET.replace("mix:", "pause: { shape: fixed, mean: 60ms }\nmix:");
    let rest = run(&resetting(1, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), &resting, "--steady 400ms");
    assert!(rest.total("get", "ok") > 1 && rest.number("/requests/reconnects") >= 1.0, "{}", rest.summary);
    assert_eq!(rest.total("get", "failed"), 0, "{}", rest.summary);
    // With a request under way: one that may be repeated is, any other is a reset.
    let get = run(&resetting(2, b""), GET, "--steady 300ms --timeout 5s");
    assert!(get.total("get", "ok") > 1, "{}", get.summary);
    assert_eq!(get.total("get", "failed"), 0, "{}", get.summary);
    let post = run(&resetting(2, b""), POST, "--steady 400ms --timeout 5s");
    assert!(post.error("reset") > 0 && post.total("post", "ok") > 0, "{}", post.summary);
    assert_eq!(post.error("reset") + post.error("unfinished"), post.total("post", "failed"), "{}", post.summary);
}

#[test]
fn closed_without_an_answer() {
    only(&closing_after(b""), GET, "closed");
    only(&closing_after(b""), POST, "closed");
    only(&closing_after(b"HTTP/1.1 20"), GET, "protocol");
}

#[test]
fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    only(&url, GET, "connect");
}

#[test]
fn bad_chunking_and_no_http() {
    only(&closing_after(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), GET, "protocol");
    only(&closing_after(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"), GET, "protocol");
    only(&closing_after(b"220 mail.example ESMTP\r\n\r\n"), GET, "protocol");
    only(&closing_after(b"\0\xff\xfe\r\n\r\n"), GET, "protocol");
}

#[test]
fn chunks_of_every_wrong_kind() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for chunks in [
        "\r\n",                       // no size
        "5\nhello\r\n",               // no CR
        "5\r\nhelloX\r\n0\r\n\r\n",   // longer than its size
        "5\r\nhello0\r\n\r\n",        // no CRLF behind it
        "-5\r\nhello\r\n",            // a sign
        "ffffffffffffffff\r\nhello",  // beyond the limit
        "10000000000000005\r\nhello", // beyond 64 bits
        "5\r\nhello\r\n0\r\n",        // no end of the trailers
    ] {
        let url = server(move |stream| {
            let mut writer = stream.try_clone().expect("a second handle");
            let mut reader = BufReader::new(stream);
            if read_request(&mut reader).is_some() {
                let _ = writer.write_all(HEAD.as_bytes()).and_then(|()| writer.write_all(chunks.as_bytes()));
            }
        });
        only(&url, GET, "protocol");
    }
    let both = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    only(&closing_after(both), GET, "protocol");
}

#[test]
fn contents_that_are_not_what_they_say() {
    let gzip = GET.replace("mix:", "compression: true\nmix:");
    let coded = |coding: &'static str, body: &'static str| {
        answering(move |_| page("200 OK", &format!("Content-Encoding: {coding}\r\n"), body))
    };
    only(&coded("gzip", "no gzip at all"), &gzip, "protocol");
    only(&coded("gzip", "\u{1f}"), &gzip, "protocol");
    only(&coded("deflate", "no deflate at all"), &gzip, "protocol");
    only(&coded("br", "never asked for"), &gzip, "protocol");
}

#[test]
fn interim_answers_without_end() {
    let url = server(|stream| {
        let mut writer = stream.try_clone().expect("a second handle");
        let _ = read_request(&mut BufReader::new(stream));
        while writer.write_all(&b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(500)).is_ok() {}
    });
    only(&url, GET, "protocol");
}

#[test]
fn one_endless_answer_does_not_stop_the_others() {
    // Chunks of one byte with long extensions: 16 MiB of them are 16 GiB of bytes.
    let line = format!("1;{}\r\nx\r\n", "e".repeat(4000)).repeat(16);
    let url = server(move |stream| {
        let mut writer = stream.try_clone().expect("a second handle");
        let mut reader = BufReader::new(stream);
        while let Some(request) = read_request(&mut reader) {
            if request.path() == "/endless" {
                let _ = writer.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                while writer.write_all(line.as_bytes()).is_ok() {}
                return;
            }
            if writer.write_all(&page("200 OK", "", "fine")).is_err() {
                return;
            }
        }
    });
    let scenario = "scenario: two\nmix: { endless: 1, get: 1 }\ntransactions:\n  endless: [{ get: /endless }]\n  \
                    get: [{ get: / }]\n";
    let run = run(&url, scenario, "--users 8 --steady 600ms --timeout 300ms");
    assert!(run.error("timeout") > 0 && run.total("get", "ok") > 0, "{}", run.summary);
    assert_eq!(run.total("endless", "ok"), 0, "{}", run.summary);
    assert!(run.number("/phases/drained") < 3.0, "{}", run.summary);
}

#[test]
fn resets_before_and_inside_a_request() {
    let before = server(|stream| reset_on_close(&stream));
    let large = POST.replace("form: { a: b }", &format!("text: {}", "x".repeat(3_000_000)));
    for (url, scenario) in [(before, POST), (mid_request(), &large[..])] {
        let run = run(&url, scenario, "--steady 250ms --timeout 10s");
        let lost = run.error("reset") + run.error("connect") + run.error("closed");
        assert!(lost > 0 && run.total("post", "ok") == 0, "{}", run.summary);
        assert_eq!(lost + run.error("unfinished"), run.total("post", "failed"), "{}", run.summary);
    }
}

/// Takes a part of each request and resets the connection.
fn mid_request() -> String {
    server(|mut stream| {
        reset_on_close(&stream);
        let _ = stream.read(&mut [0; 10_000]);
    })
}

#[test]
fn endless_headers_and_bodies() {
    let endless = |head: &'static [u8], line: &'static [u8]| {
        server(move |stream| {
            let mut writer = stream.try_clone().expect("a second handle");
            let _ = read_request(&mut BufReader::new(stream));
            let _ = writer.write_all(head);
            while writer.write_all(&line.repeat(100)).is_ok() {}
        })
    };
    only(&endless(b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n"), GET, "protocol");
    only(&endless(b"HTTP/1.1 200 OK\r\n", b"x"), GET, "protocol");
    let bounded = GET.replace("mix:", "max_body: 100000\nmix:");
    only(&endless(b"HTTP/1.1 200 OK\r\n\r\n", b"body"), &bounded, "protocol");
    only(&endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"4\r\nbody\r\n"), &bounded, "protocol");
}

#[test]
fn thousands_of_cookies() {
    let lines: String = (0..2000).map(|i| format!("Set-Cookie: c{i}=v\r\n")).collect();
    only(&answering(move |_| page("200 OK", &lines, "")), GET, "protocol");
    let some: String = (0..200).map(|i| format!("Set-Cookie: c{i}=v\r\n")).collect();
    let url = answering(move |request| {
        let sent = request.headers.iter().find(|h| h.starts_with("Cookie: ")).map_or(0, |h| h.split(';').count());
        page(if sent <= 64 { "200 OK" } else { "500 too many" }, &some, "")
    });
    let run = run(&url, GET, SHORT);
    assert!(run.total("get", "ok") > 1 && run.total("get", "failed") <= run.error("unfinished"), "{}", run.summary);
}

#[test]
fn redirect_loops() {
    only(&answering(|_| page("302 Found", "Location: /again\r\n", "")), GET, "redirect");
    only(&answering(|_| page("302 Found", "Location: http://elsewhere.example/\r\n", "")), GET, "redirect");
    only(&answering(|_| page("303 See Other", "", "")), GET, "status_3xx");
}

#[test]
fn statuses_and_bodies() {
    only(&answering(|_| page("404 Not Found", "", "")), GET, "status_4xx");
    only(&answering(|_| page("503 Busy", "", "")), POST, "status_5xx");
    only(&answering(|_| page("200 OK", "", "what nonsense")), GET, "check");
    let strict = GET.replace("lacks: nonsense", "status: 201");
    only(&answering(|_| page("200 OK", "", "")), &strict, "status_2xx");
    let extract = GET.replace("check: { lacks: nonsense }", "extract: { id: 'id=(\\d+)' }");
    only(&answering(|_| page("200 OK", "", "nothing")), &extract, "extract");
}

#[test]
fn kept_connections_closed_between_requests() {
    // Every connection serves two requests and is closed without a word.
    let url = server(|stream| {
        let mut writer = stream.try_clone().expect("a second handle");
        let mut reader = BufReader::new(stream);
        for _ in 0..2 {
            if read_request(&mut reader).is_none() || writer.write_all(&page("200 OK", "", "fine")).is_err() {
                return;
            }
        }
    });
    let run = run(&url, GET, "--users 3 --steady 300ms --timeout 5s");
    assert!(run.total("get", "ok") > 2, "{}", run.summary);
    assert_eq!(run.total("get", "failed"), 0, "{}", run.summary);
    assert!(run.number("/requests/reconnects") >= 1.0);
}

#[test]
fn kept_connections_closed_at_the_worst_moment() {
    // The second request of every connection is read and never answered.
    let worst = || {
        server(|stream| {
            let mut writer = stream.try_clone().expect("a second handle");
            let mut reader = BufReader::new(stream);
            if read_request(&mut reader).is_some() {
                let _ = writer.write_all(&page("200 OK", "", "fine"));
                let _ = read_request(&mut reader);
            }
        })
    };
    let get = run(&worst(), GET, "--steady 300ms --timeout 5s");
    assert!(get.total("get", "ok") > 1, "{}", get.summary);
    assert_eq!(get.total("get", "failed"), 0, "an idempotent request is sent again: {}", get.summary);
    let post = run(&worst(), POST, "--steady 500ms --timeout 5s");
    assert!(post.error("closed") > 0, "a POST is not: {}", post.summary);
}
