//! One session: what it knows, and where it is in its transaction. No input or output here.

mod judge;

use crate::feeds::{Feeds, Held};
use crate::http::cookies::Jar;
use crate::http::request::{self, Place, Sent};
use crate::http::target::Target;
use crate::measure::Outcome;
use crate::plan::Plan;
use crate::random::{Random, Stream};
use crate::render::RenderError;
use crate::scenario::{Body, Method, Request, Scenario, Wait, MOST_TIMES};
use crate::template::{Template, Values};
use std::rc::Rc;

/// Loops of no round that are passed on the way to a request.
const MOST_PASSED: u32 = 10_000;

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
    /// The moment its next request is due; None where that is when it is sent.
    pub next_due: Option<u64>,
    /// Since when the current step waits for events or messages.
    pub since: u64,
    /// When the request or message was due that the next wait is about.
    pub asked: Option<u64>,
    pub waited: Waited,
    /// The moment its first byte was sent.
    pub first_byte: Option<u64>,
    /// The moment the last byte of the last response was here.
    pub last_byte: Option<u64>,
    /// Time spent waiting for connections.
    pub blocked: u64,
    /// Time in which connections were made; None where none was.
    pub connecting: Option<u64>,
    pub sent: Sent,
    /// What the page says its links are relative to.
    pub base: Option<Vec<u8>>,
    /// Paths the page embeds that are still to be fetched, the first one last, and how many are being fetched.
    pub embedded: Vec<Vec<u8>>,
    pub fetching: u32,
    /// Rounds left of each loop of the transaction, the one under way included.
    pub rounds: Vec<u32>,
    /// It was begun again after its user had logged in again.
    pub again: bool,
}

/// Events or messages that counted since the current step began.
#[derive(Debug, Default)]
pub struct Waited {
    pub count: u32,
    /// When the last one came, and the longest time between two, nanoseconds.
    pub last: Option<u64>,
    pub longest: u64,
    /// Of the last one.
    pub data: Vec<u8>,
}

impl Running {
    /// A transaction that was due at `due` and is taken up at `now`; its first request is a `method`.
    pub fn new(transaction: usize, due: u64, now: u64, method: Method) -> Self {
        Running {
            transaction,
            step: 0,
            redirects: 0,
            due,
            taken: now,
            next_due: Some(due),
            since: due,
            asked: None,
            waited: Waited::default(),
            first_byte: None,
            last_byte: None,
            blocked: 0,
            connecting: None,
            sent: Sent { method, path: Vec::new() },
            base: None,
            embedded: Vec::new(),
            fetching: 0,
            rounds: Vec::new(),
            again: false,
        }
    }
}

impl Waited {
    /// How many came of those waited for, in `what` circumstances.
    pub fn of(&self, wait: &Wait, what: &str) -> String {
        format!("{} of {} {what}", self.count, wait.count)
    }
}

/// What follows a response.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// Send what [`Session::redirect`] writes.
    Redirect(Vec<u8>),
    /// The request is done as the scenario wants it.
    Done,
    End(Outcome, String),
    /// Log in again, and begin the transaction again. Says by what sign.
    LoggedOut(String),
}

#[derive(Debug)]
pub struct Session {
    pub number: u64,
    pub identity: u64,
    pub logins: u64,
    pub logged_in: bool,
    /// Its population, by index.
    pub population: usize,
    pub plan: Plan,
    data: Random,
    seq: u64,
    seed: u64,
    feeds: Rc<Feeds>,
    held: Held,
    pub variables: Vec<Option<Vec<u8>>>,
    pub jar: Jar,
    pub running: Option<Running>,
    /// The transaction that waits for a login under way, and by what sign it was not done.
    pub interrupted: Option<(Running, String)>,
}

impl Session {
    pub fn new(scenario: &Scenario, feeds: &Rc<Feeds>, seed: u64, number: u64) -> Self {
        Session {
            number,
            identity: 0,
            logins: 0,
            logged_in: false,
            population: scenario.populations.index(number),
            plan: Plan::new(seed, number),
            data: Random::new(seed, number, Stream::Data),
            seq: 0,
            seed,
            feeds: Rc::clone(feeds),
            held: vec![None; feeds.len()],
            variables: vec![None; scenario.variables.len()],
            jar: Jar::default(),
            running: None,
            interrupted: None,
        }
    }

    /// Begins as `identity`: no cookies, fresh variables.
    pub fn begin(&mut self, scenario: &Scenario, identity: u64) -> Result<(), RenderError> {
        self.identity = identity;
        self.logins += 1;
        self.release();
        self.jar.clear();
        self.variables.iter_mut().for_each(|v| *v = None);
        for (variable, template) in &scenario.assignments {
            let mut text = Vec::new();
            template.render(&mut self.values().0, &mut text)?;
            self.variables[*variable] = Some(text);
        }
        Ok(())
    }

    /// Gives back what it holds of the feeds.
    pub fn release(&mut self) {
        self.feeds.release(&mut self.held);
    }

