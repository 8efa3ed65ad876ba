//! The second thread: turns slices into rows, interval logs, progress lines and totals, so that the loop
//! never waits for a disk or a compressor.

use super::intervals::{self, Log};
use super::progress::{Line, Progress};
use super::rows::{DriverRows, Own, Rows, When, ALL};
use super::slice::{PerTransaction, Slice, Times, Work, TIMES};
use crate::arrivals::Phase;
use crate::sys::process::lower_priority_of_thread;
use crate::units::millis;
use hdrhistogram::serialization::V2DeflateSerializer;
use std::fs::File;
use std::io::{self, LineWriter};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::time::{Duration, SystemTime};

const SECOND: u64 = 1_000_000_000;

/// Everything measured, summed over the run or over its steady phase.
#[derive(Debug)]
pub struct Totals {
    /// Over the whole run; counts, errors and statuses only.
    pub run: Vec<PerTransaction>,
    pub steady: Vec<PerTransaction>,
    pub lag: Times,
    pub timer: Times,
    pub reading: Times,
    /// Sums over the steady phase; see [`Slice`].
    pub steady_ns: u64,
    pub area: u128,
    pub residence: u128,
}

pub struct Files<'a> {
    pub directory: &'a Path,
    pub names: &'a [String],
    pub started: SystemTime,
    pub progress: Progress,
}

/// The loop's side of the two channels: full slices go out, cleared ones come back.
pub struct Outlet {
    pub full: SyncSender<Slice>,
    pub empty: Receiver<Slice>,
}

struct Second {
    index: u64,
    start: u64,
    end: u64,
    phase: Phase,
    transactions: Vec<PerTransaction>,
    lag: Times,
    timer: Times,
    reading: Times,
    in_flight: u64,
    sessions: usize,
    /// At the end of it.
    work: Work,
}

/// Runs until the sender is gone; what was measured, or why it could not be written.
pub fn run(files: &Files<'_>, full: &Receiver<Slice>, empty: &Sender<Slice>) -> io::Result<Totals> {
    lower_priority_of_thread();
    let mut logs: Vec<LineWriter<File>> = Vec::new();
    for (name, _) in TIMES {
        logs.push(LineWriter::new(File::create_new(files.directory.join(format!("{name}.hlog")))?));
    }
    let mut serializers: Vec<V2DeflateSerializer> = TIMES.iter().map(|_| V2DeflateSerializer::new()).collect();
    let mut begun = Vec::new();
    for (((_, what), output), serializer) in TIMES.iter().zip(&mut logs).zip(&mut serializers) {
        let about = format!("{what} in nanoseconds, tag = transaction");
        begun.push(intervals::begin(output, serializer, files.started, &about)?);
    }
    let mut outputs = Outputs {
        files,
        rows: Rows::begin(files.directory, files.started)?,
        driver: DriverRows::begin(files.directory, files.started)?,
        logs: begun,
        progress: files.progress,
        before: Work::default(),
        all: PerTransaction::default(),
    };
    let empty_parts = vec![PerTransaction::default(); files.names.len()];
    let mut totals = Totals {
        run: empty_parts.clone(),
        steady: empty_parts.clone(),
        lag: Times::default(),
        timer: Times::default(),
        reading: Times::default(),
        steady_ns: 0,
        area: 0,
        residence: 0,
    };
    let mut second = Second {
        index: 0,
        start: 0,
        end: 0,
        phase: Phase::RampUp,
        transactions: empty_parts,
        lag: Times::default(),
        timer: Times::default(),
        reading: Times::default(),
        in_flight: 0,
        sessions: 0,
        work: Work::default(),
    };
    while let Ok(mut slice) = full.recv() {
        if slice.start / SECOND != second.index && second.end > second.start {
            outputs.finish(&mut second)?;
        }
        if second.end == second.start {
            second.index = slice.start / SECOND;
            second.start = slice.start;
            second.phase = slice.phase;
        }
        second.take(&slice);
        totals.take(&slice);
        slice.clear();
        let complete = slice.end % SECOND == 0;
        let _ = empty.send(slice);
        if complete {
            outputs.finish(&mut second)?;
        }
    }
    if second.end > second.start {
        outputs.finish(&mut second)?;
    }
    Ok(totals)
}

