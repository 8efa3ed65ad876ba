//! The bracketed fields before each message of the unified log, told apart by their form, in any order.
//!
//! Anything may stand before them (a container's name, a time stamp, another bracket): where the fields end is known by
//! the words that begin the JVM's messages, and what the fields are is learnt from these lines and remembered.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use memchr::memmem;
use regex::Regex;

use crate::clock::{beginning, decimal_at, digits, number, wall_clock};

static MESSAGE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"GC\([0-9]+\) |Using (?:The )?(?:Serial|Parallel|G1|Z|Shenandoah|Epsilon|Concurrent Mark Sweep)\b|Safepoint "|Total time for which|Entering safepoint region|(?:Allocation|Relocation|Page Cache Flush) Stall \(|Cancelling GC|Version: [0-9]|Heap [Rr]egion [Ss]ize: [0-9]|(?:Heap )?Max Capacity: [0-9]"#,
    )
    .expect("a regular expression")
});
static CLOSED: LazyLock<memmem::Finder<'_>> = LazyLock::new(|| memmem::Finder::new(b"] "));
/// Seconds; an uptime of three years is not believed, a wall clock of 1973 neither.
const EPOCH: f64 = 1e8;
/// Seconds; damaged.
const BEYOND: f64 = 1e11;
/// The JVM knows twelve decorators.
const MOST_FIELDS: usize = 16;
/// Letters by which a prefix with a number in it gets longer.
const SHIFTED: usize = 3;
/// Letters before the message.
const FARTHEST: usize = 1000;
const MOST_TAGS: usize = 10_000;

/// What tags a line has. `any` is false for a log without tags.
#[derive(Clone, Copy, Default)]
pub struct Tags {
    pub any: bool,
    pub gc: bool,
    pub safepoint: bool,
    pub start: bool,
    pub stats: bool,
}

impl Tags {
    pub fn ours(self) -> bool {
        self.gc || self.safepoint
    }
}

/// `uptime` in seconds and `unix` in unix seconds, where the log has that decorator. `number`: of the process or of the
/// thread.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    pub uptime: Option<f64>,
    pub unix: Option<f64>,
    pub tags: Tags,
    pub message: &'a str,
    pub number: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Number,
    Word,
    Other,
}

type Form = (usize, Kind);

/// Places of the fields.
#[derive(Clone, Copy, Default)]
struct Layout {
    uptime: Option<usize>,
    wall: Option<usize>,
    tags: Option<usize>,
    number: Option<usize>,
}

type Clocks = (Option<f64>, Option<f64>);

/// Lines into decorators and message. What a log's fields are is remembered by their number.
#[derive(Clone, Default)]
pub struct Splitter {
    tags: HashMap<String, Tags>,
    last_tags: (String, Tags),
    layouts: [Option<Layout>; MOST_FIELDS + 1],
    learnt: bool,
    forms: HashSet<Form>,
    deferred: HashMap<Form, u64>,
    no_tags: HashSet<String>,
    begin: usize,
    stamp: String,
    unix: Option<f64>,
}

