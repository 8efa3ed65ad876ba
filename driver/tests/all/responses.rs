//! Responses that come before their request is sent, that stay unread in the kernel, or that nothing follows.

use crate::support::{answering, page, reset_on_close, run, server};
use std::io::{BufRead, BufReader, Read, Write};
use std::time::Duration;

const LARGE: usize = 8_000_000; // more than the kernel keeps for a connection

fn large_post(after: &str) -> String {
    // Twice a half: a scenario is at most 4 MiB.
    let half = "x".repeat(LARGE / 2);
    format!(
        "scenario: one\nparameters: {{ half: {half} }}\nmix: {{ both: 1 }}\ntransactions:\n  both: [{after}, {{ post: /, \
         text: \"${{half}}${{half}}\" }}]\n"
    )
}

/// The lines of one request's head; None at the end of the connection.
fn read_head<R: Read>(reader: &mut BufReader<R>) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            return Some(lines);
        }
        lines.push(line.trim_end().to_string());
    }
}

#[test]
fn a_request_that_was_answered_before_it_was_sent_ends_its_connection() {
    // Answers at the head of a post, and then takes whatever comes for its body.
    let url = server(|stream| {
        let mut writer = stream.try_clone().expect("a second handle");
        let mut reader = BufReader::new(stream);
        while let Some(head) = read_head(&mut reader) {
            let posted = head[0].starts_with("POST");
            let status = if posted { "413 Too Large" } else { "200 OK" };
            if writer.write_all(&page(status, "", "")).is_err() {
                return;
            }
            if posted {
                std::thread::sleep(Duration::from_millis(30));
                let _ = std::io::copy(&mut reader.by_ref().take(LARGE as u64), &mut std::io::sink());
            }
        }
    });
    let scenario = large_post("{ get: /first }").replace("text: ", "check: { status: 413 }, text: ");
    let run = run(&url, &scenario, "--users 2 --steady 400ms --timeout 3s");
    assert!(run.total("both", "ok") > 2, "{}", run.summary);
    assert_eq!(run.total("both", "failed"), run.error("unfinished"), "{}", run.summary);
}

#[test]
fn an_answer_before_a_reset_is_read() {
    // The second request of a connection is answered at its head and the connection reset.
    let url = server(|stream| {
        reset_on_close(&stream);
        let mut writer = stream.try_clone().expect("a second handle");
        let mut reader = BufReader::new(stream);
        for status in ["200 OK", "413 Too Large"] {
            if read_head(&mut reader).is_none() || writer.write_all(&page(status, "", "")).is_err() {
                return;
            }
        }
    });
    let run = run(&url, &large_post("{ get: /first }"), "--users 1 --steady 300ms --timeout 3s");
    assert!(run.error("status_4xx") > 1, "{}", run.summary);
    assert_eq!(run.total("both", "failed"), run.error("status_4xx") + run.error("unfinished"), "{}", run.summary);
}

const PAUSED: &str =
    "scenario: one\npause: { shape: fixed, mean: 30ms }\nmix: { get: 1 }\ntransactions:\n  get: [{ get: / }]\n";

#[test]
fn an_answer_that_lies_there_at_its_deadline_came_in_time() {
    let url = answering(|_| page("200 OK", "", "fine"));
    // Read at the deadline half of them would be late; on a busy machine some are, and in one run of a few hardly any.
    assert!((0..5).any(|_| {
        let run = run(&url, PAUSED, "--users 1 --steady 1s --timeout 9ms --gather 10ms");
        run.total("get", "ok") > 4 + 2 * run.error("timeout")
    }));
}

#[test]
fn an_arrival_before_the_end_is_done_once_its_session_has_logged_in() {
    let url = answering(|request| {
        if request.path() == "/login" {
            std::thread::sleep(Duration::from_millis(200));
        }
        page("200 OK", "", "fine")
    });
    let scenario = "scenario: one\narrivals: { unit: transaction }\nlogin: login\nmix: { get: 1 }\ntransactions:\n  \
                    login: [{ get: /login }]\n  get: [{ get: / }]\n";
    let run = run(&url, scenario, "--arrivals constant --rate 20 --steady 190ms");
    assert!(run.number("/arrivals_actual") >= 3.0, "{}", run.summary);
    assert_eq!(run.total("get", "ok") as f64, run.number("/arrivals_actual"), "{}", run.summary);
}

#[test]
fn a_transaction_that_sends_nothing_is_not_tried_again_at_once() {
    let url = answering(|_| page("200 OK", "", "fine"));
    let file = std::env::temp_dir().join(format!("leadline-feed-{}.csv", std::process::id()));
    std::fs::write(&file, "name\nonly\n").expect("a file");
    let scenario = format!(
        "scenario: one\nfeeds: {{ people: {{ csv: {}, pick: unique }} }}\nmix: {{ get: 1 }}\ntransactions:\n  get: [{{ \
         get: \"/${{people.name}}\" }}]\n",
        file.display()
    );
    let run = run(&url, &scenario, "--users 2 --steady 300ms");
    std::fs::remove_file(&file).expect("ours");
    assert!((1..20).contains(&run.error("template")), "{}", run.summary);
}
