//! The forms of messages that carry figures.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use memchr::memmem;
use regex::{Captures, Regex};

use crate::clock::{size, whole};
use crate::log::{Heap, Read};

/// A regular expression whose digits are ASCII's.
pub fn compiled(pattern: &str) -> Regex {
    Regex::new(&pattern.replace(r"\d", "[0-9]")).expect("a regular expression")
}

macro_rules! form {
    ($name:ident, $($part:expr),+) => {
        pub static $name: std::sync::LazyLock<regex::Regex> =
            std::sync::LazyLock::new(|| $crate::forms::compiled(&[$($part),+].concat()));
    };
}
pub(crate) use form;

const ID: &str = r"\A(?:GC\((?P<id>\d+)\) )?(?:(?P<generation>[YyOo]): )?";
const GROUPS: &str = r"(?P<groups>(?: \((?:[^()]|\([^()]*\))*\))*)";
const HEAP: &str = r"(?P<before>\d+(?:\.\d+)?)(?P<before_unit>[BKMGT])(?:\(\d+%\))?->(?P<after>\d+(?:\.\d+)?)(?P<after_unit>[BKMGT])(?:\(\d+%\)|\((?P<total>\d+)(?P<total_unit>[BKMGT])\))?";

form!(PAUSE, ID, r"Pause (?P<name>[A-Z][A-Za-z ]*?)", GROUPS, "(?: ", HEAP, r")? (?P<ms>\d+[.,]\d+)ms\z");
// Without heap and time it is the line at a pause's beginning.
form!(BEGINNING, ID, r"Pause (?P<name>[A-Z][A-Za-z ]*?)", GROUPS, r"\z");
form!(STATISTICS, r"\APause [A-Za-z ]{1,40}(?:\([GN]\))? *(?:\d{1,12} us|= +[\d.]{1,12} s \(a)");
form!(
    COLLECTION,
    ID,
    r"(?P<name>(?:Garbage|Minor|Major) Collection)",
    GROUPS,
    "(?: ",
    HEAP,
    r"(?: (?P<s>\d+[.,]\d+)s)?)?\z"
);
form!(MARK_CYCLE, ID, r"(?P<name>Concurrent(?: Mark| Undo)? Cycle)(?: (?P<ms>\d+[.,]\d+)ms)?\z");
form!(PHASE, ID, r"Concurrent (?P<name>[A-Za-z ]+?)", GROUPS, "(?: ", HEAP, r")? (?P<ms>\d+[.,]\d+)ms\z");
form!(
    STALL,
    r"\A(?:GC\(\d+\) )?(?P<kind>(?:Allocation|Relocation|Page Cache Flush) Stall) \((?P<thread>.*)\) (?P<ms>\d+[.,]\d+)ms\z"
);
form!(CPU, ID, r"User=(?P<user>\d+[.,]\d+)s Sys=(?P<sys>\d+[.,]\d+)s Real=(?P<real>\d+[.,]\d+)s\z");
// JDK 11 and 12
form!(
    STOPPED,
    r"\ATotal time for which application threads were stopped: (?P<total>\d+[.,]\d+) seconds, Stopping threads took: (?P<reaching>\d+[.,]\d+) seconds\z"
);
form!(CAPACITY, ID, r" *Capacity: +(?:\d+[BKMGT] \(\d+%\) +){3}(?P<total>\d+)(?P<total_unit>[BKMGT]) .*\z");
form!(MAXIMUM, r"\A(?:GC\(\d+\) )?(?:[YyOo]: )?(?:Heap )?Max Capacity: (?P<total>\d+)(?P<total_unit>[BKMGT]).*\z");
form!(USING, r"\AUsing (?:The )?(?P<name>Serial|Parallel|G1|Z|Shenandoah|Epsilon|Concurrent Mark Sweep)\b.*\z");
form!(VERSION, r"\AVersion: (?P<version>\S+).*\z");
// Occupancy of the old generation around a pause: bytes of Serial, Parallel, CMS; regions of G1.
form!(OLD, r"\AGC\((?P<id>\d+)\) (?:Tenured|ParOldGen|PSOldGen|CMS): (?P<before>\d+)K(?:\(\d+K\))?->(?P<after>\d+)K");
form!(OLD_REGIONS, r"\AGC\((?P<id>\d+)\) Old regions: (?P<before>\d+)->(?P<after>\d+)");
form!(REGION_SIZE, r"\AHeap [Rr]egion [Ss]ize: (?P<size>\d+)(?P<unit>[BKMG])\z");
// A row of ZGC's table of the heap: columns are mark start, mark end, relocate start, relocate end.
form!(Z_ROW, r"\AGC\((?P<id>\d+)\) (?:[YyOo]: )? *(?P<name>Live|Reclaimed|Promoted): +(?P<columns>[-\dBKMGT()% ]+)\z");
form!(Z_CELL, r"(\d+)([BKMGT]) \(");
// Decorators in the middle of a line: two lines were torn into one.
form!(SPLICED, r"\[\d[^\]\[]*\](?:\[[^\]\[]*\])*\[(?:trace|debug|info|warning|error) *\]");
form!(GROUP, r"\((?:[^()]|\([^()]*\))*\)");
// Pauses as the three formats tell them: in a log of one, a line of another is a pause that is not read.
form!(OF_JDK_8, r"\[(?:Full |Incremental )?GC.*\d secs\]");
form!(OF_UNIFIED, r"GC\(\d+\) Pause .*\d[.,]\d{1,9}ms\s*$");
form!(HALF, r" \d{1,12}[.,]\d{1,9}ms$");
form!(
    OF_A_PAUSE,
    r"GC\(\d+\) (?:[YyOo]: )?(?:Pause|$)|\d[KMG](?:\(\d+%\))?->\d+[KMG]|\bPause (?:Young|Full|Remark|Cleanup|Mark|Relocate|Init|Final|Degenerated)\b"
);

