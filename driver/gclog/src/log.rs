//! What a log says, as values, and as the bytes in which Python reads them.

use std::collections::{BTreeMap, HashMap};

use serde_json::{json, Value};

/// Events of a log: a few GB of it, and what memory is meant for.
const MOST: usize = 16_000_000;
/// Lines that are kept for each complaint.
const MOST_SHOWN: usize = 1000;
const SHOWN: usize = 160;
const MOST_NOTES: usize = 20;

/// A number without sense, or more events than memory is meant for.
#[derive(Debug)]
pub struct Damaged;

pub type Read<T> = Result<T, Damaged>;

/// A word of a log by its number.
pub type Word = u32;

#[derive(Clone, Copy)]
pub struct Heap {
    pub before: i64,
    pub after: i64,
    pub total: Option<i64>,
}

/// `at`: uptime, s; `unix`: the same in unix seconds.
#[derive(Clone, Copy)]
pub struct When {
    pub at: f64,
    pub unix: Option<f64>,
    pub jvm: usize,
}

#[derive(Clone, Copy)]
pub struct Pause {
    pub when: When,
    pub gc_id: Option<i64>,
    pub kind: Word,
    pub name: Word,
    pub cause: Word,
    pub ms: f64,
    pub heap: Option<Heap>,
    pub promoted: Option<i64>,
    pub line: u64,
}

impl Pause {
    pub fn begin(&self) -> f64 {
        self.when.at - self.ms / 1e3
    }
}

#[derive(Clone, Copy)]
pub struct Cycle {
    pub when: When,
    pub gc_id: i64,
    pub kind: Word,
    pub cause: Word,
    pub ms: Option<f64>,
    pub heap: Option<Heap>,
    pub live: Option<i64>,
    pub reclaimed: Option<i64>,
    pub promoted: Option<i64>,
}

#[derive(Clone, Copy)]
pub struct Phase {
    pub when: When,
    pub kind: Word,
    pub ms: f64,
}

#[derive(Clone, Copy)]
pub struct Cleanup {
    pub when: When,
    pub gc_id: i64,
    pub heap: Heap,
    pub copied: bool,
}

#[derive(Clone, Copy)]
pub struct Stall {
    pub when: When,
    pub kind: Word,
    pub thread: Word,
    pub ms: f64,
    pub line: u64,
}

#[derive(Clone, Copy)]
pub struct Safepoint {
    pub when: When,
    pub operation: Word,
    pub reaching_ms: f64,
    pub total_ms: f64,
    pub line: u64,
}

#[derive(Clone, Copy)]
pub struct Cpu {
    pub when: When,
    pub gc_id: Option<i64>,
    pub user: f64,
    pub system: f64,
    pub real: f64,
}

#[derive(Clone, Copy)]
pub struct Sign {
    pub when: When,
    pub name: Word,
    pub value: Word,
    pub line: u64,
}

/// One JVM in the log: what it said of itself, its uptime at its first and last line, the collections in any line, the
/// pauses that began and have not ended.
#[derive(Clone, Default)]
pub struct Jvm {
    pub collector: String,
    pub version: String,
    pub first: f64,
    pub last: f64,
    pub first_unix: Option<f64>,
    pub last_unix: Option<f64>,
    pub heap_max: Option<i64>,
    pub ids: Ids,
    pub begun: BTreeMap<i64, u64>,
}

impl Jvm {
    pub fn at(at: f64, unix: Option<f64>) -> Jvm {
        Jvm { first: at, last: at, first_unix: unix, last_unix: unix, ..Jvm::default() }
    }

    /// Widen the time of the JVM to `at`.
    pub fn reach(&mut self, at: f64, unix: Option<f64>) {
        if at >= self.last {
            (self.last, self.last_unix) = (at, unix);
        } else if at < self.first {
            (self.first, self.first_unix) = (at, unix);
        }
    }
}