impl Splitter {
    /// None for a line that is none of the log's. A log without decorators has only those known by their words.
    pub fn split<'a>(&mut self, text: &'a str) -> Option<Line<'a>> {
        let bytes = text.as_bytes();
        if bytes.get(self.begin) == Some(&b'[') {
            if let Some(place) = CLOSED.find(&bytes[self.begin..]) {
                let end = self.begin + place + 1;
                // Behind the last field comes no other one: it would be what a container puts before each line.
                if bytes.get(end + 1) != Some(&b'[') {
                    let mut fields = [""; MOST_FIELDS];
                    let mut count = 0;
                    for field in text[self.begin + 1..end - 1].split("][") {
                        if count < MOST_FIELDS {
                            fields[count] = field;
                        }
                        count += 1;
                    }
                    if count <= MOST_FIELDS {
                        if let Some(line) = self.line(&fields[..count], text, end, false) {
                            return Some(line);
                        }
                    }
                }
            }
        }
        self.search(text)
    }

    /// Whether a line has the log's decorators, without a look at them.
    pub fn belongs(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        if bytes.get(self.begin) == Some(&b'[') {
            let near = &bytes[self.begin..(self.begin + FARTHEST).min(bytes.len())];
            if let Some(end) = CLOSED.find(near) {
                let count = memchr::memchr_iter(b']', &near[..end]).filter(|at| near[at + 1] == b'[').count() + 1;
                if self.forms.contains(&(count, kind(&near[1..]))) {
                    return true;
                }
            }
        }
        MESSAGE.is_match(beginning(text, FARTHEST)) || !forms(text, Some(self.begin)).is_disjoint(&self.forms)
    }

    /// A line that came before any that teaches what the fields are.
    pub fn defer(&mut self, text: &str) {
        for form in forms(text, None) {
            *self.deferred.entry(form).or_default() += 1;
        }
    }

    /// How many of the deferred lines have the log's decorators, as is known now.
    pub fn recall(&mut self) -> u64 {
        let most = self.forms.iter().filter_map(|form| self.deferred.get(form)).max().copied();
        self.deferred.clear();
        most.unwrap_or(0)
    }

    fn search<'a>(&mut self, text: &'a str) -> Option<Line<'a>> {
        let Some(found) = MESSAGE.find(beginning(text, FARTHEST)) else { return self.by_fields(text) };
        let (begin, fields) = fields_before(text, found.start());
        if fields.is_empty() {
            if self.learnt {
                return None; // the rest of a torn line, or a program's own words
            }
            let message = text[found.start()..].trim();
            return Some(Line { uptime: None, unix: None, tags: Tags::default(), message, number: "" });
        }
        self.begin = begin;
        self.line(&fields, text, found.start(), true)
    }

    /// A message that no word tells: by fields of a number that is known, or by a tag.
    fn by_fields<'a>(&mut self, text: &'a str) -> Option<Line<'a>> {
        let near = beginning(text, FARTHEST).as_bytes();
        for end in memmem::find_iter(near, b"] ") {
            let (begin, fields) = fields_before(text, end + 1);
            let known = self.layouts.get(fields.len()).is_some_and(Option::is_some);
            if known || (fields.len() > 1 && fields.iter().any(|field| ours(field))) {
                if let Some(line) = self.line(&fields, text, end + 1, true) {
                    if line.uptime.is_some() || line.unix.is_some() || line.tags.ours() {
                        self.begin = begin;
                        return Some(line);
                    }
                }
            }
        }
        None
    }

    /// By the places of the fields in lines before; None where this line does not fit them.
    fn line<'a>(&mut self, fields: &[&'a str], text: &'a str, end: usize, learn: bool) -> Option<Line<'a>> {
        let mut layout = self.layouts.get(fields.len()).copied().flatten();
        if let Some(known) = layout {
            let last = fields[fields.len() - 1];
            if known.tags != Some(fields.len() - 1)
                && last.starts_with(char::is_alphabetic)
                && !self.no_tags.contains(last)
            {
                if ours(last) {
                    layout = None;
                } else {
                    self.no_tags.insert(last.to_owned());
                }
            }
        }
        let mut clocks = layout.and_then(|layout| self.clocks(fields, layout));
        if clocks.is_none() {
            if !learn {
                return None;
            }
            let new = learnt(fields, layout);
            // A damaged time, or a program's own field, takes no clock from the lines that follow.
            let loses = |before: Layout| {
                (before.uptime.is_some() && new.uptime.is_none()) || (before.wall.is_some() && new.wall.is_none())
            };
            if !layout.is_some_and(loses) {
                self.layouts[fields.len()] = Some(new);
                self.learnt = true;
                self.forms.insert((fields.len(), kind(fields[0].as_bytes())));
            }
            layout = Some(new);
            clocks = Some(self.clocks(fields, new).unwrap_or((None, None)));
        }
        let (layout, clocks) = (layout?, clocks?);
        let tags = layout.tags.map_or(Tags::default(), |place| self.tags_of(fields[place]));
        let number = layout.number.map_or("", |place| fields[place].trim());
        Some(Line { uptime: clocks.0, unix: clocks.1, tags, message: text[end..].trim(), number })
    }

    fn tags_of(&mut self, word: &str) -> Tags {
        if self.last_tags.0 == word {
            return self.last_tags.1;
        }
        if let Some(tags) = self.tags.get(word) {
            self.last_tags.0.clear();
            self.last_tags.0.push_str(word);
            self.last_tags.1 = *tags;
            return *tags;
        }
        let mut tags = Tags::default();
        if let Some(names) = names(word) {
            tags.any = true;
            for name in names {
                tags.gc |= name == "gc";
                tags.safepoint |= name == "safepoint";
                tags.start |= name == "start";
                tags.stats |= name == "stats";
            }
        }
        if self.tags.len() < MOST_TAGS {
            self.tags.insert(word.to_owned(), tags);
        }
        tags
    }

    /// Uptime and unix seconds; None where a field is not of the form that its place has had.
    fn clocks(&mut self, fields: &[&str], layout: Layout) -> Option<Clocks> {
        let mut uptime = None;
        let mut unix = None;
        if let Some(place) = layout.uptime {
            uptime = Some(seconds(fields[place]).filter(|seconds| *seconds < EPOCH)?);
        }
        if let Some(place) = layout.wall {
            let stamp = fields[place];
            if stamp != self.stamp {
                self.unix = wall(stamp);
                self.stamp.clear();
                self.stamp.push_str(stamp);
            }
            unix = Some(self.unix?);
        }
        Some((uptime, unix))
    }
}