/// Serial, Parallel, G1, CMS of JDK 11; ZGC; Shenandoah; native images.
pub const PAUSES: [&str; 22] = [
    "Young",
    "Full",
    "Mixed",
    "Remark",
    "Cleanup",
    "Initial Mark",
    "Mark Start",
    "Mark End",
    "Relocate Start",
    "Init Mark",
    "Final Mark",
    "Init Update Refs",
    "Final Update Refs",
    "Final Roots",
    "Degenerated GC",
    "Incremental GC",
    "Full GC",
    "Init Evac",
    "Final Evac",
    "Init Traversal",
    "Final Traversal",
    "Verify Final Roots",
];
/// With these the parentheses after the name end in the cause; elsewhere they tell of the phase.
pub const CAUSED: [&str; 4] = ["Young", "Full", "Mixed", "Initial Mark"];
/// Of these a collection has one.
pub const ONCE: [&str; 6] = ["Young", "Full", "Mixed", "Initial Mark", "Mark Start", "Init Mark"];
pub const G1_TYPES: [&str; 6] = ["Normal", "Concurrent Start", "Prepare Mixed", "Mixed", "Concurrent End", "Mixed GC"];

/// What a line tells besides pauses, by the name of a sign; a group has its number or its words.
static SIGNS: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    let forms = [
        ("to-space exhausted", r"GC\(\d+\) To-space exhausted"),
        ("promotion failed", r"GC\(\d+\) Promotion failed$"),
        ("concurrent mode failure", r"GC\(\d+\) Concurrent [Mm]ode [Ff]ailure"),
        ("marking aborted", r"GC\(\d+\) Concurrent Mark Abort"),
        ("humongous", r"GC\(\d+\) Humongous regions: (\d+)->\d+"),
        ("out of memory", r"Out Of Memory \((.{1,100})\)|.{0,400}?java\.lang\.OutOfMemoryError(?:: (.{1,120}))?"),
        ("overhead limit", r"GC [Oo]verhead [Ll]imit [Ee]xceeded.*"),
        ("metaspace full", r"Metaspace \(.{1,40}\) allocation failed"),
        ("messages dropped", r" *(\d+) messages dropped due to async logging"),
        ("workers", r"Parallel Workers: (\d+)"),
        ("cpus", r"CPUs: \d+ total, (\d+) available"),
        ("asked", r"Trigger(?: \([A-Z][a-z]+\))?: (?:(?:Explicit )?GC request \((.{1,60})\)|(Metadata GC .{1,40}))"),
        ("pacing", r"Pacing +=\s+(\d+\.\d+) s \(a"),
        (
            "many references",
            r"GC\(\d+\) (?:[YyOo]: )?(?:Encountered references: )?(?:(?:Soft|Weak|Final): \d+(?:, | encountered.*))*(?:Soft|Weak|Final|Phantom)(?: References)?: +(\d{6,12})\b",
        ),
        ("references", r"(?:GC\(\d+\) )?\s*Reference Processing:? +(\d+[.,]\d+)ms"),
    ];
    forms.iter().map(|(name, form)| (*name, compiled(&format!(r"\A(?:{form})")))).collect()
});

