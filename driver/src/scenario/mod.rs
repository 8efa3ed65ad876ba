//! A scenario: what sessions do, as values. Read from YAML by [`read`].

mod checks;
mod feed;
mod flow;
mod limits;
mod node;
mod populations;
pub mod read;
mod scope;
mod transaction;
mod wait;

use crate::feeds::Feed;
use crate::pattern::Pattern;
use crate::select::{text_of, Css, Pointer};
use crate::template::{Template, Variable};
pub use limits::{Limit, Measure};
pub use populations::{Population, Populations};
use prost_reflect::{MessageDescriptor, MethodDescriptor};
use regex::bytes::Regex;
use std::rc::Rc;
pub use transaction::MOST_TIMES;
pub use wait::Wait;

/// The JSON schema (draft 2020-12) of a scenario file.
pub const SCHEMA: &str = include_str!("schema.json");

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
    pub arrive: Arrive,
    /// One at least.
    pub populations: Populations,
    pub feeds: Rc<[Feed]>,
    pub transactions: Vec<Transaction>,
    /// Header name and value of every request.
    pub headers: Vec<(String, Template)>,
    /// Ask for compressed responses.
    pub compression: bool,
    /// Redirects followed within one request.
    pub follow: u32,
    /// Longest response body accepted, bytes.
    pub max_body: u64,
    pub logged_out: LoggedOut,
}

/// By what a response says that its user is logged out: any of these.
#[derive(Debug, Default)]
pub struct LoggedOut {
    pub status: Vec<u16>,
    /// Texts of which a redirect's Location holds one.
    pub redirect: Vec<String>,
    /// Texts of which the body holds one.
    pub contains: Vec<String>,
}

impl LoggedOut {
    /// The sign that a response shows, if any.
    pub fn shown(&self, status: u16, location: Option<&[u8]>, body: &[u8]) -> Option<String> {
        let among = |texts: &[String], bytes: &[u8]| texts.iter().find(|text| holds(bytes, text)).cloned();
        if self.status.contains(&status) {
            return Some(format!("status {status}"));
        }
        let redirect = location.and_then(|location| among(&self.redirect, location));
        redirect
            .map(|text| format!("a redirect to `{text}`"))
            .or_else(|| among(&self.contains, body).map(|text| format!("the body contains `{text}`")))
    }
}

fn holds(bytes: &[u8], text: &str) -> bool {
    memchr::memmem::find(bytes, text.as_bytes()).is_some()
}

/// A Markov chain over transactions.
#[derive(Debug)]
pub struct Graph {
    pub start: Row,
    /// By transaction; None where a session never comes.
    pub rows: Vec<Option<Row>>,
}

/// Next transaction, or None for the end of the session, and its probability; they add up to 1.
pub type Row = Vec<(Option<usize>, f64)>;

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
    /// The path of some request is a link on the page before.
    pub has_links: bool,
    /// Outer ones before those inside them.
    pub loops: Vec<Loop>,
    pub limits: Vec<Limit>,
}

/// Requests `first` to `last` are done `times` times.
#[derive(Debug)]
pub struct Loop {
    pub first: usize,
    pub last: usize,
    pub times: Template,
}

/// What an extraction that finds nothing means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenMissing {
    Fail,
    Skip,
}

/// What a step of a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A request, and its response.
    Http,
    /// Opens the session's WebSocket.
    Connect,
    /// Sends its body as a message.
    Send,
    /// Waits for messages.
    Await,
    /// Says good-bye with a code.
    Close(u16),
}

#[derive(Debug)]
pub struct Request {
    pub step: Step,
    pub method: Method,
    pub path: Template,
    pub headers: Vec<(String, Template)>,
    pub body: Body,
    pub checks: Checks,
    pub extract: Vec<Extract>,
    pub follow: Option<u32>,
    /// Fetch what the page embeds, over at most so many connections.
    pub embedded: Option<u32>,
    /// The response is a stream of events, of which some are waited for, or messages are.
    pub wait: Option<Wait>,
    /// It calls this method of gRPC.
    pub method_of: Option<MethodDescriptor>,
}

impl Request {
    /// Whether the body of the response is looked at.
    pub fn needs_body(&self) -> bool {
        self.extract.iter().any(|e| !matches!(e.source, Source::Header(_)))
            || self.embedded.is_some()
            || self.checks.needs_body()
    }

    /// Whether the body of the response is read as JSON.
    pub fn needs_json(&self) -> bool {
        !self.checks.json.is_empty() || self.extract.iter().any(|e| matches!(e.source, Source::Json(_)))
    }

    /// Whether headers of the response are looked at.
    pub fn needs_headers(&self) -> bool {
        self.method_of.is_some()
            || !self.checks.headers.is_empty()
            || self.extract.iter().any(|e| matches!(e.source, Source::Header(_)))
    }
}

impl Scenario {
    /// The longest time that a step waits for events or messages; 0 where none does.
    pub fn longest_wait(&self) -> u64 {
        let waits = self.transactions.iter().flat_map(|t| &t.requests).filter_map(|request| request.wait.as_ref());
        waits.filter_map(Wait::longest).max().unwrap_or(0)
    }

