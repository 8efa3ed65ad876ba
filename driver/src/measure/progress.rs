//! The line that a driver writes of each second: as it is told, and as it is read by who adds those of several.

use crate::arrivals::Phase;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Progress {
    None,
    Json,
    Text,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// The second, from 1.
    pub t: u64,
    pub phase: Phase,
    /// Successful transactions a second.
    #[serde(serialize_with = "tenths")]
    pub tps: f64,
    #[serde(serialize_with = "thousandths")]
    pub p50_ms: f64,
    #[serde(serialize_with = "thousandths")]
    pub p99_ms: f64,
    /// Times from here on are lower bounds, as transactions got no answer; none where all did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered_from_ms: Option<f64>,
    pub errors: u64,
    pub in_flight: u64,
    pub sessions: u64,
    pub planned: u64,
    pub started: u64,
    pub dropped: u64,
    #[serde(serialize_with = "thousandths")]
    pub lag_p99_ms: f64,
    #[serde(serialize_with = "thousandths")]
    pub cpu_share: f64,
}

impl Line {
    /// The same second of another driver: counts and rates add up, of the others the higher one counts.
    pub fn add(&mut self, other: &Line) {
        self.tps += other.tps;
        for (sum, part) in [
            (&mut self.errors, other.errors),
            (&mut self.in_flight, other.in_flight),
            (&mut self.sessions, other.sessions),
            (&mut self.planned, other.planned),
            (&mut self.started, other.started),
            (&mut self.dropped, other.dropped),
        ] {
            *sum += part;
        }
        for (most, own) in [
            (&mut self.p50_ms, other.p50_ms),
            (&mut self.p99_ms, other.p99_ms),
            (&mut self.lag_p99_ms, other.lag_p99_ms),
            (&mut self.cpu_share, other.cpu_share),
        ] {
            *most = most.max(own);
        }
        let from = [self.unanswered_from_ms, other.unanswered_from_ms];
        self.unanswered_from_ms = from.into_iter().flatten().reduce(f64::min);
    }

    /// With `>=` where it is a lower bound.
    fn bounded(&self, ms: f64) -> String {
        let least = if self.unanswered_from_ms.is_some_and(|from| ms >= from) { ">= " } else { "" };
        format!("{least}{ms:.2}")
    }

    /// To standard output.
    pub fn tell(&self, progress: Progress) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match progress {
            Progress::None => return Ok(()),
            Progress::Json => writeln!(out, "{}", serde_json::to_string(self)?),
            Progress::Text => writeln!(
                out,
                "{:>5} s  {:<9} {:>9.1}/s  p50 {:>8} ms  p99 {:>8} ms  errors {}  in flight {}",
                self.t,
                self.phase.as_str(),
                self.tps,
                self.bounded(self.p50_ms),
                self.bounded(self.p99_ms),
                self.errors,
                self.in_flight
            ),
        }?;
        out.flush()
    }
}

fn tenths<S: serde::Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64((value * 10.0).round() / 10.0)
}

fn thousandths<S: serde::Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64((value * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_that_hang_on_unanswered_transactions_are_lower_bounds() {
        let second = |p99_ms: f64, from: &str| -> Line {
            serde_json::from_str(&format!(
                r#"{{"t":1,"phase":"steady","tps":9.0,"p50_ms":2.0,"p99_ms":{p99_ms}{from},"errors":0,"in_flight":0,
                "sessions":1,"planned":1,"started":1,"dropped":0,"lag_p99_ms":0.0,"cpu_share":0.1}}"#
            ))
            .expect("a line")
        };
        let mut all = second(3.0, "");
        assert_eq!(all.bounded(all.p99_ms), "3.00");
        assert!(!serde_json::to_string(&all).expect("JSON").contains("unanswered"));
        all.add(&second(1000.0, r#","unanswered_from_ms":1000.0"#));
        assert_eq!((all.bounded(all.p50_ms), all.bounded(all.p99_ms)), ("2.00".into(), ">= 1000.00".into()));
        assert!(serde_json::to_string(&all).expect("JSON").contains(r#""unanswered_from_ms":1000.0"#));
    }
}
