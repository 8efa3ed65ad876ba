//! Unified GC logs (JEP 158, JEP 271) of JDK 9 to 25 into events.
//!
//! Written from logs of the collectors themselves; tests hold it against the JVM's flight recorder, collection by
//! collection. Whatever looks like a pause and is not understood is kept as unknown.

mod messages;

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use memchr::memmem;

use crate::clock::{beginning, rounded, whole};
use crate::decorators::{Line, Splitter, Tags};
use crate::forms::{self, digits_of_id, id_of, is_pause, sign_of, tells};
use crate::log::{Cycle, Jvm, Log, Pause, Read, Sign, When};
use crate::order::{check_physics, put_in_order, SAME_START, SLACK};

/// Letters of a message; the JVM's own have some hundreds.
const LONGEST: usize = 1000;
/// Seconds; a time in the log is a whole millisecond.
const ROUNDED: f64 = 0.002;
/// Collections that may be under way beside one another.
const BESIDE: i64 = 8;
/// Collections out of place, for several JVMs at once to be believed.
const TORN: usize = 3;
/// Pauses.
const ENOUGH: usize = 10;
/// Seconds.
const LEAP: f64 = 60.0;

static SECONDS: LazyLock<memmem::Finder<'_>> = LazyLock::new(|| memmem::Finder::new(b" secs]"));
forms::form!(OF_Z, r"(?:Garbage|Minor|Major) Collection|Pause Relocate Start|Pause Mark (?:Start|End)");
forms::form!(OF_SHENANDOAH, r"Pause (?:Init|Final) (?:Mark|Update Refs|Evac)|Pause Degenerated");
forms::form!(OF_G1, r"G1 |Concurrent (?:Mark |Undo )?Cycle|\(Normal\)|\(Prepare Mixed\)");

/// What earlier lines of one JVM said that later ones need. `began`: unix seconds of its start.
#[derive(Clone, Default)]
struct State {
    began: Option<f64>,
    shift: f64,                  // s that a wall clock without uptime was set back, in unix seconds of the log
    stopped: Option<(i64, f64)>, // the collection whose pause began last, and when
    wall_alone: bool,
    counted: Option<i64>, // the last collection that stopped the application from its beginning to its end
    number: String,       // of its process, where the log has no uptime
    used: bool,           // it has said which collector it uses
    start_of: HashMap<i64, f64>, // a cycle's id -> uptime
    causes: HashMap<i64, String>,
    cancelled: String,
    capacity: Option<i64>,
    region: Option<i64>, // bytes
    operation: String,
    old: HashMap<i64, i64>, // growth of the old generation in a collection
    rows: HashMap<i64, Rows>,
    shenandoah: Vec<Cycle>,
    places: HashMap<i64, usize>, // of a collection's cycle among them
}

#[derive(Clone, Copy, Default)]
struct Rows {
    live: Option<i64>,
    reclaimed: Option<i64>,
    promoted: Option<i64>,
}

/// Takes a log line by line; `finish` gives what it says.
#[derive(Clone)]
pub struct Reader {
    pub log: Log,
    splitter: Splitter,
    uptime: Option<f64>,
    unix: Option<f64>,
    tags: Tags,
    at: f64,
    last: String,
    current: usize,
    states: Vec<State>,
    before: State, // of no JVM yet
    mixed: bool,
}

impl Reader {
    pub fn new() -> Reader {
        Reader {
            log: Log::new("unified log of HotSpot (JDK 9 and later)"),
            splitter: Splitter::default(),
            uptime: None,
            unix: None,
            tags: Tags::default(),
            at: 0.0,
            last: String::new(),
            current: 0,
            states: Vec::new(),
            before: State::default(),
            mixed: false,
        }
    }

    /// The next line, with its end.
    pub fn take(&mut self, text: &str) {
        self.log.lines += 1;
        self.last.clear();
        self.last.push_str(text);
        let (sign, figure) = tells(text);
        let begins = self.log.pauses.is_empty() && (self.log.jvms.is_empty() || text.contains("GC("));
        if sign || figure || self.log.jvms.is_empty() || begins {
            if self.read(text, sign).is_err() {
                self.damaged(text);
            }
            return;
        }
        self.log.understood += u64::from(self.splitter.belongs(text));
        self.another_format(text);
    }