impl Second {
    fn take(&mut self, slice: &Slice) {
        self.end = slice.end;
        self.in_flight = slice.in_flight;
        self.sessions = slice.sessions;
        self.work = slice.work;
        for (sum, part) in self.transactions.iter_mut().zip(&slice.transactions) {
            sum.add(part);
        }
        self.lag.add(&slice.lag);
        self.timer.add(&slice.timer);
        self.reading.add(&slice.reading);
    }

    fn clear(&mut self) {
        self.transactions.iter_mut().for_each(PerTransaction::clear);
        for times in [&mut self.lag, &mut self.timer, &mut self.reading] {
            times.clear();
        }
        self.start = self.end;
    }
}

impl Totals {
    fn take(&mut self, slice: &Slice) {
        for (total, part) in self.run.iter_mut().zip(&slice.transactions) {
            total.tally(part);
        }
        if slice.phase == Phase::Steady {
            for (total, part) in self.steady.iter_mut().zip(&slice.transactions) {
                total.add(part);
            }
            self.lag.add(&slice.lag);
            self.timer.add(&slice.timer);
            self.reading.add(&slice.reading);
            self.steady_ns += slice.end - slice.start;
            self.area += slice.area;
            self.residence += slice.residence;
        }
    }
}

struct Outputs<'f, 'a, 'b> {
    files: &'f Files<'f>,
    rows: Rows,
    driver: DriverRows,
    logs: Vec<Log<'a, 'b, LineWriter<File>>>,
    progress: Progress,
    /// At the end of the second before.
    before: Work,
    /// The sum of a second's transactions; empty between seconds.
    all: PerTransaction,
}

impl Outputs<'_, '_, '_> {
    /// Writes a second out, flushed, and clears it.
    fn finish(&mut self, second: &mut Second) -> io::Result<()> {
        let start = Duration::from_nanos(second.start);
        let length = Duration::from_nanos(second.end - second.start);
        let when = When { start: second.start, second: second.index, phase: second.phase };
        for (part, name) in second.transactions.iter().zip(self.files.names) {
            if part.counts.total() > 0 || !part.statuses.is_empty() {
                self.all.add(part);
                self.rows.transaction(&when, name, part, second.in_flight)?;
                self.rows.outcomes(&when, name, part)?;
                for (log, times) in self.logs.iter_mut().zip(part.times()) {
                    intervals::write(log, times, start, length, name)?;
                }
            }
        }
        self.rows.transaction(&when, ALL, &self.all, second.in_flight)?;
        let own = Own { lag: &second.lag, timer: &second.timer, reading: &second.reading };
        self.driver.write(&when, &self.before, &second.work, &own)?;
        self.rows.flush()?;
        self.driver.flush()?;
        if line(second, &self.all, &self.before).tell(self.progress).is_err() {
            self.progress = Progress::None; // nobody reads it any more
        }
        self.before = second.work;
        self.all.clear();
        second.clear();
        Ok(())
    }
}

fn line(second: &Second, all: &PerTransaction, before: &Work) -> Line {
    let length = ((second.end - second.start) as f64 / 1e9).max(1e-9);
    Line {
        t: second.index + 1,
        phase: second.phase,
        tps: all.counts.ok as f64 / length,
        p50_ms: millis(all.response.quantile(0.5)),
        p99_ms: millis(all.response.quantile(0.99)),
        errors: all.counts.failed,
        in_flight: second.in_flight,
        sessions: second.sessions as u64,
        planned: second.work.planned - before.planned,
        started: second.work.started - before.started,
        dropped: second.work.dropped - before.dropped,
        lag_p99_ms: millis(second.lag.quantile(0.99)),
        cpu_share: (second.work.cpu - before.cpu) / length,
    }
}
