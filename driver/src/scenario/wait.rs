//! What a step waits for: events of a stream, or messages of a WebSocket.

use super::checks::read_check;
use super::node::Problems;
use super::scope::Scope;
use super::Checks;
use crate::units::parse_time;
use marked_yaml::Node;

/// Most events or messages of one step.
const MOST: u32 = 1_000_000;
const DAY: u64 = 86_400_000_000_000;

pub(super) const KEYS: [&str; 6] = ["count", "duration", "end", "type", "where", "within"];

/// Events or messages that a step waits for: so many that count, whatever comes until a time is over, or until the
/// stream ends, of which so many at least have to count.
#[derive(Debug, Default)]
pub struct Wait {
    pub count: u32,
    /// Nanoseconds.
    pub duration: Option<u64>,
    pub end: bool,
    /// Only events of this type count.
    pub kind: Option<String>,
    /// Only those whose data pass count.
    pub matching: Checks,
    /// Nanoseconds after which they are missing; the time-out of requests where it is not stated.
    pub within: Option<u64>,
}

impl Wait {
    pub fn longest(&self) -> Option<u64> {
        self.duration.max(self.within)
    }

    /// The step goes on though as many came as are needed.
    pub fn goes_on(&self) -> bool {
        self.end || self.duration.is_some()
    }
}

pub(super) fn read_wait(problems: &mut Problems, scope: &Scope, node: &Node, what: &str) -> Option<Wait> {
    let keys: Vec<&str> = KEYS.into_iter().filter(|key| what == "events" || !["type", "end"].contains(key)).collect();
    let mapping = problems.mapping(node, what, &keys)?;
    let mut time = |key: &str| {
        let node = mapping.get_node(key)?;
        scope.fixed_value(problems, node, key, |text| match parse_time(text)? {
            ns @ 1..=DAY => Ok(ns),
            _ => Err(format!("`{text}` is not a time above 0, at most a day")),
        })
    };
    let (duration, within) = (time("duration"), time("within"));
    let count = mapping.get_node("count").and_then(|node| {
        scope.fixed_value(problems, node, "count", |text| match text.parse::<u32>() {
            Ok(count) if (1..=MOST).contains(&count) => Ok(count),
            _ => Err(format!("`{text}` is not a number from 1 to {MOST}")),
        })
    });
    let end = mapping.get_node("end").and_then(|node| problems.word(node, "end", &[("true", true), ("false", false)]));
    if let (Some(node), true) = (mapping.get_node("within"), duration.is_some()) {
        problems.add(node.span(), "`duration` says how long it takes: leave out `within`");
    }
    if let (Some(node), true) = (mapping.get_node("end"), duration.is_some()) {
        problems.add(node.span(), "a stream is read until its `end` or for a `duration`, not both");
    }
    let kind = mapping.get_node("type").and_then(|node| scope.fixed(problems, node, "type"));
    let matching = mapping
        .get_node("where")
        .map(|node| read_check(problems, scope, node, "where", &["contains", "lacks", "matches", "json"]));
    Some(Wait {
        count: count.unwrap_or(1),
        duration,
        end: end.unwrap_or(false),
        kind,
        matching: matching.unwrap_or_default(),
        within,
    })
}