    /// JDK 8 or OpenJ9 has written into this log too.
    fn another_format(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let old = SECONDS.find(bytes).is_some() && forms::OF_JDK_8.is_match(beginning(text, LONGEST));
        if old || (memchr::memchr(b'<', bytes).is_some() && text.contains("<exclusive-end")) {
            self.log.not_known(self.log.lines, text);
        }
    }

    fn state(&mut self) -> &mut State {
        self.states.get_mut(self.current).unwrap_or(&mut self.before)
    }

    fn jvm(&mut self) -> &mut Jvm {
        &mut self.log.jvms[self.current]
    }

    fn when(&self) -> When {
        When { at: self.at, unix: self.unix, jvm: self.current }
    }

    fn read(&mut self, text: &str, told: bool) -> Read<()> {
        let line = self.splitter.split(text);
        if told {
            if let Some((name, value)) = sign_of(line.map_or_else(|| text.trim(), |line| line.message)) {
                self.sign(line, name, value)?;
            }
        }
        let Some(line) = line else {
            if self.log.jvms.is_empty() {
                self.splitter.defer(text);
            }
            self.foreign(text);
            return Ok(());
        };
        self.log.understood += if self.log.jvms.is_empty() { 1 + self.splitter.recall() } else { 1 };
        (self.uptime, self.unix, self.tags) = (line.uptime, line.unix, line.tags);
        let message = line.message;
        if message.len() > LONGEST && message.chars().nth(LONGEST).is_some() {
            self.damaged(text);
            return Ok(());
        }
        let ours = !line.tags.any || line.tags.ours();
        self.clock(&line, ours && message.contains("Using ") && forms::USING.is_match(message))?;
        if !ours || line.tags.stats {
            return Ok(());
        }
        if let Some(id) = id_of(message)? {
            self.jvm().ids.insert(id);
        }
        if is_pause(message) {
            self.pause(message, text)
        } else if ["Safepoint", "Total time", "Entering"].iter().any(|word| message.starts_with(word)) {
            self.safepoint(message)
        } else if line.tags.start {
            self.start(message)
        } else {
            self.other(message)
        }
    }

    /// What a line tells besides pauses, at its own time or that of the line before.
    fn sign(&mut self, line: Option<Line<'_>>, name: &str, value: String) -> Read<()> {
        let at = line.and_then(|line| line.uptime).unwrap_or(self.at);
        let unix = line.and_then(|line| line.unix);
        let value = if name == "humongous" {
            let regions = whole(&value)?;
            (regions * self.state().region.unwrap_or(0)).to_string()
        } else {
            value
        };
        let when = When { at, unix, jvm: self.current };
        let (name, value) = (self.log.words.of(name), self.log.words.of(&value));
        self.log.signs.push(Sign { when, name, value, line: self.log.lines });
        Ok(())
    }

    /// A line without decorators: a program's own, or half of one of ours.
    fn foreign(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        self.log.foreign += 1;
        self.another_format(text);
        // Half a line shows by its end: a pause's time, with the heap or the collection's number before it.
        if self.log.jvms.is_empty() || !text.trim_end().ends_with("ms") {
            return;
        }
        let mut from = text.len().saturating_sub(LONGEST);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        if forms::HALF.is_match(text[from..].trim_end()) && forms::OF_A_PAUSE.is_match(beginning(text, LONGEST)) {
            self.damaged(text);
        }
    }

    fn damaged(&mut self, text: &str) {
        self.log.not_whole(self.log.lines, text);
    }

    /// A cut last line is no evidence of an unknown pause.
    pub fn finish(mut self) -> Log {
        let last = std::mem::take(&mut self.last);
        let line = self.splitter.split(&last);
        if !last.is_empty() && !last.ends_with('\n') {
            self.log.truncated = true;
            self.log.unknown.forgive(self.log.lines);
            self.log.damaged.forgive(self.log.lines);
        } else if let Some(line) = line.filter(|_| !self.log.jvms.is_empty()) {
            let _ = self.clock(&line, false);
        }
        for number in 0..self.states.len() {
            self.name_collector(number);
            if matches!(self.log.jvms[number].collector.as_str(), "Shenandoah" | "") {
                self.log.cycles.append(&mut self.states[number].shenandoah);
            }
        }
        let (mut log, mixed) = (self.log, self.mixed);
        log.cycles.sort_by(|one, other| one.when.jvm.cmp(&other.when.jvm).then(one.when.at.total_cmp(&other.when.at)));
        put_in_order(&mut log, &self.states.iter().map(|state| state.used).collect::<Vec<_>>());
        leaps(&mut log, &self.states);
        log.timeless = !log.jvms.is_empty() && log.jvms.iter().all(|jvm| jvm.last == 0.0 && jvm.first_unix.is_none());
        if alternate(&mut log) {
            (log.alternating, log.timeless) = (true, true);
        } else if mixed {
            let note = "lines of several JVMs alternate; the time at which each began distinguishes them";
            log.notes.push(note.to_owned());
        }
        check_physics(&mut log);
        log
    }

