//! What a run writes: outcomes, the driver's own rows, times of connections, stamps.

use crate::support;
use crate::support::{answering, finish, page, run, start};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

const THREE: &str = "scenario: three
pause: { shape: fixed, mean: 20ms }
mix: { good: 2, bad: 1, moved: 1 }
transactions:
  good: [{ get: /good }]
  bad: [{ get: /bad }]
  moved: [{ get: /moved }]
";

fn table(run: &support::Run, name: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(run.directory.join("out").join(name)).expect("a table");
    reader.deserialize().map(|row| row.expect("a row as long as the header")).collect()
}

fn server() -> String {
    answering(|request| match request.path() {
        "/good" => page("200 OK", "", "fine"),
        "/moved" => page("302 Found", "Location: /good\r\n", ""),
        _ => page("404 Not Found", "", ""),
    })
}

#[test]
fn outcomes_are_counted_by_second_transaction_status_and_kind() {
    let run = run(&server(), THREE, "--users 4 --steady 1200ms");
    let rows = table(&run, "outcomes.csv");
    let count = |transaction: &str, what: &str, name: &str| -> u64 {
        let found = rows.iter().filter(|r| r["transaction"] == transaction && r["what"] == what && r["name"] == name);
        found.map(|row| row["count"].parse::<u64>().expect("a count")).sum()
    };
    assert!(run.total("good", "ok") > 20 && run.total("bad", "failed") > 5 && run.total("moved", "ok") > 5);
    assert_eq!(count("good", "status", "200"), run.total("good", "ok"));
    assert_eq!(count("bad", "status", "404"), run.total("bad", "failed"));
    assert_eq!(count("bad", "error", "status_4xx"), run.total("bad", "failed"));
    assert_eq!(count("moved", "status", "302"), run.total("moved", "ok"));
    assert_eq!(count("moved", "status", "200"), run.total("moved", "ok"));
    assert_eq!(run.number("/statuses/404") as u64, run.total("bad", "failed"));
    assert_eq!(run.number("/total/moved/statuses/302") as u64, run.total("moved", "ok"));
    assert_eq!(run.number("/total/bad/errors/status_4xx") as u64, run.total("bad", "failed"));
}

/// The longest time any CPU may take to leave an idle state, as asked for by all processes, microseconds.
fn allowed_latency() -> std::io::Result<i32> {
    let mut value = [0; 4];
    std::fs::File::open("/dev/cpu_dma_latency")?.read_exact(&mut value)?;
    Ok(i32::from_ne_bytes(value))
}

#[test]
fn cpus_leave_idle_states_soon_only_while_it_runs() {
    const ASKED: i32 = 7;
    let before = match allowed_latency() {
        Ok(before) if before > ASKED => before,
        Ok(before) => return println!("skipped: {before} us were asked for already"),
        Err(error) => return println!("skipped: /dev/cpu_dma_latency: {error}"),
    };
    let (mut child, _) = start(&server(), THREE, "--users 1 --steady 60s --cpu-latency 7us");
    let until = |wanted: i32| {
        let end = Instant::now() + Duration::from_secs(20);
        while allowed_latency().expect("it could be read") != wanted && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        allowed_latency().expect("it could be read")
    };
    let (during, _) = (until(ASKED), child.kill().expect("it runs"));
    child.wait().expect("it ends");
    assert_eq!((during, until(before)), (ASKED, before));
    let mut stricter = std::fs::File::options().write(true).open("/dev/cpu_dma_latency").expect("may be written to");
    stricter.write_all(&3i32.to_ne_bytes()).expect("it is taken");
    let run = run(&server(), THREE, "--users 1 --steady 200ms --cpu-latency 7us");
    assert_eq!(run.number("/driver/cpu_latency_us"), 3.0);
}

#[test]
fn the_driver_has_a_row_a_second() {
    let run = run(&server(), THREE, "--users 3 --steady 2s --progress json");
    let rows = table(&run, "driver.csv");
    assert!(rows.len() >= 2);
    let sum = |key: &str| rows.iter().map(|row| row[key].parse::<f64>().expect("a number")).sum::<f64>();
    assert_eq!(sum("planned"), run.number("/arrivals_planned"));
    assert_eq!(sum("started"), run.number("/arrivals_actual"));
    assert_eq!(sum("requests"), run.number("/requests/count"));
    assert!(sum("cpu_s") > 0.0 && sum("cpu_s") < 3.0);
    assert!(run.number("/driver/timer_ms/mean") > 0.0 && run.number("/driver/lag_ms/mean") >= 0.0);
    let progress: serde_json::Value = serde_json::from_str(run.output.lines().next().expect("a line")).expect("JSON");
    assert_eq!(progress["planned"], progress["started"]);
    assert!(progress["lag_p99_ms"].is_number() && progress["cpu_share"].is_number());
}

