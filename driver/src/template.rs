//! The template language of scenarios: text with `${...}` expressions (see docs/reference/load.md).

use crate::feeds::{Feeds, Held};
use crate::nearest::hint;
use crate::random::{Random, Stream};
use crate::render::{push_number, RenderError};

/// Index of a session variable.
pub type Variable = usize;

#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Literal(Vec<u8>),
    Variable(Variable),
    Builtin(Builtin),
    /// Feed and column.
    Feed(usize, usize),
    Call(Function, Vec<Template>),
}

/// Values every session has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    User,
    Session,
    Seq,
    Seed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Random,
    Zpad,
    Choice,
    Digits,
    Hex,
    Url,
    Json,
    Number,
    Mod,
    Mul,
    Max,
    Min,
}

impl Function {
    fn draws(self) -> bool {
        matches!(self, Function::Random | Function::Choice | Function::Digits | Function::Hex)
    }

    fn takes_numbers(self) -> bool {
        !matches!(self, Function::Zpad | Function::Choice | Function::Url | Function::Json | Function::Number)
    }
}

const BUILTINS: [(&str, Builtin); 4] =
    [("user", Builtin::User), ("session", Builtin::Session), ("seq", Builtin::Seq), ("seed", Builtin::Seed)];

/// Name, function, least and most arguments.
const FUNCTIONS: [(&str, Function, usize, usize); 12] = [
    ("random", Function::Random, 2, 2),
    ("zpad", Function::Zpad, 2, 2),
    ("choice", Function::Choice, 1, usize::MAX),
    ("digits", Function::Digits, 1, 1),
    ("hex", Function::Hex, 1, 1),
    ("url", Function::Url, 1, 1),
    ("json", Function::Json, 1, 1),
    ("number", Function::Number, 1, 1),
    ("mod", Function::Mod, 2, 2),
    ("mul", Function::Mul, 2, 2),
    ("max", Function::Max, 2, 2),
    ("min", Function::Min, 2, 2),
];

/// Longest text one expression may make.
const LONGEST: i64 = 4096;
const DEEPEST: usize = 8;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Template {
    parts: Vec<Part>,
}

/// Where names come from while a template is read.
pub trait Names {
    /// The fixed value of a parameter.
    fn parameter(&self, name: &str) -> Option<&str>;
    fn variable(&self, name: &str) -> Option<Variable>;
    /// Feed and column of `feed` or `feed.column`.
    fn feed(&self, name: &str) -> Option<(usize, usize)>;
    fn all(&self) -> Vec<String>;
}

/// What an expression needs while a template is filled in.
pub struct Values<'a> {
    pub variables: &'a [Option<Vec<u8>>],
    pub random: &'a mut Random,
    pub feeds: &'a Feeds,
    pub held: &'a mut Held,
    pub seq: &'a mut u64,
    pub user: u64,
    pub session: u64,
    pub seed: u64,
}

impl Template {
    pub fn literal(text: &str) -> Self {
        Template { parts: vec![Part::Literal(text.as_bytes().to_vec())] }
    }

    /// Reads `text`; the error says what is wrong and names the nearest valid word.
    pub fn parse(text: &str, names: &dyn Names) -> Result<Self, String> {
        parse(text, names, 0)
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Its first characters are not known before it is filled in.
    pub fn begins_with_an_expression(&self) -> bool {
        self.parts.first().is_some_and(|part| !matches!(part, Part::Literal(_)))
    }

    /// The text if it holds no expression that varies.
    pub fn fixed(&self) -> Option<String> {
        let mut text = Vec::new();
        for part in &self.parts {
            match part {
                Part::Literal(bytes) => text.extend_from_slice(bytes),
                _ => return None,
            }
        }
        String::from_utf8(text).ok()
    }

    /// True for exactly one `${number:...}`: a bare JSON number.
    pub fn is_number(&self) -> bool {
        matches!(self.parts.as_slice(), [Part::Call(Function::Number, _)])
    }

    pub fn render(&self, values: &mut Values<'_>, out: &mut Vec<u8>) -> Result<(), RenderError> {
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.extend_from_slice(text),
                Part::Variable(variable) => match values.variables.get(*variable).and_then(|v| v.as_ref()) {
                    Some(value) => out.extend_from_slice(value),
                    None => return Err(RenderError::Missing(*variable)),
                },
                Part::Builtin(builtin) => {
                    let number = match builtin {
                        Builtin::User => values.user,
                        Builtin::Session => values.session,
                        Builtin::Seed => values.seed,
                        Builtin::Seq => {
                            *values.seq += 1;
                            *values.seq
                        }
                    };
                    push_number(out, number as i64);
                }
                Part::Feed(feed, column) => {
                    values.feeds.write(*feed, *column, values.held, values.random, out)?;
                }
                Part::Call(function, arguments) => call(*function, arguments, values, out)?,
            }
        }
        Ok(())
    }
}

