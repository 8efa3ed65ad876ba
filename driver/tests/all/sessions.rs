//! Whole runs against servers that count: sessions, totals, phases, signals, files.

use crate::support::{answering, finish, page, run, start, Request, GET};
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SHOP: &str = r#"
scenario: shop
parameters: { accounts: 50 }
identities: ${accounts}
login: login
logout: logout
variables: { account: "user-${zpad:3:${user}}" }
mix: { look: 5, sell: 3, empty: 2, logout: 1 }
transactions:
  login:
    - post: /login
      form: { user: "${account}" }
      check: { contains: "Welcome ${account}" }
  logout: [{ post: /logout }]
  look: [{ get: "/look?x=${random:1:100}", check: { contains: "${account}" } }]
  sell:
    - get: /mine
      extract: { item: { regex: 'id=(\d+)', pick: random } }
    - post: /sell
      json: { item: "${number:${item}}", by: "${account}" }
      check: { contains: sold }
  empty:
    when_missing: skip
    requests:
      - get: /none
        extract: { never: 'id=(\d+)' }
"#;

#[derive(Default)]
struct Seen {
    paths: HashMap<String, u64>,
    lines: Vec<String>,
    users: HashSet<String>,
    problems: Vec<String>,
}

/// A shop with a session cookie that notes what it sees.
fn shop() -> (String, Arc<Mutex<Seen>>) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let noted = Arc::clone(&seen);
    let url = answering(move |request| serve(request, &mut noted.lock().expect("no other panic")));
    (url, seen)
}

