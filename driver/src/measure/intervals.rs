//! HdrHistogram interval logs (format 1.3): histograms of nanoseconds by interval and tag, maxima in ms.

use super::times::{Nanos, Times};
use base64::prelude::{Engine as _, BASE64_STANDARD};
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriter, IntervalLogWriterBuilder, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Bytes of a line: a histogram of every value up to an hour has less.
const LONGEST_LINE: u64 = 4 << 20;
/// Times in a log have three decimals: what is this close below a second is in it.
const ROUNDED: Duration = Duration::from_micros(1500);

pub type Log<'a, 'b, W> = IntervalLogWriter<'a, 'b, W, V2DeflateSerializer>;

/// Begins a log; `about` says whose times it has and what its tags are.
pub fn begin<'a, 'b, W: Write>(
    output: &'a mut W,
    serializer: &'b mut V2DeflateSerializer,
    started: SystemTime,
    about: &str,
) -> io::Result<Log<'a, 'b, W>> {
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment(&format!("[leadline-load/1: {about}, maxima in ms]"))
        .with_start_time(started)
        .with_base_time(started)
        .with_max_value_divisor(1e6)
        .begin_log_with(output, serializer)?;
    log.write_comment("")?;
    Ok(log)
}

/// Writes one interval; nothing where nothing was recorded.
pub fn write<W: Write>(
    log: &mut Log<'_, '_, W>,
    times: &Times,
    start: Duration,
    length: Duration,
    tag: &str,
) -> io::Result<()> {
    let Some(histogram) = times.get() else { return Ok(()) };
    log.write_histogram(histogram, start, length, Tag::new(tag)).map_err(|error| io::Error::other(error.to_string()))
}

/// One line of a log. `start`: since the start of the run.
#[derive(Debug)]
pub struct Interval {
    pub start: Duration,
    pub length: Duration,
    pub tag: String,
    pub times: Times,
}

impl Interval {
    pub fn second(&self) -> u64 {
        (self.start + ROUNDED).as_secs()
    }
}

/// Reads a log interval by interval, in the order of its lines. Errors name file and line.
pub struct Reader {
    path: PathBuf,
    lines: BufReader<File>,
    number: u64,
    /// Read, but not asked for yet.
    next: Option<Interval>,
}

impl Reader {
    pub fn open(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
        let mut reader = Reader { path: path.into(), lines: BufReader::new(file), number: 0, next: None };
        reader.advance()?;
        Ok(reader)
    }

    /// The next interval if it begins in `second` or before.
    pub fn until(&mut self, second: u64) -> Result<Option<Interval>, String> {
        match self.next.take_if(|interval| interval.second() <= second) {
            Some(interval) => self.advance().map(|()| Some(interval)),
            None => Ok(None),
        }
    }

    /// The next interval.
    pub fn any(&mut self) -> Result<Option<Interval>, String> {
        self.until(u64::MAX)
    }

    fn advance(&mut self) -> Result<(), String> {
        let mut line = Vec::new();
        self.next = None;
        while self.next.is_none() {
            line.clear();
            self.number += 1;
            let read = self.lines.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
            if read.map_err(|error| cannot_read(&self.path, &error))? == 0 {
                return Ok(());
            }
            self.next =
                interval(&line).map_err(|problem| format!("{}:{}: {problem}", self.path.display(), self.number))?;
        }
        Ok(())
    }
}

/// Why a file that a run writes cannot be read.
pub fn cannot_read(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("{} is missing: the driver did not end in order", path.display()),
        _ => format!("{}: {error}", path.display()),
    }
}

/// What a line holds; None for a comment.
fn interval(line: &[u8]) -> Result<Option<Interval>, String> {
    let cut = || "this line is cut off: the driver did not end in order".to_string();
    if line.last() != Some(&b'\n') {
        return Err(cut());
    }
    let Some(entry) = IntervalLogIterator::new(line).next() else { return Ok(None) };
    let Ok(LogEntry::Interval(entry)) = entry else { return entry.map(|_| None).map_err(|_| cut()) };
    let bytes = BASE64_STANDARD.decode(entry.encoded_histogram()).map_err(|_| cut())?;
    let histogram: Nanos = Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|_| cut())?;
    let times = Times::of(histogram).ok_or("a histogram of another resolution than the driver's cannot be added")?;
    let tag = entry.tag().ok_or("an interval without a tag")?.to_string();
    Ok(Some(Interval { start: entry.start_timestamp(), length: entry.duration(), tag, times }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(tag: &str, values: &[u64]) -> Vec<u8> {
        let (mut output, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
        let mut log = begin(&mut output, &mut serializer, SystemTime::UNIX_EPOCH, "test").expect("memory");
        let mut times = Times::default();
        values.iter().for_each(|ns| times.record(*ns));
        write(&mut log, &times, Duration::from_nanos(1_999_900_000), Duration::from_secs(1), tag).expect("memory");
        output
    }

    fn last_line(log: &[u8]) -> Vec<u8> {
        log.split_inclusive(|byte| *byte == b'\n').next_back().expect("a line").to_vec()
    }

    #[test]
    fn an_interval_is_read_as_it_was_written() {
        let values = [5, 1_000_000, 123_456_789, 3_000_000_000_000];
        let found = interval(&last_line(&written("a", &values))).expect("whole").expect("an interval");
        assert_eq!((found.second(), found.tag.as_str(), found.length), (2, "a", Duration::from_secs(1)));
        let mut times = Times::default();
        values.iter().for_each(|ns| times.record(*ns));
        assert_eq!(found.times.get(), times.get());
    }

    fn problem(line: &[u8]) -> String {
        interval(line).map(|found| found.map(|interval| interval.tag)).expect_err("it cannot be used")
    }

    #[test]
    fn lines_that_are_cut_off_or_of_another_resolution_are_told() {
        let line = last_line(&written("a", &[1_000_000]));
        for end in 1..line.len() {
            let error = problem(&line[..end]);
            assert!(error.contains("cut off"), "{error}");
        }
        let half = line.len() - 1 - line.rsplit(|byte| *byte == b',').next().expect("a histogram").len() / 2;
        assert!(problem(&[&line[..half], b"\n"].concat()).contains("cut off"));
        assert!(interval(b"#[StartTime: 5.000 (seconds since epoch)]\n").expect("a comment").is_none());
        let (mut output, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
        let mut log = begin(&mut output, &mut serializer, SystemTime::UNIX_EPOCH, "test").expect("memory");
        let coarse = hdrhistogram::Histogram::<u64>::new_with_bounds(64, 1 << 27, 2).expect("bounds");
        log.write_histogram(&coarse, Duration::ZERO, Duration::ZERO, Tag::new("a")).expect("memory");
        assert!(problem(&last_line(&output)).contains("another resolution"));
    }
}
