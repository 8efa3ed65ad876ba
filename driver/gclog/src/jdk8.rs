//! GC logs of JDK 8 (`-XX:+PrintGCDetails`, with `PrintGCDateStamps` or `PrintGCTimeStamps`) into events.
//!
//! Unlike today's logs, a record carries the time at which it began, and other threads write into the middle of it.
//! Names are those of the unified log, so that figures of both can be laid side by side.

mod shenandoah;

use memchr::memmem;

use crate::clock::{decimal, decimal_at, digits, size, wall_clock, whole};
use crate::forms::{self, form, sign_of};
use crate::log::{Cpu, Heap, Jvm, Log, Pause, Read, Safepoint, Sign, When};
use crate::order::{check_physics, put_in_order};

form!(HEADER, r"\A.* Server VM \((?P<vm>[^)]+)\) for .* JRE \((?P<version>[^)]+)\)");
// A thread beside the application was still writing its line when the record began, or writes one into it.
form!(
    BESIDE,
    r"(?:\d{4}-\d\d-\d\dT[\d:.,]{8,20}[+-]\d{4}: )?(?:\d{1,12}[.,]\d{1,9}: )?(?:#\d{1,9}: )?\[(?:GC |CMS-)concurrent-[^\[\]]*\](?: \[Times: [^\]]*\])?\s*"
);
form!(ADDRESSES, r"\[0x[^\[\]()]*\)"); // of -XX:+PrintHeapAtGC, half open: no bracket of a record
form!(REMARK, r"\A\[GC[^\[\]]*\[YG occupancy");
// A collection of all of the heap.
form!(OLD, r"\[(?:Tenured|CMS|PSOldGen|ParOldGen)[^\[\]]*?: \d+K->\d+K");
// Rows inside a record: of a class histogram, of the free lists of CMS (-XX:PrintFLSStatistics).
form!(
    TABLE,
    r"\A(?: num +#instances|-{20}|\s*\d{1,9}: +\d{1,16} +\d{1,16} +\S|Total +\d{1,16} +\d{1,16}\s*$|size\[\d{1,9}\] : demand)"
);
form!(
    G1_HEAP,
    r"Heap: (\d{1,16}(?:[.,]\d{1,9})?)([BKMG])\([\d.,]+[BKMG]\)->(\d{1,16}(?:[.,]\d{1,9})?)([BKMG])\((\d{1,16}(?:[.,]\d{1,9})?)([BKMG])\)"
);
form!(
    STOPPED,
    r"Total time for which application threads were stopped: (\d{1,16}(?:[.,]\d{1,9})?) seconds(?:, Stopping threads took: (\d{1,16}(?:[.,]\d{1,9})?) seconds)?"
);
form!(INSIDE, r"(?:[\dT:.,+-]{1,30}: ){0,2}\[(?:GC |CMS-)concurrent-[^\[\]]*\]|\[Times: [^\[\]]*\]");

const SCAVENGED: &str = "[young]";
/// Lines that one record may go over.
const LONGEST: u64 = 200;
/// Letters of a line.
const WIDEST: usize = 8192;
const G1_KINDS: [(&str, &str); 3] = [("young", "Normal"), ("mixed", "Mixed"), ("initial-mark", "Concurrent Start")];
const USES: [(&str, &str); 5] =
    [("PSYoungGen", "Parallel"), ("ParNew", "CMS"), ("CMS", "CMS"), ("DefNew", "Serial"), ("GC pause", "G1")];
const WHAT: [&str; 7] = ["Full GC", "Incremental GC", "GC pause", "GC remark", "GC cleanup", "GC--", "GC"];

/// What stands before a record: wall clock and uptime as they are written, and where it ends.
#[derive(Clone, Copy, Default)]
struct Stamp<'a> {
    wall: Option<&'a str>,
    up: Option<&'a str>,
    end: usize,
}