fn serve(request: &Request, seen: &mut Seen) -> Vec<u8> {
    let path = request.path().split('?').next().unwrap_or("").to_string();
    *seen.paths.entry(path.clone()).or_default() += 1;
    seen.lines.push(format!("{} {}", request.line, request.body));
    let user = request.headers.iter().find_map(|h| h.strip_prefix("Cookie: SESSION="));
    match (path.as_str(), user) {
        ("/login", _) => {
            let user = request.body.trim_start_matches("user=");
            seen.users.insert(user.to_string());
            page("303 See Other", &format!("Set-Cookie: SESSION={user}; Path=/\r\nLocation: /home\r\n"), "")
        }
        ("/home", Some(user)) => page("200 OK", "", &format!("Welcome {user}")),
        ("/look", Some(user)) => {
            let body = format!("{:x}\r\nfor {user}\r\n0\r\n\r\n", user.len() + 4);
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}").into_bytes()
        }
        ("/mine", Some(_)) => page("200 OK", "", "id=1 id=22 id=333"),
        ("/sell", Some(user)) => {
            let wanted = [1, 22, 333].map(|id| format!(r#"{{"item":{id},"by":"{user}"}}"#));
            if !wanted.contains(&request.body) {
                seen.problems.push(request.body.clone());
            }
            page("200 OK", "Connection: close\r\n", "sold")
        }
        ("/none", Some(_)) => page("200 OK", "", "nothing here"),
        ("/logout", Some(_)) => page("200 OK", "Set-Cookie: SESSION=; Max-Age=0; Path=/\r\n", ""),
        _ => page("401 Unauthorized", "", "who are you"),
    }
}

#[test]
fn totals_equal_what_the_server_saw() {
    for arrivals in
        ["--users 4 --ramp-up 200ms", "--arrivals poisson --rate 30 --ramp-up 200ms", "--arrivals constant --rate 30"]
    {
        let (url, seen) = shop();
        let run = run(&url, SHOP, &format!("{arrivals} --steady 600ms --ramp-down 100ms"));
        let seen = seen.lock().expect("no other panic");
        assert_eq!(run.code, 0, "{}", run.errors);
        assert_eq!(run.summary["errors"], serde_json::json!({}), "{}", run.summary);
        assert!(seen.problems.is_empty(), "{:?}", seen.problems);
        let paths = |path: &str| seen.paths.get(path).copied().unwrap_or(0);
        assert!(run.total("look", "ok") > 0 && run.total("sell", "ok") > 0, "{}", run.summary);
        assert_eq!(run.total("login", "ok"), paths("/login"));
        assert_eq!(run.total("login", "ok"), paths("/home"));
        assert_eq!(run.total("look", "ok"), paths("/look"));
        assert_eq!(run.total("sell", "ok"), paths("/sell"));
        assert_eq!(run.total("sell", "ok"), paths("/mine"));
        assert_eq!(run.total("logout", "ok"), paths("/logout"));
        assert_eq!((run.total("empty", "ok"), run.total("empty", "skipped")), (0, paths("/none")));
        assert_eq!(run.number("/requests/count") as u64, seen.paths.values().sum::<u64>());
        assert!(seen.users.iter().all(|user| user.len() == 8), "{:?}", seen.users);
    }
}

/// A server that forgets every session at some moment: a restart.
#[test]
fn who_is_logged_out_logs_in_again() {
    let signs = [
        ("status: 401", page("401 Unauthorized", "", "")),
        ("redirect: /login", page("302 Found", "Location: /login?again\r\n", "")),
        ("contains: [away, 'User Not Logged In']", page("200 OK", "", "User Not Logged In")),
    ];
    for (sign, answer) in signs {
        for arrivals in ["--users 3", "--arrivals constant --rate 40"] {
            let (restarts, looks) = (Mutex::new(0), Mutex::new(0));
            let refusal = answer.clone();
            let url = answering(move |request| {
                let generation = *restarts.lock().expect("no other panic");
                let cookie = request.headers.iter().find_map(|h| h.strip_prefix("Cookie: S="));
                match request.path() {
                    "/login" => page("200 OK", &format!("Set-Cookie: S={generation}; Path=/\r\n"), "Welcome"),
                    _ if cookie == Some(&generation.to_string()) => {
                        let mut looks = looks.lock().expect("no other panic");
                        *looks += 1;
                        if *looks == 20 {
                            *restarts.lock().expect("no other panic") += 1;
                        }
                        page("200 OK", "", "Welcome")
                    }
                    _ => refusal.clone(),
                }
            });
            let scenario = format!(
                "scenario: shop\nidentities: 9\nlogin: login\nlogged_out: {{ {sign} }}\n\
                 pause: {{ shape: fixed, mean: 10ms }}\nmix: {{ look: 1 }}\ntransactions:\n  \
                 login: [{{ post: /login }}]\n  look: [{{ get: /look, check: {{ contains: Welcome }} }}]\n"
            );
            let run = run(&url, &scenario, &format!("{arrivals} --steady 1s"));
            assert_eq!(run.summary["errors"], serde_json::json!({}), "{sign}: {}", run.summary);
            let again = run.number("/requests/logins_again");
            assert!((1.0..=40.0).contains(&again), "{sign}: {again}");
            assert_eq!(
                run.number("/requests/count") as u64,
                run.total("login", "ok") + run.total("look", "ok") + again as u64
            );
        }
    }
}

#[test]
fn a_transaction_logs_in_again_once() {
    let url = answering(|request| match request.path() {
        "/login" => page("200 OK", "", ""),
        _ => page("401 Unauthorized", "", ""),
    });
    let scenario = "scenario: shop\nlogin: login\nlogged_out: { status: 401 }\nmix: { look: 1 }\ntransactions: { \
                    login: [{ post: /login }], look: [{ get: /look }] }\n";
    let run = run(&url, scenario, "--users 1 --steady 300ms");
    assert_eq!(run.total("look", "ok"), 0);
    let failed = run.total("look", "failed");
    assert!(failed > 1 && run.number("/requests/logins_again") as u64 <= failed + 1, "{}", run.summary);
    assert!(run.summary["error_samples"]["check"][0].as_str().is_some_and(|text| text.contains("logged out again")));
}

#[test]
fn one_seed_one_session() {
    let lines = |seed: u64| {
        let (url, seen) = shop();
        run(&url, SHOP, &format!("--users 1 --steady 300ms --seed {seed}"));
        let lines = seen.lock().expect("no other panic").lines.clone();
        assert!(lines.len() > 30, "{}", lines.len());
        lines[..30].to_vec()
    };
    assert_eq!(lines(7), lines(7));
    assert_ne!(lines(7), lines(8));
}

#[test]
fn a_stall_is_charged_to_everything_that_was_due() {
    let count = Mutex::new(0);
    let url = answering(move |_| {
        let mut count = count.lock().expect("no other panic");
        *count += 1;
        if *count == 5 {
            std::thread::sleep(Duration::from_millis(300));
        }
        page("200 OK", "", "fine")
    });
    let cycle = GET.replace("mix:", "pause: { kind: cycle, shape: fixed, mean: 10ms }\nmix:");
    let run = run(&url, &cycle, "--users 1 --steady 600ms --ramp-down 1s");
    // One request waited; about thirty were due meanwhile and waited for it.
    let (response, service) = (run.number("/steady/all/response_ms/mean"), run.number("/steady/all/service_ms/mean"));
    assert!(response > 3.0 * service, "{}", run.summary);
}

#[test]
fn every_planned_arrival_starts_and_the_rest_is_dropped_at_the_cap() {
    let url = answering(|_| page("200 OK", "", "fine"));
    let open = GET.replace("mix:", "arrivals: { unit: transaction }\nmix:");
    let all = run(&url, &open, "--arrivals constant --rate 200 --steady 500ms --max-sessions 1000");
    assert_eq!((all.number("/arrivals_planned"), all.number("/arrivals_actual")), (99.0, 99.0));
    assert_eq!(all.total("get", "ok") + all.total("get", "failed"), 99);
    let stuck = answering(|_| {
        std::thread::sleep(Duration::from_secs(30));
        Vec::new()
    });
    let few = run(&stuck, &open, "--arrivals constant --rate 200 --steady 300ms --max-sessions 5 --timeout 10s");
    assert_eq!(few.code, 1);
    let said = "failed: 54 of 59 arrivals were dropped (91.5 %, at most 1 %)";
    assert!(few.output.lines().any(|line| line.starts_with(said)), "{}", few.output);
    assert_eq!((few.number("/arrivals_actual"), few.number("/dropped")), (5.0, 54.0), "{}", few.summary);
    assert_eq!(few.error("timeout") + few.error("unfinished"), 5);
}

#[test]
fn signals_end_it_with_its_results() {
    let url = answering(|_| page("200 OK", "", "fine"));
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let (mut child, directory) = start(&url, GET, "--users 2 --steady 60s --progress json");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        assert!(lines.next().is_some_and(|line| line.is_ok_and(|line| line.starts_with('{'))));
        // SAFETY: plain system call on a child of ours.
        unsafe { libc::kill(child.id() as i32, signal) };
        let run = finish(child, directory);
        assert_eq!(run.code, 130, "signal {signal}");
        assert_eq!(run.summary["completed"], serde_json::json!(false));
        assert!(run.errors.starts_with("failed: ended before its plan was over"), "{}", run.errors);
        assert!(run.total("get", "ok") > 0);
    }
}

