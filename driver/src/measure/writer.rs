//! The second thread: turns slices into rows, interval logs, progress lines and totals, so that the loop
//! never waits for a disk or a compressor.

use super::intervals::{self, Log};
use super::progress::{Line, Progress};
use super::rows::{DriverRows, Own, Records, Rows, When};
use super::slice::{Ended, Marked, PerTransaction, Slice, Work, TIMES};
use super::times::Times;
use crate::arrivals::{Phase, Phases};
use crate::sys::process::lower_priority_of_thread;
use crate::units::millis;
use hdrhistogram::serialization::V2DeflateSerializer;
use std::collections::VecDeque;
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
    /// Of what was due in the steady phase.
    pub steady: Vec<PerTransaction>,
    /// Arrivals due in it that were never started.
    pub dropped: u64,
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
    pub phases: Phases,
    /// Whether every transaction is recorded.
    pub records: bool,
}

/// The loop's side of the two channels: full slices go out, cleared ones come back.
pub struct Outlet {
    pub full: SyncSender<Slice>,
    pub empty: Receiver<Slice>,
}

/// The second under way, and what was due in it so far.
struct Second {
    index: u64,
    start: u64,
    end: u64,
    phase: Phase,
    transactions: Vec<PerTransaction>,
    dropped: u64,
    /// Those that ended in it and were due before it.
    late: PerTransaction,
    lag: Times,
    timer: Times,
    reading: Times,
    in_flight: u64,
    sessions: usize,
    /// At the end of it.
    work: Work,
}

/// A second that is over, of which some transactions may have no outcome yet.
struct Open {
    end: u64,
    when: When,
    /// Without their times, which are packed.
    transactions: Vec<PerTransaction>,
    times: Vec<[Vec<(u64, u64)>; TIMES.len()]>,
    dropped: u64,
    /// Those that ended later, and times of their requests.
    late: Vec<Ended>,
    late_marks: Vec<Marked>,
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
    let nothing = vec![PerTransaction::default(); files.names.len()];
    let mut outputs = Outputs {
        files,
        rows: Rows::begin(files.directory, files.started)?,
        driver: DriverRows::begin(files.directory, files.started)?,
        records: files.records.then(|| Records::begin(files.directory)).transpose()?,
        logs: begun,
        progress: files.progress,
        before: Work::default(),
        open: VecDeque::new(),
        whole: nothing.clone(),
        all: PerTransaction::default(),
    };
    let mut totals = Totals::new(&nothing);
    let mut second = Second::new(nothing);
    while let Ok(mut slice) = full.recv() {
        if slice.start / SECOND != second.index && second.end > second.start {
            outputs.pass(&mut second)?;
        }
        if second.end == second.start {
            second.index = slice.start / SECOND;
            second.start = slice.start;
            second.phase = slice.phase;
        }
        outputs.record(&slice)?;
        totals.take(&slice, &files.phases);
        second.take(&slice);
        outputs.take_late(&slice, &mut second);
        slice.clear();
        let (complete, settled) = (slice.end % SECOND == 0, slice.settled);
        let _ = empty.send(slice);
        if complete {
            outputs.pass(&mut second)?;
        }
        outputs.write_until(settled)?;
    }
    if second.end > second.start {
        outputs.pass(&mut second)?;
    }
    outputs.write_until(u64::MAX)?;
    Ok(totals)
}

impl Second {
    fn new(transactions: Vec<PerTransaction>) -> Self {
        Second {
            index: 0,
            start: 0,
            end: 0,
            phase: Phase::RampUp,
            transactions,
            dropped: 0,
            late: PerTransaction::default(),
            lag: Times::default(),
            timer: Times::default(),
            reading: Times::default(),
            in_flight: 0,
            sessions: 0,
            work: Work::default(),
        }
    }

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

    /// What was due in it leaves it.
    fn pass(&mut self) -> Open {
        let when = When { start: self.start, second: self.index, phase: self.phase, in_flight: self.in_flight };
        let times = self.transactions.iter().map(|part| part.times().map(Times::packed)).collect();
        let mut transactions = vec![PerTransaction::default(); self.transactions.len()];
        transactions.iter_mut().zip(&self.transactions).for_each(|(sum, part)| sum.tally(part));
        Open {
            end: self.end,
            when,
            transactions,
            times,
            dropped: std::mem::take(&mut self.dropped),
            late: Vec::new(),
            late_marks: Vec::new(),
        }
    }

    fn clear(&mut self) {
        self.transactions.iter_mut().for_each(PerTransaction::clear);
        self.late.clear();
        for times in [&mut self.lag, &mut self.timer, &mut self.reading] {
            times.clear();
        }
        self.start = self.end;
    }
}

impl Open {
    /// All that was due in it, into empty `whole`.
    fn unpack(&self, whole: &mut [PerTransaction]) {
        for ((sum, part), packed) in whole.iter_mut().zip(&self.transactions).zip(&self.times) {
            sum.tally(part);
            for (times, values) in sum.times_mut().into_iter().zip(packed) {
                values.iter().for_each(|(ns, count)| times.record_n(*ns, *count));
            }
        }
        self.late.iter().for_each(|ended| whole[ended.transaction].book(ended));
        self.late_marks.iter().for_each(|marked| whole[marked.transaction].mark(marked));
    }
}