    /// Of a log that has not its beginning: by what only one collector does.
    fn name_collector(&mut self, number: usize) {
        let log = &self.log;
        if !log.jvms[number].collector.is_empty() {
            return;
        }
        let cycles = log.cycles.iter().filter(|cycle| cycle.when.jvm == number).take(ENOUGH).map(|cycle| cycle.kind);
        let pauses = log.pauses.iter().filter(|pause| pause.when.jvm == number).take(ENOUGH).map(|pause| pause.kind);
        let words: Vec<&str> = cycles.chain(pauses).map(|word| log.words.text(word)).collect();
        let by = [(&OF_Z, "Z"), (&OF_SHENANDOAH, "Shenandoah"), (&OF_G1, "G1")];
        let who = by.iter().find(|(form, _)| words.iter().any(|word| form.is_match(word)));
        self.log.jvms[number].collector = who.map_or("", |(_, who)| who).to_owned();
    }

    /// Follow the uptime; a JVM that starts over is a new one. Threads' lines may be a little out of order.
    fn clock(&mut self, line: &Line<'_>, using: bool) -> Read<()> {
        if !line.number.is_empty() && line.uptime.is_none() && line.number != self.state().number {
            self.by_number(line, using);
        }
        let origin = self.state().began;
        let mut at = line.uptime;
        if let (None, Some(unix)) = (at, line.unix) {
            // No such decorator, or a damaged one.
            self.state().wall_alone = origin.is_none();
            let mut time = unix - origin.unwrap_or(self.state().shift);
            if origin.is_none() && !using && !self.log.jvms.is_empty() && time < self.jvm().last - SLACK {
                time = self.set_back(line, time)?;
            }
            at = Some(time);
        }
        let at = at.unwrap_or(if self.log.jvms.is_empty() { 0.0 } else { self.at });
        let began = line.unix.zip(line.uptime).map(|(unix, uptime)| unix - uptime);
        if self.log.jvms.is_empty() {
            self.new_jvm(at, line.unix, began);
        } else if let (Some(now), Some(before)) = (began, self.state().began) {
            if (now - before).abs() > SAME_START {
                self.other_jvm(at, line.unix, now);
            } else if using && self.state().used && at < 1.0 {
                self.new_jvm(at, line.unix, began);
            } else {
                self.state().began = began; // follows a clock that is being slewed
            }
        } else if at < self.jvm().last - if using { 0.0 } else { SLACK } || (using && self.state().used) {
            self.new_jvm(at, line.unix, began);
        }
        if using {
            self.state().used = true;
        }
        self.jvm().reach(at, line.unix);
        self.at = at;
        Ok(())
    }

    /// The JVM by its process number. A number is one where it began with what its JVM uses; else of a thread.
    fn by_number(&mut self, line: &Line<'_>, using: bool) {
        if let Some(place) = self.states.iter().position(|state| state.number == line.number) {
            (self.current, self.mixed) = (place, true);
            return;
        }
        if !using {
            return;
        }
        if !self.state().number.is_empty() || self.log.jvms.is_empty() {
            self.new_jvm(line.unix.unwrap_or(0.0), line.unix, None);
        }
        self.state().number = line.number.to_owned();
    }

