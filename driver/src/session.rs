//! One session: what it knows, and what an answer means for it. No input or output here.

use crate::http::cookies::Jar;
use crate::http::request::{self, Sent};
use crate::http::response::{Head, Parser};
use crate::http::target::Target;
use crate::measure::{ErrorKind, Outcome};
use crate::plan::Plan;
use crate::random::{Random, Stream};
use crate::scenario::{Method, Request, Scenario, WhenMissing};
use crate::template::{RenderError, Template, Values};
use memchr::memmem;

/// A transaction under way. Times are nanoseconds since the start of the run.
#[derive(Debug)]
pub struct Running {
    pub transaction: usize,
    pub step: usize,
    pub redirects: u32,
    /// The moment it was due.
    pub due: u64,
    /// The moment the loop took it up.
    pub taken: u64,
    /// The moment its first byte was sent.
    pub first_byte: Option<u64>,
    /// Time spent waiting for connections.
    pub blocked: u64,
    /// Since when the current request waits for a connection.
    pub wanted: u64,
    pub sent: Sent,
    /// The current request was sent again after a kept connection turned out to be closed.
    pub repeated: bool,
}

/// What follows an answer.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// Send what [`Session::redirect`] writes.
    Redirect(Vec<u8>),
    /// The request is done as the scenario wants it.
    Done,
    End(Outcome, String),
}

#[derive(Debug)]
pub struct Session {
    pub number: u64,
    pub identity: u64,
    pub logins: u64,
    pub logged_in: bool,
    pub plan: Plan,
    data: Random,
    seq: u64,
    seed: u64,
    pub variables: Vec<Option<Vec<u8>>>,
    pub jar: Jar,
    pub running: Option<Running>,
}

impl Session {
    pub fn new(scenario: &Scenario, seed: u64, number: u64) -> Self {
        Session {
            number,
            identity: 0,
            logins: 0,
            logged_in: false,
            plan: Plan::new(seed, number),
            data: Random::new(seed, number, Stream::Data),
            seq: 0,
            seed,
            variables: vec![None; scenario.variables.len()],
            jar: Jar::default(),
            running: None,
        }
    }

    /// Begins as `identity`: no cookies, fresh variables.
    pub fn begin(&mut self, scenario: &Scenario, identity: u64) -> Result<(), RenderError> {
        self.identity = identity;
        self.logins += 1;
        self.jar.clear();
        self.variables.iter_mut().for_each(|v| *v = None);
        for (variable, template) in &scenario.assignments {
            let mut text = Vec::new();
            template.render(&mut self.values().0, &mut text)?;
            self.variables[*variable] = Some(text);
        }
        Ok(())
    }

    fn values(&mut self) -> (Values<'_>, &Jar) {
        let values = Values {
            variables: &self.variables,
            random: &mut self.data,
            seq: &mut self.seq,
            user: self.identity,
            session: self.number,
            seed: self.seed,
        };
        (values, &self.jar)
    }

