//! The results of several drivers in step as one driver would have written them: counts added up, histograms added
//! bucket by bucket.

mod part;
mod summary;

use crate::arrivals::Phase;
use crate::measure::document;
use crate::measure::earlier;
use crate::measure::intervals::{self, Interval, Reader};
use crate::measure::rows::{Own, Rows, When, ALL};
use crate::measure::slice::{PerTransaction, TIMES};
use crate::measure::times::Times;
use crate::measure::whole::{self, Steady};
use crate::Failure;
use clap::Args;
use hdrhistogram::serialization::V2DeflateSerializer;
use part::{Notes, Part};
use serde_json::{json, Map, Value};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const SECOND: u64 = 1_000_000_000;

#[derive(Debug, Args)]
pub struct MergeOptions {
    /// The directories with the drivers' results; the last part of its path is a driver's name.
    #[arg(required = true, value_name = "PART")]
    pub parts: Vec<PathBuf>,
    /// Where summary.json, seconds.csv, outcomes.csv and the histogram logs go; results of an earlier run there are
    /// refused.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Remove the results of an earlier run from --out instead.
    #[arg(long)]
    pub replace: bool,
    /// Unix time of the common start in nanoseconds (default: that of the first part).
    #[arg(long, value_name = "NS")]
    pub start: Option<u64>,
    /// A list with an object for each part: what else `drivers` in summary.json says of it.
    #[arg(long, value_name = "JSON", value_parser = part::parse_notes)]
    pub notes: Option<Notes>,
}

/// Merges what is in the parts' directories. Fails where results are missing or cut off, or are not of the same run.
pub fn merge(options: &MergeOptions) -> Result<(), Failure> {
    let notes = options.notes.clone().unwrap_or_else(|| vec![Map::new(); options.parts.len()]);
    if notes.len() != options.parts.len() {
        let (notes, parts) = (notes.len(), options.parts.len());
        return Err(Failure::Usage(format!(
            "--notes has {notes} objects for {parts} parts: one for each, in their order"
        )));
    }
    let parts: Vec<Part> = options.parts.iter().map(|path| Part::read(path)).collect::<Result<_, _>>()?;
    summary::check_same(&parts).map_err(Failure::Run)?;
    let started = options.start.map_or_else(|| parts[0].count("/started_unix_ns"), Ok).map_err(Failure::Run)?;
    let merged = Merged { out: &options.out, names: names(&parts), started, parts: &parts };
    let cannot_write = |error: io::Error| Failure::Run(format!("cannot write to {}: {error}", options.out.display()));
    std::fs::create_dir_all(&options.out).map_err(cannot_write)?;
    match options.replace {
        true => earlier::remove(&options.out).map_err(cannot_write)?,
        false => earlier::refuse(&options.out).map_err(Failure::Usage)?,
    }
    merged.seconds()?;
    let mut found = merged.steady()?;
    found["started_unix_ns"] = json!(started);
    found["drivers"] = parts.iter().zip(notes).map(|(part, note)| part.entry(note)).collect::<Result<Value, _>>()?;
    document::write(&options.out, &found).map_err(cannot_write)
}

/// Transactions in the order in which they ended first, then those that never did.
fn names(parts: &[Part]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let rows = parts.iter().flat_map(|part| part.seconds.values().flatten().map(|row| row.transaction.as_str()));
    let stated = parts.iter().flat_map(|part| part.document["total"].as_object().into_iter().flatten());
    for name in rows.chain(stated.map(|(name, _)| name.as_str())) {
        if name != ALL && !found.iter().any(|known| known == name) {
            found.push(name.to_string());
        }
    }
    found
}

struct Merged<'a> {
    out: &'a Path,
    /// Of the transactions.
    names: Vec<String>,
    /// Unix nanoseconds.
    started: u64,
    parts: &'a [Part],
}

/// One second of all drivers.
struct Second {
    phase: Phase,
    in_flight: u64,
    dropped: u64,
    transactions: Vec<PerTransaction>,
    /// Begin and length of each transaction's interval; None where it did not end in this second.
    spans: Vec<Option<(Duration, Duration)>>,
}