/// `2026-01-01T00:00:00.000+0000` at `at`: where it ends.
fn date_at(text: &[u8], at: usize) -> Option<usize> {
    let mark = |place: usize, byte: u8| text.get(at + place) == Some(&byte);
    let known = digits(text, at, 4) == 4 && mark(4, b'-') && digits(text, at + 5, 2) == 2 && mark(7, b'-');
    if !known || digits(text, at + 8, 2) != 2 || !mark(10, b'T') {
        return None;
    }
    let time =
        text[at + 11..].iter().take(20).take_while(|byte| matches!(byte, b'0'..=b'9' | b':' | b'.' | b',')).count();
    let sign = at + 11 + time;
    let zone = matches!(text.get(sign), Some(b'+' | b'-')) && digits(text, sign + 1, 4) == 4;
    (time >= 8 && zone).then_some(sign + 5)
}

fn colon(text: &[u8], at: usize) -> bool {
    text.get(at..at + 2) == Some(b": ")
}

fn stamp(text: &str) -> Stamp<'_> {
    let bytes = text.as_bytes();
    let mut found = Stamp::default();
    if !bytes.first().is_some_and(u8::is_ascii_digit) {
        return found;
    }
    if let Some(end) = date_at(bytes, 0).filter(|end| colon(bytes, *end)) {
        found.wall = Some(&text[..end]);
        found.end = end + 2;
    }
    if let Some(end) = decimal_at(bytes, found.end, 12, 9).filter(|end| colon(bytes, *end)) {
        found.up = Some(&text[found.end..end]);
        found.end = end + 2;
    }
    found
}

/// `#12: ` at `at`, if it is there: where it ends.
fn counted(text: &[u8], at: usize) -> usize {
    if text.get(at) != Some(&b'#') {
        return at;
    }
    let end = at + 1 + digits(text, at + 1, 9);
    if end > at + 1 && colon(text, end) {
        end + 2
    } else {
        at
    }
}

/// Whether a record begins at the beginning of `text`.
fn begins(text: &str) -> bool {
    let at = counted(text.as_bytes(), stamp(text).end);
    let rest = &text.as_bytes()[at..];
    let words = ["[GC", "[Full GC", "[Incremental GC"];
    words.iter().any(|word| rest.starts_with(word.as_bytes())) && !rest.starts_with(b"[GC Worker")
}

/// A record that begins within `text`, with its own time.
fn within(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    for bracket in memchr::memchr_iter(b'[', bytes) {
        let rest = &text[bracket + 1..];
        let behind = match rest.strip_prefix("Full GC").or_else(|| rest.strip_prefix("GC")) {
            Some(behind) => behind.as_bytes(),
            None => continue,
        };
        let next = |from: usize| {
            ["(", "pause", "remark", "cleanup", "-"].iter().any(|word| behind[from..].starts_with(word.as_bytes()))
        };
        let known = match behind.first() {
            Some(b' ') => next(1) || behind.get(1) == Some(&b'['),
            Some(b'-') => next(1),
            Some(b'[') => true,
            Some(byte) => byte.is_ascii_digit(),
            None => false,
        };
        if known {
            if let Some(place) = stamped_before(bytes, bracket) {
                return Some(place);
            }
        }
    }
    None
}

/// Where the time before the bracket at `end` begins; None without an uptime.
fn stamped_before(text: &[u8], end: usize) -> Option<usize> {
    let mut at = end;
    let back =
        |at: usize, most: usize| text[..at].iter().rev().take(most).take_while(|byte| byte.is_ascii_digit()).count();
    let colon_before = |at: usize| at >= 2 && &text[at - 2..at] == b": ";
    if colon_before(at) {
        let count = back(at - 2, 9);
        if count > 0 && at >= count + 3 && text[at - 3 - count] == b'#' {
            at -= count + 3;
        }
    }
    if !colon_before(at) {
        return None;
    }
    let part = back(at - 2, 9);
    let point = (at - 2).checked_sub(part + 1)?;
    if part == 0 || !matches!(text[point], b'.' | b',') {
        return None;
    }
    let before = back(point, 12);
    if before == 0 {
        return None;
    }
    at = point - before;
    // A date has 19 to 40 letters.
    for length in 24..=38 {
        if let Some(from) = (at).checked_sub(length + 2) {
            if date_at(text, from) == Some(from + length) && colon(text, from + length) {
                return Some(from);
            }
        }
    }
    Some(at)
}

