//! steady.hlog: the histograms of the whole steady phase, from which the figures of summary.json come. Those of several
//! drivers add up to the figures of all.

use super::slice::Times;
use super::writer::{Files, Totals};
use crate::arrivals::Phases;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::V2DeflateSerializer;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

/// Tags: `response/NAME`, `service/NAME`, `connect/NAME` and `blocked/NAME` of each transaction, `lag`, `timer`,
/// `reading`.
pub fn write(files: &Files<'_>, totals: &Totals, phases: Phases) -> io::Result<()> {
    let mut histograms: Vec<(String, &Times)> = Vec::new();
    for (name, part) in files.names.iter().zip(&totals.steady) {
        histograms.push((format!("response/{name}"), &part.response));
        histograms.push((format!("service/{name}"), &part.service));
        histograms.push((format!("connect/{name}"), &part.connect));
        histograms.push((format!("blocked/{name}"), &part.blocked));
    }
    for (name, times) in [("lag", &totals.lag), ("timer", &totals.timer), ("reading", &totals.reading)] {
        histograms.push((name.into(), times));
    }
    let mut output = BufWriter::new(File::create(files.directory.join("steady.hlog"))?);
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment("[leadline-load/1: the steady phase in nanoseconds, tag = what/transaction, maxima in ms]")
        .with_start_time(files.started)
        .with_base_time(files.started)
        .with_max_value_divisor(1e6)
        .begin_log_with(&mut output, &mut serializer)?;
    log.write_comment("")?;
    let (start, length) = (Duration::from_nanos(phases.ramp_up), Duration::from_nanos(totals.steady_ns));
    for (tag, histogram) in histograms.iter().filter_map(|(tag, times)| Some((tag, times.get()?))) {
        log.write_histogram(histogram, start, length, Tag::new(tag))
            .map_err(|error| io::Error::other(error.to_string()))?;
    }
    output.flush()
}
