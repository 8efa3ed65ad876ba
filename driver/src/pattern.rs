//! Regular expressions that pick a value from a page. The commonest kind, a value between two fixed texts such as
//! `name="token" value="([^"]*)"`, is found without the engine of regular expressions.

use memchr::memmem::Finder;
use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::{Class, Hir, HirKind};
use std::fmt;

/// Most bytes a compiled expression may take.
const LARGEST: usize = 1 << 20;

#[derive(Debug)]
pub struct Pattern {
    pub regex: Regex,
    between: Option<Box<Between>>,
}

impl Pattern {
    /// The error is ready to print.
    pub fn new(text: &str) -> Result<Self, String> {
        Ok(Pattern { regex: compile(text)?, between: Between::of(text).map(Box::new) })
    }

    /// The first group of the first match in `body`, or the whole match without groups.
    pub fn first<'a>(&self, body: &'a [u8]) -> Option<&'a [u8]> {
        match self.between.as_ref().map_or(Found::Unsure, |between| between.find(body)) {
            Found::Value(value) => Some(value),
            Found::Nothing => None,
            Found::Unsure => self.regex.captures(body).and_then(value),
        }
    }

    /// The same of every match.
    pub fn all<'a>(&'a self, body: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.regex.captures_iter(body).filter_map(value)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.regex.fmt(out)
    }
}

pub fn compile(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text).size_limit(LARGEST).build().map_err(|error| {
        let text = error.to_string();
        let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("not a regular expression");
        format!("bad regular expression: {}", last.trim())
    })
}

fn value<'a>(captures: regex::bytes::Captures<'a>) -> Option<&'a [u8]> {
    captures.get(1).or_else(|| captures.get(0)).map(|found| found.as_bytes())
}

#[derive(Debug, PartialEq)]
enum Found<'a> {
    Value(&'a [u8]),
    Nothing,
    /// Only the expression itself can tell.
    Unsure,
}

/// A run of characters of one class between two fixed texts.
#[derive(Debug)]
struct Between {
    before: Finder<'static>,
    /// By ASCII character.
    class: [bool; 128],
    least: usize,
    /// The run ends where the text behind it first begins, as against where no character of the class follows.
    lazy: bool,
    after: Vec<u8>,
}

impl Between {
    fn of(text: &str) -> Option<Self> {
        let hir = regex_syntax::ParserBuilder::new().utf8(false).build().parse(text).ok()?;
        let HirKind::Concat(parts) = hir.kind() else { return None };
        let (before, group, after) = match &parts[..] {
            [before, group] => (before, group, None),
            [before, group, after] => (before, group, Some(after)),
            _ => return None,
        };
        let (before, after) = (literal(before)?, after.map_or(Some(&b""[..]), literal)?);
        let HirKind::Capture(group) = group.kind() else { return None };
        let HirKind::Repetition(run) = group.sub.kind() else { return None };
        let HirKind::Class(class) = run.sub.kind() else { return None };
        let class = ascii(class);
        // A greedy run that could swallow the text behind it would have to give some of it back.
        let certain = match after.first() {
            Some(next) => !run.greedy || next.is_ascii() && !class[usize::from(*next)],
            None => run.greedy,
        };
        (certain && run.max.is_none()).then(|| Between {
            before: Finder::new(before).into_owned(),
            class,
            least: run.min as usize,
            lazy: !run.greedy,
            after: after.to_vec(),
        })
    }

    fn find<'a>(&self, body: &'a [u8]) -> Found<'a> {
        let mut from = 0;
        while let Some(at) = self.before.find(&body[from..]) {
            let begin = from + at + self.before.needle().len();
            let mut end = begin;
            loop {
                if self.lazy && end >= begin + self.least && body[end..].starts_with(&self.after) {
                    return Found::Value(&body[begin..end]);
                }
                match body.get(end) {
                    Some(byte) if !byte.is_ascii() => return Found::Unsure,
                    Some(byte) if self.class[usize::from(*byte)] => end += 1,
                    _ => break,
                }
            }
            if !self.lazy && end >= begin + self.least && body[end..].starts_with(&self.after) {
                return Found::Value(&body[begin..end]);
            }
            // A run that begins within this one ends where it does, and fails as it did.
            from = (from + at + 1).max((end + 1).saturating_sub(self.before.needle().len()));
        }
        Found::Nothing
    }
}

fn literal(hir: &Hir) -> Option<&[u8]> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(&literal.0),
        _ => None,
    }
}

fn ascii(class: &Class) -> [bool; 128] {
    let mut found = [false; 128];
    for (byte, is_in) in (0u8..).zip(&mut found) {
        *is_in = match class {
            Class::Unicode(class) => {
                class.iter().any(|range| (range.start()..=range.end()).contains(&char::from(byte)))
            }
            Class::Bytes(class) => class.iter().any(|range| (range.start()..=range.end()).contains(&byte)),
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Random, Stream};

    #[test]
    fn values_between_texts_are_those_of_the_expression() {
        let patterns = [
            r#"ab([^"]*)""#,
            "ab([^b]*)b",
            "a([ax]*)b",
            r"a(\w+)",
            "a([ab]+)c",
            "ab(.*?)ba",
            "a(.+?)b",
            "aa([^c]{2,})c",
            "a([^a]*)",
        ];
        let letters = ["a", "b", "c", "\"", "ab", "aa", "\n", "é"];
        let mut random = Random::new(1, 1, Stream::Data);
        let (mut values, mut unsure) = (0, 0);
        for text in patterns {
            let pattern = Pattern::new(text).expect("a regular expression");
            let between = pattern.between.as_ref().unwrap_or_else(|| panic!("{text} has that form"));
            for _ in 0..600 {
                let length = random.between(0, 12);
                let body: String = (0..length).map(|_| letters[random.between(0, 7) as usize]).collect();
                let expected = pattern.regex.captures(body.as_bytes()).and_then(value);
                match between.find(body.as_bytes()) {
                    Found::Unsure => unsure += 1,
                    Found::Value(found) => {
                        values += 1;
                        assert_eq!(Some(found), expected, "{text} in {body:?}");
                    }
                    Found::Nothing => assert_eq!(None, expected, "{text} in {body:?}"),
                }
                assert_eq!(pattern.first(body.as_bytes()), expected, "{text} in {body:?}");
            }
        }
        assert!(values > 1000 && unsure > 200, "{values} {unsure}");
    }

    #[test]
    fn other_forms_are_left_to_the_expression() {
        for text in ["a(.*)b", "(a+)b", "a(b|c)d", "^a(b*)c", "a(?:b*)c", "a(b*?)", "a(b{2,3})c", "a(b*)(c*)"] {
            assert!(Pattern::new(text).expect("a regular expression").between.is_none(), "{text}");
        }
        assert!(Pattern::new("a(b").unwrap_err().contains("bad regular expression"));
    }
}