/// By the form of each field. Of two clocks of one kind the younger (uptimenanos beside timenanos).
fn learnt(fields: &[&str], before: Option<Layout>) -> Layout {
    let mut layout = Layout::default();
    let mut least = EPOCH;
    for (index, raw) in fields.iter().enumerate() {
        let value = seconds(raw);
        if let Some(value) = value.filter(|value| *value < least) {
            (layout.uptime, least) = (Some(index), value);
        } else if layout.wall.is_none() && wall(raw).is_some() {
            layout.wall = Some(index);
        } else if ours(raw) {
            layout.tags = Some(index); // the last such field: a host may be called so too, and stands before
        } else if layout.number.is_none()
            && !raw.trim().is_empty()
            && raw.trim().bytes().all(|byte| byte.is_ascii_digit())
        {
            layout.number = Some(index);
        }
    }
    layout.tags = layout.tags.or(before.and_then(|before| before.tags));
    layout
}

/// Where the brackets that end before `end` begin, without a gap between them, and what is in them.
fn fields_before(text: &str, end: usize) -> (usize, Vec<&str>) {
    let bytes = text.as_bytes();
    let mut place = end;
    while place > 0 && matches!(bytes[place - 1], b' ' | b'\t') {
        place -= 1;
    }
    let mut fields = Vec::new();
    while place > 0 && bytes[place - 1] == b']' && fields.len() < MOST_FIELDS {
        let Some(begin) = memchr::memrchr(b'[', &bytes[..place - 1]) else { break };
        if memchr::memchr(b']', &bytes[begin + 1..place - 1]).is_some() {
            break;
        }
        fields.push(&text[begin + 1..place - 1]);
        place = begin;
    }
    fields.reverse();
    (place, fields)
}

/// What fields may stand before the message, by their number and the kind of the first one.
///
/// A single word in brackets is one only near the place `about`: elsewhere it is a program's own, a thread's name.
fn forms(text: &str, about: Option<usize>) -> HashSet<Form> {
    let mut forms = HashSet::new();
    for end in memmem::find_iter(beginning(text, FARTHEST).as_bytes(), b"] ") {
        let (begin, fields) = fields_before(text, end + 1);
        if let Some(first) = fields.first() {
            let form = (fields.len(), kind(first.as_bytes()));
            if form != (1, Kind::Word) || about.is_none_or(|about| begin.abs_diff(about) <= SHIFTED) {
                forms.insert(form);
            }
        }
    }
    forms
}

/// A number or a time, a word of the JVM's (level, tag), anything else.
fn kind(field: &[u8]) -> Kind {
    match field.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(byte) if byte.is_ascii_digit() => Kind::Number,
        Some(byte) if byte.is_ascii_lowercase() => Kind::Word,
        _ => Kind::Other,
    }
}

/// The tags in a field; None where it has something else.
fn names(field: &str) -> Option<std::str::Split<'_, char>> {
    let stripped = field.trim();
    let name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'+'))
    };
    (stripped.starts_with(|letter: char| letter.is_ascii_lowercase()) && stripped.split(',').all(name))
        .then(|| stripped.split(','))
}

/// Whether a field has a tag of the collector's lines, so that its place is that of the tags.
fn ours(field: &str) -> bool {
    field.trim().len() < 100
        && names(field).is_some_and(|mut names| names.any(|name| matches!(name, "gc" | "safepoint")))
}

/// Of a number with its unit, damaged ones excepted.
fn seconds(field: &str) -> Option<f64> {
    let text = field.trim();
    let bytes = text.as_bytes();
    let end = decimal_at(bytes, 0, 24, 12).or_else(|| Some(digits(bytes, 0, 24)).filter(|end| *end > 0))?;
    let scale = match &bytes[end..] {
        b"s" => 1.0,
        b"ms" => 1e-3,
        b"ns" => 1e-9,
        _ => return None,
    };
    let seconds = number(&text[..end])? * scale;
    (seconds < BEYOND).then_some(seconds)
}

/// Unix seconds of a time or of milliseconds since 1970.
fn wall(field: &str) -> Option<f64> {
    if let Some(seconds) = seconds(field) {
        return (seconds >= EPOCH).then_some(seconds);
    }
    let stripped = field.trim();
    if stripped.contains('T') && stripped.starts_with(|letter: char| letter.is_ascii_digit()) {
        wall_clock(stripped)
    } else {
        None
    }
}
