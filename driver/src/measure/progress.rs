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
    }

    /// To standard output.
    pub fn tell(&self, progress: Progress) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match progress {
            Progress::None => return Ok(()),
            Progress::Json => writeln!(out, "{}", serde_json::to_string(self)?),
            Progress::Text => writeln!(
                out,
                "{:>5} s  {:<9} {:>9.1}/s  p50 {:>8.2} ms  p99 {:>8.2} ms  errors {}  in flight {}",
                self.t,
                self.phase.as_str(),
                self.tps,
                self.p50_ms,
                self.p99_ms,
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
