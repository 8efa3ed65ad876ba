//! Did the run do what it was asked, and what is wrong with it, if anything.

use super::losses::{kinds, percent, total};
use super::threshold::{sentence, Threshold};
use crate::units::parse_share;
use clap::Args;
use serde_json::{json, Value};

/// Seconds without a success at the end of the steady phase, in which the server was dead if it gave no answer.
const SILENCE: f64 = 0.5;
/// How many times as long as every silence before it.
const LONGER: f64 = 2.0;
/// As many failures in a row as this are no chance, where as many may fail as the bound says.
const BY_CHANCE: f64 = 1e-4;

/// What a run may lose and still pass.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct Bounds {
    /// The run fails when a greater share of its transactions does (default 1%, none with --fail errors>...).
    #[arg(long = "limit-errors", value_name = "SHARE", value_parser = parse_share)]
    pub errors: Option<f64>,
    /// The run fails when a greater share of its arrivals was dropped (default 1%, none with --fail dropped>...).
    #[arg(long = "limit-dropped", value_name = "SHARE", value_parser = parse_share)]
    pub dropped: Option<f64>,
    /// The run fails on this condition, e.g. p99>200ms, errors>0.1%, throughput<100; may be repeated.
    #[arg(long = "fail", value_name = "CONDITION", value_parser = Threshold::parse)]
    pub fail: Vec<Threshold>,
}

impl Bounds {
    /// Shares of failed transactions and of dropped arrivals that pass. A threshold stands in the default's place.
    fn shares(&self) -> (f64, f64) {
        let most = |given: Option<f64>, measure: &str| {
            let named = self.fail.iter().any(|threshold| threshold.is_of(measure));
            given.unwrap_or(if named { 1.0 } else { 0.01 })
        };
        (most(self.errors, "errors"), most(self.dropped, "dropped"))
    }
}

/// Adds the verdict to a summary: `passed`, the `problems` (the worst one first), those of them that are `losses`, the
/// bounds, and the `thresholds` where some were given.
pub fn judge(summary: &mut Value, bounds: &Bounds) {
    let (errors, dropped) = bounds.shares();
    let losses = losses(summary, errors, dropped);
    let mut problems = [&losses[..], &broken_limits(summary)].concat();
    let thresholds: Vec<Value> = bounds.fail.iter().map(|threshold| threshold.judge(summary)).collect();
    problems.extend(thresholds.iter().filter(|judged| judged["kept"] == false).map(|judged| sentence(judged, summary)));
    summary["verdict"] = json!({
        "passed": problems.is_empty(),
        "problems": problems,
        "losses": losses,
        "limit_errors": errors,
        "limit_dropped": dropped,
    });
    if !thresholds.is_empty() {
        summary["verdict"]["thresholds"] = json!(thresholds);
    }
}

/// Whether the summary's verdict is that the run passed.
pub fn passed(summary: &Value) -> bool {
    summary["verdict"]["passed"].as_bool().unwrap_or(false)
}