/// Whether these first lines of a log are in this format.
pub fn recognises(lines: &[String]) -> bool {
    lines.iter().any(|text| {
        begins(text) || shenandoah::line(text).is_some() || (text.contains("Server VM (") && HEADER.is_match(text))
    })
}

/// A line beside the records: details of G1, the heap's state, what the JVM says of itself, CMS's own threads.
fn is_detail(text: &str) -> bool {
    let bytes = text.as_bytes();
    let words = ["[", "Heap", "{Heap", "}", "Memory:", "CommandLine", "Desired", "- age", "Total time"];
    text.starts_with(char::is_whitespace)
        || words.iter().any(|word| text.starts_with(word))
        || decimal_at(bytes, 0, 12, 9).is_some_and(|end| colon(bytes, end))
        || (digits(bytes, 0, 4) == 4
            && bytes.get(4) == Some(&b'-')
            && digits(bytes, 5, 2) == 2
            && bytes.get(7) == Some(&b'-')
            && digits(bytes, 8, 2) == 2
            && bytes.get(10) == Some(&b'T'))
        || ((text.starts_with(": ") || text.starts_with(", ")) && digits(bytes, 2, 1) == 1)
}

/// Takes a log line by line; `finish` gives what it says.
#[derive(Clone)]
pub struct Reader {
    pub log: Log,
    open: String,                  // a record that is not complete yet
    bound: u64,                    // rows of tables in it
    place: usize,                  // up to where its brackets were counted
    depth: usize,                  // how many are open there
    line: u64,                     // of its beginning
    native: Option<f64>,           // s, when the next collection of a native image began
    around: Option<(String, u64)>, // a remark whose young collection is being read
    cycles: i64,                   // of Shenandoah
    ended: bool,
}

impl Reader {
    pub fn new() -> Reader {
        Reader {
            log: Log::new("JDK 7 and 8 (-XX:+PrintGCDetails)"),
            open: String::new(),
            bound: 0,
            place: 0,
            depth: 0,
            line: 0,
            native: None,
            around: None,
            cycles: 0,
            ended: true,
        }
    }

    /// The next line, with its end.
    pub fn take(&mut self, text: &str) {
        self.log.lines += 1;
        self.ended = text.ends_with('\n');
        let wide = text.len() > WIDEST && text.chars().nth(WIDEST).is_some();
        if wide || self.read(text).is_err() {
            self.damaged(text);
        }
    }

    pub fn finish(mut self) -> Log {
        self.end();
        let mut log = self.log;
        log.truncated = !self.ended;
        if log.truncated {
            log.unknown.forgive(log.lines.saturating_sub(LONGEST));
        }
        let started: Vec<bool> = log.jvms.iter().map(|jvm| !jvm.version.is_empty()).collect();
        put_in_order(&mut log, &started);
        log.timeless = !log.jvms.is_empty() && log.jvms.iter().all(|jvm| jvm.last == 0.0);
        check_physics(&mut log);
        log
    }

    fn begin(&mut self, text: String) {
        self.open = text;
        (self.bound, self.place, self.depth) = (0, 0, 0);
    }

    fn read(&mut self, text: &str) -> Read<()> {
        self.log.understood += u64::from(!self.open.is_empty() || is_detail(text));
        if text.contains("Server VM (") {
            if let Some(found) = HEADER.captures(text) {
                self.log.understood += 1;
                self.end();
                self.log.jvms.push(Jvm { version: found["version"].to_owned(), ..Jvm::default() });
                return Ok(());
            }
        }
        if let Some(rest) = text.strip_prefix("[[") {
            let count = digits(rest.as_bytes(), 0, 19);
            if count >= 6 && rest[count..].starts_with(" GC: before ") {
                self.native = Some(whole(&rest[..count])? as f64 / 1e9);
            }
        }
        if self.open.is_empty() {
            let begun = begins(text);
            let from = if begun { None } else { within(text) };
            let text = from.map_or(text, |from| &text[from..]);
            if begun || from.is_some_and(|_| begins(text)) {
                self.begin(text.to_owned());
                self.line = self.log.lines;
                return self.complete();
            }
            return self.detail(text);
        }
        if TABLE.is_match(text) {
            self.bound += 1; // names of classes have brackets of their own
            return Ok(());
        }
        let beside = if text.contains("concurrent-") { BESIDE.replace(text, "") } else { text.into() };
        let text =
            if beside.contains("[0x") { ADDRESSES.replace_all(&beside, "").into_owned() } else { beside.into_owned() };
        if text.is_empty() {
            return Ok(());
        }
        let begun = begins(&text);
        if begun && self.around.is_none() && scavenges(&self.open, &text) {
            self.around = Some((std::mem::take(&mut self.open), self.line));
        } else if begun || self.log.lines - self.line > LONGEST + self.bound {
            self.end();
        } else {
            self.open.push_str(&text);
            return self.complete();
        }
        if begun {
            self.begin(text);
            self.line = self.log.lines;
            return self.complete();
        }
        self.detail(&text)
    }

