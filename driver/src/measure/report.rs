//! The summary as plain text: what is wrong first, then the figures.

use super::losses::{kinds, total};
use super::threshold::sentence;
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

const FIGURES: [&str; 6] = ["mean", "p50", "p90", "p95", "p99", "max"];

/// Of a summary with its verdict.
pub fn text(summary: &Value, out: &Path) -> String {
    let mut found = verdict(summary);
    let thresholds = summary["verdict"]["thresholds"].as_array().into_iter().flatten();
    for judged in thresholds.filter(|judged| judged["kept"] == true) {
        let _ = writeln!(found, "kept: {}", sentence(judged, summary));
    }
    found += &table(summary);
    found += &unanswered(summary);
    found += &losses(summary);
    let sentences = summary["driver"]["evidence"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for sentence in sentences.filter_map(|sentence| sentence.split_once("limit: ")) {
        let _ = writeln!(found, "the driver was the limit: {}{}", sentence.0, sentence.1);
    }
    let _ = writeln!(found, "results: {}", out.display());
    found
}

fn verdict(summary: &Value) -> String {
    let problems: Vec<&str> =
        summary["verdict"]["problems"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if problems.is_empty() {
        let (ok, failed) = (total(summary, "ok"), total(summary, "failed"));
        return format!("passed: {ok} transactions succeeded, {failed} failed\n");
    }
    problems.iter().fold(String::new(), |text, problem| text + "failed: " + problem + "\n")
}

/// The steady phase, one line a transaction.
fn table(summary: &Value) -> String {
    let steady = &summary["steady"];
    let mut rows = vec![["transaction", "ok", "failed", "skipped", "per s"].map(String::from).to_vec()];
    rows[0].extend(FIGURES.map(String::from));
    let parts = steady["transactions"].as_object().into_iter().flatten();
    for (name, part) in parts.map(|(name, part)| (name.as_str(), part)).chain([("all", &steady["all"])]) {
        let mut row = vec![name.to_string()];
        row.extend(["ok", "failed", "skipped"].map(|key| part[key].as_u64().unwrap_or(0).to_string()));
        row.push(format!("{:.1}", part["per_second"].as_f64().unwrap_or(0.0)));
        row.extend(FIGURES.map(|figure| {
            let least = if is_at_least(part, figure) { ">=" } else { "" };
            part["response_ms"][figure].as_f64().map_or("-".into(), |ms| format!("{least}{ms:.2}"))
        }));
        rows.push(row);
    }
    let widths: Vec<usize> =
        (0..rows[0].len()).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0)).collect();
    let seconds = steady["duration_s"].as_f64().unwrap_or(0.0);
    let mut found = format!("{seconds:.1} s measured, response times in ms:\n");
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let line = cells.fold(String::new(), |line, (at, (cell, width))| match at {
            0 => format!("{cell:<width$}"),
            _ => format!("{line}  {cell:>width$}"),
        });
        found += line.trim_end();
        found.push('\n');
    }
    found
}

fn is_at_least(part: &Value, figure: &str) -> bool {
    part["response_at_least"].as_array().into_iter().flatten().any(|name| name == figure)
}

fn unanswered(summary: &Value) -> String {
    let all = &summary["steady"]["all"];
    let count = |key: &str| all[key].as_u64().unwrap_or(0);
    let (unanswered, measured) = (count("unanswered"), count("ok") + count("unanswered"));
    if unanswered == 0 {
        return String::new();
    }
    let bounds: Vec<&str> = FIGURES.into_iter().filter(|figure| is_at_least(all, figure)).collect();
    format!(
        "{unanswered} of {measured} transactions got no answer in time, so at least the figure shown: {}\n",
        bounds.join(", ")
    )
}

/// Failed transactions by kind with a message each, and dropped arrivals.
fn losses(summary: &Value) -> String {
    let mut found = String::new();
    if summary["errors"].as_object().is_some_and(|kinds| !kinds.is_empty()) {
        let _ = writeln!(found, "errors: {}", kinds(summary));
    }
    for (kind, samples) in summary["error_samples"].as_object().into_iter().flatten() {
        if let Some(sample) = samples[0].as_str() {
            let printable: String = sample.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
            let _ = writeln!(found, "  {kind}: {printable}");
        }
    }
    if summary["dropped"].as_u64().is_some_and(|dropped| dropped > 0) {
        let [planned, started, dropped] =
            ["arrivals_planned", "arrivals_actual", "dropped"].map(|key| summary[key].as_u64().unwrap_or(0));
        let _ = writeln!(found, "arrivals: {planned} planned, {started} started, {dropped} dropped");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_wrong_stands_first() {
        let figures = json!({"mean": 1000.0, "p50": 1.25, "p90": 2.0, "p95": null, "p99": 10000.0, "max": 10001.0});
        let part = json!({
            "ok": 97, "failed": 3, "skipped": 0, "per_second": 9.7, "unanswered": 3, "response_ms": figures,
            "response_at_least": ["mean", "p99", "p999", "max"],
        });
        let summary = json!({
            "verdict": {
                "passed": false, "problems": ["3 of 100 transactions failed", "p99 of get is too long"],
                "thresholds": [
                    {"condition": "p50>2ms", "measure": "p50", "unit": "ms", "value": 1.25, "kept": true},
                    {"condition": "p99>1s", "measure": "p99", "unit": "ms", "value": 1e4, "kept": false},
                ],
            },
            "steady": {"duration_s": 10.0, "transactions": {"get": part}, "all": part},
            "errors": {"timeout": 3},
            "error_samples": {"timeout": ["get: GET /\u{1b}[2J: no complete response in time"]},
            "dropped": 2, "arrivals_planned": 102, "arrivals_actual": 100,
            "driver": {"evidence": ["fine: a", "limit: the loop used 95 % of a core"]},
        });
        let found = text(&summary, Path::new("out"));
        let mut lines: Vec<&str> = found.lines().collect();
        assert_eq!(&lines[..2], ["failed: 3 of 100 transactions failed", "failed: p99 of get is too long"]);
        assert_eq!(lines.remove(2), "kept: p50 is 1.25 ms (--fail p50>2ms)");
        assert!(lines[4].starts_with("get ") && lines[4].ends_with(">=10000.00  >=10001.00"), "{found}");
        assert_eq!(
            lines[6],
            "3 of 100 transactions got no answer in time, so at least the figure shown: mean, p99, max"
        );
        assert_eq!(&lines[7..9], ["errors: timeout 3", "  timeout: get: GET /?[2J: no complete response in time"]);
        assert_eq!(lines[10], "the driver was the limit: the loop used 95 % of a core");
        assert_eq!(lines[9], "arrivals: 102 planned, 100 started, 2 dropped");
    }
}