/// What of the load was lost, of transactions and of time.
fn losses(summary: &Value, most_errors: f64, most_dropped: f64) -> Vec<String> {
    let mut found = Vec::new();
    if summary["completed"] == false {
        found.push("ended before its plan was over".to_string());
    }
    let (ok, failed) = (total(summary, "ok"), total(summary, "failed"));
    let count = |key: &str| summary[key].as_u64().unwrap_or(0);
    let (planned, dropped) = (count("arrivals_planned"), count("dropped"));
    let share = |part: u64, whole: u64| if whole > 0 { part as f64 / whole as f64 } else { 0.0 };
    if ok == 0 {
        found.push(match failed {
            0 => "no transaction succeeded: none ended".to_string(),
            _ => format!("no transaction succeeded: all {failed} failed ({})", kinds(summary)),
        });
    } else {
        if share(failed, ok + failed) > most_errors {
            let (all, share) = (ok + failed, percent(share(failed, ok + failed)));
            let most = percent(most_errors);
            found.push(format!("{failed} of {all} transactions failed ({share}, at most {most}): {}", kinds(summary)));
        }
        let steady = |key: &str| summary["steady"]["all"][key].as_u64().unwrap_or(0);
        if summary["completed"] != false && steady("ok") == 0 {
            found.push("no transaction succeeded in the steady phase".to_string());
        } else if found.is_empty() && share(steady("failed"), steady("ok") + steady("failed")) > most_errors {
            let (failed, all, most) = (steady("failed"), steady("ok") + steady("failed"), percent(most_errors));
            let share = percent(share(failed, all));
            found.push(format!("{failed} of {all} transactions of the steady phase failed ({share}, at most {most})"));
        }
        let seconds = summary["silence"]["seconds"].as_f64().unwrap_or(0.0);
        let unanswered = summary["silence"]["unanswered"].as_u64().unwrap_or(0);
        let before = summary["silence"]["longest_before_s"].as_f64().unwrap_or(0.0);
        let steady_seconds = summary["steady"]["duration_s"].as_f64().unwrap_or(0.0);
        let chance = most_errors.powi(i32::try_from(unanswered).unwrap_or(i32::MAX));
        let allowed = seconds <= most_errors * steady_seconds && chance > BY_CHANCE;
        if unanswered > 0 && seconds >= SILENCE.max(LONGER * before) && !allowed {
            found.push(format!(
                "nothing succeeded in the last {seconds:.1} s of the steady phase, and {unanswered} transactions got no \
                 answer (the longest such time before was {before:.1} s)"
            ));
        }
    }
    if share(dropped, planned) > most_dropped {
        let (share, most) = (percent(share(dropped, planned)), percent(most_dropped));
        found.push(format!(
            "{dropped} of {planned} arrivals were dropped ({share}, at most {most}): all sessions of --max-sessions were \
             taken"
        ));
    }
    found
}