    /// The time by a wall clock alone that went back: collections that count on are of the same JVM.
    fn set_back(&mut self, line: &Line<'_>, at: f64) -> Read<f64> {
        let numbered = digits_of_id(line.message);
        if let (Some(digits), Some(most)) = (numbered, self.jvm().ids.most()) {
            let behind = most - whole(digits)?;
            // Began anew, or a line out of place.
            if behind > BESIDE || (behind > 0 && line.message.contains("Pause")) {
                return Ok(at);
            }
        }
        let last = self.jvm().last;
        self.state().shift -= last - at;
        let place = numbered.map_or(String::new(), |digits| format!(" at collection {digits}"));
        let by = last - at;
        self.log.note(format!("the wall clock was set back by {by:.1} s{place}: times count on from there"));
        Ok(last)
    }

    /// By a wall clock alone a pause took far longer than it says: the clock was set, and times go on from there.
    fn set_forward(&mut self, gc_id: i64, ms: f64) {
        let Some((stopped, since)) = self.state().stopped else { return };
        let step = self.at - since - ms / 1e3;
        if gc_id != stopped || self.uptime.is_some() || self.unix.is_none() || step <= SLACK {
            return;
        }
        self.state().shift += step;
        self.at -= step;
        self.jvm().last = self.at;
        self.log.note(format!(
            "the wall clock was set forward by {step:.1} s in collection {gc_id}: times count on from there"
        ));
    }

    /// One that has written before and began then, or a new one; a stepped clock is neither.
    fn other_jvm(&mut self, at: f64, unix: Option<f64>, began: f64) {
        let known =
            self.states.iter().position(|state| state.began.is_some_and(|other| (began - other).abs() <= SAME_START));
        if let Some(number) = known {
            (self.current, self.mixed) = (number, true);
            return;
        }
        let last = self.jvm().last;
        if last - SLACK <= at && at <= last + SLACK && at > 5.0 {
            self.state().began = Some(began); // uptime goes on: the wall clock was stepped
        } else {
            self.new_jvm(at, unix, Some(began));
        }
    }

    fn new_jvm(&mut self, at: f64, unix: Option<f64>, began: Option<f64>) {
        self.log.jvms.push(Jvm::at(at, unix));
        self.current = self.log.jvms.len() - 1;
        self.states.push(State { began, ..State::default() });
    }
}

/// Rests far beyond all others in a log that has a wall clock alone: the clock may have been set forward.
fn leaps(log: &mut Log, states: &[State]) {
    for (number, state) in states.iter().enumerate() {
        if !state.wall_alone {
            continue;
        }
        let pauses: Vec<&Pause> = log.pauses.iter().filter(|pause| pause.when.jvm == number).collect();
        if pauses.len() < ENOUGH {
            continue;
        }
        let mut rests: Vec<(f64, Option<i64>)> =
            pauses.windows(2).map(|two| (two[1].when.at - two[0].when.at, two[0].gc_id)).collect();
        rests.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let usual = rests[(rests.len() * 9 / 10).max(1) - 1].0;
        for (rest, gc_id) in rests.iter().rev().take_while(|(rest, _)| *rest > LEAP.max(50.0 * usual)) {
            let after = gc_id.map_or(String::new(), |id| format!(" after collection {id}"));
            log.note(format!(
                "no pause for {rest:.0} s{after}, others came within {} s: if the wall clock was set forward there, \
                 the log is shorter by that; the decorator uptime would tell",
                rounded(usual, 3)
            ));
        }
    }
}

/// Several JVMs wrote line by line: collections are numbered twice in one, or their numbers begin again and again
/// somewhere above zero.
fn alternate(log: &mut Log) -> bool {
    let mut seen: HashSet<(usize, i64, u32)> = HashSet::new();
    let mut bases: HashMap<u32, Option<u32>> = HashMap::new();
    let mut twice = 0;
    for pause in &log.pauses {
        let Some(id) = pause.gc_id else { continue };
        let words = &mut log.words;
        let base = *bases.entry(pause.kind).or_insert_with(|| {
            let kind = words.text(pause.kind).to_owned();
            // A major collection of generational ZGC may collect the young generation twice.
            let once = forms::ONCE.contains(&words.text(pause.name)) && !kind.starts_with("Y: ");
            once.then(|| words.of(kind.split(" (").next().unwrap_or("")))
        });
        if let Some(base) = base {
            twice += usize::from(!seen.insert((pause.when.jvm, id, base)));
        }
    }
    let pieces = log.jvms.iter().skip(1).filter(|jvm| jvm.ids.least().is_some_and(|least| least > 0)).count();
    twice >= TORN || (pieces >= TORN && 2 * pieces >= log.jvms.len())
}
