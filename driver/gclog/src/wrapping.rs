//! What is around the JVM's lines: colours, JSON, a prefix on each line. Learnt from some of them, taken off all.
//!
//! Layers lie inside one another (a collector's JSON around a container's prefix), so they are learnt one after the
//! other, each on what the one before leaves.

use std::collections::HashMap;

use regex::Regex;
use serde_json::Value;

use crate::clock::beginning;
use crate::forms::form;

const LAYERS: usize = 5;
/// Of a prefix.
const SHAPES: usize = 8;
/// Letters of a line in parts.
const JOINED: usize = 1 << 16;
const DEEPEST: usize = 6;
/// Lines in which the name of a JSON document's text is looked for.
const DOCUMENTS: usize = 2000;
const FIELDS: [&str; 10] =
    ["log", "message", "msg", "MESSAGE", "@message", "textPayload", "line", "body", "event", "content"];

form!(CRI, r"\A\d{4}-\d\d-\d\dT\S{8,30} std(?:out|err) (?P<tag>[PF])(?::\S*)? ");
form!(COLOUR, r"(?:\x1b|#033|\^\[)\[[0-9;:?]{0,40}[A-Za-z]");
// Of the unified log's messages, JDK 8's records, OpenJ9's elements, JRockit's lines.
form!(
    MARK,
    r"GC\(\d+\) |\[(?:Full )?GC\b|<verbosegc|<exclusive-|Using (?:The )?[A-Z]|\[(?:YC|OC)#\d|\[memory *\]|CMS-concurrent|\[Pause [A-Z].*ms\]"
);
form!(
    RECORD,
    r"(?:\d{4}-\d\d-\d\dT[\d:.,]{8,20}[+-]\d{4}: )?(?:\d{1,12}[.,]\d{1,9}: )?(?:#\d{1,9}: )?\[(?:(?:Full )?GC\b|CMS-concurrent)"
);
form!(BEHIND, r"(?:(?:GC\(\d+\) |\[GC).*(?:\d[.,]\d{1,9}ms|secs\])|<[a-z].*>)(?P<rest>.*)$");
form!(WORD, r"[A-Za-z0-9]+");
form!(SPACES, r" +");

type Finder = fn(&[String]) -> Option<Layer>;

#[derive(Clone)]
enum Layer {
    Colours,
    Json { path: Vec<String>, cut: bool },
    Cri,
    Entities,
    Prefix(Regex),
    Suffix(String),
}

/// Takes layers off lines. Parts of a line that a container's log has cut are joined.
#[derive(Clone, Default)]
pub struct Unwrapping {
    layers: Vec<Layer>,
    begun: String,
}

