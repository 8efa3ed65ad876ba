//! Connections that sessions share, as behind a proxy.

use crate::support;
use crate::support::tls::{tls_server, trusted};
use crate::support::{all_well, answering, count, nothing_succeeded, page, read_request, run, server, GET, POST};
use std::io::{BufReader, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// A session logs in, shows what it was given three times, with the cookie that belongs to it, and logs out.
const SESSION: &str = r#"
scenario: own
arrivals: { session_length: 3 }
pause: { shape: fixed, mean: 5ms }
login: in
logout: out
mix: { look: 1 }
transactions:
  in: [{ get: /in, extract: { name: { regex: 'I am (\w+)' } } }]
  look: [{ get: "/look?name=${name}", check: { contains: "you are ${name}" } }]
  out: [{ post: /out, form: { name: "${name}" }, check: { contains: "you were ${name}" } }]
"#;

/// Answers as [`SESSION`] wants it only where cookie and name are of one session.
fn answer(request: &support::Request, sessions: &AtomicU64) -> Vec<u8> {
    if request.path() == "/in" {
        let name = format!("u{}", sessions.fetch_add(1, Ordering::Relaxed));
        assert!(!request.headers.iter().any(|line| line.starts_with("Cookie")), "a new session has no cookie");
        return page("200 OK", &format!("Set-Cookie: name={name}; Path=/\r\n"), &format!("I am {name}."));
    }
    let named = request.path().split("name=").nth(1).or(request.body.strip_prefix("name=")).unwrap_or("");
    let cookie = request.headers.iter().find_map(|line| line.strip_prefix("Cookie: name=")).unwrap_or("");
    if named.is_empty() || named != cookie {
        return page("403 Forbidden", "", "");
    }
    let verb = if request.path() == "/out" { "were" } else { "are" };
    page("200 OK", "", &format!("you {verb} {named}"))
}

const ARRIVING: &str = "--arrivals poisson --rate 200 --steady 500ms --ramp-down 300ms --timeout 5s";

#[test]
fn sessions_share_connections_and_nothing_else() {
    let sessions = AtomicU64::new(0);
    let url = answering(move |request| answer(request, &sessions));
    let own = run(&url, SESSION, ARRIVING);
    all_well(&own);
    assert_eq!(count(&own, "connects"), own.number("/arrivals_actual") as u64, "one each");
    assert!(own.summary["requests"]["shared_peak"].is_null());
    let shared = run(&url, SESSION, &format!("{ARRIVING} --connections shared"));
    all_well(&shared);
    let (connects, peak) = (count(&shared, "connects"), count(&shared, "shared_peak"));
    assert!(connects < shared.number("/arrivals_actual") as u64 / 2, "{}", shared.summary);
    assert!(connects >= peak && peak > 0 && count(&shared, "shared_waited") == 0, "{}", shared.summary);
    assert_eq!(count(&shared, "reconnects"), 0);
}

#[test]
fn a_bounded_pool_makes_requests_wait() {
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, peak) = (Arc::clone(&open), Arc::clone(&most));
    let url = server(move |stream| {
        peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let mut writer = stream.try_clone().expect("a second handle");
        let mut reader = BufReader::new(stream);
        while read_request(&mut reader).is_some() {
            std::thread::sleep(Duration::from_millis(10));
            if writer.write_all(&page("200 OK", "", "fine")).is_err() {
                break;
            }
        }
        now.fetch_sub(1, Ordering::SeqCst);
    });
    let found = run(&url, GET, "--users 8 --steady 400ms --timeout 5s --connections shared --max-connections 2");
    all_well(&found);
    assert_eq!((most.load(Ordering::SeqCst), count(&found, "connects")), (2, 2), "{}", found.summary);
    assert!(count(&found, "shared_waited") > count(&found, "count") / 2, "{}", found.summary);
    // Eight users, two at a time: three quarters of the response are waiting, and the service is not.
    let (response, service) =
        (found.number("/steady/all/response_ms/mean"), found.number("/steady/all/service_ms/mean"));
    let (blocked, late) = (found.number("/blocked_ms/mean"), found.number("/driver/lag_ms/mean"));
    assert!(((blocked + service + late) / response - 1.0).abs() < 0.1, "{}", found.summary);
    assert!(blocked > 2.0 * service, "{}", found.summary);
}