#[test]
fn connections_are_timed_where_they_are_made() {
    let kept = run(&server(), THREE, "--users 2 --steady 1s");
    let connects = kept.number("/requests/connects");
    assert_eq!(connects, 2.0);
    assert!(kept.number("/steady/all/connect_ms/max") <= kept.number("/steady/all/blocked_ms/max") * 1.001);
    assert!(kept.number("/steady/all/connect_ms/mean") > 0.0);
    assert!(["connect.hlog", "blocked.hlog"].iter().all(|name| kept.directory.join("out").join(name).exists()));
}

#[test]
fn an_answer_that_lay_in_the_kernel_counts_from_its_stamp() {
    let slow = || {
        answering(|_| {
            std::thread::sleep(Duration::from_millis(5));
            page("200 OK", "", "fine")
        })
    };
    let scenario =
        "scenario: one\npause: { shape: fixed, mean: 100ms }\nmix: { get: 1 }\ntransactions:\n  get: [{ get: / }]\n";
    let gathered = run(&slow(), scenario, "--users 8 --steady 1500ms --gather 5ms");
    // Answers wait for each other, at most as long as they may, and that is no part of the response.
    let reading = gathered.number("/driver/reading_ms/mean");
    assert!(reading > 0.3, "{reading}");
    let unstamped = run(&slow(), scenario, "--users 8 --steady 1500ms --stamps loop --gather 5ms");
    assert!(unstamped.summary["driver"]["reading_ms"]["mean"].is_null());
    assert!(gathered.number("/steady/all/response_ms/p50") >= 5.0);
    assert!(unstamped.number("/steady/all/response_ms/p50") >= 5.0);
}

fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    entries.map(|path| (name(&path), std::fs::read(&path).expect("a file"))).collect()
}

#[test]
fn results_of_an_earlier_run_are_kept_unless_they_are_to_be_replaced() {
    let (url, short) = (server(), "--users 2 --steady 200ms");
    let first = run(&url, THREE, short);
    let out = first.directory.join("out");
    let written = contents(&out);
    assert!(written.contains_key("summary.json") && written.len() > 5);
    let again = format!("{short} --out {}", out.display());
    let refused = run(&url, THREE, &again);
    assert_eq!(refused.code, 2);
    let told = format!("leadline-load: --out {}: summary.json of an earlier run is there", out.display());
    assert!(refused.errors.starts_with(&told) && refused.errors.contains("--replace"), "{}", refused.errors);
    assert_eq!(contents(&out), written);

    // Any of the files alone is one of a run that was killed.
    let alone = first.directory.join("alone");
    for (name, content) in &written {
        std::fs::create_dir_all(&alone).expect("a directory");
        std::fs::write(alone.join(name), content).expect("a file");
        let refused = run(&url, THREE, &format!("{short} --out {}", alone.display()));
        assert_eq!(refused.code, 2, "{name}: {}", refused.errors);
        assert!(refused.errors.contains(&format!("{name} of an earlier run")), "{}", refused.errors);
        assert_eq!(contents(&alone), BTreeMap::from([(name.clone(), content.clone())]));
        std::fs::remove_dir_all(&alone).expect("it goes");
    }

    std::fs::write(out.join("notes.txt"), "mine").expect("a file");
    let replaced = run(&url, THREE, &format!("{again} --replace"));
    assert!(replaced.output.contains("results: "), "{}", replaced.errors);
    let now = contents(&out);
    assert_eq!(now["notes.txt"], b"mine");
    assert_ne!(now["summary.json"], written["summary.json"]);
}

#[test]
fn a_replaced_run_that_is_killed_leaves_nothing_of_the_one_before() {
    let url = server();
    let first = run(&url, THREE, "--users 2 --steady 200ms");
    let out = first.directory.join("out");
    let options = format!("--users 2 --steady 60s --replace --progress json --out {}", out.display());
    let (mut child, directory) = start(&url, THREE, &options);
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("its output"));
    output.read_line(&mut line).expect("a line a second");
    child.kill().expect("ours to kill");
    finish(child, directory);
    let left = contents(&out);
    assert!(left.contains_key("response.hlog") && !left.contains_key("summary.json"), "{:?}", left.keys());
    assert!(!left.contains_key("steady.hlog"));
}
