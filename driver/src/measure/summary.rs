//! summary.json.

use super::evidence::{self, Evidence};
use super::outcome::ErrorKind;
use super::slice::{PerTransaction, MARKS, TIMES};
use super::times::Times;
use super::writer::Totals;
use crate::arrivals::{Model, Phases};
use crate::scenario::{Measure, Scenario};
use crate::share::Share;
use crate::sys::process::{Cpu, Scheduling};
use crate::units::{millis, seconds};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;

/// What the loop counted besides the slices.
#[derive(Debug, Default, Clone)]
pub struct LoopResult {
    /// End of the run, nanoseconds since its start.
    pub drained: u64,
    /// Requests that got a whole response.
    pub requests: u64,
    /// Requests sent, the same one again included.
    pub sent: u64,
    /// Times that a request was sent again, which its server had not looked at.
    pub repeated: u64,
    /// Events of streams, and messages of WebSockets, that came, and messages sent.
    pub events: u64,
    pub messages_sent: u64,
    /// Times that a user who was logged out logged in again.
    pub logins_again: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub connects: u64,
    pub reconnects: u64,
    /// Connections that this host could not make: no port, open file or memory left.
    pub unmade: u64,
    pub tls_handshakes: u64,
    /// Handshakes that took an earlier session of the same user up.
    pub tls_resumed: u64,
    pub http2_connections: u64,
    pub planned: u64,
    pub started: u64,
    pub dropped: u64,
    /// CPU of the loop's thread in the steady phase, seconds.
    pub steady_cpu: f64,
    pub interrupted: bool,
    /// When the last transaction succeeded, nanoseconds since the start.
    pub last_ok: u64,
    /// Transactions that were given up since then without an answer.
    pub silent: u64,
    /// The longest time of the steady phase between two that succeeded, nanoseconds.
    pub gap: u64,
    /// Where sessions share connections: most there were at once, and requests that waited for one in use.
    pub shared: Option<(usize, u64)>,
    /// At most a few messages of each kind of error.
    pub samples: Vec<(ErrorKind, String)>,
}

pub struct Inputs<'a> {
    pub scenario: &'a Scenario,
    pub url: &'a str,
    pub seed: u64,
    pub share: Share,
    pub model: Model,
    pub users: Option<u64>,
    pub rate: Option<f64>,
    pub profile: Option<&'a str>,
    pub bursts: Option<&'a str>,
    pub windows: Option<&'a str>,
    /// Time of the steady phase in which there was to be load, nanoseconds.
    pub loaded: u64,
    /// The same after the last transaction that succeeded.
    pub silence: u64,
    pub replay: Option<&'a std::path::Path>,
    pub phases: Phases,
    pub timeout: u64,
    pub grid: u64,
    pub started_unix_ns: u128,
    pub variables: &'a [(String, String)],
    pub scheduling: Scheduling,
    /// What the kernel allowed, microseconds, where it was asked.
    pub cpu_latency: Option<i32>,
}