/// Numbers of collections, as runs of neighbours: first -> last.
#[derive(Clone, Default)]
pub struct Ids {
    runs: BTreeMap<i64, i64>,
    latest: Option<(i64, i64)>,
}

impl Ids {
    pub fn insert(&mut self, id: i64) {
        if let Some((low, high)) = self.latest {
            if (low..=high).contains(&id) {
                return;
            }
        }
        let before = self.runs.range(..=id).next_back().map(|(low, high)| (*low, *high));
        if let Some((low, high)) = before {
            if id <= high {
                self.latest = Some((low, high));
                return;
            }
        }
        let mut run = match before {
            Some((low, high)) if high + 1 == id => (low, id),
            _ => (id, id),
        };
        if let Some(last) = self.runs.remove(&(id + 1)) {
            run.1 = last;
        }
        self.runs.insert(run.0, run.1);
        self.latest = Some(run);
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub fn least(&self) -> Option<i64> {
        self.runs.keys().next().copied()
    }

    pub fn most(&self) -> Option<i64> {
        self.runs.values().next_back().copied()
    }

    pub fn count(&self) -> i64 {
        self.runs.iter().map(|(low, high)| high - low + 1).sum()
    }

    pub fn merge(&mut self, other: &Ids) {
        for (&low, &high) in &other.runs {
            let (mut low, mut high) = (low, high);
            let touching: Vec<i64> = self
                .runs
                .range(..=high.saturating_add(1))
                .filter(|(_, last)| **last >= low - 1)
                .map(|(first, _)| *first)
                .collect();
            for first in touching {
                if let Some(last) = self.runs.remove(&first) {
                    (low, high) = (low.min(first), high.max(last));
                }
            }
            self.runs.insert(low, high);
        }
        self.latest = None;
    }

    pub fn pairs(&self) -> Vec<[i64; 2]> {
        self.runs.iter().map(|(low, high)| [*low, *high]).collect()
    }
}

/// Words that repeat, each kept once.
#[derive(Clone, Default)]
pub struct Words {
    numbers: HashMap<String, Word>,
    texts: Vec<String>,
}

impl Words {
    pub fn of(&mut self, text: &str) -> Word {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = Word::try_from(self.texts.len()).unwrap_or(0);
        self.numbers.insert(text.to_owned(), number);
        self.texts.push(text.to_owned());
        number
    }

    pub fn text(&self, word: Word) -> &str {
        &self.texts[word as usize]
    }
}

#[derive(Clone, Default)]
pub struct Complaints {
    lines: Vec<(u64, String)>,
    more: usize,
}

impl Complaints {
    pub fn add(&mut self, number: u64, text: &str) {
        if self.lines.len() < MOST_SHOWN {
            self.lines.push((number, text.trim().chars().take(SHOWN).collect()));
        } else {
            self.more += 1;
        }
    }

