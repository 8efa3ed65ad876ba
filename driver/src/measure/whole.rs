//! steady.hlog: the histograms of the whole steady phase, from which the figures of summary.json come. Those of several
//! drivers add up to the figures of all.

use super::intervals;
use super::rows::Own;
use super::slice::{PerTransaction, TIMES};
use super::times::Times;
use hdrhistogram::serialization::V2DeflateSerializer;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

pub const FILE: &str = "steady.hlog";

/// The steady phase: `start` after that of the run, `length` long.
pub struct Steady<'a> {
    pub start: Duration,
    pub length: Duration,
    pub transactions: &'a [PerTransaction],
    pub own: Own<'a>,
}

/// Tags: `response/NAME` and so on for all [`TIMES`] of each transaction, `lag`, `timer`, `reading`.
pub fn write(directory: &Path, started: SystemTime, names: &[String], steady: &Steady<'_>) -> io::Result<()> {
    let mut output = BufWriter::new(File::create(directory.join(FILE))?);
    let mut serializer = V2DeflateSerializer::new();
    let about = "the steady phase in nanoseconds, tag = what/transaction";
    let mut log = intervals::begin(&mut output, &mut serializer, started, about)?;
    let mut write = |tag: &str, times: &Times| intervals::write(&mut log, times, steady.start, steady.length, tag);
    for (name, part) in names.iter().zip(steady.transactions) {
        for ((what, _), times) in TIMES.iter().zip(part.times()) {
            write(&format!("{what}/{name}"), times)?;
        }
    }
    for (name, times) in steady.own.named() {
        write(name, times)?;
    }
    output.flush()
}