    /// The record that this line belongs to is lost.
    fn damaged(&mut self, text: &str) {
        self.begin(String::new());
        self.around = None;
        self.log.not_whole(self.log.lines, text);
    }

    /// What is open can no longer become complete.
    fn end(&mut self) {
        let around = self.around.take();
        let open = (std::mem::take(&mut self.open), self.line);
        for (text, line) in around.into_iter().chain([open]) {
            if record_of(&text).is_some() {
                self.log.not_known(line, text.split('\n').next().unwrap_or(""));
            }
        }
        self.begin(String::new());
    }

    /// Where the first bracket of the open record is closed, behind it; 0 when it is not.
    fn closed(&mut self) -> usize {
        let bytes = self.open.as_bytes();
        for mark in memchr::memchr2_iter(b'[', b']', &bytes[self.place..]) {
            let at = self.place + mark;
            if bytes[at] == b'[' {
                self.depth += 1;
            } else if self.depth > 0 {
                self.depth -= 1;
                if self.depth == 0 {
                    return at + 1;
                }
            }
        }
        self.place = bytes.len();
        0
    }

    /// Take the records whose brackets are closed; several may stand in one line.
    fn complete(&mut self) -> Read<()> {
        loop {
            let end = self.closed();
            if end == 0 {
                return Ok(());
            }
            let rest = self.open[end..].to_owned();
            let mut record = std::mem::take(&mut self.open);
            record.truncate(end);
            if memchr::memchr(b'\n', record.as_bytes()).is_some() {
                record = record.replace('\n', " ");
            }
            self.begin(String::new());
            if let Some((around, line)) = self.around.take() {
                // The remark's own time has that of the collection inside.
                self.begin(around + SCAVENGED);
                self.line = line;
                return Ok(());
            }
            if let Some((stamp, what, behind)) = record_of(&record) {
                if !behind.starts_with(" concurrent") {
                    self.pause(stamp, what, behind, &record)?;
                }
            }
            if let Some(another) = within(&rest) {
                self.begin(rest[another..].to_owned());
                self.line = self.log.lines;
                self.detail(&rest[..another])?;
            } else {
                self.detail(&rest)?;
            }
        }
    }

    fn jvm(&mut self, at: f64, unix: Option<f64>) -> usize {
        if self.log.jvms.last().is_none_or(|jvm| at < jvm.last - 1.0) {
            self.log.jvms.push(Jvm::default());
        }
        let number = self.log.jvms.len() - 1;
        let jvm = &mut self.log.jvms[number];
        if jvm.last == 0.0 {
            (jvm.first, jvm.first_unix) = (at, unix); // its first record: uptime, or nothing but the wall clock
        }
        jvm.reach(at, unix);
        number
    }