impl Totals {
    fn new(nothing: &[PerTransaction]) -> Self {
        Totals {
            run: nothing.to_vec(),
            steady: nothing.to_vec(),
            dropped: 0,
            lag: Times::default(),
            timer: Times::default(),
            reading: Times::default(),
            steady_ns: 0,
            area: 0,
            residence: 0,
        }
    }

    fn take(&mut self, slice: &Slice, phases: &Phases) {
        for (total, part) in self.run.iter_mut().zip(&slice.transactions) {
            total.tally(part);
        }
        for ended in &slice.late {
            self.run[ended.transaction].count(ended);
            if phases.at(ended.due) == Phase::Steady {
                self.steady[ended.transaction].book(ended);
            }
        }
        for marked in slice.late_marks.iter().filter(|marked| phases.at(marked.due) == Phase::Steady) {
            self.steady[marked.transaction].mark(marked);
        }
        self.dropped += slice.dropped.iter().filter(|due| phases.at(**due) == Phase::Steady).count() as u64;
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
    records: Option<Records>,
    logs: Vec<Log<'a, 'b, LineWriter<File>>>,
    progress: Progress,
    /// At the end of the second before.
    before: Work,
    /// Seconds that were not written yet, one after the other.
    open: VecDeque<Open>,
    /// What is being written; empty between seconds.
    whole: Vec<PerTransaction>,
    all: PerTransaction,
}

impl Outputs<'_, '_, '_> {
    fn record(&mut self, slice: &Slice) -> io::Result<()> {
        let (Some(records), Some(ended)) = (&mut self.records, &slice.records) else { return Ok(()) };
        ended.iter().try_for_each(|ended| records.ended(self.files.names, ended))?;
        slice.dropped.iter().try_for_each(|due| records.dropped(*due))?;
        records.flush()
    }

    /// Counts what ended late, and arrivals that were dropped, where they were due.
    fn take_late(&mut self, slice: &Slice, second: &mut Second) {
        let first = self.open.front().map_or(second.index, |open| open.when.second);
        for ended in &slice.late {
            let at = ended.due / SECOND;
            if at == second.index {
                second.transactions[ended.transaction].book(ended);
                continue;
            }
            second.late.book(ended);
            assert!(at >= first, "second {at} was written before all its transactions were over");
            self.open[(at - first) as usize].late.push(*ended);
        }
        for marked in &slice.late_marks {
            match marked.due / SECOND {
                at if at == second.index => second.transactions[marked.transaction].mark(marked),
                at => self.open[(at - first) as usize].late_marks.push(*marked),
            }
        }
        for due in &slice.dropped {
            match due / SECOND {
                at if at == second.index => second.dropped += 1,
                at => self.open[(at - first) as usize].dropped += 1,
            }
        }
    }

    /// The second is over: tells what ended in it, and keeps what was due in it until all of that has ended.
    fn pass(&mut self, second: &mut Second) -> io::Result<()> {
        self.open.push_back(second.pass());
        let mut ended = std::mem::take(&mut second.late);
        second.transactions.iter().for_each(|part| ended.add(part));
        let when = When { start: second.start, second: second.index, phase: second.phase, in_flight: second.in_flight };
        let own = Own { lag: &second.lag, timer: &second.timer, reading: &second.reading };
        self.driver.write(&when, &self.before, &second.work, &own)?;
        self.driver.flush()?;
        if line(second, &ended, &self.before).tell(self.progress).is_err() {
            self.progress = Progress::None; // nobody reads it any more
        }
        self.before = second.work;
        second.clear();
        Ok(())
    }

    /// Writes the seconds before `settled` out, flushed.
    fn write_until(&mut self, settled: u64) -> io::Result<()> {
        while self.open.front().is_some_and(|open| open.when.second < settled) {
            let Some(open) = self.open.pop_front() else { break };
            open.unpack(&mut self.whole);
            let (start, length) =
                (Duration::from_nanos(open.when.start), Duration::from_nanos(open.end - open.when.start));
            for (part, name) in self.whole.iter().zip(self.files.names) {
                let marked = part.marks.iter().any(|times| times.get().is_some());
                if part.counts.total() > 0 || !part.statuses.is_empty() || marked {
                    self.all.add(part);
                    self.rows.transaction(&open.when, name, part)?;
                    self.rows.outcomes(&open.when, name, part)?;
                    for (log, times) in self.logs.iter_mut().zip(part.times()) {
                        intervals::write(log, times, start, length, name)?;
                    }
                }
            }
            self.rows.all(&open.when, &self.all, open.dropped)?;
            self.rows.flush()?;
            self.whole.iter_mut().for_each(PerTransaction::clear);
            self.all.clear();
        }
        Ok(())
    }
}

/// What ended in the second.
fn line(second: &Second, ended: &PerTransaction, before: &Work) -> Line {
    let length = ((second.end - second.start) as f64 / 1e9).max(1e-9);
    Line {
        t: second.index + 1,
        phase: second.phase,
        tps: ended.counts.ok as f64 / length,
        p50_ms: millis(ended.response.quantile(0.5)),
        p99_ms: millis(ended.response.quantile(0.99)),
        unanswered_from_ms: ended.unanswered_from.map(millis),
        errors: ended.counts.failed,
        in_flight: second.in_flight,
        sessions: second.sessions as u64,
        planned: second.work.planned - before.planned,
        started: second.work.started - before.started,
        dropped: second.work.dropped - before.dropped,
        lag_p99_ms: millis(second.lag.quantile(0.99)),
        cpu_share: (second.work.cpu - before.cpu) / length,
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
