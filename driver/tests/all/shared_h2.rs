//! Connections over HTTP/2 that sessions share: their requests are streams of a few.

use crate::support::h2::{frame, greeting, h2_server, head, plain, Answered, Asked, Frames};
use crate::support::tls::{config, trusted};
use crate::support::{all_well, count, nothing_succeeded, reset_on_close, run, server, GET, POST};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

const SHARED: &str = "--timeout 5s --connections shared --http 2";

fn limited(streams: u32) -> h2::server::Builder {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(streams);
    builder
}

/// A session gets a cookie and shows it again and again.
const SESSION: &str = r#"
scenario: own
arrivals: { session_length: 3 }
pause: { shape: fixed, mean: 5ms }
headers: { X-Own: "${session}" }
login: in
mix: { look: 1 }
transactions:
  in: [{ get: /in }]
  look: [{ get: /look, check: { contains: "you are ${session}." } }]
"#;

fn answer(asked: &Asked) -> Answered {
    let text = |name| asked.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("").to_string();
    let (own, cookie) = (text("x-own"), text("cookie"));
    match asked.path.as_str() {
        "/in" if cookie.is_empty() => {
            Answered { headers: vec![("set-cookie", format!("name={own}; Path=/"))], ..plain("in") }
        }
        "/look" if cookie == format!("name={own}") => plain(format!("you are {own}.")),
        _ => Answered { status: 403, ..plain("") },
    }
}

#[test]
fn sessions_share_a_connection_and_nothing_else() {
    let arriving = format!("--arrivals poisson --rate 150 --steady 400ms --ramp-down 300ms {SHARED}");
    let clear = run(&h2_server(None, limited(100), 0, |asked| answer(&asked)), SESSION, &arriving);
    all_well(&clear);
    assert!(clear.number("/arrivals_actual") > 20.0);
    assert_eq!((count(&clear, "connects"), count(&clear, "http2_connections")), (1, 1), "{}", clear.summary);
    assert_eq!((count(&clear, "shared_peak"), count(&clear, "shared_waited")), (1, 0), "{}", clear.summary);
    let secure = h2_server(Some(config(&["h2"])), limited(100), 0, |asked| answer(&asked));
    let secure = run(&secure, SESSION, &format!("{arriving} {}", trusted()));
    all_well(&secure);
    assert_eq!((count(&secure, "connects"), count(&secure, "tls_handshakes")), (1, 1), "{}", secure.summary);
    let one = h2_server(Some(config(&["http/1.1"])), limited(100), 0, |asked| answer(&asked));
    let one = run(&one, SESSION, &format!("{arriving} {}", trusted()));
    assert!(one.error("connect") > 0 && one.total("in", "ok") == 0, "{}", one.summary);
}

#[test]
fn streams_keep_to_what_the_server_allows() {
    let slow = || h2_server(None, limited(4), 0, |_| Answered { delay_ms: 10, ..plain("fine") });
    let free = run(&slow(), GET, &format!("--users 16 --steady 400ms {SHARED}"));
    all_well(&free);
    // Sixteen at once, four on each.
    let connects = count(&free, "connects");
    assert!((2..=4).contains(&connects) && count(&free, "shared_peak") == connects, "{}", free.summary);
    // The server would have refused a fifth stream, and the driver sent it once more.
    assert_eq!(count(&free, "count"), free.total("get", "ok"), "{}", free.summary);
    let bound = run(&slow(), GET, &format!("--users 16 --steady 400ms {SHARED} --max-connections 2"));
    all_well(&bound);
    assert_eq!((count(&bound, "connects"), count(&bound, "count")), (2, bound.total("get", "ok")));
    assert!(count(&bound, "shared_waited") > count(&bound, "count") / 3, "{}", bound.summary);
    // Sixteen users, eight at a time: half of the response is waiting, and the service is not.
    let (blocked, service) = (bound.number("/blocked_ms/mean"), bound.number("/steady/all/service_ms/mean"));
    assert!(blocked > 0.5 * service && service < 0.75 * bound.number("/steady/all/response_ms/mean"));
}

#[test]
fn a_server_that_takes_its_leave_costs_nothing() {
    let url = h2_server(None, limited(50), 20, |_| Answered { delay_ms: 1, ..plain("fine") });
    for scenario in [GET, POST] {
        let found = run(&url, scenario, &format!("--users 8 --steady 400ms {SHARED}"));
        all_well(&found);
        let (requests, connects) = (count(&found, "count"), count(&found, "connects"));
        assert!(connects >= requests / 40 && connects > 1, "{connects} connections, {requests} requests");
    }
}

/// Answers that take most of the steady phase: many are under way as it begins and as it ends.
#[test]
fn requests_under_way_at_the_edges_of_the_steady_phase_keep_littles_law() {
    let url = h2_server(None, limited(100), 0, |_| Answered { delay_ms: 300, ..plain("late") });
    let scenario = "scenario: slow\nmix: { get: 1 }\ntransactions: { get: [{ get: / }] }\n";
    for phases in ["--steady 500ms --ramp-down 1s", "--ramp-up 200ms --steady 300ms --ramp-down 1s"] {
        let found = run(&url, scenario, &format!("--arrivals constant --rate 100 {phases} {SHARED}"));
        all_well(&found);
        assert!(found.number("/littles_law/concurrency_observed") > 1.0, "{}", found.summary);
        assert!(found.number("/littles_law/relative_error").abs() < 1e-6, "{}", found.summary);
    }
}