    fn pause(&mut self, stamp: Stamp<'_>, what: &str, behind: &str, record: &str) -> Read<()> {
        let trimmed = behind.trim_end();
        let flat = without_brackets(trimmed.strip_suffix(']').unwrap_or(trimmed));
        let Some(seconds) = seconds_of(&flat) else {
            self.log.not_known(self.line, record);
            return Ok(());
        };
        let ms = decimal(seconds)? * 1e3;
        let unix = stamp.wall.and_then(wall_clock);
        let begin = match stamp.up {
            Some(up) => Some(decimal(up)?),
            None => unix.or(self.native),
        };
        let at = begin.map_or(0.0, |begin| begin + ms / 1e3);
        let ended = unix.map(|unix| unix + ms / 1e3);
        let jvm = self.jvm(at, ended);
        let groups = leading_groups(&flat);
        let inside = record.contains("concurrent-") || record.contains("[Times: ");
        let bare = if inside { INSIDE.replace_all(record, "") } else { record.into() };
        let (name, kind, cause) = named(what, &groups, record, &bare);
        let heap = last_heap(&flat)?;
        let mut promoted = None;
        if let Some(heap) = heap.filter(|_| name == "Young") {
            if let Some((before, after)) = young(&bare) {
                let (before, after) = (whole(before)? * 1024, whole(after)? * 1024);
                promoted = Some(((heap.after - after) - (heap.before - before)).max(0));
            }
        }
        let before = self.log.jvms[jvm].collector.as_str();
        if before.is_empty() || (before == "Serial" && record.contains("CMS-initial-mark")) {
            let who = USES.iter().find(|(mark, _)| record.contains(mark)).map_or("", |(_, who)| who);
            self.log.jvms[jvm].collector = who.to_owned();
        }
        let words = &mut self.log.words;
        let pause = Pause {
            when: When { at, unix: ended, jvm },
            gc_id: None,
            kind: words.of(&kind),
            name: words.of(name),
            cause: words.of(&cause),
            ms,
            heap,
            promoted,
            line: self.line,
        };
        self.log.pauses.push(pause);
        Ok(())
    }

    /// What follows a record: G1's heap, CPU times, safepoints; pauses in a form that is not read (Shenandoah).
    fn detail(&mut self, text: &str) -> Read<()> {
        if text.trim_start().starts_with("[Times: user=") && text.trim_end().ends_with(" secs]") && text.len() < 80 {
            return self.took(text);
        }
        let has = |word: &str| memmem::find(text.as_bytes(), word.as_bytes()).is_some();
        let unified = || has("GC(") && forms::OF_UNIFIED.is_match(crate::clock::beginning(text, 1000));
        if let Some(line) = shenandoah::line(text) {
            return self.shenandoah(text, &line);
        }
        if unified() || has("<exclusive-end") || (has("[Pause ") && has(" ms]")) {
            self.log.not_known(self.log.lines, text);
        }
        if has("OutOfMemoryError") {
            if let Some((name, value)) = sign_of(text.trim()) {
                let at = self.log.jvms.last().map_or(0.0, |jvm| jvm.last);
                let when = When { at, unix: None, jvm: self.log.jvms.len().saturating_sub(1) };
                let (name, value) = (self.log.words.of(name), self.log.words.of(&value));
                self.log.signs.push(Sign { when, name, value, line: self.log.lines });
            }
        }
        if has("Heap: ") && self.log.pauses.last().is_some_and(|pause| pause.heap.is_none()) {
            if let Some(found) = G1_HEAP.captures(text) {
                let before = bytes_of(&found[1], &found[2])?;
                let after = bytes_of(&found[3], &found[4])?;
                let total = Some(bytes_of(&found[5], &found[6])?);
                if let Some(pause) = self.log.pauses.last_mut() {
                    pause.heap = Some(Heap { before, after, total });
                }
            }
        }
        self.took(text)?;
        if has("Total time for which") {
            self.stopped(text)?;
        }
        Ok(())
    }

    /// The CPU times of the last pause.
    fn took(&mut self, text: &str) -> Read<()> {
        if let Some(last) = self.log.pauses.last() {
            let mut places = memmem::find_iter(text.as_bytes(), b"[Times: user=");
            if let Some(found) = places.find_map(|at| times(&text[at..]).transpose()) {
                let [user, system, real] = found?;
                self.log.cpu.push(Cpu { when: last.when, gc_id: None, user, system, real });
            }
        }
        Ok(())
    }

