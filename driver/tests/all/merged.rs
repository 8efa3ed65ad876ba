//! Drivers in step, each with its share, and their results merged as those of one.

use crate::support;
use crate::support::{answering, finish, page, start};
use leadline_load::measure::intervals::Reader;
use leadline_load::measure::times::Times;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

const SCENARIO: &str = "scenario: several
pause: { shape: fixed, mean: 20ms }
mix: { quick: 6, bad: 2, late: 1 }
transactions:
  quick: { requests: [{ get: /quick }], limits: { errors: 1%, p99: 0.001ms } }
  bad: [{ get: /bad }]
  late: { requests: [{ get: /late }], limits: { p50: 10s } }
";
const OPTIONS: &str = "--users 6 --steady 1200ms --timeout 100ms --verdict file --priority normal";

/// Results of the drivers x and y in a directory of that name, which goes with them.
struct Parts {
    runs: Vec<support::Run>,
    directories: Vec<PathBuf>,
}

impl Parts {
    /// Both start at one moment.
    fn driven() -> Self {
        let url = answering(|request| match request.path() {
            "/quick" => page("200 OK", "", "fine"),
            "/late" => {
                std::thread::sleep(Duration::from_millis(150));
                page("200 OK", "", "too late")
            }
            _ => page("404 Not Found", "", ""),
        });
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock").as_nanos();
        let begun: Vec<_> = [("x", "0-1/3"), ("y", "1-3/3")]
            .map(|(name, share)| {
                let begin = now + 1_000_000_000;
                let options = format!("{OPTIONS} --share {share} --start-at {begin}");
                (name, start(&url, SCENARIO, &options))
            })
            .into();
        let mut parts = Parts { runs: Vec::new(), directories: Vec::new() };
        for (name, (mut child, directory)) in begun {
            assert!(child.wait().expect("it ends").success());
            std::fs::rename(directory.join("out"), directory.join(name)).expect("its results");
            parts.directories.push(directory.join(name));
            parts.runs.push(finish(child, directory));
        }
        parts
    }

    fn summary(&self, part: usize) -> Value {
        read_summary(&self.directories[part])
    }

    /// Writes another summary of a part.
    fn change(&self, part: usize, change: impl FnOnce(&mut Value)) {
        let mut summary = self.summary(part);
        change(&mut summary);
        std::fs::write(self.directories[part].join("summary.json"), summary.to_string()).expect("a summary");
    }

    fn out(&self) -> PathBuf {
        self.runs[0].directory.join("merged")
    }

    /// Exit code and standard error.
    fn merge(&self, options: &[&str]) -> (i32, String) {
        let (code, _, errors) = leadline_load(
            &[
                &["merge", "--out", text(&self.out())],
                options,
                &[text(&self.directories[0]), text(&self.directories[1])],
            ]
            .concat(),
        );
        (code, errors)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn leadline_load(arguments: &[&str]) -> (i32, String, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_leadline-load")).args(arguments).output().expect("it starts");
    let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.code().unwrap_or(-1), words(&done.stdout), words(&done.stderr))
}

fn read_summary(directory: &Path) -> Value {
    let text = std::fs::read(directory.join("summary.json")).expect("a summary");
    serde_json::from_slice(&text).expect("JSON")
}

fn table(directory: &Path, name: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(directory.join(name)).expect("a table");
    reader.deserialize().map(|row| row.expect("a row as long as the header")).collect()
}

/// Sums of a column by second and whatever else tells the rows apart.
fn sums(rows: &[BTreeMap<String, String>], keys: &[&str], column: &str) -> BTreeMap<Vec<String>, u64> {
    let mut found = BTreeMap::new();
    for row in rows {
        let key = keys.iter().map(|key| row[*key].clone()).collect();
        *found.entry(key).or_default() += row[column].parse::<u64>().expect("a count");
    }
    found
}

/// Of all intervals, by second and tag.
fn histograms<'a>(directories: impl IntoIterator<Item = &'a PathBuf>, log: &str) -> BTreeMap<(u64, String), Times> {
    let mut found: BTreeMap<(u64, String), Times> = BTreeMap::new();
    for directory in directories {
        let mut log = Reader::open(&directory.join(log)).expect("a log");
        while let Some(interval) = log.any().expect("a whole line") {
            found.entry((interval.second(), interval.tag)).or_default().add(&interval.times);
        }
    }
    found
}