/// The name of what a message tells besides pauses, and its number or words.
pub fn sign_of(message: &str) -> Option<(&'static str, String)> {
    SIGNS.iter().find_map(|(name, form)| {
        let found = form.captures(message)?;
        let inner = found.iter().skip(1).flatten().next().map_or("", |group| group.as_str());
        Some((*name, inner.trim().to_owned()))
    })
}

const SIGN_WORDS: [&str; 17] = [
    "xhausted",
    "Humongous regions: ",
    "OutOfMemoryError",
    "Out Of Memory (",
    "llocation failed",
    "romotion failed",
    "ode failure",
    " dropped due",
    "Mark Abort",
    " Workers: ",
    "CPUs: ",
    "Trigger",
    "Pacing  ",
    "verhead ",
    "Reference Processing",
    "References: ",
    "ncountered",
];
const FIGURE_WORDS: [&str; 21] = [
    "Using ",
    "Pause",
    "Concurrent ",
    "Coalescing",
    "Safepoint ",
    "User=",
    "Collection",
    " Stall (",
    "apacity: ",
    " Old regions: ",
    "OldGen: ",
    " Tenured: ",
    " CMS: ",
    "Reclaimed: ",
    "Live: ",
    "Promoted: ",
    "Cancelling GC",
    "egion ",
    "Version: ",
    "Total time for which",
    "Entering safepoint",
];
static WORDS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::DFA))
        .match_kind(MatchKind::LeftmostFirst)
        .build(SIGN_WORDS.iter().chain(&FIGURE_WORDS))
        .expect("words")
});

/// Whether a line can hold a sign, and whether it can hold a figure: decided before it is split.
pub fn tells(text: &str) -> (bool, bool) {
    let (mut sign, mut figure) = (false, false);
    for found in WORDS.find_iter(text) {
        let number = found.pattern().as_usize();
        if number == 1 {
            sign |= memmem::find(text.as_bytes(), b"regions: 0->0").is_none();
        } else if number < SIGN_WORDS.len() {
            sign = true;
        } else if number == SIGN_WORDS.len() {
            figure |= memmem::find(text.as_bytes(), b") Using ").is_none();
        } else {
            figure = true;
        }
    }
    (sign, figure)
}

/// The text of a group, or nothing.
pub fn group<'a>(found: &Captures<'a>, name: &str) -> &'a str {
    found.name(name).map_or("", |group| group.as_str())
}

/// The heap's change in a message that may have one.
pub fn heap_of(found: &Captures<'_>) -> Read<Option<Heap>> {
    let before = group(found, "before");
    if before.is_empty() {
        return Ok(None);
    }
    let total = group(found, "total");
    let total = if total.is_empty() { None } else { Some(size(total, group(found, "total_unit"))?) };
    let before = size(before, group(found, "before_unit"))?;
    Ok(Some(Heap { before, after: size(group(found, "after"), group(found, "after_unit"))?, total }))
}

/// `(a) (b (c))` as `a`, `b (c)`.
pub fn split_groups(groups: &str) -> impl Iterator<Item = &str> {
    GROUP.find_iter(groups).map(|found| &found.as_str()[1..found.len() - 1])
}

/// The number of a collection at the beginning of a message.
pub fn id_of(message: &str) -> Read<Option<i64>> {
    match digits_of_id(message) {
        Some(digits) => whole(digits).map(Some),
        None => Ok(None),
    }
}

/// `GC(<digits>) ` at the beginning.
pub fn digits_of_id(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("GC(")?;
    let end = rest.bytes().position(|byte| !byte.is_ascii_digit())?;
    (end > 0 && rest[end..].starts_with(") ")).then(|| &rest[..end])
}

/// Whether a message begins with a pause, behind its collection and generation.
pub fn is_pause(message: &str) -> bool {
    let rest = digits_of_id(message).map_or(message, |digits| &message[digits.len() + 5..]);
    let bytes = rest.as_bytes();
    let rest = if bytes.len() > 3 && b"YyOo".contains(&bytes[0]) && &bytes[1..3] == b": " { &rest[3..] } else { rest };
    rest.strip_prefix("Pause")
        .is_some_and(|rest| !rest.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_'))
}