/// The limits of the scenario that were not kept.
fn broken_limits(summary: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for limit in summary["limits"].as_array().into_iter().flatten().filter(|limit| limit["kept"] == false) {
        let text = |key: &str| limit[key].as_str().unwrap_or_default();
        let amount = |key: &str| {
            let value = limit[key].as_f64().unwrap_or(0.0);
            if text("unit") == "share" {
                percent(value)
            } else {
                format!("{value:.1} ms")
            }
        };
        let least = if limit["at_least"] == true { "at least " } else { "" };
        let (measure, name) = (text("measure"), text("transaction"));
        found.push(format!("{measure} of {name} is {least}{}, its limit {}", amount("value"), amount("bound")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Value {
        json!({
            "completed": true,
            "total": {"a": {"ok": 90, "failed": 0}, "b": {"ok": 10, "failed": 0}},
            "steady": {"all": {"ok": 80, "failed": 0}, "duration_s": 10.0},
            "silence": {"seconds": 0.0, "unanswered": 0, "longest_before_s": 0.3},
            "errors": {},
            "arrivals_planned": 100,
            "dropped": 0,
        })
    }

    fn judged(changes: &[(&str, Value)]) -> Vec<String> {
        let mut found = summary();
        for (pointer, value) in changes {
            *found.pointer_mut(pointer).expect("a place") = value.clone();
        }
        judge(&mut found, &Bounds::default());
        let problems = serde_json::from_value::<Vec<String>>(found["verdict"]["problems"].clone()).expect("texts");
        assert_eq!(passed(&found), problems.is_empty());
        problems
    }

    #[test]
    fn a_run_without_losses_passes() {
        assert!(judged(&[]).is_empty());
        assert!(judged(&[("/total/a/failed", json!(1)), ("/errors", json!({"reset": 1}))]).is_empty());
        assert!(judged(&[("/dropped", json!(1))]).is_empty());
    }

    #[test]
    fn each_loss_has_its_sentence() {
        let dropped = judged(&[("/dropped", json!(999)), ("/arrivals_planned", json!(1199))]);
        assert!(dropped[0].starts_with("999 of 1199 arrivals were dropped (83.3 %, at most 1 %)"), "{dropped:?}");
        let failed = judged(&[("/total/a/failed", json!(3)), ("/errors", json!({"check": 1, "reset": 2}))]);
        assert_eq!(failed, ["3 of 103 transactions failed (2.9 %, at most 1 %): reset 2, check 1"]);
        let none = [("/total/a/ok", json!(0)), ("/total/b/ok", json!(0))];
        assert_eq!(judged(&none), ["no transaction succeeded: none ended"]);
        let dead = [&none[..], &[("/total/a/failed", json!(7)), ("/errors", json!({"connect": 7}))]].concat();
        assert_eq!(judged(&dead), ["no transaction succeeded: all 7 failed (connect 7)"]);
        assert_eq!(judged(&[("/steady/all/ok", json!(0))]), ["no transaction succeeded in the steady phase"]);
        assert_eq!(judged(&[("/completed", json!(false))]), ["ended before its plan was over"]);
        assert_eq!(
            judged(&[("/steady/all/failed", json!(20))]),
            ["20 of 100 transactions of the steady phase failed (20 %, at most 1 %)"]
        );
        assert!(judged(&[("/silence/seconds", json!(0.4)), ("/silence/unanswered", json!(3))]).is_empty());
        assert!(judged(&[("/silence/seconds", json!(4.0))]).is_empty());
        let dead = judged(&[("/silence/seconds", json!(4.0)), ("/silence/unanswered", json!(3))]);
        let text = "nothing succeeded in the last 4.0 s of the steady phase, and 3 transactions got no answer (the \
                    longest such time before was 0.3 s)";
        assert_eq!(dead, [text]);
    }

    #[test]
    fn a_silence_is_one_of_the_server_when_it_is_longer_than_those_before() {
        let silent = |seconds: f64, unanswered: u64| {
            let place = [("/silence/seconds", json!(seconds)), ("/silence/unanswered", json!(unanswered))];
            !judged(&place).is_empty()
        };
        assert!(silent(0.7, 1), "one user whose server froze");
        assert!(!silent(0.55, 1));
        assert!(!silent(7.4, 0), "nobody waited");
    }

    #[test]
    fn a_silence_within_the_errors_that_are_allowed_passes() {
        let passes = |seconds: f64, unanswered: u64, errors: f64| {
            let mut found = summary();
            found["steady"] = json!({"all": {"ok": 63, "failed": 53}, "duration_s": 20.0});
            found["silence"] = json!({"seconds": seconds, "unanswered": unanswered, "longest_before_s": 1.4});
            judge(&mut found, &Bounds { errors: Some(errors), ..Bounds::default() });
            passed(&found)
        };
        assert!(passes(7.5, 26, 0.95));
        assert!(!passes(7.5, 26, 0.6), "too many in a row");
        assert!(!passes(19.5, 26, 0.95), "too long");
    }

    #[test]
    fn thresholds_stand_in_the_place_of_defaults() {
        let mut found = summary();
        found["total"]["a"]["failed"] = json!(5);
        found["errors"] = json!({"reset": 5});
        let bounds = |text: &str, errors: Option<f64>| {
            let fail = vec![Threshold::parse(text).expect(text)];
            Bounds { errors, fail, ..Bounds::default() }
        };
        judge(&mut found, &bounds("errors>9%", None));
        assert!(passed(&found), "{found}");
        assert_eq!(found["verdict"]["thresholds"][0]["kept"], true);
        judge(&mut found, &bounds("errors>9%", Some(0.01)));
        assert_eq!(found["verdict"]["problems"][0], "5 of 105 transactions failed (4.8 %, at most 1 %): reset 5");
        judge(&mut found, &bounds("errors>1%", None));
        assert_eq!(found["verdict"]["problems"], json!(["errors are 4.8 % (reset 5) (--fail errors>1%)"]));
    }

    #[test]
    fn broken_limits_are_told() {
        let mut found = summary();
        found["limits"] = json!([
            {"transaction": "a", "measure": "p99", "unit": "ms", "bound": 200.0, "value": 312.44, "kept": false},
            {"transaction": "a", "measure": "max", "unit": "ms", "bound": 9e3, "value": 1e4, "kept": false, "at_least": true},
            {"transaction": "b", "measure": "errors", "unit": "share", "bound": 0.01, "value": 0.055, "kept": false},
            {"transaction": "b", "measure": "p50", "unit": "ms", "bound": 1.0, "value": null, "kept": null},
        ]);
        judge(&mut found, &Bounds::default());
        let expected = [
            "p99 of a is 312.4 ms, its limit 200.0 ms",
            "max of a is at least 10000.0 ms, its limit 9000.0 ms",
            "errors of b is 5.5 %, its limit 1 %",
        ];
        assert_eq!(found["verdict"]["problems"], json!(expected));
    }
}