impl Merged<'_> {
    fn started(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.started)
    }

    fn index(&self, name: &str) -> Result<usize, String> {
        let found = self.names.iter().position(|known| known == name);
        found.ok_or_else(|| format!("transaction {name} has a histogram but is not in summary.json"))
    }

    /// Writes seconds.csv, outcomes.csv and the interval logs, second by second.
    fn seconds(&self) -> Result<(), Failure> {
        let cannot_write = |error: io::Error| Failure::Run(format!("cannot write to {}: {error}", self.out.display()));
        // By part, in the order of TIMES.
        let mut sources = Vec::new();
        for part in self.parts {
            let open = |(name, _): &(&str, &str)| Reader::open(&part.directory.join(format!("{name}.hlog")));
            sources.push(TIMES.iter().map(open).collect::<Result<Vec<Reader>, _>>()?);
        }
        let mut files = Vec::new();
        for (name, _) in TIMES {
            files.push(BufWriter::new(File::create(self.out.join(format!("{name}.hlog"))).map_err(cannot_write)?));
        }
        let mut serializers = TIMES.map(|_| V2DeflateSerializer::new());
        let mut logs = Vec::new();
        for (((_, what), file), serializer) in TIMES.iter().zip(&mut files).zip(&mut serializers) {
            let about = format!("{what} in nanoseconds, tag = transaction");
            logs.push(intervals::begin(file, serializer, self.started(), &about).map_err(cannot_write)?);
        }
        let mut rows = Rows::begin(self.out, self.started()).map_err(cannot_write)?;
        let indices: BTreeSet<u64> = self.parts.iter().flat_map(|part| part.seconds.keys().copied()).collect();
        for index in indices {
            let second = self.second(index, &mut sources)?;
            let mut write = || {
                second.write_rows(index, &self.names, &mut rows)?;
                for ((name, part), span) in self.names.iter().zip(&second.transactions).zip(&second.spans) {
                    let Some((start, length)) = *span else { continue };
                    for (log, times) in logs.iter_mut().zip(part.times()) {
                        intervals::write(log, times, start, length, name)?;
                    }
                }
                Ok(())
            };
            write().map_err(cannot_write)?;
        }
        drop(logs);
        for (part, log) in
            self.parts.iter().zip(&mut sources).flat_map(|(p, logs)| logs.iter_mut().map(move |l| (p, l)))
        {
            if let Some(interval) = log.any()? {
                let (path, second) = (part.directory.join("seconds.csv"), interval.second());
                return Err(Failure::Run(format!("{}: second {second} of the histograms is missing", path.display())));
            }
        }
        files.iter_mut().try_for_each(BufWriter::flush).and_then(|()| rows.flush()).map_err(cannot_write)
    }

    /// What all drivers did in a second.
    fn second(&self, index: u64, sources: &mut [Vec<Reader>]) -> Result<Second, String> {
        let mut found = Second {
            phase: Phase::RampUp,
            in_flight: 0,
            dropped: 0,
            transactions: vec![PerTransaction::default(); self.names.len()],
            spans: vec![None; self.names.len()],
        };
        for (part, logs) in self.parts.iter().zip(sources) {
            for row in part.seconds.get(&index).into_iter().flatten() {
                found.phase = row.phase;
                if row.transaction == ALL {
                    found.in_flight += row.in_flight;
                    found.dropped += row.dropped;
                } else {
                    row.add_to(&mut found.transactions[self.index(&row.transaction)?]);
                }
            }
            for row in part.outcomes.get(&index).into_iter().flatten() {
                row.add_to(&mut found.transactions[self.index(&row.transaction)?])?;
            }
            for (kind, log) in logs.iter_mut().enumerate() {
                while let Some(interval) = log.until(index)? {
                    found.take(self.index(&interval.tag)?, kind, &interval);
                }
            }
        }
        Ok(found)
    }

    /// Writes steady.hlog; what summary.json says of all drivers.
    fn steady(&self) -> Result<Value, Failure> {
        let mut transactions = vec![PerTransaction::default(); self.names.len()];
        let [mut lag, mut timer, mut reading] = [Times::default(), Times::default(), Times::default()];
        let (mut start, mut length) = (Duration::MAX, Duration::ZERO);
        for part in self.parts {
            let path = part.directory.join(whole::FILE);
            let mut log = Reader::open(&path)?;
            while let Some(interval) = log.any()? {
                (start, length) = (start.min(interval.start), length.max(interval.length));
                let (what, name) = interval.tag.split_once('/').unwrap_or((&interval.tag, ""));
                let times = match (what, TIMES.iter().position(|(known, _)| *known == what)) {
                    (_, Some(kind)) => &mut *transactions[self.index(name)?].times_mut()[kind],
                    ("lag", _) => &mut lag,
                    ("timer", _) => &mut timer,
                    ("reading", _) => &mut reading,
                    _ => return Err(format!("{}: unknown tag {}", path.display(), interval.tag).into()),
                };
                times.add(&interval.times);
            }
        }
        summary::add_counts(self.parts, &self.names, &mut transactions)?;
        let own = Own { lag: &lag, timer: &timer, reading: &reading };
        let steady = Steady { start, length, transactions: &transactions, own };
        whole::write(self.out, self.started(), &self.names, &steady)
            .map_err(|error| Failure::Run(format!("cannot write to {}: {error}", self.out.display())))?;
        Ok(summary::merged(self.parts, &self.names, &steady)?)
    }
}

impl Second {
    fn take(&mut self, transaction: usize, kind: usize, interval: &Interval) {
        self.transactions[transaction].times_mut()[kind].add(&interval.times);
        let (start, length) = self.spans[transaction].get_or_insert((interval.start, interval.length));
        (*start, *length) = ((*start).min(interval.start), (*length).max(interval.length));
    }

    fn write_rows(&self, index: u64, names: &[String], rows: &mut Rows) -> io::Result<()> {
        let when = When { start: index * SECOND, second: index, phase: self.phase, in_flight: self.in_flight };
        let mut all = PerTransaction::default();
        for (name, part) in names.iter().zip(&self.transactions) {
            if part.counts.total() > 0 || !part.statuses.is_empty() {
                all.add(part);
                rows.transaction(&when, name, part)?;
                rows.outcomes(&when, name, part)?;
            }
        }
        rows.all(&when, &all, self.dropped)
    }
}