    /// Writes the current request of the running transaction to `out`.
    pub fn request(
        &mut self,
        scenario: &Scenario,
        target: &Target,
        request: &Request,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Result<Sent, RenderError> {
        let (mut values, jar) = self.values();
        request::write(out, scratch, target, scenario, request, jar, &mut values)
    }

    /// Writes the request a redirect asks for.
    pub fn redirect(
        &mut self,
        scenario: &Scenario,
        target: &Target,
        sent: &Sent,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), RenderError> {
        let (mut values, jar) = self.values();
        request::write_redirect(out, scratch, target, scenario, sent, jar, &mut values)
    }

    /// Takes in a complete answer to the current request.
    pub fn judge(&mut self, scenario: &Scenario, target: &Target, parser: &Parser) -> Verdict {
        let Some(running) = &self.running else { return Verdict::Done };
        let transaction = &scenario.transactions[running.transaction];
        let request = &transaction.requests[running.step];
        for cookie in &parser.head.cookies {
            self.jar.store(cookie, &running.sent.path);
        }
        let status = parser.head.status;
        let wanted = &request.checks.status;
        if !wanted.contains(&status) {
            if let Some(location) = followed(&parser.head, running.sent.method) {
                let most = request.follow.unwrap_or(scenario.follow);
                if running.redirects < most {
                    return match target.follow(location, &running.sent.path) {
                        Some(path) => Verdict::Redirect(path),
                        None => fail(ErrorKind::Redirect, "it leads to another server"),
                    };
                }
                if most > 0 {
                    return fail(ErrorKind::Redirect, &format!("more than {most} redirects"));
                }
            }
            if request.checks.skip_status.contains(&status) {
                return Verdict::End(Outcome::Skipped, String::new());
            }
            if !(wanted.is_empty() && (200..300).contains(&status)) {
                return fail(ErrorKind::of_status(status), &format!("status {status}"));
            }
        }
        self.judge_body(request, transaction.when_missing, &parser.body)
    }

    fn judge_body(&mut self, request: &Request, when_missing: WhenMissing, body: &[u8]) -> Verdict {
        let checks = &request.checks;
        for (templates, wanted) in [(&checks.contains, true), (&checks.lacks, false)] {
            for template in templates {
                let found = match self.found(template, body) {
                    Ok(found) => found,
                    Err(error) => return fail(ErrorKind::Template, &error.to_string()),
                };
                if found != wanted {
                    let how = if wanted { "lacks" } else { "contains" };
                    let text = template.fixed().unwrap_or_else(|| "a text of the scenario".into());
                    return fail(ErrorKind::Check, &format!("the body {how} `{text}`"));
                }
            }
        }
        for regex in &checks.matches {
            if !regex.is_match(body) {
                return fail(ErrorKind::Check, &format!("the body does not match `{regex}`"));
            }
        }
        for extract in &request.extract {
            let value = extract.apply(body, &mut self.data);
            let missing = value.is_none();
            self.variables[extract.variable] = value;
            if missing {
                return match when_missing {
                    WhenMissing::Skip => Verdict::End(Outcome::Skipped, String::new()),
                    WhenMissing::Fail => fail(ErrorKind::Extract, &format!("nothing matches `{}`", extract.regex)),
                };
            }
        }
        Verdict::Done
    }

    fn found(&mut self, template: &Template, body: &[u8]) -> Result<bool, RenderError> {
        if let [crate::template::Part::Literal(text)] = template.parts() {
            return Ok(memmem::find(body, text).is_some());
        }
        let mut text = Vec::new();
        template.render(&mut self.values().0, &mut text)?;
        Ok(memmem::find(body, &text).is_some())
    }
}

fn fail(kind: ErrorKind, message: &str) -> Verdict {
    Verdict::End(Outcome::Failed(kind), message.to_string())
}

/// The Location to follow with a GET, if the answer is such a redirect (RFC 9110, 15.4).
fn followed(head: &Head, method: Method) -> Option<&[u8]> {
    let location = head.location.as_deref()?;
    match head.status {
        301..=303 => Some(location),
        307 | 308 if method.retried() => Some(location),
        _ => None,
    }
}

/// Which account the `logins`-th login of closed user `user` (of `users`, both from 0) uses: users own disjoint
/// partitions of 1..=`identities` and go round in their own.
pub fn identity_of(user: u64, users: u64, identities: Option<u64>, logins: u64) -> u64 {
    match identities {
        None => user + 1,
        Some(all) if all < users => user % all + 1,
        Some(all) => {
            let own = (all - 1 - user) / users + 1;
            user + users * (logins % own) + 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn users_never_share_an_account_while_there_are_enough() {
        let mut seen = HashSet::new();
        for user in 0..7 {
            let own: HashSet<u64> = (0..50).map(|login| identity_of(user, 7, Some(20), login)).collect();
            assert!(own.iter().all(|id| (1..=20).contains(id)));
            assert!(own.iter().all(|id| seen.insert(*id)), "user {user}");
        }
        assert_eq!(seen.len(), 20);
        assert!((0..9).all(|user| (1..=4).contains(&identity_of(user, 9, Some(4), 3))));
        assert_eq!(identity_of(4, 9, None, 3), 5);
    }
}
