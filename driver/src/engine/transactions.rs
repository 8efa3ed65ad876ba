//! A transaction from the moment it is taken up, request after request, to its end.

use super::{Engine, Slot, SAMPLES};
use crate::http::request::Sent;
use crate::measure::{Ended, ErrorKind, Outcome};
use crate::render::RenderError;
use crate::scenario::Step;
use crate::session::{Running, Verdict};

/// Characters of an error sample: servers choose links and paths.
const LONGEST_SAMPLE: usize = 500;

impl Engine<'_> {
    /// Takes up the transaction that is due in `slot`.
    pub(super) fn take_up(&mut self, slot: u32) {
        let now = self.now();
        self.roll(now);
        self.measurement.advance(now);
        let scenario = self.scenario;
        let at = slot as usize;
        let logged_in = self.slots[at].session.logged_in;
        let population = self.population(slot);
        let (transaction, begins) = match population.login {
            _ if self.slots[at].leaving => (population.logout.unwrap_or(0), false),
            Some(login) if !logged_in => (login, true),
            _ => (self.slots[at].session.plan.transaction(population), !logged_in),
        };
        self.measurement.slice.lag.record(now.saturating_sub(self.slots[at].start_at));
        self.measurement.in_flight += 1;
        let method = scenario.transactions[transaction].requests[0].method;
        self.slots[at].session.running = Some(Running::new(transaction, self.slots[at].due, now, method));
        if begins {
            let identity = self.identity_for(slot);
            if let Err(error) = self.slots[at].session.begin(scenario, identity) {
                self.end(slot, Outcome::Failed(ErrorKind::Template), &error.to_string(), now);
                return;
            }
            self.slots[at].session.logged_in = population.login.is_none();
        }
        let first = self.slots[at].session.first_step(scenario);
        self.go_to(slot, first, now);
    }

    /// Goes on with the request at a step of the transaction, or ends it.
    pub(super) fn go_to(&mut self, slot: u32, step: Result<Option<usize>, RenderError>, now: u64) {
        let mut next = step;
        loop {
            match (next, &mut self.slots[slot as usize].session.running) {
                (Ok(Some(step)), Some(running)) => {
                    running.step = step;
                    if !self.begin_step(slot, now) {
                        return;
                    }
                }
                (Ok(None), _) => return self.end(slot, Outcome::Ok, "", now),
                (Err(error), _) => {
                    return self.end(slot, Outcome::Failed(ErrorKind::Template), &error.to_string(), now)
                }
                _ => return,
            }
            next = self.slots[slot as usize].session.next_step(self.scenario);
        }
    }

    /// Begins the current step of the running transaction; whether it is over at once and the next one follows.
    fn begin_step(&mut self, slot: u32, now: u64) -> bool {
        let Some(running) = &self.slots[slot as usize].session.running else { return false };
        match self.scenario.transactions[running.transaction].requests[running.step].step {
            Step::Http => self.begin_request(slot, now),
            Step::Connect => self.open_socket(slot, now),
            Step::Send => return self.send_message(slot, now),
            Step::Await => return self.await_message(slot, now),
            Step::Close(code) => return self.close_socket(slot, code, now),
        }
        false
    }

    /// Renders and sends the current request of the running transaction.
    fn begin_request(&mut self, slot: u32, now: u64) {
        let settings = self.settings;
        let Slot { session, connection, target, .. } = &mut self.slots[slot as usize];
        let Some(running) = &session.running else { return };
        let transaction = &self.scenario.transactions[running.transaction];
        let request = &transaction.requests[running.step];
        let target = &settings.transport.targets[*target];
        let closes = connection.closes_with_next(settings.transport.requests_per_connection);
        let rendered = session.request(self.scenario, target, request, closes, &mut connection.out, &mut self.scratch);
        match rendered {
            Ok(sent) => {
                let signs = !self.scenario.logged_out.contains.is_empty();
                connection.keep_body = request.needs_body() || transaction.has_links || signs;
                connection.parser.keep_headers = request.needs_headers();
                connection.parser.await_events(request.wait.as_ref().map(|_| request.method_of.is_some()));
                let method = sent.method;
                if let Some(running) = &mut session.running {
                    running.sent = sent;
                    running.redirects = 0;
                }
                self.send(slot, method, now);
            }
            Err(error) => {
                let kind = Outcome::Failed(ErrorKind::Template);
                self.end(slot, kind, &error.to_string(), now);
            }
        }
    }

    /// A complete response is in the connection's parser.
    pub(super) fn answered(&mut self, slot: u32, now: u64) {
        let settings = self.settings;
        let Slot { session, connection, target, .. } = &mut self.slots[slot as usize];
        if let (true, Some(running)) = (connection.parser.head.event_stream, &mut session.running) {
            connection.parser.body = std::mem::take(&mut running.waited.data);
        }
        if let Err(error) = connection.parser.decode(&mut self.scratch) {
            self.end(slot, Outcome::Failed(ErrorKind::Protocol), &error.to_string(), now);
            return;
        }
        if let Some(running) = &session.running {
            self.measurement.slice.transactions[running.transaction].status(connection.parser.head.status, 1);
        }
        let target = &settings.transport.targets[*target];
        match session.judge(self.scenario, target, &connection.parser) {
            Verdict::Done => {
                let request =
                    session.running.as_ref().map(|r| &self.scenario.transactions[r.transaction].requests[r.step]);
                if let Some(connections) = request.and_then(|request| request.embedded) {
                    if self.fetch_embedded(slot, connections, now) {
                        return;
                    }
                }
                let session = &mut self.slots[slot as usize].session;
                let next = session.next_step(self.scenario);
                self.go_to(slot, next, now);
            }
            Verdict::Redirect(path) => {
                self.observe(slot, 0, true);
                let Slot { session, connection, .. } = &mut self.slots[slot as usize];
                let Some(running) = &mut session.running else { return };
                running.redirects += 1;
                let method = running.sent.method.redirected(connection.parser.head.status);
                let with_body = method == running.sent.method;
                running.sent = Sent { method, path };
                let sent = running.sent.clone();
                let closes = connection.closes_with_next(settings.transport.requests_per_connection);
                session.redirect(target, &sent, with_body, closes, &mut connection.out);
                self.send(slot, method, now);
            }
            Verdict::End(outcome, message) => self.end(slot, outcome, &message, now),
            Verdict::LoggedOut(sign) => self.log_in_again(slot, sign, now),
        }
    }

    /// The user of `slot` was logged out, by this sign: a login, a transaction of its own, and then the running
    /// transaction from its beginning.
    fn log_in_again(&mut self, slot: u32, sign: String, now: u64) {
        let Some(login) = self.population(slot).login else { return };
        self.observe(slot, 0, true);
        let method = self.scenario.transactions[login].requests[0].method;
        let session = &mut self.slots[slot as usize].session;
        session.logged_in = false;
        let interrupted = session.running.replace(Running::new(login, now, now, method));
        session.interrupted = interrupted.map(|running| (running, sign));
        self.measurement.advance(now);
        self.measurement.in_flight += 1;
        self.measurement.pending.add(now);
        self.measurement.result.logins_again += 1;
        let first = self.slots[slot as usize].session.first_step(self.scenario);
        self.go_to(slot, first, now);
    }

    /// After a login that a transaction waits for: that one again, or its end where the login failed.
    fn resume(&mut self, slot: u32, logged_in: bool, now: u64) -> bool {
        let session = &mut self.slots[slot as usize].session;
        let Some((mut running, sign)) = session.interrupted.take() else { return false };
        (running.again, running.base) = (true, None);
        running.rounds.clear();
        session.running = Some(running);
        if logged_in {
            let first = session.step_again(self.scenario);
            self.go_to(slot, first, now);
        } else {
            self.end(
                slot,
                Outcome::Failed(ErrorKind::Check),
                &format!("logged out ({sign}), and the login failed"),
                now,
            );
        }
        true
    }

    /// Ends the running transaction, records it, and arranges what follows.
    pub(super) fn end(&mut self, slot: u32, outcome: Outcome, message: &str, now: u64) {
        self.roll(now);
        self.measurement.advance(now);
        if outcome.is_unanswered() {
            self.give_up(slot, now);
        }
        self.stop_fetching(slot);
        if matches!(outcome, Outcome::Failed(_)) {
            self.drop_socket(slot);
        }
        self.pass_over(slot);
        let login = self.population(slot).login;
        let session = &mut self.slots[slot as usize].session;
        let Some(running) = session.running.take() else { return };
        self.measurement.in_flight -= 1;
        self.measurement.slice.residence += u128::from(self.settings.phases.stay(running.taken, now));
        let last = running.last_byte.filter(|_| outcome == Outcome::Ok).unwrap_or(now);
        let ended = Ended {
            transaction: running.transaction,
            due: running.due,
            outcome,
            end: now,
            response: last.saturating_sub(running.due),
            service: last.saturating_sub(running.first_byte.unwrap_or(running.taken)),
            connect: running.connecting,
            blocked: running.blocked,
        };
        self.measurement.book(ended, self.settings);
        if let Outcome::Failed(kind) = outcome {
            if self.measurement.result.samples.iter().filter(|(k, _)| *k == kind).count() < SAMPLES {
                let name = &self.scenario.transactions[running.transaction].name;
                let path = String::from_utf8_lossy(&running.sent.path);
                let method = running.sent.method.as_str();
                let sample = format!("{name}: {method} {path}: {message}");
                self.measurement.result.samples.push((kind, sample.chars().take(LONGEST_SAMPLE).collect()));
            }
        }
        if Some(running.transaction) == login && outcome == Outcome::Ok {
            session.logged_in = true;
        } else if self.scenario.transactions[running.transaction].ends_session {
            session.logged_in = false;
        }
        if self.resume(slot, outcome == Outcome::Ok, now) {
            return;
        }
        self.follow_up(slot, &running, outcome, now);
    }
}