impl Unwrapping {
    /// The layers around these lines, the outermost first.
    pub fn learn(lines: &[String]) -> Unwrapping {
        let mut layers: Vec<Layer> = Vec::new();
        let mut current = lines.to_vec();
        let finders: [Finder; 6] = [colours, json, cri, entities, prefix, suffix];
        let mut used = [false; 6];
        while layers.len() < LAYERS {
            let mut found = None;
            for (number, find) in finders.iter().enumerate() {
                if number == 1 || !used[number] {
                    found = find(&current).map(|layer| (number, layer));
                }
                if found.is_some() {
                    break;
                }
            }
            let Some((number, layer)) = found else { break };
            used[number] = true;
            layers.push(layer.clone());
            current = Unwrapping { layers: vec![layer], begun: String::new() }.all(&current);
        }
        Unwrapping { layers, begun: String::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// `lines` without the layers.
    pub fn all(&self, lines: &[String]) -> Vec<String> {
        let mut own = Unwrapping { layers: self.layers.clone(), begun: String::new() };
        let mut out: Vec<String> = lines.iter().filter_map(|text| own.take(text)).collect();
        out.extend(own.rest());
        out
    }

    /// A line without the layers; None where it goes on in the next one.
    pub fn take(&mut self, text: &str) -> Option<String> {
        let mut inner = text.to_owned();
        for layer in &self.layers {
            inner = layer.inside(inner);
        }
        if text.ends_with('\n') && !inner.ends_with('\n') && self.begun.len() < JOINED {
            self.begun.push_str(&inner);
            return None;
        }
        if self.begun.is_empty() {
            return Some(inner);
        }
        let mut joined = std::mem::take(&mut self.begun);
        joined.push_str(&inner);
        Some(joined)
    }

    /// What has begun and goes on no more.
    pub fn rest(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.begun);
        (!rest.is_empty()).then_some(rest)
    }
}

impl Layer {
    fn inside(&self, text: String) -> String {
        match self {
            Layer::Colours => {
                if text.contains('\x1b') || text.contains("#033") || text.contains("^[") {
                    COLOUR.replace_all(&text, "").into_owned()
                } else {
                    text
                }
            }
            Layer::Json { path, cut } => of_document(path, *cut, &text).unwrap_or(text),
            Layer::Cri => match CRI.captures(&text) {
                None => text,
                Some(found) => {
                    let rest = &text[found.get(0).map_or(0, |all| all.end())..];
                    let goes_on = &found["tag"] == "P";
                    if goes_on { rest.trim_end_matches(['\r', '\n']) } else { rest }.to_owned()
                }
            },
            Layer::Entities => unescaped(text),
            Layer::Prefix(form) => match form.find(&text) {
                Some(found) => text[found.end()..].to_owned(),
                None => text,
            },
            Layer::Suffix(end) => before(end, text),
        }
    }
}

fn of_document(path: &[String], cut: bool, text: &str) -> Option<String> {
    let document = document(text)?;
    let mut value = &document;
    for name in path {
        value = value.get(name)?;
    }
    let value = text_of(value)?;
    let goes_on = cut && !value.ends_with('\n');
    let end = if text.ends_with('\n') && !goes_on { "\n" } else { "" };
    Some(format!("{}{end}", value.trim_end_matches(['\r', '\n'])))
}

fn before(end: &str, text: String) -> String {
    let Some(inner) = text.trim_end().strip_suffix(end) else { return text };
    let inner = if end.starts_with('"') { inner.replace("\\\"", "\"") } else { inner.to_owned() };
    inner + if text.ends_with('\n') { "\n" } else { "" }
}

/// Letters of a page: `&gt;`, `&#62;`, `&#x3e;`.
fn unescaped(text: String) -> String {
    if !text.contains('&') {
        return text;
    }
    let named = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&apos;", "'"), ("&nbsp;", "\u{a0}")];
    let numbers = [("&#60;", "<"), ("&#62;", ">"), ("&#34;", "\""), ("&#x3c;", "<"), ("&#x3e;", ">"), ("&amp;", "&")];
    named.iter().chain(&numbers).fold(text, |text, (from, to)| text.replace(from, to))
}

fn colours(lines: &[String]) -> Option<Layer> {
    lines.iter().any(|text| text.contains('[') && COLOUR.is_match(text)).then_some(Layer::Colours)
}

/// Of Kubernetes' nodes: time, stream, and whether the line goes on (P) or ends here (F).
fn cri(lines: &[String]) -> Option<Layer> {
    let count = lines.iter().filter(|text| CRI.is_match(text)).count();
    (!lines.is_empty() && 2 * count >= lines.len()).then_some(Layer::Cri)
}

/// Of a page or a ticket: -&gt; for the arrow between the sizes of the heap.
fn entities(lines: &[String]) -> Option<Layer> {
    lines.iter().any(|text| text.contains("-&gt;")).then_some(Layer::Entities)
}

/// The text in one JSON document a line, by the name under which most of it is.
fn json(lines: &[String]) -> Option<Layer> {
    let (mut objects, mut written) = (0, 0);
    let mut names: Vec<(Vec<String>, usize)> = Vec::new();
    let mut ended: HashMap<Vec<String>, bool> = HashMap::new();
    for text in lines.iter().take(DOCUMENTS).filter(|text| !text.trim().is_empty()) {
        written += 1;
        let Some(document) = document(text) else { continue };
        objects += 1;
        texts(&document, &mut Vec::new(), &mut |path, value| {
            let last = path.last().map_or("", String::as_str);
            let votes = 100 * usize::from(MARK.is_match(&value)) + usize::from(FIELDS.contains(&last));
            *ended.entry(path.to_vec()).or_default() |= value.ends_with('\n');
            match names.iter_mut().find(|(known, _)| known == path) {
                Some(known) => known.1 += votes,
                None => names.push((path.to_vec(), votes)),
            }
        });
    }
    let most = names.iter().map(|(_, votes)| *votes).max().filter(|votes| *votes > 0 && 2 * objects >= written)?;
    let path = names.into_iter().find(|(_, votes)| *votes == most)?.0;
    // Of Docker: the end of a line is in it.
    let cut = path.last().is_some_and(|name| name == "log") && ended.get(&path).copied().unwrap_or(false);
    Some(Layer::Json { path, cut })
}

fn document(text: &str) -> Option<Value> {
    let begin = beginning(text, 400).find('{')?;
    let value = serde_json::Deserializer::from_str(&text[begin..]).into_iter::<Value>().next()?.ok()?;
    value.as_object().is_some_and(|object| !object.is_empty()).then_some(value)
}

/// A string, or one that the journal wrote as numbers of its bytes.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(codes) if !codes.is_empty() => {
            let bytes: Option<Vec<u8>> =
                codes.iter().map(|code| code.as_u64().and_then(|code| u8::try_from(code).ok())).collect();
            bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        }
        _ => None,
    }
}

