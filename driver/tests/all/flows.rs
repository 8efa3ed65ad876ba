//! Graphs, loops, feeds, extractions, checks and limits, by the whole driver.

use crate::support;
use crate::support::{answering, page, run, Request};
use flate2::write::GzEncoder;
use flate2::Compression;
use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex};

/// A server that notes each request's path.
fn noting(answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> (String, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let url = answering(move |request| {
        notes.lock().expect("no other panic").push(request.path().to_string());
        answer(request)
    });
    (url, seen)
}

fn fine(_: &Request) -> Vec<u8> {
    page("200 OK", "", "fine")
}

#[test]
fn a_session_walks_the_graph_and_starts_over() {
    let scenario = "
scenario: walk
login: in
logout: out
graph:
  start: { a: 1 }
  a: { b: 0.5, c: 0.5 }
  b: { a: 1 }
  c: { end: 1 }
transactions: { in: [{ get: /in }], out: [{ get: /out }], a: [{ get: /a }], b: [{ get: /b }], c: [{ get: /c }] }
";
    let (url, seen) = noting(fine);
    let run = run(&url, scenario, "--users 1 --steady 400ms");
    assert!(run.errors.is_empty(), "{}", run.errors);
    let seen = seen.lock().expect("no other panic");
    let mut moves: HashMap<(&str, &str), u32> = HashMap::new();
    for pair in seen.windows(2) {
        *moves.entry((&pair[0], &pair[1])).or_default() += 1;
    }
    let expected = [("/in", "/a"), ("/a", "/b"), ("/a", "/c"), ("/b", "/a"), ("/c", "/out"), ("/out", "/in")];
    assert!(expected.iter().all(|pair| moves.contains_key(pair)), "{moves:?}");
    assert_eq!(moves.len(), expected.len(), "{moves:?}");
    let (url, seen) = noting(fine);
    let profile = "--profile 0s:100,295ms:100,295ms:0,1200ms:0"; // no session is cut off by the end
    let open = support::run(&url, scenario, &format!("--arrivals constant {profile} --ramp-down 1s"));
    assert_eq!(open.total("in", "ok"), 29, "{}", open.summary);
    assert_eq!(open.total("out", "ok"), open.total("c", "ok"));
    assert!(seen.lock().expect("no other panic").len() > 80);
}

#[test]
fn populations_have_their_own_numbers_mixes_and_pauses() {
    let scenario = "
scenario: two
populations:
  buyers: { users: 3, pause: { shape: fixed, mean: 100ms }, login: in, mix: { buy: 1 } }
  makers: { users: 2, pause: { shape: fixed, mean: 20ms }, graph: { start: { make: 1 }, make: { pack: 1 }, pack: { end: 1 } } }
transactions:
  in: [{ get: /in }]
  buy: [{ get: '/buy/${session}' }]
  make: [{ get: '/make/${session}' }]
  pack: [{ get: '/pack/${session}' }]
";
    let (url, seen) = noting(fine);
    let run = run(&url, scenario, "--steady 450ms");
    assert!(run.errors.is_empty(), "{}", run.errors);
    assert_eq!((run.total("in", "ok"), run.summary["arrivals"]["users"].as_u64()), (3, Some(5)), "{}", run.summary);
    assert_eq!(run.summary["arrivals"]["populations"], serde_json::json!({"buyers": 3, "makers": 2}));
    let seen = seen.lock().expect("no other panic");
    let of = |kind: &str| {
        let numbers = seen.iter().filter_map(|path| path.strip_prefix(kind));
        numbers.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!((of("/buy/").len(), of("/make/").len()), (3, 2), "{seen:?}");
    assert!(of("/buy/").is_disjoint(&of("/make/")) && of("/pack/") == of("/make/"), "{seen:?}");
    assert!(run.total("make", "ok") > run.total("buy", "ok"), "{}", run.summary);
}

#[test]
fn links_that_carry_an_address_stay_within_the_server() {
    let scenario = "
scenario: links
mix: { visit: 1 }
transactions:
  visit:
    - { get: /in, embedded: true, extract: { link: { css: a, attribute: href } } }
    - { get: '${link}' }
";
    let (url, seen) = noting(|request| match request.path() {
        "/in" => page("302 Found", "Location: /login?next=http://127.0.0.1:9080/x\r\n", ""),
        "/login?next=http://127.0.0.1:9080/x" => {
            page("200 OK", "", "<img src='/thumb?u=http://x/y'><a href='go?to=https://x/y'>on</a>")
        }
        _ => page("200 OK", "", "fine"),
    });
    let run = run(&url, scenario, "--users 1 --steady 500ms --ramp-down 1s");
    assert!(run.total("visit", "ok") > 0 && run.total("visit", "failed") == 0, "{}", run.summary);
    let seen = seen.lock().expect("no other panic");
    let visit = ["/in", "/login?next=http://127.0.0.1:9080/x", "/thumb?u=http://x/y", "/go?to=https://x/y"];
    assert!(seen.chunks_exact(4).all(|paths| paths == visit), "{seen:?}");
}

#[test]
fn only_cookies_that_hold_are_sent_back() {
    let scenario = "
scenario: cookies
mix: { visit: 1 }
transactions: { visit: [{ get: /in }, { get: /mid }, { get: /out }, { get: /after }] }
";
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let url = answering(move |request| {
        let sent = request.headers.iter().find_map(|line| line.strip_prefix("Cookie: ")).unwrap_or("");
        notes.lock().expect("no other panic").push(format!("{} {sent}", request.path()));
        let set = match request.path() {
            "/in" => "Set-Cookie: SID=1; Secure\r\nSet-Cookie: a=2; Domain=other.example\r\n",
            "/out" => "Set-Cookie: SID=; expires=Thu, 01-Dec-1994 16:00:00 GMT\r\n",
            _ => "",
        };
        page("200 OK", set, "")
    });
    let run = run(&url, scenario, "--users 1 --steady 500ms --ramp-down 1s");
    assert!(run.total("visit", "ok") > 1, "{}", run.summary);
    let seen = seen.lock().expect("no other panic");
    assert!(seen.chunks_exact(4).all(|visit| visit == ["/in ", "/mid SID=1", "/out SID=1", "/after "]), "{seen:?}");
}

#[test]
fn a_header_is_sent_once() {
    let scenario = "
scenario: headers
headers: { Content-Type: text/csv, X-Kind: general, X-Other: other }
mix: { visit: 1 }
transactions: { visit: [{ post: /, text: 'a,b' }, { post: /own, form: { a: b }, headers: { x-kind: own } }] }
";
    let url = answering(|request| {
        let named = |name: &str| request.headers.iter().filter(|line| line.to_lowercase().starts_with(name)).count();
        let own = request.headers.contains(&"x-kind: own".to_string()) == (request.path() == "/own");
        let once = (named("content-type: text/csv"), named("content-"), named("x-kind"), named("x-other"));
        page(if own && once == (1, 2, 1, 1) { "200 OK" } else { "400 Bad" }, "", "")
    });
    let run = run(&url, scenario, "--users 1 --steady 500ms --ramp-down 1s");
    assert!(run.total("visit", "ok") > 1 && run.total("visit", "failed") == 0, "{}", run.summary);
}

#[test]
fn loops_repeat_what_is_in_them() {
    let scenario = "
scenario: loops
mix: { whole: 1 }
transactions:
  whole:
    - get: /begin
      extract: { n: 'n=(\\d)' }
    - repeat: '${n}'
      requests:
        - get: /outer
        - repeat: 3
          requests: [{ get: /inner }]
    - repeat: 0
      requests: [{ get: /never }]
    - repeat: 2
      requests: [{ get: /last }]
";
    let (url, seen) = noting(|_| page("200 OK", "", "n=2"));
    let run = run(&url, scenario, "--users 1 --steady 500ms --ramp-down 1s");
    assert!(run.total("whole", "ok") > 1 && run.total("whole", "failed") == 0, "{}", run.summary);
    let seen = seen.lock().expect("no other panic");
    let once = "/begin /outer /inner /inner /inner /outer /inner /inner /inner /last /last";
    assert_eq!(seen[..11].join(" "), once);
    assert_eq!(seen.len() as u64, 11 * run.total("whole", "ok"));
}

#[test]
fn loops_without_a_request_end() {
    let scenario = "
scenario: loops
mix: { few: 1, endless: 1 }
transactions:
  few:
    - { repeat: 1000, requests: [{ repeat: 0, requests: [{ get: /never }] }] }
    - get: /
  endless:
    - repeat: 1000000
      requests: [{ repeat: 1000000, requests: [{ repeat: 0, requests: [{ get: /never }] }] }]
";
    let (url, seen) = noting(fine);
    let run = run(&url, scenario, "--users 1 --steady 300ms --ramp-down 1s");
    assert!(run.total("few", "ok") > 0 && run.total("few", "failed") == 0, "{}", run.summary);
    assert!(run.total("endless", "ok") == 0 && run.error("template") > 0, "{}", run.summary);
    assert!(run.summary.to_string().contains("10000 rounds of loops without a request"), "{}", run.summary);
    assert!(seen.lock().expect("no other panic").iter().all(|path| path == "/"));
}

#[test]
fn feeds_give_each_session_its_own() {
    let folder = std::env::temp_dir().join(format!("leadline-feeds-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("users.csv"), "name,code\nann,1\nbob,2\neve,3\n").expect("a file");
    let scenario = format!(
        "
scenario: feeds
feeds:
  users: {{ csv: {}, pick: unique }}
  order: {{ sequence: {{ from: 100, step: 2 }} }}
  item: {{ zipf: 1000, exponent: 1.2 }}
pause: {{ shape: fixed, mean: 5ms }}
mix: {{ buy: 1 }}
transactions:
  buy:
    - get: '/first?u=${{users.name}}&c=${{users.code}}&o=${{order}}'
    - get: '/second?u=${{users.name}}&o=${{order}}&i=${{item}}'
",
        folder.join("users.csv").display()
    );
    let (url, seen) = noting(fine);
    let run = run(&url, &scenario, "--users 4 --steady 200ms --ramp-down 1s");
    std::fs::remove_dir_all(&folder).expect("ours");
    // Three rows for four users: one has none, and says so.
    assert!(run.error("template") > 0, "{}", run.summary);
    assert!(run.summary["error_samples"]["template"][0].as_str().expect("a text").contains("`users` has no free row"));
    let seen = seen.lock().expect("no other panic");
    let field = |path: &str, name: &str| -> String {
        let rest = path.split(&format!("{name}=")).nth(1).unwrap_or("");
        rest.split('&').next().unwrap_or("").to_string()
    };
    let mut orders: Vec<i64> = Vec::new();
    for path in seen.iter().filter(|path| path.starts_with("/first")) {
        let pair = (field(path, "u"), field(path, "c"));
        assert!(["ann1", "bob2", "eve3"].contains(&format!("{}{}", pair.0, pair.1).as_str()), "{path}");
        orders.push(field(path, "o").parse().expect("a number"));
    }
    let count = orders.len();
    orders.sort_unstable();
    orders.dedup();
    assert!(count > 10 && orders.len() == count && orders.iter().all(|n| *n >= 100 && n % 2 == 0));
    // Both requests of a transaction saw the same values.
    let order_of = |prefix: &str| -> HashMap<String, String> {
        seen.iter().filter(|p| p.starts_with(prefix)).map(|p| (field(p, "o"), field(p, "u"))).collect()
    };
    let (first, second) = (order_of("/first"), order_of("/second"));
    assert!(second.iter().all(|(order, user)| first.get(order) == Some(user)), "{first:?} {second:?}");
}

#[test]
fn values_are_found_and_checked_everywhere() {
    let scenario = "
scenario: answers
mix: { whole: 1 }
transactions:
  whole:
    limits: { p99: 10s, mean: 1ns, errors: 1% }
    requests:
      - get: /json
        check: { header: { content-type: '^application/json' }, json: { /ok: true, /items/*/kind: 'x' } }
        extract:
          id: { json: /items/1/id }
          any: { json: /items/*/id, pick: random }
          tag: { header: ETag }
      - get: '/page?id=${id}&any=${any}&tag=${tag}'
        extract:
          link: { css: 'a.next', attribute: href }
          title: { css: h1 }
      - get: '${link}&t=${title}'
  wrong: [{ get: /json, check: { json: { /items/0/id: 8 } } }]
  headless: [{ get: /json, check: { header: { X-None: . } } }]
  missing: [{ get: /json, extract: { x: { json: /none } } }]
";
    let answer = |request: &Request| match request.path().split('?').next() {
        Some("/json") => page(
            "200 OK",
            "Content-Type: application/json\r\nETag: e7\r\n",
            r#"{"ok": true, "items": [{"id": 7, "kind": "x"}, {"id": 9, "kind": "x"}]}"#,
        ),
        Some("/page") => page("200 OK", "", "<h1>Hi</h1><a href=/no>x</a><a class=next href='/go?a=1&amp;b=2'>y</a>"),
        _ => page("200 OK", "", ""),
    };
    let (url, seen) = noting(answer);
    let with = |mix: &str| scenario.replace("mix: { whole: 1 }", &format!("mix: {{ {mix}: 1 }}"));
    let found = run(&url, &with("whole"), "--users 1 --steady 100ms");
    assert!(
        found.total("whole", "ok") > 0 && found.total("whole", "failed") == 0,
        "{} {}",
        found.errors,
        found.summary
    );
    let lines = seen.lock().expect("no other panic").clone();
    assert!(lines[1] == "/page?id=9&any=7&tag=e7" || lines[1] == "/page?id=9&any=9&tag=e7", "{lines:?}");
    assert_eq!(lines[2], "/go?a=1&b=2&t=Hi");
    let limits = found.summary["limits"].as_array().expect("limits");
    let kept: Vec<(&str, bool)> =
        limits.iter().map(|l| (l["measure"].as_str().expect("text"), l["kept"].as_bool().expect("measured"))).collect();
    assert_eq!(kept, [("p99", true), ("mean", false), ("errors", true)]);
    for (mix, kind, message) in [
        ("wrong", "check", "at `/items/0/id` the JSON body has 7, not `8`"),
        ("headless", "check", "header `X-None` does not match"),
        ("missing", "extract", "no JSON value at `/none`"),
    ] {
        let found = run(&url, &with(mix), "--users 1 --steady 50ms");
        assert!(found.error(kind) > 0, "{}", found.summary);
        let sample = found.summary["error_samples"][kind][0].as_str().expect("a text");
        assert!(sample.contains(message), "{sample}");
    }
}

#[test]
fn compressed_answers_are_read_and_wrong_ones_counted() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(b"token=abc").expect("in memory");
    let packed = packed.finish().expect("gzip");
    let url = answering(move |request| {
        let asked = request.headers.iter().any(|h| h == "Accept-Encoding: gzip, deflate");
        let body = if request.path() == "/good" { &packed[..] } else { b"token=abc" };
        let coding = if asked { "gzip" } else { "identity" };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    });
    let scenario = "
scenario: packed
compression: true
mix: { good: 1, bad: 1 }
transactions:
  good: [{ get: /good, check: { matches: '^token=abc$' } }]
  bad: [{ get: /bad, check: { contains: abc } }]
";
    let run = run(&url, scenario, "--users 1 --steady 150ms");
    assert!(run.total("good", "ok") > 0 && run.total("good", "failed") == 0, "{}", run.summary);
    assert!(run.total("bad", "ok") == 0 && run.error("protocol") == run.total("bad", "failed"));
    assert!(run.error("protocol") > 0);
}