#[test]
fn connections_that_the_server_closes_are_replaced() {
    // Without a word, after every third answer.
    let closing = |last: usize| {
        server(move |stream| {
            let mut writer = stream.try_clone().expect("a second handle");
            let mut reader = BufReader::new(stream);
            for _ in 0..last {
                if read_request(&mut reader).is_none() || writer.write_all(&page("200 OK", "", "fine")).is_err() {
                    return;
                }
            }
        })
    };
    let shared = "--users 4 --steady 300ms --timeout 5s --connections shared";
    let found = run(&closing(3), GET, shared);
    all_well(&found);
    let answered = found.total("get", "ok");
    assert!(count(&found, "connects") * 3 >= answered && answered > 20, "{}", found.summary);
    assert_eq!(count(&found, "count"), answered, "{}", found.summary);
    assert_eq!(count(&found, "sent"), answered + count(&found, "repeated"), "{}", found.summary);
    // A post is not sent twice: it may fail, but only as what it is, and the rest goes on.
    let posts = run(&closing(3), POST, shared);
    let (ok, failed) = (posts.total("post", "ok"), posts.total("post", "failed"));
    assert_eq!(failed, posts.error("closed") + posts.error("reset") + posts.error("unfinished"), "{}", posts.summary);
    assert!(ok > 10 && count(&posts, "count") == ok && count(&posts, "sent") == ok + failed, "{}", posts.summary);
}

#[test]
fn waiting_counts_towards_the_time_out() {
    let url = server(|stream| {
        let mut reader = BufReader::new(stream);
        while read_request(&mut reader).is_some() {}
    });
    let found = run(&url, GET, "--users 5 --steady 500ms --timeout 100ms --connections shared --max-connections 1");
    nothing_succeeded(&found);
    let (timeouts, all) = (found.error("timeout"), found.total("get", "failed"));
    assert!(timeouts >= 15 && all - timeouts <= 5, "{}", found.summary);
    assert!(count(&found, "shared_peak") == 1 && count(&found, "connects") >= 3, "{}", found.summary);
}

#[test]
fn shared_connections_end_after_so_many_requests() {
    let url = answering(|_| page("200 OK", "", "fine"));
    let found =
        run(&url, GET, "--users 3 --steady 200ms --timeout 5s --connections shared --requests-per-connection 4");
    all_well(&found);
    let (requests, connects) = (count(&found, "count"), count(&found, "connects"));
    assert!(connects.abs_diff(requests.div_ceil(4)) <= 3, "{requests} requests over {connects}");
}

#[test]
fn shared_connections_over_tls_do_not_speak_http_2() {
    let url = tls_server(|stream| {
        let mut reader = BufReader::new(stream);
        while read_request(&mut reader).is_some() && reader.get_mut().write_all(&page("200 OK", "", "")).is_ok() {}
    });
    let arriving = GET.replace("mix:", "arrivals: { session_length: 2 }\nmix:");
    let options =
        format!("--arrivals constant --rate 60 --steady 400ms --timeout 5s --connections shared {}", trusted());
    let found = run(&url, &arriving, &options);
    all_well(&found);
    let sessions = found.number("/arrivals_actual") as u64;
    assert_eq!((count(&found, "tls_handshakes"), count(&found, "http2_connections")), (count(&found, "connects"), 0));
    assert!(count(&found, "connects") < sessions / 2, "{}", found.summary);
}

#[test]
fn what_a_page_embeds_comes_over_shared_connections_too() {
    let url = answering(|request| match request.path() {
        "/" => {
            page("200 OK", "Content-Type: text/html\r\n", "<img src=a.png><img src=b.png><script src=c.js></script>")
        }
        _ => page("200 OK", "", "x"),
    });
    let scenario = "scenario: one\nmix: { get: 1 }\ntransactions:\n  get: [{ get: /, embedded: 3 }]\n";
    let found = run(&url, scenario, "--users 3 --steady 300ms --timeout 5s --connections shared --max-connections 4");
    all_well(&found);
    assert!(count(&found, "connects") <= 4, "{}", found.summary);
    let whole = found.total("get", "ok") * 4;
    assert!(count(&found, "count") - whole <= 12, "{}", found.summary);
}