fn texts(value: &Value, path: &mut Vec<String>, tell: &mut impl FnMut(&[String], String)) {
    for (name, inner) in value.as_object().into_iter().flatten() {
        path.push(name.clone());
        if inner.is_object() && path.len() < DEEPEST {
            texts(inner, path, tell);
        } else if let Some(text) = text_of(inner) {
            tell(path, text);
        }
        path.pop();
    }
}

/// Where a record of JDK 8 begins, with its time.
fn record(text: &str) -> Option<usize> {
    RECORD.find_iter(text).find(|found| !text[found.end()..].starts_with(" Worker")).map(|found| found.start())
}

/// What stands before most of JDK 8's records: their other lines have it too, and are told by it alone.
///
/// The unified log needs none: the words of its messages say where its fields end.
fn prefix(lines: &[String]) -> Option<Layer> {
    let mut shapes: Vec<(String, usize)> = Vec::new();
    let mut bare = 0;
    for text in lines {
        let Some(start) = record(beginning(text, 1000)) else { continue };
        let before = &text[..start];
        if before.contains("GC(") {
            continue;
        }
        if before.trim().is_empty() || record(text.trim_start()) == Some(0) {
            bare += 1;
        } else if before.len() < 300 {
            let shape = shape(before);
            match shapes.iter_mut().find(|(known, _)| *known == shape) {
                Some(known) => known.1 += 1,
                None => shapes.push((shape, 1)),
            }
        }
    }
    if shapes.iter().map(|(_, count)| count).sum::<usize>() <= bare {
        return None;
    }
    shapes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    shapes.truncate(SHAPES);
    shapes.sort_by_key(|(shape, _)| std::cmp::Reverse(shape.len()));
    let each: Vec<String> = shapes.iter().map(|(shape, _)| format!("(?:{shape})")).collect();
    Regex::new(&format!(r"\A(?:{})", each.join("|"))).ok().map(Layer::Prefix)
}

/// A pattern of prefixes like this one: each word stands for any word; marks as they are; blanks between words are any
/// number of them, those at the end are counted.
fn shape(prefix: &str) -> String {
    let gap = |text: &str| SPACES.split(text).map(regex::escape).collect::<Vec<_>>().join(" +");
    let (mut out, mut place) = (String::new(), 0);
    for word in WORD.find_iter(prefix) {
        out.push_str(&gap(&prefix[place..word.start()]));
        out.push_str("[A-Za-z0-9]+");
        place = word.end();
    }
    out + &regex::escape(&prefix[place..])
}

/// What stands behind most of the lines that tell of a pause, as the quote of `msg="..."`.
fn suffix(lines: &[String]) -> Option<Layer> {
    let mut ends: Vec<(String, usize)> = Vec::new();
    for text in lines {
        if !(text.contains("ms") || text.contains("secs]") || text.contains('<')) {
            continue;
        }
        let text = beginning(text.trim_end_matches(['\r', '\n']), 2000);
        if let Some(found) = BEHIND.captures(text) {
            let end = found["rest"].trim();
            match ends.iter_mut().find(|(known, _)| known == end) {
                Some(known) => known.1 += 1,
                None => ends.push((end.to_owned(), 1)),
            }
        }
    }
    let total: usize = ends.iter().map(|(_, count)| count).sum();
    let most = ends.iter().map(|(_, count)| *count).max()?;
    let end = ends.into_iter().find(|(_, count)| *count == most)?.0;
    (!end.is_empty() && !end.contains("[Times") && 2 * most > total).then_some(Layer::Suffix(end))
}

/// Whether a line is a collector's.
pub fn is_marked(text: &str) -> bool {
    MARK.is_match(text)
}
