//! Bytes into lines, none longer than a bound, and lines to the reader of the format that they are in.

use std::borrow::Cow;

use serde_json::json;

use crate::clock::{beginning, decimal_at, wall_clock};
use crate::decorators::Splitter;
use crate::forms::form;
use crate::log::{Damaged, Log, Read};
use crate::wrapping::{is_marked, Unwrapping};
use crate::{jdk8, openj9, unified};

/// Letters of a line; one of the collector's has some hundreds.
const LONGEST: usize = 1 << 15;
/// Letters of a line that is looked at for records without line ends.
const MANY_RECORDS: usize = 2048;
const OVERLONG: &str = "(a line that is too long)\n";
/// Of a sample: lines of a collector's, any lines, letters. A program's own output may stand before.
const ENOUGH: usize = 400;
const MOST: usize = 20_000;
const LETTERS: usize = 1 << 23;
/// Letters of a line of another format.
const WIDEST: usize = 1000;
/// Lines by which a file is known as a log.
const TELLING: usize = 200;

form!(RECORDS, r"(?:\d{4}-\d\d-\d\dT[\d:.,]{8,20}[+-]\d{4}: )?\d{1,12}[.,]\d{3}: (?:#\d{1,9}: )?\[(?:Full )?GC\b");
form!(JROCKIT, r"\[memory *\].*(?:GC|[YO]C)\b.*\dK(?:B)?->\d+K|\[(?:YC|OC)#\d+\]");
form!(IBM, r"\A\s*<(?:AF(?:\[\d+\])?|GC[\[(]\d+[\])]): |\AGC \d+: starting collection");
form!(HP, r"\A<GC: \d+ +\d+[. ]");
form!(GO, r"\Agc \d+ @\d+\.\d+s \d+%: ");
form!(COLLECTION, r"GC\((\d{1,15})\) ");

#[derive(Clone)]
enum Reader {
    Unified(Box<unified::Reader>),
    Jdk8(Box<jdk8::Reader>),
    OpenJ9(Box<openj9::Reader>),
}

impl Reader {
    fn of(lines: &[String]) -> Reader {
        if openj9::recognises(lines) {
            Reader::OpenJ9(Box::new(openj9::Reader::new()))
        } else if jdk8::recognises(lines) {
            Reader::Jdk8(Box::new(jdk8::Reader::new()))
        } else {
            Reader::Unified(Box::new(unified::Reader::new()))
        }
    }

    fn take(&mut self, text: &str) {
        match self {
            Reader::Unified(reader) => reader.take(text),
            Reader::Jdk8(reader) => reader.take(text),
            Reader::OpenJ9(reader) => reader.take(text),
        }
    }

    fn log(&self) -> &Log {
        match self {
            Reader::Unified(reader) => &reader.log,
            Reader::Jdk8(reader) => &reader.log,
            Reader::OpenJ9(reader) => &reader.log,
        }
    }

    fn finish(self) -> Log {
        match self {
            Reader::Unified(reader) => reader.finish(),
            Reader::Jdk8(reader) => reader.finish(),
            Reader::OpenJ9(reader) => reader.finish(),
        }
    }
}

/// The bytes of a log, of one file or of several one after the other.
#[derive(Clone)]
pub struct Input {
    pending: Vec<u8>,   // a line without its end
    skipping: bool,     // the rest of a line that is too long
    begins: bool,       // nothing of this file has come
    overlong: Vec<u64>, // lines, of each file
    sample: Vec<String>,
    marked: usize,
    letters: usize,
    looking: bool, // at the first lines alone
    unwrapping: Unwrapping,
    reader: Option<Reader>,
    other: &'static str, // whose log it is, of those that are not read
}

/// What the first lines tell: whether they are a collector's, and when they were written (`order` 0: unix seconds,
/// 1: uptime, 2: number of a collection, 3: nothing).
pub struct First {
    pub is_log: bool,
    pub order: i32,
    pub value: f64,
}

impl Input {
    pub fn new(looking: bool) -> Input {
        Input {
            pending: Vec::new(),
            skipping: false,
            begins: true,
            overlong: vec![0],
            sample: Vec::new(),
            marked: 0,
            letters: 0,
            looking,
            unwrapping: Unwrapping::default(),
            reader: None,
            other: "",
        }
    }

    /// Bytes in UTF-8. Err for a log with more events than memory is meant for.
    pub fn feed(&mut self, mut data: &[u8]) -> Read<()> {
        if self.begins && !data.is_empty() {
            data = data.strip_prefix("\u{feff}".as_bytes()).unwrap_or(data);
            self.begins = false;
        }
        let mut from = 0;
        for end in memchr::memchr_iter(b'\n', data) {
            let piece = &data[from..=end];
            from = end + 1;
            if self.pending.is_empty() && !self.skipping && piece.len() <= MANY_RECORDS {
                match std::str::from_utf8(piece) {
                    Ok(text) => self.line(text)?,
                    Err(_) => self.line(&String::from_utf8_lossy(piece))?,
                }
            } else {
                self.pending.extend_from_slice(piece);
                self.long(true)?;
            }
        }
        if from < data.len() {
            self.pending.extend_from_slice(&data[from..]);
            if self.pending.len() >= LONGEST {
                self.long(false)?;
            }
        }
        Ok(())
    }

    /// A file of the log has ended, and another one may follow.
    pub fn part(&mut self) -> Read<()> {
        if !self.pending.is_empty() || self.skipping {
            self.long(true)?;
        }
        self.begins = true;
        self.overlong.push(0);
        Ok(())
    }

