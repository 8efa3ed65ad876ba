//! A scenario: what sessions do, as values. Read from YAML by [`read`].

mod node;
pub mod read;
mod transaction;

use crate::template::{Template, Variable};
use regex::bytes::Regex;

#[derive(Debug)]
pub struct Scenario {
    pub name: String,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
    /// Names of session variables, by index.
    pub variables: Vec<String>,
    /// Filled in, in this order, when a session (or a login) begins.
    pub assignments: Vec<(Variable, Template)>,
    /// Number of distinct `${user}` values; None for no limit.
    pub identities: Option<u64>,
    pub pause: Pause,
    /// Index of the transaction that begins a session, and follows a logout.
    pub login: Option<usize>,
    /// Index of the transaction that ends a session.
    pub logout: Option<usize>,
    pub arrive: Arrive,
    /// Transactions drawn from the mix in one open session.
    pub session_length: u32,
    /// Transaction and weight; weights need no particular sum.
    pub mix: Vec<(usize, f64)>,
    pub transactions: Vec<Transaction>,
    /// Header name and value of every request.
    pub headers: Vec<(String, Template)>,
    /// Redirects followed within one request.
    pub follow: u32,
    /// Longest response body accepted, bytes.
    pub max_body: u64,
}

/// What arrives when arrivals are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrive {
    Session,
    Transaction,
}

/// Time between the transactions of one session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pause {
    pub shape: PauseShape,
    /// Nanoseconds.
    pub mean: u64,
    pub measure: PauseFrom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseShape {
    None,
    Fixed,
    /// Negative exponential, cut at five times the mean.
    Exponential,
}

/// Where the pause is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseFrom {
    /// Think time: the end of the transaction before.
    End,
    /// Cycle time: the moment the transaction before was due.
    Due,
}

#[derive(Debug)]
pub struct Transaction {
    pub name: String,
    pub when_missing: WhenMissing,
    /// The next transaction of the session is the login.
    pub ends_session: bool,
    pub requests: Vec<Request>,
}

/// What an extraction that finds nothing means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenMissing {
    Fail,
    Skip,
}

#[derive(Debug)]
pub struct Request {
    pub method: Method,
    pub path: Template,
    pub headers: Vec<(String, Template)>,
    pub body: Body,
    pub checks: Checks,
    pub extract: Vec<Extract>,
    pub follow: Option<u32>,
}

impl Request {
    /// Whether the body of the answer is looked at.
    pub fn needs_body(&self) -> bool {
        !self.extract.is_empty()
            || !self.checks.contains.is_empty()
            || !self.checks.lacks.is_empty()
            || !self.checks.matches.is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        }
    }

    /// May be sent again when a kept connection closed before any answer.
    pub fn retried(self) -> bool {
        matches!(self, Method::Get | Method::Head)
    }
}

#[derive(Debug)]
pub enum Body {
    None,
    Form(Vec<(String, Template)>),
    Json(Template),
    Text(Template),
}

#[derive(Debug, Default)]
pub struct Checks {
    /// Accepted status codes; empty for any 2xx.
    pub status: Vec<u16>,
    /// Status codes that make the transaction skipped instead of failed.
    pub skip_status: Vec<u16>,
    pub contains: Vec<Template>,
    pub lacks: Vec<Template>,
    pub matches: Vec<Regex>,
}

#[derive(Debug)]
pub struct Extract {
    pub variable: Variable,
    /// The first group of a match is the value, or the whole match without groups.
    pub regex: Regex,
    pub pick: Pick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    First,
    Last,
    Random,
}

impl Extract {
    /// The value found in `body`, if any.
    pub fn apply(&self, body: &[u8], random: &mut crate::random::Random) -> Option<Vec<u8>> {
        let value = |captures: regex::bytes::Captures<'_>| {
            captures.get(1).or_else(|| captures.get(0)).map(|m| m.as_bytes().to_vec())
        };
        match self.pick {
            Pick::First => self.regex.captures(body).and_then(value),
            Pick::Last => self.regex.captures_iter(body).last().and_then(value),
            Pick::Random => {
                let count = self.regex.find_iter(body).count();
                if count == 0 {
                    return None;
                }
                let at = random.between(0, count as i64 - 1) as usize;
                self.regex.captures_iter(body).nth(at).and_then(value)
            }
        }
    }
}
