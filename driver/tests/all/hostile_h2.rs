//! Servers that speak HTTP/2 wrongly: every failure is counted under its kind.

use crate::support::h2::{frame, greeting, head, Frames};
use crate::support::{nothing_succeeded, reset_on_close, run, server, GET, POST};
use std::time::Duration;

const SHORT: &str = "--steady 250ms --timeout 150ms --http 2";

fn only(url: &str, scenario: &str, kind: &str) {
    let patient = SHORT.replace("150ms", "10s");
    let run = run(url, scenario, if kind == "timeout" { SHORT } else { &patient });
    nothing_succeeded(&run);
    let name = if scenario == POST { "post" } else { "get" };
    assert!(run.error(kind) > 0 && run.total(name, "ok") == 0, "{kind}: {}", run.summary);
    assert_eq!(run.error(kind) + run.error("unfinished"), run.total(name, "failed"), "{}", run.summary);
}

/// Greets, answers each request of a connection with what `answer` makes of its stream, and stays.
fn answers(answer: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static) -> String {
    server(move |stream| {
        let mut frames = Frames::new(stream);
        frames.send(&greeting());
        while let Some(stream) = frames.request() {
            if !frames.send(&answer(stream)) {
                return;
            }
        }
    })
}

/// The same once, and then the connection is closed.
fn closes(answer: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static) -> String {
    server(move |stream| {
        let mut frames = Frames::new(stream);
        frames.send(&greeting());
        if let Some(stream) = frames.request() {
            frames.send(&answer(stream));
        }
        frames.end();
    })
}

#[test]
fn no_http2_at_all() {
    only(&closes(|_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()), GET, "protocol");
    only(&server(|stream| Frames::new(stream).end()), GET, "closed");
    only(&server(|stream| Frames::new(stream).wait()), GET, "timeout");
    let reset = server(|stream| {
        reset_on_close(&stream);
        Frames::new(stream).request();
    });
    only(&reset, GET, "reset");
}

#[test]
fn streams_that_are_given_up() {
    only(&answers(|stream| frame(3, 0, stream, &[0, 0, 0, 2])), GET, "reset");
    only(&answers(|stream| frame(3, 0, stream, &[0, 0, 0, 8])), POST, "reset");
    only(&answers(|stream| [head(4, stream, b""), frame(3, 0, stream, &[0, 0, 0, 2])].concat()), GET, "reset");
    only(&answers(|stream| frame(3, 0, stream, &[0, 0, 0, 7])), POST, "closed");
    only(&answers(|_| frame(7, 0, 0, &[0; 8])), POST, "closed");
    only(&closes(|_| Vec::new()), GET, "closed");
    only(&closes(|stream| head(4, stream, b"")), GET, "protocol");
    let reset = server(|stream| {
        reset_on_close(&stream);
        let mut frames = Frames::new(stream);
        frames.send(&greeting());
        frames.request();
    });
    only(&reset, POST, "reset");
}

#[test]
fn silence_and_slowness() {
    only(&answers(|_| Vec::new()), GET, "timeout");
    only(&answers(|stream| head(4, stream, b"")), GET, "timeout");
    let none_allowed = server(|stream| {
        let mut frames = Frames::new(stream);
        frames.send(&frame(4, 0, 0, &[0, 3, 0, 0, 0, 0]));
        frames.wait();
    });
    let run = run(&none_allowed, GET, SHORT);
    assert!(run.error("timeout") > 0, "{}", run.summary);
    let no_window = server(|stream| {
        let mut frames = Frames::new(stream);
        frames.send(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
        frames.wait();
    });
    only(&no_window, POST, "timeout");
    let slow = server(|stream| {
        let mut frames = Frames::new(stream);
        frames.send(&greeting());
        let Some(stream) = frames.request() else { return };
        for byte in [head(4, stream, b""), frame(0, 1, stream, b"slow")].concat() {
            if !frames.send(&[byte]) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    only(&slow, GET, "timeout");
}

#[test]
fn wrong_lengths_frames_and_headers() {
    let announced = |stream| head(4, stream, b"\x0f\x0d\x019"); // content-length: 9
    only(&answers(move |stream| [announced(stream), frame(0, 1, stream, b"short")].concat()), GET, "protocol");
    only(
        &answers(move |stream| [announced(stream), frame(0, 1, stream, b"too long for it")].concat()),
        GET,
        "protocol",
    );
    only(&answers(|stream| frame(0, 1, stream, b"no head")), GET, "protocol");
    only(&answers(|stream| frame(1, 5, stream, b"\xff\xff\xff\xff\xff")), GET, "protocol");
    only(&answers(|stream| frame(1, 5, stream, b"\x00\x01x\x01y")), GET, "protocol");
    only(&answers(|stream| frame(1, 5, stream + 100, b"\x88")), GET, "protocol");
    only(&answers(|_| frame(5, 4, 1, &[0, 0, 0, 2, 0x82])), GET, "protocol");
    only(&answers(|_| vec![0xff; 64]), GET, "protocol");
    let gzip = GET.replace("mix:", "compression: true\nmix:");
    let coded = |stream| head(4, stream, b"\x0f\x0b\x04gzip"); // content-encoding: gzip
    only(&answers(move |stream| [coded(stream), frame(0, 1, stream, b"no gzip")].concat()), &gzip, "protocol");
}

#[test]
fn floods() {
    for (first, more) in [
        (Vec::new(), frame(6, 0, 0, &[1; 8])),
        (Vec::new(), frame(4, 0, 0, b"")),
        (head(4, 1, b""), frame(0, 0, 1, b"")),
        (frame(1, 0, 1, b"\x88"), frame(9, 0, 1, &[0; 4000])),
        (head(4, 1, b""), frame(0, 0, 1, &[b'x'; 16_000])),
    ] {
        let url = server(move |stream| {
            let mut frames = Frames::new(stream);
            frames.send(&greeting());
            if frames.request().is_some() && frames.send(&first) {
                let more = more.repeat(1 + 16_000 / more.len());
                while frames.send(&more) {}
            }
        });
        only(&url, &GET.replace("mix:", "max_body: 100000\nmix:"), "protocol");
    }
}

#[test]
fn a_refused_request_is_sent_again_and_others_go_on() {
    let refused_first = |stream: u32| match stream % 4 {
        1 => frame(3, 0, stream, &[0, 0, 0, 7]),
        _ => head(5, stream, b""),
    };
    let run = run(&answers(refused_first), POST, "--steady 250ms --timeout 5s --http 2");
    assert!(run.total("post", "ok") > 1 && run.total("post", "failed") == 0, "{}", run.summary);
    assert_eq!(run.number("/requests/connects"), 1.0);
}
