//! Verbose GC logs of Eclipse OpenJ9 (`-Xverbosegclog`) into events.
//!
//! The log is XML, but is read element by element: one that is still being written, or cut, is none yet. A pause is the
//! time between `exclusive-start` and `exclusive-end`, during which no thread of the application runs.

use std::collections::HashMap;

use crate::clock::wall_clock;
use crate::forms::{self, form};
use crate::log::{Cpu, Heap, Jvm, Log, Pause, When};

form!(ELEMENT, r#"<(?P<name>[a-z][\w-]*)(?P<attributes>(?:\s+[\w:.-]+="[^"]*")*)\s*/?>"#);
form!(ATTRIBUTE, r#"([\w:.-]+)="([^"]*)""#);

/// Letters of a line.
const WIDEST: usize = 8192;
/// More bytes or ms no JVM has.
const MOST: f64 = 1e18;

/// Whether these first lines of a log are in this format.
pub fn recognises(lines: &[String]) -> bool {
    lines.iter().any(|text| text.contains("<verbosegc") || text.contains("<exclusive-start"))
}

/// Takes a log line by line; `finish` gives what it says.
#[derive(Clone)]
pub struct Reader {
    pub log: Log,
    inside: bool,
    cause: String,
    kind: String,
    used: Option<(i64, (i64, i64))>, // in use at first; in use and committed at last
    sized: usize,
    at_size: bool,
    cpu: Option<[f64; 3]>,
    ended: bool,
}

type Values<'a> = HashMap<&'a str, &'a str>;

impl Reader {
    pub fn new() -> Reader {
        Reader {
            log: Log::new("verbose log of OpenJ9 (-Xverbosegclog)"),
            inside: false,
            cause: String::new(),
            kind: String::new(),
            used: None,
            sized: 0,
            at_size: false,
            cpu: None,
            ended: true,
        }
    }

    /// The next line, with its end.
    pub fn take(&mut self, text: &str) {
        self.log.lines += 1;
        self.ended = text.ends_with('\n');
        if text.len() > WIDEST && text.chars().nth(WIDEST).is_some() {
            self.log.not_whole(self.log.lines, text);
            return;
        }
        self.log.understood += u64::from(text.contains('<') || text.trim().is_empty());
        let unified = text.contains("GC(") && forms::OF_UNIFIED.is_match(text);
        if unified || (text.contains(" secs]") && forms::OF_JDK_8.is_match(text)) {
            self.log.not_known(self.log.lines, text);
        }
        for element in ELEMENT.captures_iter(text) {
            let attributes = ATTRIBUTE.captures_iter(forms::group(&element, "attributes"));
            let values =
                attributes.filter_map(|one| Some((one.get(1)?.as_str(), one.get(2)?.as_str()))).collect::<Values<'_>>();
            self.read(forms::group(&element, "name"), &values);
        }
    }

    /// The root is closed when the JVM ends; a log without it is one still written, or that of a JVM killed.
    pub fn finish(mut self) -> Log {
        self.log.truncated = !self.ended;
        self.log
    }

    fn read(&mut self, name: &str, values: &Values<'_>) {
        match name {
            "verbosegc" => {
                let version = values.get("version").map_or("OpenJ9".to_owned(), |version| format!("OpenJ9 {version}"));
                self.log.jvms.push(Jvm { version, ..Jvm::default() });
            }
            "initialized" => {
                self.clock(values);
            }
            "attribute" => self.attribute(values),
            "exclusive-start" => {
                self.clock(values);
                self.inside = true;
                self.kind.clear();
                (self.used, self.sized, self.cpu) = (None, 0, None);
            }
            "af-start" => self.cause = "Allocation Failure".to_owned(),
            "sys-start" => self.cause = "System.gc()".to_owned(),
            "concurrent-kickoff" => self.cause.clear(),
            "quanta" => self.log.library = "metronome",
            "gc-op" | "gc-end" if !self.inside => {
                let text = format!("<{name}> outside of exclusive access: its pause is not read");
                self.log.not_known(self.log.lines, &text); // of a log that begins inside
            }
            "gc-start" | "gc-end" => self.collection(values),
            "mem-info" if self.at_size => {
                let of = |name: &str| values.get(name).and_then(|text| number(text));
                if let (Some(total), Some(free)) = (of("total"), of("free")) {
                    let used = ((total - free) as i64, total as i64);
                    self.used = Some((self.used.map_or(used.0, |first| first.0), used));
                    self.sized += 1;
                }
                self.at_size = false;
            }
            "exclusive-end" => self.end(values),
            "af" | "sys" | "con" => {
                let text = format!("<{name}>: the form of J9 before R26 is not read");
                self.log.not_known(self.log.lines, &text);
                self.log.library = "J9 before R26";
            }
            _ => {}
        }
    }

    fn collection(&mut self, values: &Values<'_>) {
        self.at_size = true;
        let kind = values.get("type").copied().unwrap_or("");
        let name = match kind {
            "scavenge" | "partial gc" => "Young".to_owned(),
            "global" | "global garbage collect" => "Full".to_owned(),
            _ => title(kind),
        };
        if !name.is_empty() {
            self.kind = name;
        }
        if values.contains_key("usertimems") {
            let mut sums = self.cpu.unwrap_or_default();
            for (sum, name) in sums.iter_mut().zip(["usertimems", "systemtimems", "durationms"]) {
                *sum += values.get(name).and_then(|text| number(text)).unwrap_or(0.0);
            }
            self.cpu = Some(sums);
        }
    }

    fn attribute(&mut self, values: &Values<'_>) {
        let Some(jvm) = self.log.jvms.last_mut() else { return };
        let value = values.get("value").copied().unwrap_or("");
        match values.get("name").copied() {
            Some("gcPolicy") => jvm.collector = value.rsplit(':').next().unwrap_or("").to_owned(),
            Some("maxHeapSize") => {
                jvm.heap_max = match value.strip_prefix("0x") {
                    Some(digits) => i64::from_str_radix(digits, 16).ok(),
                    None => value.parse().ok(),
                };
            }
            _ => {}
        }
    }

    /// Wall clock only: local time without a zone.
    fn clock(&mut self, values: &Values<'_>) -> When {
        let unix = values.get("timestamp").and_then(|text| wall_clock(text));
        if self.log.jvms.is_empty() {
            self.log.jvms.push(Jvm { version: "OpenJ9".to_owned(), ..Jvm::default() });
        }
        let number = self.log.jvms.len() - 1;
        let jvm = &mut self.log.jvms[number];
        if let Some(unix) = unix {
            if jvm.first_unix.is_none() {
                (jvm.first, jvm.first_unix) = (unix, Some(unix));
            }
            if unix >= jvm.last {
                (jvm.last, jvm.last_unix) = (unix, Some(unix));
            }
        }
        let at = unix.unwrap_or(jvm.last);
        When { at, unix: Some(at), jvm: number }
    }

    fn end(&mut self, values: &Values<'_>) {
        let when = self.clock(values);
        let Some(ms) = values.get("durationms").and_then(|text| number(text)) else {
            self.log.not_known(self.log.lines, "exclusive-end without durationms");
            return;
        };
        let name = if self.kind.is_empty() { "Exclusive" } else { &self.kind };
        let used = self.used.filter(|_| self.sized > 1);
        let heap = used.map(|(before, (after, total))| Heap { before, after, total: Some(total) });
        let kind =
            if self.cause.is_empty() { format!("Pause {name}") } else { format!("Pause {name} ({})", self.cause) };
        let words = &mut self.log.words;
        let (kind, name, cause) = (words.of(&kind), words.of(name), words.of(&self.cause));
        self.log.pauses.push(Pause { when, gc_id: None, kind, name, cause, ms, heap, promoted: None, line: 0 });
        if let Some([user, system, real]) = self.cpu.map(|times| times.map(|ms| ms / 1e3)) {
            self.log.cpu.push(Cpu { when, gc_id: None, user, system, real });
        }
        self.inside = false;
        self.cause.clear();
    }
}

/// Each word with a capital letter.
fn title(text: &str) -> String {
    let mut out = String::new();
    let mut begins = true;
    for letter in text.chars() {
        if begins {
            out.extend(letter.to_uppercase());
        } else {
            out.extend(letter.to_lowercase());
        }
        begins = !letter.is_alphabetic();
    }
    out
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|number| number.abs() < MOST)
}