    fn stopped(&mut self, text: &str) -> Read<()> {
        let Some(found) = STOPPED.captures(text) else { return Ok(()) };
        let stamp = stamp(text);
        let unix = stamp.wall.and_then(wall_clock);
        let at = match stamp.up {
            Some(up) => Some(decimal(up)?),
            None => unix,
        };
        if let Some(at) = at {
            let reaching_ms = found.get(2).map_or(Ok(0.0), |took| decimal(took.as_str()))? * 1e3;
            let when = When { at, unix, jvm: self.jvm(at, unix) };
            let total_ms = decimal(&found[1])? * 1e3;
            let operation = self.log.words.of("");
            self.log.safepoints.push(Safepoint { when, operation, reaching_ms, total_ms, line: 0 });
        }
        Ok(())
    }
}

/// A record's time, what it is of, and what stands behind that.
fn record_of(text: &str) -> Option<(Stamp<'_>, &'static str, &str)> {
    let stamp = stamp(text);
    let rest = text[counted(text.as_bytes(), stamp.end)..].strip_prefix('[')?;
    let what = WHAT.iter().find(|what| rest.starts_with(**what))?;
    let behind = &rest[what.len()..];
    Some((stamp, what, behind.split('\n').next().unwrap_or("")))
}

/// Of G1 in JDK 8 the sizes have a fraction.
fn bytes_of(number: &str, unit: &str) -> Read<i64> {
    Ok((decimal(number)? * size("1", unit)? as f64).round_ties_even() as i64)
}

/// `[Times: user=0.01 sys=0.00, real=0.01 secs]` at the beginning.
fn times(text: &str) -> Read<Option<[f64; 3]>> {
    let bytes = text.as_bytes();
    let mut values = [0.0; 3];
    let mut at = 0;
    for (value, word) in values.iter_mut().zip(["[Times: user=", " sys=", ", real="]) {
        if !bytes[at..].starts_with(word.as_bytes()) {
            return Ok(None);
        }
        at += word.len();
        let end = decimal_at(bytes, at, 16, 9).unwrap_or(at + digits(bytes, at, 16));
        if end == at {
            return Ok(None);
        }
        *value = decimal(&text[at..end])?;
        at = end;
    }
    Ok(bytes[at..].starts_with(b" secs]").then_some(values))
}

/// What is outside of all brackets.
fn without_brackets(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut open: Vec<usize> = Vec::new();
    let mut from = 0;
    for at in memchr::memchr2_iter(b'[', b']', text.as_bytes()) {
        out.push_str(&text[from..at]);
        from = at + 1;
        if text.as_bytes()[at] == b'[' {
            open.push(out.len());
            out.push('[');
        } else if let Some(begin) = open.pop() {
            out.truncate(begin);
        } else {
            out.push(']');
        }
    }
    out.push_str(&text[from..]);
    out
}

/// Kilobytes of the young generation before and after: `[PSYoungGen: 1K->2K(3K)]`.
fn young(record: &str) -> Option<(&str, &str)> {
    for bracket in memchr::memchr_iter(b'[', record.as_bytes()) {
        let rest = &record[bracket + 1..];
        if !["PSYoungGen", "DefNew", "ParNew"].iter().any(|name| rest.starts_with(name)) {
            continue;
        }
        let inside = rest.split(['[', ']']).next().unwrap_or("");
        for (colon, _) in inside.match_indices(": ") {
            let text = &inside[colon + 2..];
            let before = digits(text.as_bytes(), 0, usize::MAX);
            let Some(rest) = text[before..].strip_prefix("K->").filter(|_| before > 0) else { continue };
            let after = digits(rest.as_bytes(), 0, usize::MAX);
            if after > 0 && rest[after..].starts_with("K(") {
                return Some((&text[..before], &rest[..after]));
            }
        }
    }
    None
}

/// The seconds at the end of a record.
fn seconds_of(flat: &str) -> Option<&str> {
    let flat = flat.strip_suffix(']').unwrap_or(flat).trim_end_matches(' ').strip_suffix(" secs")?;
    let bytes = flat.as_bytes();
    let back =
        |end: usize, most: usize| bytes[..end].iter().rev().take(most).take_while(|byte| byte.is_ascii_digit()).count();
    let part = back(bytes.len(), 9);
    let point = bytes.len().checked_sub(part + 1)?;
    if part == 0 || !matches!(bytes[point], b'.' | b',') {
        return None;
    }
    let before = back(point, 12);
    (before > 0).then(|| &flat[point - before..])
}