    /// Most connections one session opens at once.
    pub fn connections(&self) -> u32 {
        let requests = self.transactions.iter().flat_map(|t| &t.requests);
        requests.filter_map(|request| request.embedded).max().unwrap_or(1) + u32::from(self.has_sockets())
    }

    /// Whether sessions call methods of gRPC.
    pub fn has_calls(&self) -> bool {
        self.transactions.iter().flat_map(|t| &t.requests).any(|request| request.method_of.is_some())
    }

    /// Whether sessions open WebSockets.
    pub fn has_sockets(&self) -> bool {
        self.transactions.iter().flat_map(|t| &t.requests).any(|request| request.step == Step::Connect)
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

    /// May be sent again when a kept connection closed before any response.
    pub fn retried(self) -> bool {
        matches!(self, Method::Get | Method::Head)
    }

    /// What a redirect of this status asks for (RFC 9110, 15.4).
    pub fn redirected(self, status: u16) -> Self {
        match (self, status) {
            (Method::Post, 301 | 302) => Method::Get,
            (Method::Get | Method::Head, _) => self,
            (_, 303) => Method::Get,
            _ => self,
        }
    }
}

#[derive(Debug)]
pub enum Body {
    None,
    Form(Vec<(String, Template)>),
    Json(Template),
    Text(Template),
    /// Messages of gRPC as JSON.
    Grpc(Vec<Template>, MessageDescriptor),
}

#[derive(Debug, Default)]
pub struct Checks {
    /// Accepted status codes; empty for any 2xx.
    pub status: Vec<u16>,
    /// Status codes that make the transaction skipped instead of failed.
    pub skip_status: Vec<u16>,
    /// Accepted statuses of gRPC; empty for OK.
    pub grpc_status: Vec<u32>,
    pub contains: Vec<Template>,
    pub lacks: Vec<Template>,
    pub matches: Vec<Regex>,
    /// Name of a header and what its value matches.
    pub headers: Vec<(String, Regex)>,
    /// A place in a JSON body and the text of its value.
    pub json: Vec<(Pointer, Template)>,
}

impl Checks {
    /// Whether it looks at the body.
    pub fn needs_body(&self) -> bool {
        !self.contains.is_empty() || !self.lacks.is_empty() || !self.matches.is_empty() || !self.json.is_empty()
    }
}

#[derive(Debug)]
pub struct Extract {
    pub variable: Variable,
    pub source: Source,
    pub pick: Pick,
}

#[derive(Debug)]
pub enum Source {
    /// The first group of a match is the value, or the whole match without groups.
    Regex(Pattern),
    Json(Pointer),
    Css(Css),
    Header(String),
    /// Of the session's own, whichever response set it; percent-decoded.
    Cookie(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    First,
    Last,
    Random,
}

impl Pick {
    /// One of `count` things; nothing is drawn when there is no choice.
    fn of(self, count: usize, random: &mut crate::random::Random) -> Option<usize> {
        let last = count.checked_sub(1)?;
        Some(match self {
            Pick::First => 0,
            Pick::Last => last,
            Pick::Random => random.between(0, last as i64) as usize,
        })
    }
}

/// A response as extractions see it.
pub struct Response<'a> {
    pub headers: &'a [(String, Vec<u8>)],
    pub body: &'a [u8],
    /// The body as JSON, if it is.
    pub json: Option<&'a serde_json::Value>,
}

impl Extract {
    /// The value found in `response`, or among the cookies as they are after it, if any.
    pub fn apply(
        &self,
        response: &Response<'_>,
        cookie: impl Fn(&[u8]) -> Option<Vec<u8>>,
        random: &mut crate::random::Random,
    ) -> Option<Vec<u8>> {
        match &self.source {
            Source::Regex(pattern) => {
                if self.pick == Pick::First {
                    return pattern.first(response.body).map(<[u8]>::to_vec);
                }
                let at = self.pick.of(pattern.regex.find_iter(response.body).count(), random)?;
                pattern.all(response.body).nth(at).map(<[u8]>::to_vec)
            }
            Source::Json(pointer) => {
                let mut found = pointer.find(response.json?);
                if let ([serde_json::Value::Array(items)], true) = (&found[..], self.pick != Pick::First) {
                    found = items.iter().collect();
                }
                let at = self.pick.of(found.len(), random)?;
                text_of(found[at])
            }
            Source::Css(css) => {
                let mut found = css.find(response.body);
                let at = self.pick.of(found.len(), random)?;
                Some(found.swap_remove(at))
            }
            Source::Header(name) => {
                let mut found = response.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
                let count = found.clone().count();
                found.nth(self.pick.of(count, random)?).map(|(_, value)| value.clone())
            }
            Source::Cookie(name) => cookie(name.as_bytes()),
        }
    }

    /// What was looked for, for messages.
    pub fn what(&self) -> String {
        match &self.source {
            Source::Regex(pattern) => format!("nothing matches `{pattern}`"),
            Source::Json(pointer) => format!("no JSON value at `{}`", pointer.text()),
            Source::Css(css) => format!("no element `{}`", css.text()),
            Source::Header(name) => format!("no header `{name}`"),
            Source::Cookie(name) => format!("no cookie `{name}`"),
        }
    }
}