pub fn summary(inputs: &Inputs<'_>, run: &LoopResult, totals: &Totals, cpu: Cpu) -> Value {
    let names: Vec<&str> = inputs.scenario.transactions.iter().map(|t| t.name.as_str()).collect();
    let length = seconds(totals.steady_ns.min(inputs.loaded));
    let mut all = PerTransaction::default();
    let mut steady = Map::new();
    for (name, part) in names.iter().zip(&totals.steady) {
        all.add(part);
        steady.insert((*name).to_string(), transaction(part, length));
    }
    let mut counts = Map::new();
    let mut whole = PerTransaction::default();
    for (name, part) in names.iter().zip(&totals.run) {
        counts.insert((*name).to_string(), count(part));
        whole.tally(part);
    }
    let errors = failed(&whole);
    let mut samples = Map::new();
    for (kind, _) in ErrorKind::ALL.iter().zip(&whole.errors).filter(|(_, count)| **count > 0) {
        let texts: Vec<&str> = run.samples.iter().filter(|(k, _)| k == kind).map(|(_, text)| text.as_str()).collect();
        samples.insert(kind.as_str().to_string(), json!(texts));
    }
    let share = if length > 0.0 { run.steady_cpu / length } else { 0.0 };
    let (limit, evidence) = evidence::judge(&Evidence {
        cpu_share: share,
        lag_mean: totals.lag.mean() as u64,
        lag_p99: totals.lag.quantile(0.99),
        response_mean: all.response.mean() as u64,
        response_p50: all.response.quantile(0.5),
        planned: run.planned,
        started: run.started,
        dropped: run.dropped,
        unmade: run.unmade,
    });
    let phases = &inputs.phases;
    let mut found = json!({
        "format": "leadline-load/1",
        "version": env!("CARGO_PKG_VERSION"),
        "completed": !run.interrupted,
        "scenario": {"name": inputs.scenario.name, "sha256": inputs.scenario.sha256},
        "variables": inputs.variables.iter().cloned().collect::<BTreeMap<_, _>>(),
        "url": inputs.url,
        "seed": inputs.seed,
        "arrivals": arrivals(inputs),
        "timeout_s": seconds(inputs.timeout),
        "started_unix_ns": inputs.started_unix_ns as u64,
        "phases": {
            "ramp_up": [0.0, seconds(phases.ramp_up)],
            "steady": [seconds(phases.ramp_up), seconds(phases.steady_end())],
            "ramp_down": [seconds(phases.steady_end()), seconds(phases.end())],
            "drained": seconds(run.drained),
        },
        "steady": {"duration_s": length, "transactions": steady, "all": of_all(&all, length, totals.dropped)},
        "silence": {
            "seconds": seconds(inputs.silence),
            "unanswered": run.silent,
            "longest_before_s": seconds(run.gap),
        },
        "total": counts,
        "requests": {
            "count": run.requests,
            "sent": run.sent,
            "repeated": run.repeated,
            "logins_again": run.logins_again,
            "events": run.events,
            "messages_sent": run.messages_sent,
            "bytes_in": run.bytes_in,
            "bytes_out": run.bytes_out,
            "connects": run.connects,
            "reconnects": run.reconnects,
            "unmade": run.unmade,
            "tls_handshakes": run.tls_handshakes,
            "tls_resumed": run.tls_resumed,
            "http2_connections": run.http2_connections,
        },
        "errors": errors,
        "error_samples": samples,
        "statuses": statuses(&whole),
        "blocked_ms": latency(&all.blocked),
        "connect_ms": latency(&all.connect),
        "arrivals_planned": run.planned,
        "arrivals_actual": run.started,
        "dropped": run.dropped,
        "driver": {
            "cpu_user_s": cpu.user,
            "cpu_system_s": cpu.system,
            "cpu_share": share,
            "scheduling": inputs.scheduling.as_str(),
            "cpu_latency_us": inputs.cpu_latency,
            "lag_ms": latency(&totals.lag),
            "timer_ms": latency(&totals.timer),
            "reading_ms": latency(&totals.reading),
            "limit": limit,
            "evidence": evidence,
        },
        "littles_law": littles_law(totals, length),
    });
    if let Some((peak, waited)) = run.shared {
        found["requests"]["shared_peak"] = json!(peak);
        found["requests"]["shared_waited"] = json!(waited);
    }
    if !inputs.share.is_whole() {
        found["share"] = json!(inputs.share.to_string());
    }
    let limits = limits(inputs, totals);
    if !limits.is_empty() {
        found["limits"] = Value::Array(limits);
    }
    found
}

/// The limits of the scenario, kept or not in the steady phase.
fn limits(inputs: &Inputs<'_>, totals: &Totals) -> Vec<Value> {
    let parts = inputs.scenario.transactions.iter().zip(&totals.steady);
    let stated = parts.flat_map(|(transaction, part)| transaction.limits.iter().map(move |l| (transaction, part, l)));
    stated
        .map(|(transaction, part, limit)| {
            let (unit, scale) = if limit.measure == Measure::Errors { ("share", 1.0) } else { ("ms", 1e6) };
            let mut found = json!({
                "transaction": transaction.name,
                "measure": limit.measure.as_str(),
                "unit": unit,
                "bound": limit.bound / scale,
            });
            judge_limit(&mut found, part);
            found
        })
        .collect()
}

/// Adds to a stated limit what was measured, and whether it is kept; null where nothing was measured.
pub fn judge_limit(limit: &mut Value, part: &PerTransaction) {
    let (measure, bound) = (limit["measure"].as_str().unwrap_or_default(), limit["bound"].as_f64().unwrap_or(0.0));
    let counted = part.counts.ok + part.counts.failed;
    let (value, at_least) = match FIGURES.iter().find(|(name, _)| *name == measure) {
        None => ((counted > 0).then(|| part.counts.failed as f64 / counted as f64), false),
        Some((name, share)) => (figure(&part.response, name, *share), is_at_least(part, name, *share)),
    };
    limit["value"] = json!(value);
    // What is only known to be at least so long does not show that a limit is kept.
    limit["kept"] = json!(value.map(|value| value <= bound && !at_least));
    if at_least {
        limit["at_least"] = json!(true);
    }
}

