//! Servers that fail behind TLS: every failure is counted under its kind.

use crate::support::tls::{extractable, tickets, tls_server, tls_server_of, trusted, TlsStream};
use crate::support::{nothing_succeeded, page, read_request, reset_on_close, run, server, GET};
use std::io::{BufReader, Read, Write};

fn only(url: &str, scenario: &str, kind: &str) {
    let timeout = if kind == "timeout" { "150ms" } else { "10s" };
    let run = run(url, scenario, &format!("--steady 250ms --timeout {timeout} {}", trusted()));
    nothing_succeeded(&run);
    assert!(run.error(kind) > 0 && run.total("get", "ok") == 0, "{kind}: {}", run.summary);
    assert_eq!(run.error(kind) + run.error("unfinished"), run.total("get", "failed"), "{}", run.summary);
}

fn raw(handle: impl Fn(std::net::TcpStream) + Send + Sync + 'static) -> String {
    server(handle).replace("http://", "https://")
}

#[test]
fn handshakes_that_fail() {
    only(&raw(drop), GET, "connect");
    only(&raw(|stream| reset_on_close(&stream)), GET, "connect");
    let after_hello = |stream: &mut std::net::TcpStream| stream.read(&mut [0; 4096]).is_ok();
    only(
        &raw(move |mut stream| {
            after_hello(&mut stream);
            reset_on_close(&stream);
        }),
        GET,
        "connect",
    );
    for answer in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"\x15\x03\x03\0\x02\x02\x28", b"\x16\x03\x03\xff\xff"] {
        only(
            &raw(move |mut stream| {
                after_hello(&mut stream);
                let _ = stream.write_all(answer);
            }),
            GET,
            "connect",
        );
    }
    only(&raw(|mut stream| while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}), GET, "timeout");
}

/// Answers each connection's first request with `answer`, which may do as it likes with the stream.
fn after_request(answer: impl Fn(&mut TlsStream) + Send + Sync + 'static) -> String {
    tls_server(move |stream| {
        let mut reader = BufReader::new(stream);
        if read_request(&mut reader).is_some() {
            answer(reader.get_mut());
        }
    })
}

fn send(stream: &mut TlsStream, bytes: &[u8]) {
    let _ = stream.write_all(bytes);
    let _ = stream.flush();
}

#[test]
fn answers_that_break_off() {
    only(&after_request(|_| {}), GET, "closed");
    only(&after_request(|stream| stream.conn.send_close_notify()), GET, "closed");
    only(&after_request(|stream| send(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort")), GET, "protocol");
    only(&after_request(|stream| send(stream, &page("200 OK", "", "fine")[..20])), GET, "protocol");
    only(&after_request(|stream| send(stream, &[&page("200 OK", "", "")[..], b"more"].concat())), GET, "protocol");
    only(
        &after_request(|stream| {
            send(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort");
            let _ = stream.read(&mut [0; 1]);
        }),
        GET,
        "timeout",
    );
    only(
        &after_request(|stream| {
            reset_on_close(&stream.sock);
        }),
        GET,
        "reset",
    );
}

#[test]
fn records_that_are_none() {
    for garbage in [&b"\x17\x03\x03\0\x05abcde"[..], b"plain text where a record should be", b"\x17\x03\x03\xff\xff"] {
        only(
            &after_request(move |stream| {
                let _ = stream.sock.write_all(garbage);
                let _ = stream.sock.read(&mut [0; 1]);
            }),
            GET,
            "protocol",
        );
    }
}

#[test]
fn endless_bodies() {
    let bounded = GET.replace("mix:", "max_body: 100000\nmix:");
    let url = after_request(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 4000]).is_ok() {}
    });
    only(&url, &bounded, "protocol");
}

#[test]
fn tickets_without_end() {
    let answering = |first: &'static [u8]| {
        tls_server_of(extractable(), move |stream| {
            let mut reader = BufReader::new(stream);
            if read_request(&mut reader).is_some() {
                let mut stream = reader.into_inner();
                send(&mut stream, first);
                let mut encrypt = tickets(&mut stream.conn);
                while stream.sock.write_all(&encrypt()).is_ok() {}
            }
        })
    };
    only(&answering(b""), GET, "protocol");
    only(&answering(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"), GET, "protocol");
    let resting = GET.replace("mix:", "pause: { shape: fixed, mean: 50ms }\nmix:");
    for connections in ["session", "shared"] {
        let url = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine");
        // A second request may read a long time until it has read enough of them to fail.
        let run =
            run(&url, &resting, &format!("--steady 2s --limit-errors 100% --connections {connections} {}", trusted()));
        let known = run.error("unfinished") + run.error("protocol"); // it was still streaming when the next was due
        assert_eq!((run.code, run.total("get", "failed")), (0, known), "{}", run.summary);
        assert!(run.total("get", "ok") > 1 && run.number("/requests/connects") > 1.0, "{}", run.summary);
    }
}

#[test]
fn ends_that_are_not_announced() {
    let quiet = |answer: &'static [u8]| after_request(move |stream| send(stream, answer));
    let until_close = b"HTTP/1.1 200 OK\r\n\r\nhalf";
    only(&quiet(until_close), GET, "protocol");
    only(&quiet(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: x\r\n\r\nhalf"), GET, "protocol");
    for url in [
        quiet(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole"),
        quiet(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\n\r\n"),
        after_request(move |stream| {
            send(stream, until_close);
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }),
    ] {
        let run = run(&url, GET, &format!("--steady 250ms {}", trusted()));
        assert!(run.total("get", "ok") > 1, "{}", run.summary);
        assert_eq!(run.total("get", "failed"), run.error("unfinished"), "{}", run.summary);
    }
}