/// `1K->2K(3K)`, the last one; a native image has no size.
fn last_heap(flat: &str) -> Read<Option<Heap>> {
    let bytes = flat.as_bytes();
    let unit = |at: usize| bytes.get(at).is_some_and(|byte| b"BKMG".contains(byte));
    for arrow in memmem::rfind_iter(bytes, b"->") {
        let Some(before) = arrow.checked_sub(1).filter(|at| unit(*at)) else { continue };
        let from = before - bytes[..before].iter().rev().take(16).take_while(|byte| byte.is_ascii_digit()).count();
        let after = arrow + 2 + digits(bytes, arrow + 2, 16);
        if from == before || after == arrow + 2 || !unit(after) {
            continue;
        }
        let mut total = None;
        if bytes.get(after + 1) == Some(&b'(') {
            let end = after + 2 + digits(bytes, after + 2, 16);
            if end > after + 2 && unit(end) && bytes.get(end + 1) == Some(&b')') {
                total = Some(size(&flat[after + 2..end], &flat[end..=end])?);
            }
        }
        let (first, last) =
            (size(&flat[from..before], &flat[before..=before])?, size(&flat[arrow + 2..after], &flat[after..=after])?);
        return Ok(Some(Heap { before: first, after: last, total }));
    }
    Ok(None)
}

/// Whether `text` begins the young collection inside a remark that is open (-XX:+CMSScavengeBeforeRemark).
fn scavenges(remark: &str, text: &str) -> bool {
    let at = counted(remark.as_bytes(), stamp(remark).end);
    if !REMARK.is_match(&remark[at..]) || remark.contains("[Resc") || remark.contains(SCAVENGED) {
        return false;
    }
    text.contains("(CMS Final Remark)") || !remark.contains("(CMS Final Remark)")
}

/// Of `(a) (b) 1K->2K(3K)` the first two.
fn leading_groups(text: &str) -> Vec<&str> {
    let mut groups = Vec::new();
    let mut rest = text.trim_start();
    while rest.starts_with('(') {
        let Some(end) = forms::GROUP.find(rest).filter(|found| found.start() == 0).map(|found| found.end()) else {
            break;
        };
        groups.push(&rest[1..end - 1]);
        rest = rest[end..].trim_start();
    }
    groups
}

/// Name, kind and cause in the words of the unified log. `bare`: the record without what other threads wrote into it.
fn named(what: &str, groups: &[&str], record: &str, bare: &str) -> (&'static str, String, String) {
    let cause = groups.first().copied().unwrap_or("");
    let unnamed = cause.is_empty();
    let plain = |name: &'static str| (name, format!("Pause {name}"), String::new());
    if what == "GC remark" || cause == "CMS Final Remark" || (unnamed && record.contains("[YG occupancy")) {
        return plain("Remark");
    }
    if what == "GC cleanup" {
        return plain("Cleanup");
    }
    if cause == "CMS Initial Mark" || (unnamed && record.contains("CMS-initial-mark")) {
        return plain("Initial Mark");
    }
    if what == "Full GC" || (["Tenured", "CMS", "OldGen"].iter().any(|old| bare.contains(old)) && OLD.is_match(bare)) {
        let failures = ["concurrent mode failure", "promotion failed"];
        let failure = failures.iter().find(|why| record.contains(&format!("({why})")));
        let cause = failure.copied().unwrap_or(cause).to_owned();
        let kind = if cause.is_empty() { "Pause Full".to_owned() } else { format!("Pause Full ({cause})") };
        return ("Full", kind, cause);
    }
    if what == "Incremental GC" {
        return ("Young", format!("Pause Incremental GC ({cause})"), cause.to_owned());
    }
    let kind_of = |group: &str| G1_KINDS.iter().find(|(word, _)| *word == group).map(|(_, kind)| *kind);
    let last = groups.iter().filter_map(|group| kind_of(group)).next_back();
    let causes: Vec<&str> = groups.iter().copied().filter(|group| kind_of(group).is_none()).collect();
    let mut kind = "Pause Young".to_owned();
    for word in last.iter().chain(&causes) {
        kind.push_str(&format!(" ({word})"));
    }
    ("Young", kind, causes.first().copied().unwrap_or("").to_owned())
}