fn parse(text: &str, names: &dyn Names, depth: usize) -> Result<Template, String> {
    if depth > DEEPEST {
        return Err(format!("expressions nested deeper than {DEEPEST}"));
    }
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        literal.push_str(&rest[..at]);
        let tail = &rest[at + 1..];
        if let Some(after) = tail.strip_prefix('$') {
            literal.push('$');
            rest = after;
        } else if let Some(inner) = tail.strip_prefix('{') {
            let end = closing_brace(inner).ok_or_else(|| format!("`${{` without its `}}` in `{text}`"))?;
            let part = expression(&inner[..end], names, depth)?;
            match part {
                Part::Literal(bytes) => literal.push_str(&String::from_utf8_lossy(&bytes)),
                other => {
                    flush(&mut literal, &mut parts);
                    parts.push(other);
                }
            }
            rest = &inner[end + 1..];
        } else {
            literal.push('$');
            rest = tail;
        }
    }
    literal.push_str(rest);
    flush(&mut literal, &mut parts);
    Ok(Template { parts })
}

fn flush(literal: &mut String, parts: &mut Vec<Part>) {
    if !literal.is_empty() {
        parts.push(Part::Literal(std::mem::take(literal).into_bytes()));
    }
}

/// Offset of the brace that closes an expression, other expressions inside skipped.
fn closing_brace(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut depth = 0usize;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'{' if at > 0 && bytes[at - 1] == b'$' => depth += 1,
            b'}' if depth == 0 => return Some(at),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Splits at colons outside inner expressions.
fn arguments(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let (mut depth, mut start, mut found) = (0usize, 0usize, Vec::new());
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'{' if at > 0 && bytes[at - 1] == b'$' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 => {
                found.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&text[start..]);
    found
}

fn expression(text: &str, names: &dyn Names, depth: usize) -> Result<Part, String> {
    let mut words = arguments(text);
    let name = words.remove(0).trim();
    if words.is_empty() {
        if let Some(value) = names.parameter(name) {
            return Ok(Part::Literal(value.as_bytes().to_vec()));
        }
        if let Some(variable) = names.variable(name) {
            return Ok(Part::Variable(variable));
        }
        if let Some((_, builtin)) = BUILTINS.iter().find(|(word, _)| *word == name) {
            return Ok(Part::Builtin(*builtin));
        }
        if let Some((feed, column)) = names.feed(name) {
            return Ok(Part::Feed(feed, column));
        }
        let all = names.all();
        let mut valid: Vec<&str> = all.iter().map(String::as_str).collect();
        valid.extend(BUILTINS.iter().map(|(word, _)| *word));
        return Err(format!("unknown name `{name}` in `${{{text}}}`{}", hint(name, &valid)));
    }
    let Some((_, function, least, most)) = FUNCTIONS.iter().find(|(word, ..)| *word == name) else {
        let valid: Vec<&str> = FUNCTIONS.iter().map(|(word, ..)| *word).collect();
        return Err(format!("unknown function `{name}` in `${{{text}}}`{}", hint(name, &valid)));
    };
    if words.len() < *least || words.len() > *most {
        return Err(format!("`{name}` in `${{{text}}}` takes {least} argument(s), not {}", words.len()));
    }
    let mut inner: Vec<Template> = Vec::new();
    for word in &words {
        inner.push(parse(word, names, depth + 1)?);
    }
    for (argument, template) in words.iter().zip(&inner) {
        if let (true, Some(fixed)) = (function.takes_numbers(), template.fixed()) {
            fixed.trim().parse::<i64>().map_err(|_| {
                format!("`{argument}` in `${{{text}}}` is not a whole number (a name is written `${{name}}`)")
            })?;
        }
    }
    if let (Function::Random, [low, high]) = (*function, &inner[..]) {
        let bounds = [low, high].map(|bound| bound.fixed().and_then(|text| text.trim().parse::<i64>().ok()));
        if let [Some(low), Some(high)] = bounds {
            if low > high {
                return Err(format!("`${{{text}}}`: nothing to draw, {low} is above {high}"));
            }
        }
    }
    if *function != Function::Number && !function.draws() && inner.iter().all(|t| t.fixed().is_some()) {
        return fold(*function, &inner, text);
    }
    Ok(Part::Call(*function, inner))
}

/// The value of an expression that is the same every time.
fn fold(function: Function, arguments: &[Template], text: &str) -> Result<Part, String> {
    let mut values = Values {
        variables: &[],
        random: &mut Random::new(0, 0, Stream::Data),
        feeds: &Feeds::default(),
        held: &mut Vec::new(),
        seq: &mut 0,
        user: 0,
        session: 0,
        seed: 0,
    };
    let mut out = Vec::new();
    call(function, arguments, &mut values, &mut out).map_err(|e| format!("`${{{text}}}`: {e}"))?;
    Ok(Part::Literal(out))
}

fn text_of(template: &Template, values: &mut Values<'_>) -> Result<Vec<u8>, RenderError> {
    let mut out = Vec::new();
    template.render(values, &mut out)?;
    Ok(out)
}

fn number_of(template: &Template, values: &mut Values<'_>) -> Result<i64, RenderError> {
    let text = text_of(template, values)?;
    let text = String::from_utf8_lossy(&text);
    text.trim().parse().map_err(|_| RenderError::NotANumber(text.chars().take(40).collect()))
}

fn call(
    function: Function,
    arguments: &[Template],
    values: &mut Values<'_>,
    out: &mut Vec<u8>,
) -> Result<(), RenderError> {
    match function {
        Function::Random => {
            let (low, high) = (number_of(&arguments[0], values)?, number_of(&arguments[1], values)?);
            let drawn = values.random.between(low, high);
            push_number(out, drawn);
        }
        Function::Mod => {
            let (number, by) = (number_of(&arguments[0], values)?, number_of(&arguments[1], values)?);
            push_number(out, number.checked_rem_euclid(by).unwrap_or(0));
        }
        Function::Mul | Function::Max | Function::Min => {
            let (left, right) = (number_of(&arguments[0], values)?, number_of(&arguments[1], values)?);
            let number = match function {
                Function::Mul => left.saturating_mul(right),
                Function::Max => left.max(right),
                _ => left.min(right),
            };
            push_number(out, number);
        }
        Function::Zpad => {
            let width = number_of(&arguments[0], values)?.clamp(0, LONGEST) as usize;
            let text = text_of(&arguments[1], values)?;
            out.extend(std::iter::repeat_n(b'0', width.saturating_sub(text.len())));
            out.extend_from_slice(&text);
        }
        Function::Choice => {
            let at = values.random.between(0, arguments.len() as i64 - 1) as usize;
            arguments[at].render(values, out)?;
        }
        Function::Digits | Function::Hex => {
            let count = number_of(&arguments[0], values)?.clamp(0, LONGEST);
            let alphabet: &[u8] = if function == Function::Hex { b"0123456789abcdef" } else { b"0123456789" };
            for _ in 0..count {
                out.push(alphabet[values.random.between(0, alphabet.len() as i64 - 1) as usize]);
            }
        }
        Function::Url => {
            let text = text_of(&arguments[0], values)?;
            push_component(out, &text);
        }
        Function::Json => {
            let text = text_of(&arguments[0], values)?;
            push_json_escaped(out, &text);
        }
        Function::Number => {
            let number = number_of(&arguments[0], values)?;
            push_number(out, number);
        }
    }
    Ok(())
}

/// `application/x-www-form-urlencoded` of one name or value (WHATWG URL, section 5.2).
pub fn push_url_encoded(out: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'*' | b'-' | b'.' | b'_' => out.push(*byte),
            b' ' => out.push(b'+'),
            other => push_percent(out, *other),
        }
    }
}

/// Text as a part of a URL's path or query, or of a form: all but unreserved characters percent-encoded (RFC 3986, 2.3).
pub fn push_component(out: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(*byte),
            other => push_percent(out, *other),
        }
    }
}

pub fn push_percent(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.extend_from_slice(&[b'%', HEX[(byte >> 4) as usize], HEX[(byte & 15) as usize]]);
}

/// The inside of a JSON string.
pub fn push_json_escaped(out: &mut Vec<u8>, text: &[u8]) {
    for byte in String::from_utf8_lossy(text).bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0..=0x1f => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