fn arrivals(inputs: &Inputs<'_>) -> Value {
    let mut found = json!({"model": inputs.model.as_str(), "users": inputs.users, "rate": inputs.rate});
    let replay = inputs.replay.map(|path| path.display().to_string());
    let texts = [
        ("profile", inputs.profile),
        ("bursts", inputs.bursts),
        ("windows", inputs.windows),
        ("replay", replay.as_deref()),
    ];
    for (key, text) in texts.into_iter().filter_map(|(key, text)| Some((key, text?))) {
        found[key] = json!(text);
    }
    let populations = inputs.scenario.populations.iter().filter(|population| !population.name.is_empty());
    let populations: BTreeMap<&str, u64> = populations.map(|found| (found.name.as_str(), found.users)).collect();
    if !populations.is_empty() {
        found["populations"] = json!(populations);
    }
    if inputs.grid > 0 {
        found["grid_ns"] = json!(inputs.grid);
    }
    found
}

fn count(part: &PerTransaction) -> Value {
    let counts = &part.counts;
    json!({
        "ok": counts.ok,
        "failed": counts.failed,
        "skipped": counts.skipped,
        "errors": failed(part),
        "statuses": statuses(part),
    })
}

/// Failed transactions by kind.
fn failed(part: &PerTransaction) -> BTreeMap<&'static str, u64> {
    ErrorKind::ALL.iter().zip(part.errors).filter(|(_, n)| *n > 0).map(|(kind, n)| (kind.as_str(), n)).collect()
}

/// Responses by status.
fn statuses(part: &PerTransaction) -> BTreeMap<String, u64> {
    part.statuses.iter().map(|(status, count)| (status.to_string(), *count)).collect()
}

/// One transaction that was due in a steady phase of `length` seconds.
pub fn transaction(part: &PerTransaction, length: f64) -> Value {
    let bounds: Vec<&str> =
        FIGURES.into_iter().filter(|(name, share)| is_at_least(part, name, *share)).map(|(name, _)| name).collect();
    json!({
        "ok": part.counts.ok,
        "failed": part.counts.failed,
        "skipped": part.counts.skipped,
        "per_second": if length > 0.0 { part.counts.ok as f64 / length } else { 0.0 },
        "response_ms": latency(&part.response),
        "unanswered": part.unanswered,
        "unanswered_from_ns": part.unanswered_from,
        "response_at_least": bounds,
        "times_at_least": times_at_least(part),
        "censored_from_ns": part.censored_from,
        "service_ms": latency(&part.service),
        "connect_ms": latency(&part.connect),
        "blocked_ms": latency(&part.blocked),
        "first_byte_ms": latency(&part.marks[0]),
        "first_event_ms": latency(&part.marks[1]),
        "gap_ms": latency(&part.marks[2]),
    })
}

/// Figures of the times of requests and events that are only known to be at least so long.
fn times_at_least(part: &PerTransaction) -> BTreeMap<&'static str, Vec<&'static str>> {
    let marks = TIMES[TIMES.len() - MARKS..].iter().zip(&part.marks).zip(part.censored_from);
    let bounds = marks.filter_map(|(((name, _), times), from)| {
        let above = |name: &str, share: f64| name == "mean" || Some(times.quantile(share)) >= from;
        let figures = FIGURES.into_iter().filter(|(name, share)| above(name, *share)).map(|(name, _)| name);
        from.map(|_| (*name, figures.collect()))
    });
    bounds.collect()
}

/// All transactions together, and the arrivals that were never started.
pub fn of_all(all: &PerTransaction, length: f64, dropped: u64) -> Value {
    let mut found = transaction(all, length);
    found["dropped"] = json!(dropped);
    found
}

/// Names of the figures of times, and the quantiles they are (of the mean none).
const FIGURES: [(&str, f64); 7] =
    [("mean", 0.0), ("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)];

/// Whether a figure of the response times is only known to be at least so long: what is below the shortest time of an
/// unanswered transaction does not depend on how long they would have taken.
fn is_at_least(part: &PerTransaction, name: &str, share: f64) -> bool {
    part.unanswered_from.is_some_and(|from| name == "mean" || part.response.quantile(share) >= from)
}

/// Mean and percentiles in milliseconds; null where nothing was recorded.
pub fn latency(times: &Times) -> Value {
    FIGURES.iter().map(|(name, share)| (name.to_string(), json!(figure(times, name, *share)))).collect()
}

/// Milliseconds; None where nothing was recorded.
fn figure(times: &Times, name: &str, share: f64) -> Option<f64> {
    times.get()?;
    Some(if name == "mean" { times.mean() / 1e6 } else { millis(times.quantile(share)) })
}

/// L = lambda W over the steady phase: the transactions in flight as integrated by the loop, against ends a
/// second times their mean time in the driver. A difference means that transactions were lost or hung.
fn littles_law(totals: &Totals, length: f64) -> Value {
    if length <= 0.0 {
        return json!({"concurrency_observed": null, "concurrency_expected": null, "relative_error": null});
    }
    let observed = totals.area as f64 / 1e9 / length;
    let expected = totals.residence as f64 / 1e9 / length;
    let error = (observed > 0.0).then(|| (expected - observed) / observed);
    json!({"concurrency_observed": observed, "concurrency_expected": expected, "relative_error": error})
}
