//! Pages with what they embed, loaded as a browser does.

use crate::support::{answering, nothing_succeeded, page, read_request, reset_on_close, run, server};
use std::io::{BufReader, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGE: &str = "
scenario: pages
mix: { view: 1 }
transactions:
  view: [{ get: /site/page, embedded: true, check: { contains: body } }]
";

struct Seen {
    paths: Mutex<Vec<String>>,
    now: AtomicUsize,
    most: AtomicUsize,
}

/// A page that embeds `body`; each resource takes 15 ms.
fn site(body: String) -> (String, Arc<Seen>) {
    let seen = Arc::new(Seen { paths: Mutex::new(Vec::new()), now: AtomicUsize::new(0), most: AtomicUsize::new(0) });
    let notes = Arc::clone(&seen);
    let url = answering(move |request| {
        notes.paths.lock().expect("no other panic").push(request.path().to_string());
        if request.path() == "/site/page" {
            return page("200 OK", "Set-Cookie: s=1\r\nContent-Type: text/html\r\n", &body);
        }
        let busy = notes.now.fetch_add(1, Ordering::SeqCst) + 1;
        notes.most.fetch_max(busy, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(15));
        notes.now.fetch_sub(1, Ordering::SeqCst);
        let known = request.headers.iter().any(|h| h == "Cookie: s=1");
        match request.path() {
            _ if !known => page("403 Forbidden", "", ""),
            "/site/moved.png" => page("302 Found", "Location: /site/there.png\r\n", ""),
            path if path.starts_with("/site/none") => page("404 Not Found", "", ""),
            "/site/cut.png" => b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".to_vec(),
            _ => page("200 OK", "", "x"),
        }
    });
    (url, seen)
}

fn images(count: usize) -> String {
    (0..count).map(|i| format!("<img src={i}.png>")).collect::<String>() + "<body>"
}

#[test]
fn resources_come_over_six_connections_at_once() {
    let (url, seen) = site(images(20) + "<img src=3.png><img src=http://127.0.0.2/ad.png><img src=data:,x>");
    let run = run(&url, PAGE, "--users 1 --steady 300ms --ramp-down 1s");
    let views = run.total("view", "ok");
    assert!(views >= 2 && run.total("view", "failed") == 0, "{}", run.summary);
    assert_eq!(run.number("/requests/count"), views as f64 * 21.0, "{}", run.summary);
    assert_eq!((run.number("/requests/connects"), run.number("/requests/reconnects")), (6.0, 0.0));
    assert_eq!(seen.most.load(Ordering::SeqCst), 6);
    let paths = seen.paths.lock().expect("no other panic");
    assert_eq!(paths.len() as u64, 21 * views);
    assert!(paths[1..].iter().take(20).all(|path| path.starts_with("/site/") && path.ends_with(".png")), "{paths:?}");
    // Twenty of 15 ms over six connections take four rounds: the page is done when the last one is.
    assert!(run.number("/steady/all/response_ms/p50") >= 60.0, "{}", run.summary);
}

#[test]
fn few_connections_and_pages_without_anything() {
    let (url, seen) = site(images(6));
    let two = run(&url, &PAGE.replace("true", "2"), "--users 2 --steady 200ms --ramp-down 1s");
    assert_eq!(two.number("/requests/connects"), 4.0);
    assert!(seen.most.load(Ordering::SeqCst) <= 4);
    let (url, _) = site("<body>".into());
    let none = run(&url, PAGE, "--users 1 --steady 50ms");
    assert_eq!(none.number("/requests/count"), none.total("view", "ok") as f64);
}

#[test]
fn a_missing_resource_fails_the_page_under_its_kind() {
    let (url, _) = site("<img src=moved.png><img src=none.png><img src=a.png><body>".into());
    let missing = run(&url, PAGE, "--users 1 --steady 150ms --ramp-down 1s");
    assert!(missing.total("view", "ok") == 0 && missing.error("status_4xx") > 1, "{}", missing.summary);
    let sample = missing.summary["error_samples"]["status_4xx"][0].as_str().expect("a text").to_string();
    assert!(sample.contains("embedded /site/none.png: status 404"), "{sample}");
    let (url, seen) = site("<img src=moved.png><body>".into());
    let moved = run(&url, PAGE, "--users 1 --steady 100ms --ramp-down 1s");
    assert!(moved.total("view", "ok") > 0 && moved.total("view", "failed") == 0, "{}", moved.summary);
    assert!(seen.paths.lock().expect("no other panic").iter().any(|path| path == "/site/there.png"));
}

#[test]
fn a_hanging_resource_times_out_once_and_the_session_goes_on() {
    let (url, _) = site("<img src=a.png><img src=cut.png><img src=b.png><body>".into());
    let run = run(&url, PAGE, "--users 2 --steady 1s --timeout 300ms --ramp-down 1s");
    assert!(run.error("timeout") >= 6, "{}", run.summary);
    assert_eq!(run.total("view", "ok"), 0);
    // Only the connection that hung is made again.
    assert!(run.number("/requests/reconnects") <= run.error("timeout") as f64, "{}", run.summary);
}

#[test]
fn resets_and_nonsense_fail_the_page_and_nothing_else() {
    let url = server(|stream| {
        let mut writer = stream.try_clone().expect("a second handle");
        let mut reader = BufReader::new(stream.try_clone().expect("a third handle"));
        while let Some(request) = read_request(&mut reader) {
            let answer = match request.path() {
                "/site/page" => page("200 OK", "", &(images(8) + "<img src=reset><img src=nonsense>")),
                "/site/reset" => {
                    reset_on_close(&stream);
                    return;
                }
                "/site/nonsense" => b"SSH-2.0-OpenSSH\r\n\r\n".to_vec(),
                _ => page("200 OK", "Connection: close\r\n", "x"),
            };
            if writer.write_all(&answer).is_err() {
                return;
            }
        }
    });
    let run = run(&url, PAGE, "--users 3 --steady 300ms --ramp-down 1s");
    nothing_succeeded(&run);
    assert_eq!(run.total("view", "ok"), 0, "{}", run.summary);
    let told = run.error("reset") + run.error("protocol") + run.error("closed") + run.error("unfinished");
    assert!(told > 3 && told == run.total("view", "failed"), "{}", run.summary);
}

#[test]
fn pages_without_end_and_links_without_end() {
    let (url, seen) = site(images(5000));
    let many = run(&url, PAGE, "--users 1 --steady 200ms");
    assert!(many.error("protocol") > 0 && many.total("view", "ok") == 0, "{}", many.summary);
    assert!(seen.paths.lock().expect("no other panic").iter().all(|path| path == "/site/page"));
    let (url, _) = site(format!("<img src=none{}><body>", "x".repeat(100_000)));
    let long = run(&url, PAGE, "--users 1 --steady 150ms --ramp-down 1s");
    let sample = long.summary["error_samples"]["status_4xx"][0].as_str().expect("a text");
    assert!(sample.contains("embedded /site/nonexxx") && sample.len() < 1000, "{} bytes", sample.len());
}