#[test]
fn killed_outright_it_leaves_whole_seconds() {
    let url = answering(|_| page("200 OK", "", "fine"));
    let (mut child, directory) = start(&url, GET, "--users 1 --steady 60s");
    let rows = directory.join("out/seconds.csv");
    let lines = || std::fs::read_to_string(&rows).unwrap_or_default().lines().map(String::from).collect::<Vec<_>>();
    while lines().len() < 3 {
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().expect("ours to kill");
    let kept = lines();
    let run = finish(child, directory);
    assert!(run.summary.is_null());
    assert!(kept[1].contains(",steady,get,"), "{kept:?}");
    let log = std::fs::read_to_string(run.directory.join("out/response.hlog")).expect("a log");
    assert!(log.lines().any(|line| line.starts_with("Tag=get,0.000,1.000,")), "{log}");
}

#[test]
fn progress_and_rows_agree_with_the_summary() {
    let url = answering(|_| page("200 OK", "", "fine"));
    let run = run(&url, GET, "--users 2 --ramp-up 500ms --steady 1200ms --ramp-down 100ms --progress json");
    let progress: Vec<serde_json::Value> =
        run.output.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(progress.len(), 2, "{}", run.output);
    assert_eq!(progress[0]["phase"], "ramp_up");
    let rows = std::fs::read_to_string(run.directory.join("out/seconds.csv")).expect("rows");
    let ok = |name: &str| -> u64 {
        let fields = rows.lines().map(|line| line.split(',').collect::<Vec<_>>());
        fields.filter(|f| f[3] == name).map(|f| f[4].parse::<u64>().expect("a count")).sum()
    };
    assert_eq!(ok("get"), run.total("get", "ok"));
    assert_eq!(ok("all"), run.total("get", "ok"));
    assert!(run.number("/steady/duration_s") == 1.2);
}

#[test]
fn nobody_reads_the_progress() {
    let (mut child, directory) = start(&shop().0, SHOP, "--steady 1500ms --progress json");
    drop(child.stdout.take());
    let run = finish(child, directory);
    assert_eq!(run.code, 0, "{}", run.errors);
    assert_eq!(run.summary["completed"], true);
}

#[test]
fn a_limit_of_open_files_is_told_before_anything_runs() {
    let scenario = std::env::temp_dir().join(format!("leadline-load-files-{}.yaml", std::process::id()));
    std::fs::write(&scenario, GET).expect("a scenario");
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -n 30 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_leadline-load"), "run"])
        .arg(&scenario)
        .args(["--url", "http://127.0.0.1:1", "--users", "100", "--out"])
        .arg(scenario.with_extension("out"))
        .output()
        .expect("the binary starts");
    std::fs::remove_file(&scenario).expect("removed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("need 100 open files, but the limit is 30"), "{said}");
}

#[test]
fn bad_input_is_a_usage_error() {
    let bad = run("http://127.0.0.1:1", GET, "--http 3");
    assert_eq!(
        bad.errors.trim(),
        "leadline-load: invalid value '3' for '--http <WORD>' [possible values: auto, 1.1, 2]"
    );
    let bad = run("http://127.0.0.1:1", "scenario: x\nmx: {}\n", "");
    assert_eq!(bad.code, 2);
    assert!(bad.errors.contains(":2:1: unknown key `mx`"), "{}", bad.errors);
    let bad = run("ftp://127.0.0.1:1", GET, "");
    assert!(bad.code == 2 && bad.errors.contains("`ftp` is not supported"), "{}", bad.errors);
    let bad = run("https://127.0.0.1:1", GET, "--ca /nowhere.pem");
    assert!(bad.code == 2 && bad.errors.contains("--ca /nowhere.pem"), "{}", bad.errors);
    let bad = run("http://127.0.0.1:1", GET, "--var unknown=1");
    assert!(bad.code == 2 && bad.errors.contains("no such parameter"), "{}", bad.errors);
}