#[test]
fn results_are_merged_as_one_driver_would_have_them() {
    let parts = Parts::driven();
    let lots = json!({"limit": true, "evidence": ["limit: late"], "scheduling": "realtime", "cpu_share": 0.95});
    parts.change(1, |summary| {
        let own = summary["driver"].as_object_mut().expect("an object");
        own.extend(lots.as_object().expect("an object").clone());
        summary["url"] = json!("http://far");
    });
    let (x, y) = (parts.summary(0), parts.summary(1));
    let notes = r#"[{"via": "local", "clock_offset_ms": 1.5}, {"via": "ssh b"}]"#;
    let (code, errors) = parts.merge(&["--start", "7000000000000000123", "--notes", notes]);
    assert_eq!(code, 0, "{errors}");
    let (out, merged) = (parts.out(), read_summary(&parts.out()));

    let both = |pointer: &str| [&x, &y].map(|part| part.pointer(pointer).and_then(Value::as_f64).expect(pointer));
    let number = |pointer: &str| merged.pointer(pointer).and_then(Value::as_f64).expect(pointer);
    for pointer in [
        "/total/quick/ok",
        "/total/bad/failed",
        "/total/bad/statuses/404",
        "/total/late/errors/timeout",
        "/requests/count",
        "/requests/bytes_in",
        "/errors/timeout",
        "/statuses/200",
        "/arrivals_planned",
        "/arrivals_actual",
        "/dropped",
        "/steady/all/ok",
        "/steady/transactions/late/unanswered",
        "/driver/cpu_user_s",
        "/littles_law/concurrency_observed",
    ] {
        assert_eq!(number(pointer), both(pointer).iter().sum::<f64>(), "{pointer}");
    }
    assert!(both("/total/quick/ok").iter().all(|ok| *ok > 10.0), "both did their share");
    assert_eq!(number("/steady/duration_s"), both("/steady/duration_s")[0]);
    assert_eq!(number("/steady/all/per_second"), number("/steady/all/ok") / number("/steady/duration_s"));
    assert_eq!(merged["started_unix_ns"], 7_000_000_000_000_000_123_u64);
    assert_eq!((&merged["url"], &merged["scenario"], &merged["seed"]), (&x["url"], &x["scenario"], &x["seed"]));
    assert!(merged.get("share").is_none() && merged.get("verdict").is_none());

    let driver = &merged["driver"];
    assert_eq!((&driver["limit"], &driver["scheduling"]), (&json!(true), &json!("normal")));
    assert_eq!((&driver["cpu_share"], &driver["evidence"][4]), (&json!(0.95), &json!("y: limit: late")));
    let [first, second] = [&merged["drivers"][0], &merged["drivers"][1]];
    assert_eq!((&first["name"], &first["clock_offset_ms"]), (&json!("x"), &json!(1.5)));
    assert_eq!((&second["name"], &second["via"], &second["share"]), (&json!("y"), &json!("ssh b"), &json!("1-3/3")));
    assert_eq!((&second["limit"], &second["url"]), (&json!(true), &json!("http://far")));

    // Percentiles are those of the added histograms.
    let steady = histograms(&parts.directories, "steady.hlog");
    let mut all = Times::default();
    for ((_, tag), times) in &steady {
        if let Some(name) = tag.strip_prefix("response/") {
            let figures = &merged["steady"]["transactions"][name]["response_ms"];
            assert_eq!(figures["p99"], json!(times.quantile(0.99) as f64 / 1e6), "{name}");
            assert_eq!(figures["mean"], json!(times.mean() / 1e6), "{name}");
            all.add(times);
        }
    }
    assert_eq!(merged["steady"]["all"]["response_ms"]["p50"], json!(all.quantile(0.5) as f64 / 1e6));
    assert_eq!(driver["lag_ms"]["max"], json!(steady[&(0, "lag".to_string())].quantile(1.0) as f64 / 1e6));
    for log in ["response.hlog", "service.hlog", "connect.hlog", "blocked.hlog", "steady.hlog"] {
        let (added, written) = (histograms(&parts.directories, log), histograms([&out], log));
        assert_eq!(added.keys().collect::<Vec<_>>(), written.keys().collect::<Vec<_>>(), "{log}");
        assert!(added.iter().all(|(key, times)| times.get() == written[key].get()), "{log}");
    }
    let head = std::fs::read_to_string(out.join("response.hlog")).expect("a log");
    assert!(head.contains("#[StartTime: 7000000000.000 "), "{head}");

    // So are limits, by what all of them measured.
    let limits = merged["limits"].as_array().expect("limits");
    let limit = |measure: &str| limits.iter().find(|limit| limit["measure"] == measure).expect("a limit");
    assert_eq!(limit("p99")["value"], merged["steady"]["transactions"]["quick"]["response_ms"]["p99"]);
    assert_eq!((&limit("p99")["kept"], &limit("errors")["kept"]), (&json!(false), &json!(true)));
    assert_eq!((&limit("p50")["kept"], &limit("p50")["at_least"]), (&json!(false), &json!(true)));
    let at_least = &merged["steady"]["transactions"]["late"]["response_at_least"];
    assert!(at_least.as_array().expect("figures").contains(&json!("p50")), "{at_least}");

    // Rows of a second are added.
    for (name, keys, columns) in [
        ("seconds.csv", &["second", "phase", "transaction"][..], &["ok", "failed", "skipped", "in_flight"][..]),
        ("outcomes.csv", &["second", "phase", "transaction", "what", "name"], &["count"]),
    ] {
        let (ours, all) =
            (table(&out, name), parts.directories.iter().flat_map(|part| table(part, name)).collect::<Vec<_>>());
        for column in columns {
            let mut added = sums(&all, keys, column);
            if *column == "in_flight" {
                // That of a second is the same in all its rows.
                let total = |key: &[String]| added[&vec![key[0].clone(), key[1].clone(), "all".to_string()]];
                added = added.keys().map(|key| (key.clone(), total(key))).collect();
            }
            assert_eq!(sums(&ours, keys, column), added, "{name} {column}");
        }
        let times = ours.iter().all(|row| {
            let second: u64 = row["second"].parse().expect("a number");
            row["time_ns"] == (7_000_000_000_000_000_123 + second * 1_000_000_000).to_string()
        });
        assert!(times, "{name}: {ours:?}");
    }
    let responses = histograms([&out], "response.hlog");
    let rows = table(&out, "seconds.csv");
    let quick = rows.iter().find(|row| row["transaction"] == "quick").expect("a row");
    let median = responses[&(0, "quick".to_string())].quantile(0.5) as f64 / 1e6;
    assert_eq!(quick["response_p50_ms"], format!("{median:.4}"));

    let (code, said, _) = leadline_load(&["judge", text(&out)]);
    assert!(code == 1 && said.contains("failed: p50 of late is at least"), "{said}");
}

