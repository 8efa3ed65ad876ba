//! Times within a transaction: first bytes, and events and messages that a step waits for.

use super::{Engine, EXTRA};
use crate::grpc;
use crate::measure::{ErrorKind, Mark, Marked, Outcome};
use crate::render::RenderError;
use crate::scenario::{Scenario, Wait};
use crate::session::{Session, Waited};
use prost_reflect::{MessageDescriptor, MethodDescriptor};

impl Session {
    /// What the current step of the running transaction waits for, besides a response.
    pub(super) fn wait<'a>(&self, scenario: &'a Scenario) -> Option<&'a Wait> {
        let running = self.running.as_ref()?;
        scenario.transactions[running.transaction].requests[running.step].wait.as_ref()
    }

    /// What the messages are that the current step's call brings, where they are looked at.
    fn answers(&self, scenario: &Scenario) -> Option<MessageDescriptor> {
        let running = self.running.as_ref()?;
        let request = &scenario.transactions[running.transaction].requests[running.step];
        let wanted = request.needs_body() || request.wait.as_ref().is_some_and(|wait| wait.matching.needs_body());
        request.method_of.as_ref().filter(|_| wanted).map(MethodDescriptor::output)
    }

    /// What did not come in time.
    pub(super) fn lacking(&self, scenario: &Scenario) -> String {
        match (self.wait(scenario), &self.running) {
            (Some(wait), Some(running)) => running.waited.of(wait, "events or messages in time"),
            _ => "no complete response in time".into(),
        }
    }
}

impl Engine<'_> {
    /// When the request about to be sent over `line` was due, and until when it has time.
    pub(super) fn times_of_request(&mut self, line: u32, now: u64) -> (u64, u64) {
        let owner = self.owner(line);
        let own = self.line(line).resource.is_none();
        let session = &mut self.slots[owner as usize].session;
        let wait = if own { session.wait(self.scenario) } else { None };
        let longest = wait.and_then(Wait::longest).unwrap_or(self.settings.timeout);
        let Some(running) = &mut session.running else { return (now, now.saturating_add(longest)) };
        let due = running.next_due.take().unwrap_or(now);
        if own {
            running.waited = Waited::default();
            if running.redirects == 0 {
                (running.since, running.asked) = (due, Some(due));
            }
        }
        (due, now.saturating_add(longest))
    }

    /// The response to the request of `line` begins.
    pub(super) fn first_byte(&mut self, line: u32) {
        let ns = self.connections.arrived.saturating_sub(self.line(line).due);
        let owner = self.owner(line);
        self.mark(owner, Mark::FirstByte, ns, false);
    }

    fn mark(&mut self, slot: u32, mark: Mark, ns: u64, censored: bool) {
        if let Some(running) = &self.slots[slot as usize].session.running {
            let (transaction, due) = (running.transaction, running.due);
            self.measurement.slice.mark(Marked { transaction, due, mark, ns, censored });
        }
    }

    /// Counts and times the events that came over `line`; true when its step is over, or the transaction.
    pub(super) fn take_events(&mut self, line: u32, now: u64) -> bool {
        let slot = self.owner(line);
        let Some(events) = &mut self.line(line).parser.events else { return false };
        let ready = std::mem::take(&mut events.ready);
        self.measurement.result.events += ready.len() as u64;
        let Some(wait) = self.slots[slot as usize].session.wait(self.scenario) else { return false };
        let called = self.slots[slot as usize].session.answers(self.scenario);
        for mut event in ready {
            let data = match &called {
                Some(method) => grpc::json(method, &event.data),
                None => Ok(std::mem::take(&mut event.data)),
            };
            let data = match data {
                Ok(data) => data,
                Err(message) => {
                    self.end(slot, Outcome::Failed(ErrorKind::Protocol), &message, now);
                    return true;
                }
            };
            match self.count(slot, wait, event.kind(), data) {
                Ok(reached) if reached && !wait.goes_on() => {
                    self.leave_stream(line);
                    self.complete(line, now);
                    return true;
                }
                Ok(_) => {}
                Err(error) => {
                    self.end(slot, Outcome::Failed(ErrorKind::Template), &error.to_string(), now);
                    return true;
                }
            }
        }
        false
    }

    /// Counts an event or message that just came for the session in `slot`, if it is one that `wait` is for; whether
    /// that makes enough of them.
    pub(super) fn count(&mut self, slot: u32, wait: &Wait, kind: &[u8], data: Vec<u8>) -> Result<bool, RenderError> {
        let arrived = self.connections.arrived;
        let session = &mut self.slots[slot as usize].session;
        if !session.counts(wait, kind, &data)? {
            return Ok(false);
        }
        let Some(running) = &mut session.running else { return Ok(false) };
        let waited = &mut running.waited;
        let (mark, ns) = match waited.last {
            None => (Mark::FirstEvent, arrived.saturating_sub(running.since)),
            Some(last) => (Mark::Gap, arrived.saturating_sub(last)),
        };
        if mark == Mark::Gap {
            waited.longest = waited.longest.max(ns);
        }
        waited.last = Some(arrived);
        waited.count += 1;
        waited.data = data;
        let enough = waited.count >= wait.count;
        self.mark(slot, mark, ns, false);
        Ok(enough)
    }

    /// Reads no more of the stream of events that came over `line`.
    fn leave_stream(&mut self, line: u32) {
        let connection = self.line(line);
        connection.awaited = None;
        let (host, stream) = (connection.host.take(), std::mem::take(&mut connection.stream));
        let Some(host) = host else {
            connection.close();
            return;
        };
        let connection = self.line(host);
        connection.reused = true;
        if let Some(client) = &mut connection.h2 {
            client.cancel(stream);
            self.write_streams(host);
        }
    }

    /// The time that the step of `line` has is over; whether it was to listen so long.
    pub(super) fn listened(&mut self, line: u32, now: u64) -> bool {
        let slot = self.owner(line);
        let session = &self.slots[slot as usize].session;
        let (Some(wait), Some(running)) = (session.wait(self.scenario), &session.running) else { return false };
        let socket = self.socket_line(slot) == Some(line);
        let stream = line == slot && self.slots[slot as usize].connection.parser.head.event_stream;
        if wait.duration.is_none() || !socket && !stream {
            return false;
        }
        let silence = running.waited.last.map(|last| now.saturating_sub(last));
        if let Some(ns) = silence.filter(|ns| *ns > running.waited.longest) {
            self.mark(slot, Mark::Gap, ns, true); // not a part of an ordinary gap
        }
        self.connections.arrived = now;
        if socket {
            self.heard_enough(slot, now);
            return true;
        }
        self.leave_stream(line);
        self.complete(line, now);
        true
    }

    /// The transaction in `slot` is given up: what it still waits for takes at least so long.
    pub(super) fn give_up(&mut self, slot: u32, now: u64) {
        let at = &self.slots[slot as usize];
        let extra: Vec<u32> = at.extra_connections.iter().chain(&at.socket).map(|extra| extra | EXTRA).collect();
        for line in extra.into_iter().chain([slot]) {
            let connection = self.line(line);
            if connection.awaited.is_some() && !connection.parser.started() {
                let ns = now.saturating_sub(connection.due);
                self.mark(slot, Mark::FirstByte, ns, true);
            }
        }
        let session = &self.slots[slot as usize].session;
        let (Some(_), Some(running)) = (session.wait(self.scenario), &session.running) else { return };
        let (mark, since) = match running.waited.last {
            None => (Mark::FirstEvent, running.since),
            Some(last) => (Mark::Gap, last),
        };
        self.mark(slot, mark, now.saturating_sub(since), true);
    }
}