    /// Takes the last one back where it is of line `number` or a later one.
    pub fn forgive(&mut self, number: u64) {
        if self.lines.last().is_some_and(|line| line.0 >= number) {
            self.lines.pop();
        }
    }
}

/// All events of one log in the order of its lines.
#[derive(Clone, Default)]
pub struct Log {
    pub pauses: Vec<Pause>,
    pub cycles: Vec<Cycle>,
    pub phases: Vec<Phase>,
    pub cleanups: Vec<Cleanup>,
    pub stalls: Vec<Stall>,
    pub safepoints: Vec<Safepoint>,
    pub cpu: Vec<Cpu>,
    pub signs: Vec<Sign>,
    pub words: Words,
    pub jvms: Vec<Jvm>,
    pub unknown: Complaints,
    pub damaged: Complaints,
    pub lines: u64,
    pub understood: u64,
    pub foreign: u64,
    pub format: &'static str,
    pub library: &'static str,
    pub truncated: bool,
    pub timeless: bool,
    pub alternating: bool,
    pub allocation_unknown: &'static str,
    pub notes: Vec<String>,
}

/// Each list of events with its times, in the order in which they are written.
macro_rules! every_list {
    ($log:expr, $events:ident => $body:expr) => {{
        {
            let $events = &mut $log.pauses;
            $body
        }
        {
            let $events = &mut $log.cycles;
            $body
        }
        {
            let $events = &mut $log.phases;
            $body
        }
        {
            let $events = &mut $log.cleanups;
            $body
        }
        {
            let $events = &mut $log.stalls;
            $body
        }
        {
            let $events = &mut $log.safepoints;
            $body
        }
        {
            let $events = &mut $log.cpu;
            $body
        }
        {
            let $events = &mut $log.signs;
            $body
        }
    }};
}
pub(crate) use every_list;

/// An event's time and its collection (0 where it has none).
pub trait Event {
    fn when(&mut self) -> &mut When;
    fn number(&self) -> i64 {
        0
    }
    fn row(&self, out: &mut Vec<u8>);
}

fn float(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn whole(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn start(out: &mut Vec<u8>, when: &When) {
    float(out, when.at);
    float(out, when.unix.unwrap_or(f64::NAN));
    whole(out, when.jvm as i64);
}

fn optional(out: &mut Vec<u8>, value: Option<i64>) {
    whole(out, value.unwrap_or(-1));
}

fn heap(out: &mut Vec<u8>, heap: Option<Heap>) {
    optional(out, heap.map(|heap| heap.before));
    optional(out, heap.map(|heap| heap.after));
    optional(out, heap.and_then(|heap| heap.total));
}

macro_rules! event {
    ($name:ident, $self:ident, $out:ident, $number:expr, $row:block) => {
        impl Event for $name {
            fn when(&mut self) -> &mut When {
                &mut self.when
            }
            fn number(&$self) -> i64 {
                $number
            }
            fn row(&$self, $out: &mut Vec<u8>) {
                start($out, &$self.when);
                $row
            }
        }
    };
}

event!(Pause, self, out, self.gc_id.unwrap_or(0), {
    optional(out, self.gc_id);
    whole(out, i64::from(self.kind));
    whole(out, i64::from(self.name));
    whole(out, i64::from(self.cause));
    float(out, self.ms);
    heap(out, self.heap);
    optional(out, self.promoted);
    whole(out, self.line as i64);
});
event!(Cycle, self, out, self.gc_id, {
    whole(out, self.gc_id);
    whole(out, i64::from(self.kind));
    whole(out, i64::from(self.cause));
    float(out, self.ms.unwrap_or(f64::NAN));
    heap(out, self.heap);
    optional(out, self.live);
    optional(out, self.reclaimed);
    optional(out, self.promoted);
});
event!(Phase, self, out, 0, {
    whole(out, i64::from(self.kind));
    float(out, self.ms);
});
event!(Cleanup, self, out, self.gc_id, {
    whole(out, self.gc_id);
    heap(out, Some(self.heap));
    whole(out, i64::from(self.copied));
});
event!(Stall, self, out, 0, {
    whole(out, i64::from(self.kind));
    whole(out, i64::from(self.thread));
    float(out, self.ms);
    whole(out, self.line as i64);
});
event!(Safepoint, self, out, 0, {
    whole(out, i64::from(self.operation));
    float(out, self.reaching_ms);
    float(out, self.total_ms);
    whole(out, self.line as i64);
});
event!(Cpu, self, out, self.gc_id.unwrap_or(0), {
    optional(out, self.gc_id);
    float(out, self.user);
    float(out, self.system);
    float(out, self.real);
});
event!(Sign, self, out, 0, {
    whole(out, i64::from(self.name));
    whole(out, i64::from(self.value));
    whole(out, self.line as i64);
});

impl Log {
    pub fn new(format: &'static str) -> Log {
        let mut log = Log { format, ..Log::default() };
        log.words.of("");
        log
    }

    pub fn not_known(&mut self, number: u64, text: &str) {
        self.unknown.add(number, text);
    }

    pub fn not_whole(&mut self, number: u64, text: &str) {
        self.damaged.add(number, text);
    }

    pub fn note(&mut self, text: String) {
        if self.notes.len() < MOST_NOTES {
            self.notes.push(text);
        }
    }

    /// Err for a log with more events than memory is meant for.
    pub fn bounded(&self) -> Read<()> {
        let events = self.pauses.len()
            + self.cycles.len()
            + self.phases.len()
            + self.cleanups.len()
            + self.stalls.len()
            + self.safepoints.len()
            + self.cpu.len()
            + self.signs.len()
            + self.jvms.len();
        if events > MOST {
            Err(Damaged)
        } else {
            Ok(())
        }
    }

    /// Length of a description in JSON (8 bytes, little endian), the description, then a matrix of 8 bytes a cell for
    /// each list of events, row by row, in the order of `every_list`.
    pub fn bytes(&mut self, extra: &[(&str, Value)]) -> Vec<u8> {
        let mut counts: Vec<usize> = Vec::new();
        every_list!(self, events => counts.push(events.len()));
        let mut about = self.about(&counts);
        for (name, value) in extra {
            about[*name] = value.clone();
        }
        let mut text = about.to_string().into_bytes();
        text.resize(text.len().next_multiple_of(8), b' ');
        let mut out = Vec::with_capacity(8 + text.len() + counts.iter().sum::<usize>() * 104);
        out.extend_from_slice(&(text.len() as u64).to_le_bytes());
        out.extend_from_slice(&text);
        every_list!(self, events => {
            for event in events.iter() {
                event.row(&mut out);
            }
        });
        out
    }

    fn about(&self, counts: &[usize]) -> Value {
        let jvms: Vec<Value> = self
            .jvms
            .iter()
            .map(|jvm| {
                json!({
                    "collector": jvm.collector, "version": jvm.version,
                    "first": jvm.first, "last": jvm.last,
                    "first_unix": jvm.first_unix, "last_unix": jvm.last_unix,
                    "heap_max": jvm.heap_max, "ids": jvm.ids.pairs(),
                    "begun": jvm.begun.iter().collect::<Vec<_>>(),
                })
            })
            .collect();
        json!({
            "counts": counts, "words": self.words.texts, "jvms": jvms,
            "unknown": self.unknown.lines, "more_unknown": self.unknown.more,
            "damaged": self.damaged.lines, "more_damaged": self.damaged.more,
            "lines": self.lines, "understood": self.understood, "foreign": self.foreign,
            "format": self.format, "library": self.library, "truncated": self.truncated,
            "timeless": self.timeless, "alternating": self.alternating,
            "allocation_unknown": self.allocation_unknown, "notes": self.notes,
        })
    }

    /// Numbers of all collections seen in several JVMs are different ones.
    pub fn ids_apart(&self) -> bool {
        let mut joined = Ids::default();
        let mut count = 0;
        for jvm in &self.jvms {
            joined.merge(&jvm.ids);
            count += jvm.ids.count();
        }
        joined.count() == count
    }
}

#[cfg(test)]
mod tests {
    use super::Ids;

    #[test]
    fn numbers_are_kept_as_runs() {
        let (mut ids, mut others) = (Ids::default(), Ids::default());
        for id in [0, 1, 5, 3, 2, 2, 9] {
            ids.insert(id);
        }
        assert_eq!(ids.pairs(), [[0, 3], [5, 5], [9, 9]]);
        assert_eq!((ids.count(), ids.least(), ids.most()), (6, Some(0), Some(9)));
        for id in [4, 6, 12] {
            others.insert(id);
        }
        ids.merge(&others);
        assert_eq!(ids.pairs(), [[0, 6], [9, 9], [12, 12]]);
    }
}