#[test]
fn results_that_are_missing_cut_off_or_of_another_run_are_refused() {
    let parts = Parts::driven();
    let refused = |options: &[&str], code: i32, part: &str| {
        let (found, errors) = parts.merge(options);
        assert!(found == code && errors.contains(part), "{part}: {found} {errors}");
        assert!(!parts.out().join("summary.json").exists());
        let _ = std::fs::remove_dir_all(parts.out());
    };
    refused(&["--notes", "[{}]"], 2, "--notes has 1 objects for 2 parts");
    std::fs::create_dir_all(parts.out()).expect("a directory");
    std::fs::write(parts.out().join("seconds.csv"), "").expect("a file");
    refused(&[], 2, "seconds.csv of an earlier run is there");

    let summary = parts.summary(1);
    parts.change(1, |summary| summary["seed"] = json!(2));
    refused(&[], 1, "driver y had another seed than driver x");
    parts.change(1, |summary| *summary = json!({"format": "leadline-load/1"}));
    refused(&[], 1, "driver y had another version than driver x");
    parts.change(1, |summary_| *summary_ = summary.clone());
    for name in ["response.hlog", "steady.hlog", "seconds.csv", "outcomes.csv", "summary.json"] {
        let path = parts.directories[1].join(name);
        let whole = std::fs::read(&path).expect("a file");
        if name.ends_with(".hlog") {
            std::fs::write(&path, &whole[..whole.len() - 5]).expect("a file");
            refused(&[], 1, "this line is cut off: the driver did not end in order");
        }
        if name.ends_with(".csv") {
            std::fs::write(&path, &whole[..whole.len() - 3]).expect("a file");
            refused(&[], 1, &format!("y/{name}: CSV error"));
        }
        std::fs::remove_file(&path).expect("it goes");
        refused(&[], 1, &format!("y/{name} is missing: the driver did not end in order"));
        std::fs::write(&path, whole).expect("a file");
    }
    std::fs::create_dir_all(parts.out()).expect("a directory");
    std::fs::write(parts.out().join("driver.csv"), "").expect("a file");
    let (code, errors) = parts.merge(&["--replace"]);
    assert_eq!((code, parts.out().join("driver.csv").exists()), (0, false), "{errors}");
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn quick_server() -> String {
    answering(
        |request| if request.path() == "/bad" { page("404 Not Found", "", "") } else { page("200 OK", "", "fine") },
    )
}

const ARRIVALS: &str = "--arrivals constant --rate 60 --steady 1200ms --priority normal --progress json";

#[test]
fn several_processes_do_what_one_does() {
    let url = quick_server();
    let alone = support::run(&url, SCENARIO, ARRIVALS);
    let (child, directory) = start(&url, SCENARIO, &format!("{ARRIVALS} --processes 3"));
    let together = finish(child, directory);
    assert_eq!((alone.code, together.code), (1, 1), "{}", together.errors); // its limit is 0.001 ms
    let both = |pointer: &str| [&alone, &together].map(|run| run.summary.pointer(pointer).and_then(Value::as_i64));
    let [one, all] = both("/arrivals_planned");
    assert!(one == all && one > Some(60), "{one:?} {all:?}");
    for pointer in ["/total/quick/ok", "/total/bad/failed", "/total/late/ok"] {
        let [one, all] = both(pointer).map(|count| count.expect(pointer));
        assert!((one - all).abs() <= 3 + one / 20, "{pointer}: {one}, {all}; the last ones are cut off by the end");
    }
    let drivers = together.summary["drivers"].as_array().expect("the processes");
    let shares: Vec<&Value> = drivers.iter().map(|driver| &driver["share"]).collect();
    assert_eq!(shares, [&json!("0-1/3"), &json!("1-2/3"), &json!("2-3/3")]);
    assert!(drivers.iter().all(|driver| driver["arrivals_actual"].as_u64() > Some(10)), "{drivers:?}");
    let first: Value = serde_json::from_str(together.output.lines().next().expect("a line")).expect("JSON");
    assert!(first["t"] == 1 && first["planned"].as_u64() > Some(50), "all of them: {first}");
    assert!(together.errors.contains("results: "), "beside progress the summary is on standard error");

    let out = together.directory.join("out");
    let scenario = together.directory.join("scenario.yaml");
    let again = |more: &[&str]| {
        let given = ["run", text(&scenario), "--url", &url, "--out", text(&out), "--users", "2", "--steady", "200ms"];
        leadline_load(&[&given, more].concat())
    };
    let (code, _, errors) = again(&["--processes", "2"]);
    assert!(code == 2 && errors.contains("of an earlier run is there"), "{errors}");
    let (_, _, errors) = again(&["--processes", "2", "--replace"]);
    assert_eq!(read_summary(&out)["drivers"].as_array().map(Vec::len), Some(2), "{errors}");
    assert_eq!(std::fs::read_dir(out.join("drivers")).expect("a directory").count(), 2, "one less than before");
    again(&["--replace"]);
    assert!(!out.join("drivers").exists() && out.join("summary.json").exists());
}

#[test]
fn processes_end_with_the_first_one_and_tell_what_is_wrong_once() {
    let url = quick_server();
    let (mut child, directory) = start(&url, SCENARIO, &format!("{OPTIONS} --steady 20s --processes 3"));
    let others = || {
        let path = format!("/proc/{0}/task/{0}/children", child.id());
        let told = std::fs::read_to_string(path).unwrap_or_default();
        told.split_whitespace().map(str::to_string).collect::<Vec<_>>()
    };
    let driving = || others().len() == 3 && directory.join("out/drivers/3/seconds.csv").exists();
    until("three processes", driving);
    let found = others();
    child.kill().expect("it is killed");
    child.wait().expect("it is gone");
    let gone = |number: &String| {
        let state = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        state.is_empty() || state.contains(") Z ")
    };
    until("no process is left", || found.iter().all(gone));

    // One of them is lost: the run is, and nothing is measured of it.
    let (child, lost) = start(&url, SCENARIO, &format!("{OPTIONS} --steady 20s --processes 2"));
    until("the second writes", || lost.join("out/drivers/2/seconds.csv").exists());
    let told = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).expect("its processes");
    let second = told.split_whitespace().last().expect("two");
    assert!(Command::new("kill").args(["-9", second]).status().expect("kill").success());
    let lost = finish(child, lost);
    assert!(lost.code == 1 && lost.summary.is_null(), "{} {}", lost.code, lost.summary);
    assert_eq!(lost.errors, "leadline-load: process 2 of 2 ended: signal: 9 (SIGKILL)\n");

    let scenario = directory.join("scenario.yaml");
    let given = ["run", text(&scenario), "--url", &url, "--out", text(&directory), "--processes", "2"];
    let (code, _, errors) = leadline_load(&[&given[..], &["--start-at", "stdin"]].concat());
    assert!(code == 2 && errors.contains("leave out --share, --start-at and --dead-man-switch"), "{errors}");
    let (code, _, errors) = leadline_load(&[&given[..], &["--arrivals", "replay", "--replay", "/nowhere"]].concat());
    assert!(code == 2 && errors.lines().count() == 1 && errors.contains("/nowhere"), "{code} {errors}");
    std::fs::remove_dir_all(directory).expect("it goes");
}