    /// What is pending: records that lost the line ends between them, or a line; too long for either: a few words.
    fn long(&mut self, ended: bool) -> Read<()> {
        if self.skipping {
            self.pending.clear();
            if ended {
                self.skipping = false;
                self.line(OVERLONG)?;
            }
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.pending);
        let text = String::from_utf8_lossy(&bytes);
        let places = if text.len() > MANY_RECORDS { records(&text) } else { Vec::new() };
        if places.is_empty() && text.len() > LONGEST {
            if let Some(last) = self.overlong.last_mut() {
                *last += 1;
            }
            self.skipping = !ended;
            return if ended { self.line(OVERLONG) } else { Ok(()) };
        }
        let mut from = 0;
        for place in places {
            self.line(&format!("{}\n", text[from..place].trim_end_matches('\n')))?;
            from = place;
        }
        if ended {
            self.line(&text[from..])
        } else {
            self.pending = text.as_bytes()[from..].to_vec();
            Ok(())
        }
    }

    fn line(&mut self, text: &str) -> Read<()> {
        if self.reader.is_some() {
            return self.take(text);
        }
        self.marked += usize::from(is_marked(text));
        self.letters += text.len();
        self.sample.push(text.to_owned());
        let enough = self.marked >= ENOUGH || self.sample.len() >= MOST || self.letters >= LETTERS;
        if enough && !self.looking {
            self.choose()?;
        }
        Ok(())
    }

    /// The layers and the format, as the sample tells them.
    fn choose(&mut self) -> Read<()> {
        let sample = std::mem::take(&mut self.sample);
        self.unwrapping = Unwrapping::learn(&sample);
        let lines = self.unwrapping.all(&sample);
        let others = [("JRockit", &JROCKIT), ("IBM before J9", &IBM), ("HP-UX", &HP), ("Go", &GO)];
        let other = others.iter().find(|(_, form)| lines.iter().any(|text| form.is_match(beginning(text, WIDEST))));
        self.other = other.map_or("", |(name, _)| name);
        self.reader = Some(Reader::of(&lines));
        sample.iter().try_for_each(|text| self.take(text))
    }

    fn take(&mut self, text: &str) -> Read<()> {
        let inner = if self.unwrapping.is_empty() {
            Cow::Borrowed(text)
        } else {
            match self.unwrapping.take(text) {
                Some(inner) => Cow::Owned(inner),
                None => return Ok(()),
            }
        };
        let Some(reader) = &mut self.reader else { return Err(Damaged) };
        reader.take(&inner);
        if reader.log().lines & 0xFFFF == 0 {
            reader.log().bounded()?;
        }
        Ok(())
    }

    /// How many lines were read.
    pub fn lines(&self) -> u64 {
        self.reader.as_ref().map_or(self.sample.len() as u64, |reader| reader.log().lines)
    }

    /// What the log says, as `Log::bytes` has it. Every file has ended.
    pub fn finish(mut self) -> Read<Vec<u8>> {
        if self.reader.is_none() {
            self.choose()?;
        }
        if let Some(rest) = self.unwrapping.rest() {
            if let Some(reader) = &mut self.reader {
                reader.take(&rest);
            }
        }
        let about = [("overlong", json!(self.overlong)), ("other", json!(self.other))];
        self.reader.map(|reader| reader.finish().bytes(&about)).ok_or(Damaged)
    }

    /// Of the first lines.
    pub fn first(&self) -> First {
        let sample = &self.sample[..self.sample.len().min(TELLING)];
        let lines = Unwrapping::learn(sample).all(sample);
        let is_log = lines.iter().any(|text| is_marked(beginning(text, LONGEST)));
        let (mut splitter, mut number) = (Splitter::default(), None);
        for text in &lines {
            let line = splitter.split(text);
            if let Some((order, value)) = line.and_then(|line| match (line.unix, line.uptime) {
                (Some(unix), _) => Some((0, unix)),
                (None, Some(uptime)) => Some((1, uptime)),
                _ => None,
            }) {
                return First { is_log, order, value };
            }
            if let Some(value) = wall_clock(beginning(text, 28)) {
                return First { is_log, order: 0, value };
            }
            if let Some(end) = decimal_at(text.as_bytes(), 0, 12, 9).filter(|end| text[*end..].starts_with(": ")) {
                let value = crate::clock::number(&text[..end]).unwrap_or(0.0);
                return First { is_log, order: 1, value };
            }
            let found = COLLECTION.captures(beginning(text, 1000));
            number = number.or_else(|| found.and_then(|found| found[1].parse().ok()));
        }
        First { is_log, order: number.map_or(3, |_| 2), value: number.unwrap_or(0.0) }
    }
}

/// Where records begin behind the first one, in a text without line ends between them.
fn records(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let mut places = Vec::new();
    for found in RECORDS.find_iter(text) {
        let start = found.start();
        // Digits of an uptime in the middle of a number, or behind a date that is damaged, begin none.
        let dated = bytes.get(start + 4) == Some(&b'-');
        let behind = start.checked_sub(1).map(|at| bytes[at]);
        let joined = behind.is_some_and(|byte| byte.is_ascii_digit() || byte == b':' || byte == b' ');
        let closed = start >= 2 && &bytes[start - 2..start] == b"] ";
        if start > 0 && (dated || !joined || closed) {
            places.push(start);
        }
    }
    places
}
