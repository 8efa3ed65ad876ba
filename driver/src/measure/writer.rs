//! The second thread: turns slices into rows, interval logs, progress lines and totals, so that the loop
//! never waits for a disk or a compressor.

use super::slice::{merge, nanos, ErrorKind, Nanos, PerTransaction, Slice};
use crate::arrivals::Phase;
use crate::sys::process::lower_priority_of_thread;
use crate::units::millis;
use hdrhistogram::serialization::interval_log::{IntervalLogWriter, IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::V2DeflateSerializer;
use std::fs::File;
use std::io::{self, BufWriter, LineWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::time::{Duration, SystemTime};

const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    None,
    Json,
    Text,
}

/// Everything measured, summed over the run or over its steady phase.
#[derive(Debug)]
pub struct Totals {
    pub run: Vec<super::Counts>,
    pub steady: Vec<PerTransaction>,
    pub errors: [u64; ErrorKind::ALL.len()],
    pub blocked: Nanos,
    pub lag: Nanos,
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
    in_flight: u64,
}

/// Runs until the sender is gone; what was measured, or why it could not be written.
pub fn run(files: &Files<'_>, full: &Receiver<Slice>, empty: &Sender<Slice>) -> io::Result<Totals> {
    lower_priority_of_thread();
    let mut serializers = (V2DeflateSerializer::new(), V2DeflateSerializer::new());
    let mut logs = (
        LineWriter::new(File::create(files.directory.join("response.hlog"))?),
        LineWriter::new(File::create(files.directory.join("service.hlog"))?),
    );
    let mut rows = BufWriter::new(File::create(files.directory.join("seconds.csv"))?);
    writeln!(
        rows,
        "time_ns,second,phase,transaction,ok,failed,response_mean_ms,response_p50_ms,response_p99_ms,\
         service_mean_ms,in_flight,skipped"
    )?;
    rows.flush()?;
    let mut outputs = Outputs {
        files,
        rows,
        response: begin_log(files, "response time", &mut logs.0, &mut serializers.0)?,
        service: begin_log(files, "service time", &mut logs.1, &mut serializers.1)?,
        progress: files.progress,
    };
    let mut totals = Totals {
        run: vec![super::Counts::default(); files.names.len()],
        steady: files.names.iter().map(|_| PerTransaction::new()).collect(),
        errors: [0; ErrorKind::ALL.len()],
        blocked: nanos(),
        lag: nanos(),
        steady_ns: 0,
        area: 0,
        residence: 0,
    };
    let mut second = Second {
        index: 0,
        start: 0,
        end: 0,
        phase: Phase::RampUp,
        transactions: files.names.iter().map(|_| PerTransaction::new()).collect(),
        in_flight: 0,
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
        second.end = slice.end;
        second.in_flight = slice.in_flight;
        totals.take(&slice);
        for (sum, part) in second.transactions.iter_mut().zip(&slice.transactions) {
            sum.add(part);
        }
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

impl Totals {
    fn take(&mut self, slice: &Slice) {
        for (total, part) in self.run.iter_mut().zip(&slice.transactions) {
            total.add(&part.counts);
        }
        for (total, part) in self.errors.iter_mut().zip(&slice.errors) {
            *total += part;
        }
        if slice.phase == Phase::Steady {
            for (total, part) in self.steady.iter_mut().zip(&slice.transactions) {
                total.add(part);
            }
            merge(&mut self.blocked, &slice.blocked);
            merge(&mut self.lag, &slice.lag);
            self.steady_ns += slice.end - slice.start;
            self.area += slice.area;
            self.residence += slice.residence;
        }
    }
}

type Log<'a, 'b> = IntervalLogWriter<'a, 'b, LineWriter<File>, V2DeflateSerializer>;

fn begin_log<'a, 'b>(
    files: &Files<'_>,
    what: &str,
    output: &'a mut LineWriter<File>,
    serializer: &'b mut V2DeflateSerializer,
) -> io::Result<Log<'a, 'b>> {
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment(&format!("[leadline-load/1: {what} in nanoseconds, tag = transaction, maxima in ms]"))
        .with_start_time(files.started)
        .with_base_time(files.started)
        .with_max_value_divisor(1e6)
        .begin_log_with(output, serializer)?;
    log.write_comment("")?;
    Ok(log)
}

struct Outputs<'f, 'a, 'b> {
    files: &'f Files<'f>,
    rows: BufWriter<File>,
    response: Log<'a, 'b>,
    service: Log<'a, 'b>,
    progress: Progress,
}

impl Outputs<'_, '_, '_> {
    /// Writes a second out, flushed, and clears it.
    fn finish(&mut self, second: &mut Second) -> io::Result<()> {
        let mut all = PerTransaction::new();
        let start = Duration::from_nanos(second.start);
        let length = Duration::from_nanos(second.end - second.start);
        for at in 0..second.transactions.len() {
            let part = &second.transactions[at];
            if part.counts.total() > 0 {
                all.add(part);
                let name = &self.files.names[at];
                self.row(second, name, part)?;
                write_interval(&mut self.response, &part.response, start, length, name)?;
                write_interval(&mut self.service, &part.service, start, length, name)?;
            }
            second.transactions[at].clear();
        }
        self.row(second, "all", &all)?;
        self.rows.flush()?;
        if report(second, &all, self.progress).is_err() {
            self.progress = Progress::None; // nobody reads it any more
        }
        second.start = second.end;
        Ok(())
    }

    fn row(&mut self, second: &Second, name: &str, part: &PerTransaction) -> io::Result<()> {
        let started = self.files.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let unix = started.as_nanos() + u128::from(second.start);
        let (index, phase, counts) = (second.index, second.phase.as_str(), &part.counts);
        write!(self.rows, "{unix},{index},{phase},{name},{},{},", counts.ok, counts.failed)?;
        if part.response.is_empty() {
            write!(self.rows, ",,,,")?;
        } else {
            let p = |q| millis(part.response.value_at_quantile(q));
            let (response, service) = (part.response.mean() / 1e6, part.service.mean() / 1e6);
            write!(self.rows, "{response:.4},{:.4},{:.4},{service:.4},", p(0.5), p(0.99))?;
        }
        writeln!(self.rows, "{},{}", second.in_flight, counts.skipped)
    }
}

fn write_interval(
    log: &mut Log<'_, '_>,
    histogram: &Nanos,
    start: Duration,
    length: Duration,
    tag: &str,
) -> io::Result<()> {
    if histogram.is_empty() {
        return Ok(());
    }
    log.write_histogram(histogram, start, length, Tag::new(tag)).map_err(|error| io::Error::other(error.to_string()))
}

fn report(second: &Second, all: &PerTransaction, progress: Progress) -> io::Result<()> {
    let length = (second.end - second.start) as f64 / 1e9;
    let rate = all.counts.ok as f64 / length.max(1e-9);
    let p = |q| if all.response.is_empty() { 0.0 } else { millis(all.response.value_at_quantile(q)) };
    let (errors, in_flight, phase) = (all.counts.failed, second.in_flight, second.phase.as_str());
    let mut out = io::stdout().lock();
    match progress {
        Progress::None => Ok(()),
        Progress::Json => writeln!(
            out,
            "{{\"t\":{},\"phase\":\"{phase}\",\"tps\":{rate:.1},\"p50_ms\":{:.3},\"p99_ms\":{:.3},\
             \"errors\":{errors},\"in_flight\":{in_flight}}}",
            second.index + 1,
            p(0.5),
            p(0.99)
        ),
        Progress::Text => writeln!(
            out,
            "{:>5} s  {phase:<9} {rate:>9.1}/s  p50 {:>8.2} ms  p99 {:>8.2} ms  errors {errors}  in flight {in_flight}",
            second.index + 1,
            p(0.5),
            p(0.99)
        ),
    }?;
    out.flush()
}