#[test]
fn a_stream_that_is_reset_or_overdue_fails_alone() {
    // Of seven streams one is reset, one refused, one never answered.
    let url = server(|stream| {
        let mut frames = Frames::new(stream);
        frames.send(&greeting());
        while let Some(stream) = frames.request() {
            let answer = match stream / 2 % 7 {
                1 => frame(3, 0, stream, &[0, 0, 0, 2]),
                2 => frame(3, 0, stream, &[0, 0, 0, 7]),
                3 => Vec::new(),
                _ => head(5, stream, b""),
            };
            if !frames.send(&answer) {
                return;
            }
        }
    });
    let arriving = format!("--arrivals constant --rate 200 --steady 500ms {SHARED} --timeout 400ms");
    let found = run(&url, POST, &arriving);
    assert!(found.error("reset") > 1 && found.error("timeout") > 1, "{}", found.summary);
    let told = ["reset", "timeout", "closed", "unfinished"].map(|kind| found.error(kind)).iter().sum::<u64>();
    assert_eq!(told, found.total("post", "failed"), "{}", found.summary);
    assert!(found.total("post", "ok") > told, "{}", found.summary);
    // A second one only if the server itself did not get to anything for as long.
    assert!(count(&found, "connects") <= 2, "{}", found.summary);
}

#[test]
fn connections_that_are_lost_or_fall_silent_are_replaced() {
    // Answers 30 requests at once, and goes without a word.
    let ending = |reset: bool| {
        server(move |stream| {
            if reset {
                reset_on_close(&stream);
            }
            let mut frames = Frames::new(stream);
            frames.send(&greeting());
            for _ in 0..30 {
                let Some(stream) = frames.request() else { return };
                frames.send(&head(5, stream, b""));
            }
        })
    };
    for reset in [false, true] {
        let found = run(&ending(reset), GET, &format!("--users 4 --steady 300ms {SHARED}"));
        let (ok, connects) = (found.total("get", "ok"), count(&found, "connects"));
        assert!(ok > 60 && connects * 30 >= ok && connects > 2, "{}", found.summary);
        let told = ["reset", "closed", "unfinished"].map(|kind| found.error(kind)).iter().sum::<u64>();
        assert_eq!(told, found.total("get", "failed"), "{}", found.summary);
    }
    let silent = server(|stream| {
        let mut frames = Frames::new(stream);
        frames.send(&greeting());
        for _ in 0..5 {
            let Some(stream) = frames.request() else { return };
            frames.send(&head(5, stream, b""));
        }
        frames.wait();
    });
    let found = run(&silent, GET, &format!("--users 4 --steady 500ms {SHARED} --timeout 100ms"));
    assert!(found.error("timeout") >= 4 && count(&found, "connects") > 1, "{}", found.summary);
    assert_eq!(found.error("timeout") + found.error("unfinished"), found.total("get", "failed"), "{}", found.summary);
}

#[test]
fn servers_that_never_get_to_streams() {
    let only = |url: &str, kind: &str| {
        let timeout = if kind == "timeout" { "--timeout 100ms" } else { "" };
        let found = run(url, GET, &format!("--users 4 --steady 400ms {SHARED} {timeout}"));
        nothing_succeeded(&found);
        assert!(found.error(kind) >= 4 && found.total("get", "ok") == 0, "{kind}: {}", found.summary);
        assert_eq!(found.error(kind) + found.error("unfinished"), found.total("get", "failed"), "{}", found.summary);
        count(&found, "connects")
    };
    assert!(only(&server(|stream| Frames::new(stream).wait()), "timeout") > 1);
    assert!(only(&server(|stream| Frames::new(stream).end()), "closed") > 1);
    let wrong = server(|stream| {
        let mut frames = Frames::new(stream);
        frames.send(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        frames.end();
    });
    assert!(only(&wrong, "protocol") > 1);
    let leaving = server(|stream| {
        let mut frames = Frames::new(stream);
        frames.send(&[greeting(), frame(7, 0, 0, &[0; 8])].concat());
        frames.wait();
    });
    assert!(only(&leaving, "closed") > 1);
    let none_allowed = server(|stream| {
        let mut frames = Frames::new(stream);
        frames.send(&frame(4, 0, 0, &[0, 3, 0, 0, 0, 0]));
        frames.wait();
    });
    assert_eq!(only(&none_allowed, "timeout"), 1, "more connections would not help");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let nobody = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    assert!(only(&nobody, "connect") > 1);
}

#[test]
fn pages_and_request_limits() {
    let seen = Arc::new(Mutex::new(HashMap::<String, usize>::new()));
    let known = Arc::clone(&seen);
    let url = h2_server(None, limited(100), 0, move |asked| {
        *known.lock().expect("a lock").entry(asked.path.clone()).or_default() += 1;
        match asked.path.as_str() {
            "/" => Answered {
                headers: vec![("content-type", "text/html".into())],
                ..plain("<img src=a.png><img src=b.png><script src=c.js></script>")
            },
            _ => plain("x"),
        }
    });
    let page = GET.replace("check: { lacks: nonsense }", "embedded: 3");
    let found = run(&url, &page, &format!("--users 3 --steady 300ms {SHARED}"));
    all_well(&found);
    let views = found.total("get", "ok");
    let seen = seen.lock().expect("a lock");
    assert!(["/a.png", "/b.png", "/c.js"].iter().all(|path| seen[*path] as u64 >= views), "{seen:?}");
    assert_eq!(count(&found, "connects"), 1, "{}", found.summary);
    drop(seen);
    let ten = run(&url, GET, &format!("--users 3 --steady 200ms {SHARED} --requests-per-connection 10"));
    all_well(&ten);
    let (requests, connects) = (count(&ten, "count"), count(&ten, "connects"));
    assert!((requests.div_ceil(10)..=requests.div_ceil(10) + 2).contains(&connects), "{connects} for {requests}");
}
