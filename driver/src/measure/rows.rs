//! The tables of the run: a row a second, flushed as it ends.

use super::slice::{ErrorKind, PerTransaction, Times, Work};
use crate::arrivals::Phase;
use crate::units::millis;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::SystemTime;

const SECONDS: &str = "time_ns,second,phase,transaction,ok,failed,response_mean_ms,response_p50_ms,response_p99_ms,\
                       service_mean_ms,in_flight,skipped";
const OUTCOMES: &str = "time_ns,second,phase,transaction,what,name,count";
const DRIVER: &str = "time_ns,second,phase,planned,started,dropped,requests,cpu_s,lag_mean_ms,lag_p99_ms,lag_max_ms,\
                      timer_mean_ms,timer_p99_ms,reading_mean_ms,reading_p99_ms";

/// Seconds of the run as they stand in each row.
pub struct When {
    /// Nanoseconds since the start of the run.
    pub start: u64,
    pub second: u64,
    pub phase: Phase,
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

    /// One transaction, or all, in a second.
    pub fn transaction(&mut self, when: &When, name: &str, part: &PerTransaction, in_flight: u64) -> io::Result<()> {
        let (head, counts) = (head(self.started, when), &part.counts);
        write!(self.seconds, "{head},{name},{},{},", counts.ok, counts.failed)?;
        if part.response.get().is_none() {
            write!(self.seconds, ",,,,")?;
        } else {
            let p = |q| millis(part.response.quantile(q));
            let (response, service) = (part.response.mean() / 1e6, part.service.mean() / 1e6);
            write!(self.seconds, "{response:.4},{:.4},{:.4},{service:.4},", p(0.5), p(0.99))?;
        }
        writeln!(self.seconds, "{in_flight},{}", counts.skipped)
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
