//! Verdicts: what a run lost is told first, in plain text wherever it goes, and by the exit code.

use crate::support;
use crate::support::{answering, nothing_succeeded, page, run, server, GET};
use std::time::Duration;

fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    format!("http://{}", listener.local_addr().expect("an address"))
}

#[test]
fn a_dead_server_fails_the_run_and_not_the_driver() {
    let found = run(&nobody(), GET, "--steady 300ms");
    nothing_succeeded(&found);
    assert!(found.output.lines().next().is_some_and(|line| line.contains("connect ")), "{}", found.output);
    assert!(found.output.contains("Connection refused"), "{}", found.output);
    assert_eq!(found.summary["driver"]["limit"], false, "{}", found.summary);
    assert!(!found.output.contains("the driver was the limit"), "{}", found.output);
    let evidence = found.summary["driver"]["evidence"].to_string();
    assert!(evidence.contains("no response time was measured"), "{evidence}");
    assert_eq!(found.number("/requests/count"), 0.0);
    let elsewhere = run(&nobody(), GET, "--steady 200ms --progress json");
    assert!(elsewhere.output.lines().all(|line| line.starts_with('{')), "{}", elsewhere.output);
    assert!(elsewhere.errors.starts_with("failed: no transaction succeeded"), "{}", elsewhere.errors);
}

#[test]
fn errors_count_up_to_their_limit() {
    let turn = std::sync::atomic::AtomicUsize::new(0);
    let url = answering(move |_| match turn.fetch_add(1, std::sync::atomic::Ordering::SeqCst) % 20 {
        7 => page("503 Busy", "", ""),
        _ => page("200 OK", "", "fine"),
    });
    let options = "--arrivals constant --rate 200 --steady 400ms";
    let found = run(&url, GET, options);
    assert_eq!(found.code, 1);
    let line = found.output.lines().next().unwrap_or("");
    assert!(line.contains("transactions failed (5.") && line.contains("at most 1 %): status_5xx"), "{line}");
    let found = run(&url, GET, &format!("{options} --limit-errors 10%"));
    assert_eq!(found.code, 0, "{}", found.output);
    let (code, summary) = {
        // The verdict is not the exit code's where a program reads it.
        let directory = std::env::temp_dir().join(format!("leadline-load-verdict-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        std::fs::write(directory.join("s.yaml"), GET).expect("a scenario");
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_leadline-load"))
            .args(["run", "s.yaml", "--url", &nobody(), "--out", "out", "--steady", "100ms", "--verdict", "file"])
            .current_dir(&directory)
            .output()
            .expect("the binary starts");
        assert!(output.stdout.is_empty() && output.stderr.is_empty());
        let summary = std::fs::read_to_string(directory.join("out/summary.json")).expect("a summary");
        std::fs::remove_dir_all(&directory).expect("it goes");
        (output.status.code(), serde_json::from_str::<serde_json::Value>(&summary).expect("JSON"))
    };
    assert_eq!((code, &summary["verdict"]["passed"]), (Some(0), &serde_json::json!(false)));
}

#[test]
fn broken_limits_fail_the_run() {
    let url = answering(|_| {
        std::thread::sleep(Duration::from_millis(20));
        page("200 OK", "", "fine")
    });
    let limited = |bound: &str| {
        format!(
            "scenario: one\nmix: {{ get: 1 }}\ntransactions:\n  get: {{ requests: [{{ get: / }}], limits: {{ p50: {bound} }} }}\n"
        )
    };
    let broken = run(&url, &limited("1ms"), "--steady 300ms");
    assert_eq!(broken.code, 1);
    assert!(broken.output.starts_with("failed: p50 of get is "), "{}", broken.output);
    assert_eq!(run(&url, &limited("9s"), "--steady 300ms").code, 0);
}

#[test]
fn thresholds_fail_the_run() {
    let url = answering(|_| page("200 OK", "", "fine"));
    let broken = run(&url, GET, "--steady 300ms --fail throughput<1 --fail p50>0ms --fail errors>0.1%");
    assert_eq!(broken.code, 1);
    let lines: Vec<&str> = broken.output.lines().collect();
    assert!(lines[0].starts_with("failed: p50 is ") && lines[0].ends_with(" ms (--fail p50>0ms)"), "{lines:?}");
    assert!(lines[1].starts_with("kept: throughput is "), "{lines:?}");
    assert_eq!(lines[2], "kept: errors are 0 % (--fail errors>0.1%)");
    assert_eq!(broken.summary["verdict"]["thresholds"][1]["kept"], false);
    assert_eq!(run(&url, GET, "--steady 300ms --fail p99>9s").code, 0);
    // Whatever is permitted: a run in which nothing succeeded has failed.
    nothing_succeeded(&run(&nobody(), GET, "--steady 200ms --limit-errors 100% --fail errors>100%"));
}

#[test]
fn timeouts_are_response_times_of_at_least_so_long() {
    let url = server(|stream| {
        use std::io::{BufReader, Write};
        let mut writer = stream.try_clone().expect("a second handle");
        let mut reader = BufReader::new(stream);
        while let Some(request) = support::read_request(&mut reader) {
            if request.path() == "/" && writer.write_all(&page("200 OK", "", "fine")).is_err() {
                return;
            }
        }
    });
    let scenario = "scenario: two\nmix: { good: 3, bad: 1 }\npause: { shape: fixed, mean: 5ms }\n\
                    transactions:\n  good: [{ get: / }]\n  bad: [{ get: /never }]\n";
    let found = run(&url, scenario, "--users 4 --steady 1s --timeout 100ms");
    assert_eq!(found.code, 1);
    let (all, bad) = ("/steady/all", "/steady/transactions/bad");
    let timeouts = found.number(&format!("{all}/unanswered"));
    assert!(timeouts > 3.0, "{}", found.summary);
    assert_eq!(found.number(&format!("{bad}/unanswered")), timeouts);
    assert!(found.number(&format!("{bad}/response_ms/p50")) >= 100.0, "{}", found.summary);
    assert!(found.number(&format!("{all}/response_ms/max")) >= 100.0, "{}", found.summary);
    let bounds = found.summary.pointer("/steady/all/response_at_least").expect("a list").to_string();
    assert!(bounds.contains("\"mean\"") && bounds.contains("\"max\"") && !bounds.contains("\"p50\""), "{bounds}");
    assert!(
        found.output.contains("transactions got no answer in time, so at least the figure shown: mean"),
        "{}",
        found.output
    );
    assert!(found
        .summary
        .pointer("/steady/transactions/good/response_at_least")
        .is_some_and(|list| *list == serde_json::json!([])));
}
