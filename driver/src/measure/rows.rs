//! The tables of the run: a row a second, flushed as it ends.

use super::outcome::{ErrorKind, Outcome};
use super::slice::{Ended, PerTransaction, Work};
use super::times::Times;
use crate::arrivals::Phase;
use crate::units::millis;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::SystemTime;

const SECONDS: &str = "time_ns,second,phase,transaction,ok,failed,response_mean_ms,response_p50_ms,response_p99_ms,\
                       service_mean_ms,in_flight,skipped,unanswered,unanswered_from_ms,dropped";
const OUTCOMES: &str = "time_ns,second,phase,transaction,what,name,count";
const DRIVER: &str = "time_ns,second,phase,planned,started,dropped,requests,cpu_s,lag_mean_ms,lag_p99_ms,lag_max_ms,\
                      timer_mean_ms,timer_p99_ms,reading_mean_ms,reading_p99_ms";

/// Seconds of the run as they stand in each row.
pub struct When {
    /// Nanoseconds since the start of the run.
    pub start: u64,
    pub second: u64,
    pub phase: Phase,
    /// Transactions in flight at its end.
    pub in_flight: u64,
}

/// What the loop measured of itself.
pub struct Own<'a> {
    pub lag: &'a Times,
    pub timer: &'a Times,
    pub reading: &'a Times,
}

impl<'a> Own<'a> {
    pub fn named(&self) -> [(&'static str, &'a Times); 3] {
        [("lag", self.lag), ("timer", self.timer), ("reading", self.reading)]
    }
}

/// The name of the row of all transactions.
pub const ALL: &str = "all";

/// `seconds.csv` and `outcomes.csv`.
pub struct Rows {
    /// Unix nanoseconds.
    started: u128,
    seconds: BufWriter<File>,
    outcomes: BufWriter<File>,
}

/// `transactions.csv`: every transaction as it ended, and arrivals that were dropped.
pub struct Records(BufWriter<File>);

impl Records {
    pub fn begin(directory: &Path) -> io::Result<Self> {
        begin(directory, "transactions.csv", "due_ns,end_ns,transaction,outcome,response_ns").map(Records)
    }

    /// Moments are nanoseconds since the start of the run. A response time stands where one is known, of the unanswered
    /// ones as their age.
    pub fn ended(&mut self, names: &[String], ended: &Ended) -> io::Result<()> {
        let (outcome, name) = (ended.outcome, &names[ended.transaction]);
        write!(self.0, "{},{},{name},{},", ended.due, ended.end, outcome.as_str())?;
        match outcome == Outcome::Ok || outcome.is_unanswered() {
            true => writeln!(self.0, "{}", ended.response),
            false => writeln!(self.0),
        }
    }

    pub fn dropped(&mut self, due: u64) -> io::Result<()> {
        writeln!(self.0, "{due},,,dropped,")
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// `driver.csv`.
pub struct DriverRows {
    /// Unix nanoseconds.
    started: u128,
    output: BufWriter<File>,
}

fn begin(directory: &Path, name: &str, header: &str) -> io::Result<BufWriter<File>> {
    let mut file = BufWriter::new(File::create(directory.join(name))?);
    writeln!(file, "{header}")?;
    file.flush()?;
    Ok(file)
}

fn unix_ns(time: SystemTime) -> u128 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos()
}

/// The first cells of a row.
fn head(started: u128, when: &When) -> String {
    format!("{},{},{}", started + u128::from(when.start), when.second, when.phase.as_str())
}

impl Rows {
    pub fn begin(directory: &Path, started: SystemTime) -> io::Result<Self> {
        Ok(Rows {
            started: unix_ns(started),
            seconds: begin(directory, "seconds.csv", SECONDS)?,
            outcomes: begin(directory, "outcomes.csv", OUTCOMES)?,
        })
    }

    /// One transaction that was due in a second.
    pub fn transaction(&mut self, when: &When, name: &str, part: &PerTransaction) -> io::Result<()> {
        self.counts(when, name, part, 0)
    }

    /// All transactions that were due in a second, with `dropped` arrivals that were never started.
    pub fn all(&mut self, when: &When, all: &PerTransaction, dropped: u64) -> io::Result<()> {
        self.counts(when, ALL, all, dropped)
    }

    fn counts(&mut self, when: &When, name: &str, part: &PerTransaction, dropped: u64) -> io::Result<()> {
        let (head, counts) = (head(self.started, when), &part.counts);
        write!(self.seconds, "{head},{name},{},{},", counts.ok, counts.failed)?;
        if part.response.get().is_none() {
            write!(self.seconds, ",,,,")?;
        } else {
            let p = |q| millis(part.response.quantile(q));
            let (response, service) = (part.response.mean() / 1e6, part.service.mean() / 1e6);
            write!(self.seconds, "{response:.4},{:.4},{:.4},{service:.4},", p(0.5), p(0.99))?;
        }
        let from = part.unanswered_from.map(|ns| format!("{:.6}", millis(ns))).unwrap_or_default();
        writeln!(self.seconds, "{},{},{},{from},{dropped}", when.in_flight, counts.skipped, part.unanswered)
    }

    /// Responses by status and failed transactions by kind; nothing for those that did not happen.
    pub fn outcomes(&mut self, when: &When, name: &str, part: &PerTransaction) -> io::Result<()> {
        let head = head(self.started, when);
        for (status, count) in &part.statuses {
            writeln!(self.outcomes, "{head},{name},status,{status},{count}")?;
        }
        for (kind, count) in ErrorKind::ALL.iter().zip(&part.errors).filter(|(_, count)| **count > 0) {
            writeln!(self.outcomes, "{head},{name},error,{},{count}", kind.as_str())?;
        }
        Ok(())
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.seconds.flush()?;
        self.outcomes.flush()
    }
}

impl DriverRows {
    pub fn begin(directory: &Path, started: SystemTime) -> io::Result<Self> {
        Ok(DriverRows { started: unix_ns(started), output: begin(directory, "driver.csv", DRIVER)? })
    }

    /// What the driver did in a second, and how well.
    pub fn write(&mut self, when: &When, before: &Work, now: &Work, own: &Own<'_>) -> io::Result<()> {
        let head = head(self.started, when);
        let (planned, started) = (now.planned - before.planned, now.started - before.started);
        let (dropped, requests) = (now.dropped - before.dropped, now.requests - before.requests);
        let cpu = now.cpu - before.cpu;
        write!(self.output, "{head},{planned},{started},{dropped},{requests},{cpu:.6}")?;
        self.times(own.lag, &[0.99, 1.0])?;
        self.times(own.timer, &[0.99])?;
        self.times(own.reading, &[0.99])?;
        writeln!(self.output)
    }

    /// Mean and quantiles; empty where nothing was recorded.
    fn times(&mut self, times: &Times, shares: &[f64]) -> io::Result<()> {
        if times.get().is_none() {
            return write!(self.output, ",{}", ",".repeat(shares.len()));
        }
        write!(self.output, ",{:.4}", times.mean() / 1e6)?;
        shares.iter().try_for_each(|share| write!(self.output, ",{:.4}", millis(times.quantile(*share))))
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