    /// A transaction begins: its place in it, as [`Session::next_step`] says.
    pub fn first_step(&mut self, scenario: &Scenario) -> Result<Option<usize>, RenderError> {
        if !self.held.is_empty() {
            self.feeds.begin_transaction(&mut self.held);
        }
        self.step_from(scenario, 0, true)
    }

    /// The running transaction from its beginning, with the rows of feeds that it has.
    pub fn step_again(&mut self, scenario: &Scenario) -> Result<Option<usize>, RenderError> {
        self.step_from(scenario, 0, true)
    }

    /// The request after the current one, loops considered; None at the end of the transaction.
    pub fn next_step(&mut self, scenario: &Scenario) -> Result<Option<usize>, RenderError> {
        let step = self.running.as_ref().map_or(0, |running| running.step);
        self.step_from(scenario, step, false)
    }

    /// Goes on from `step`, which is about to begin (`entering`) or was just done.
    fn step_from(&mut self, scenario: &Scenario, from: usize, enter: bool) -> Result<Option<usize>, RenderError> {
        let Some(running) = &mut self.running else { return Ok(None) };
        let transaction = &scenario.transactions[running.transaction];
        let (mut step, mut entering) = (from, enter);
        if transaction.loops.is_empty() {
            step += usize::from(!entering);
            return Ok((step < transaction.requests.len()).then_some(step));
        }
        let mut rounds = std::mem::take(&mut running.rounds);
        rounds.resize(transaction.loops.len(), 0);
        let mut passed = 0;
        let found = loop {
            if entering {
                let mut skipped = false;
                for (at, each) in transaction.loops.iter().enumerate() {
                    if each.first == step && rounds[at] == 0 {
                        rounds[at] = self.times(&each.times)?;
                        if rounds[at] == 0 {
                            (step, entering, skipped) = (each.last, false, true);
                            break;
                        }
                    }
                }
                if !skipped {
                    break Some(step);
                }
                passed += 1;
                if passed > MOST_PASSED {
                    return Err(RenderError::Rounds(MOST_PASSED));
                }
            } else {
                let mut again = false;
                for (at, each) in transaction.loops.iter().enumerate().rev() {
                    if each.last == step && rounds[at] > 0 {
                        rounds[at] -= 1;
                        if rounds[at] > 0 {
                            (step, again) = (each.first, true);
                            break;
                        }
                    }
                }
                if !again {
                    step += 1;
                }
                if step >= transaction.requests.len() {
                    break None;
                }
                entering = true;
            }
        };
        if let Some(running) = &mut self.running {
            running.rounds = rounds;
        }
        Ok(found)
    }

    fn times(&mut self, template: &Template) -> Result<u32, RenderError> {
        let mut text = Vec::new();
        template.render(&mut self.values().0, &mut text)?;
        let text = String::from_utf8_lossy(&text);
        let number: i64 = text.trim().parse().map_err(|_| RenderError::NotANumber(text.chars().take(40).collect()))?;
        Ok(number.clamp(0, i64::from(MOST_TIMES)) as u32)
    }

    fn values(&mut self) -> (Values<'_>, &Jar) {
        let values = Values {
            variables: &self.variables,
            random: &mut self.data,
            feeds: &self.feeds,
            held: &mut self.held,
            seq: &mut self.seq,
            user: self.identity,
            session: self.number,
            seed: self.seed,
        };
        (values, &self.jar)
    }

    /// Writes the current request of the running transaction to `out`; `closes`: it is its connection's last one.
    pub fn request(
        &mut self,
        scenario: &Scenario,
        target: &Target,
        request: &Request,
        closes: bool,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Result<Sent, RenderError> {
        let page = self.running.as_mut().map(|running| (std::mem::take(&mut running.sent.path), running.base.take()));
        let (page, base) = page.unwrap_or_default();
        let (mut values, jar) = self.values();
        let place = Place { target, jar, page: &page, base: base.as_deref(), closes };
        request::write(out, scratch, &place, scenario, request, &mut values)
    }

    /// Writes the message that the current step sends.
    pub fn message(&mut self, scenario: &Scenario, out: &mut Vec<u8>) -> Result<(), RenderError> {
        out.clear();
        let Some(running) = &self.running else { return Ok(()) };
        match &scenario.transactions[running.transaction].requests[running.step].body {
            Body::Text(template) | Body::Json(template) => template.render(&mut self.values().0, out),
            Body::None | Body::Form(_) | Body::Grpc(..) => Ok(()),
        }
    }

    /// Writes the GET for something that a page embeds.
    pub fn resource(
        &mut self,
        scenario: &Scenario,
        target: &Target,
        sent: &Sent,
        closes: bool,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), RenderError> {
        let (mut values, jar) = self.values();
        let place = Place { target, jar, page: b"", base: None, closes };
        request::write_resource(out, scratch, &place, scenario, sent, &mut values)
    }

    /// Turns the request in `out` into the one a redirect of it asks for, on the same server.
    pub fn redirect(&self, target: &Target, sent: &Sent, with_body: bool, closes: bool, out: &mut Vec<u8>) {
        request::rewrite(out, &Place { target, jar: &self.jar, page: b"", base: None, closes }, sent, with_body);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.release();
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
