//! WebSockets of sessions: opened, written to and waited for by steps of their transactions.

use super::{Engine, Slot, EXTRA};
use crate::http::websocket::{ask, refusal, Incoming, Socket};
use crate::measure::{ErrorKind, Outcome};
use crate::scenario::{Method, Step, Wait};
use crate::session::{Verdict, Waited};
use std::collections::VecDeque;
use std::io::ErrorKind as Io;

/// Messages, and their bytes, that no step has waited for yet.
const MOST_MESSAGES: usize = 10_000;
const MOST_BYTES: usize = 64 << 20;
/// Bytes that the server does not read.
const MOST_UNSENT: usize = 16 << 20;
/// The client goes (RFC 6455, 7.4.1).
const GOING_AWAY: u16 = 1001;

/// A WebSocket, or the request for one.
#[derive(Debug, Default)]
pub struct Web {
    key: String,
    /// Once it is open.
    pub(super) socket: Option<Socket>,
    /// Messages of the running transaction that no step took, and when they came.
    inbox: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    /// Why no further message will come.
    over: Option<(ErrorKind, String)>,
}

/// Where a step of a WebSocket stands.
#[derive(PartialEq)]
enum State {
    Waits,
    Done,
    /// The transaction is over.
    Ended,
}

impl Engine<'_> {
    /// The line of the WebSocket of the session in `slot`.
    pub(super) fn socket_line(&self, slot: u32) -> Option<u32> {
        self.slots[slot as usize].socket.map(|extra| extra | EXTRA)
    }

    fn web(&mut self, line: u32) -> Option<&mut Web> {
        self.line(line).web.as_deref_mut()
    }

    /// Asks for a WebSocket, over a connection of its own; one that is open goes.
    pub(super) fn open_socket(&mut self, slot: u32, now: u64) {
        self.drop_socket(slot);
        let extra = self.further_connection(slot);
        let line = extra | EXTRA;
        self.slots[slot as usize].socket = Some(extra);
        let mut out = std::mem::take(&mut self.line(line).out);
        let Slot { session, target, .. } = &mut self.slots[slot as usize];
        let target = &self.settings.transport.targets[*target];
        let Some(running) = &session.running else { return };
        let request = &self.scenario.transactions[running.transaction].requests[running.step];
        let written = session.request(self.scenario, target, request, false, &mut out, &mut self.scratch);
        match written {
            Ok(sent) => {
                if let Some(running) = &mut session.running {
                    (running.sent, running.redirects) = (sent, 0);
                }
                let key = ask(&mut out);
                let connection = self.line(line);
                connection.web = Some(Box::new(Web { key, ..Web::default() }));
                connection.out = out;
                connection.keep_body = false;
                connection.resource = None;
                (connection.parser.keep_headers, connection.parser.upgrade) = (true, true);
                connection.parser.await_events(None);
                self.send(line, Method::Get, now);
            }
            Err(error) => self.end(slot, Outcome::Failed(ErrorKind::Template), &error.to_string(), now),
        }
    }

    /// The server agreed; `rest` came behind its response.
    pub(super) fn upgraded(&mut self, line: u32, rest: &[u8], now: u64) {
        let slot = self.owner(line);
        let most = self.scenario.max_body;
        let connection = self.line(line);
        connection.awaited = None;
        connection.parser.upgrade = false;
        let fields = std::mem::take(&mut connection.parser.head.fields);
        let Some(web) = &mut connection.web else { return };
        web.socket = Some(Socket::new(most, rest));
        let refused = refusal(&web.key, &fields);
        self.take_opening(line, now);
        if let Some(message) = refused {
            self.end(slot, Outcome::Failed(ErrorKind::Protocol), message, now);
            return;
        }
        self.sort(line, now);
        let verdict = self.slots[slot as usize].session.judge_opening(self.scenario, &fields);
        self.go_on(slot, verdict, now);
    }

    /// The server answered otherwise.
    pub(super) fn not_upgraded(&mut self, line: u32, now: u64) {
        self.take_opening(line, now);
        let status = self.line(line).parser.head.status;
        let message = format!("status {status}, not 101");
        self.end(self.owner(line), Outcome::Failed(ErrorKind::of_status(status)), &message, now);
    }

    fn take_opening(&mut self, line: u32, now: u64) {
        let slot = self.owner(line) as usize;
        let head = &mut self.line(line).parser.head;
        let (status, cookies) = (head.status, std::mem::take(&mut head.cookies));
        self.measurement.result.requests += u64::from(status == 101); // others were counted
        let arrived = self.connections.arrived.min(now);
        let Slot { session, target, .. } = &mut self.slots[slot];
        let Some(running) = &mut session.running else { return };
        running.last_byte = running.last_byte.max(Some(arrived));
        self.measurement.slice.transactions[running.transaction].status(status, 1);
        let target = &self.settings.transport.targets[*target];
        for cookie in &cookies {
            session.jar.store(cookie, &running.sent.path, target);
        }
    }

    /// Goes on with the transaction after a step, or ends it.
    fn go_on(&mut self, slot: u32, verdict: Verdict, now: u64) {
        match verdict {
            Verdict::End(outcome, message) => self.end(slot, outcome, &message, now),
            _ => {
                let next = self.slots[slot as usize].session.next_step(self.scenario);
                self.go_to(slot, next, now);
            }
        }
    }

    /// Why the WebSocket of `line` is of no use.
    fn unusable(&mut self, line: Option<u32>) -> Option<(ErrorKind, String)> {
        let Some(line) = line else { return Some((ErrorKind::Closed, "no WebSocket is open".into())) };
        let connection = self.line(line);
        let closed = || (ErrorKind::Closed, "the WebSocket is closed".to_string());
        let Some(web) = &connection.web else { return Some(closed()) };
        match &web.over {
            Some(over) => Some(over.clone()),
            None => (connection.socket.is_none()).then(closed),
        }
    }

    /// Sends the message of the current step; false where that ended the transaction.
    pub(super) fn send_message(&mut self, slot: u32, now: u64) -> bool {
        let line = self.socket_line(slot);
        if let Some((kind, message)) = self.unusable(line) {
            self.end(slot, Outcome::Failed(kind), &message, now);
            return false;
        }
        let mut text = std::mem::take(&mut self.scratch);
        let session = &mut self.slots[slot as usize].session;
        let rendered = session.message(self.scenario, &mut text);
        if let Some(running) = &mut session.running {
            running.first_byte.get_or_insert(now);
            running.asked = Some(running.next_due.take().unwrap_or(now));
        }
        if let (Some(line), Ok(())) = (line, &rendered) {
            if let Some(socket) = self.web(line).and_then(|web| web.socket.as_mut()) {
                socket.send(&text);
                self.measurement.result.messages_sent += 1;
            }
            self.write_messages(line);
        }
        self.scratch = text;
        let failure = match rendered {
            Err(error) => Some((ErrorKind::Template, error.to_string())),
            Ok(()) => self.unusable(line),
        };
        let Some((kind, message)) = failure else { return true };
        self.end(slot, Outcome::Failed(kind), &message, now);
        false
    }

    /// Begins to wait for the messages of the current step; true where they are there.
    pub(super) fn await_message(&mut self, slot: u32, now: u64) -> bool {
        let Some(line) = self.socket_line(slot) else {
            self.end(slot, Outcome::Failed(ErrorKind::Closed), "no WebSocket is open", now);
            return false;
        };
        let session = &mut self.slots[slot as usize].session;
        let longest = session.wait(self.scenario).and_then(Wait::longest).unwrap_or(self.settings.timeout);
        if let Some(running) = &mut session.running {
            running.since = running.next_due.take().or(running.asked.take()).unwrap_or(now);
            running.waited = Waited::default();
        }
        self.expect(line, longest, now);
        self.look_through(line, now) == State::Done
    }

    /// Something is to come over `line` within so long.
    fn expect(&mut self, line: u32, longest: u64, now: u64) {
        self.connections.requests_made += 1;
        let request = self.connections.requests_made;
        let connection = self.line(line);
        (connection.awaited, connection.wanted) = (Some(request), now);
        self.connections.deadlines.set(now.saturating_add(longest), line, request);
        self.reading.urgent.set(now, line, request);
    }

    /// Says good-bye; true where the server already did.
    pub(super) fn close_socket(&mut self, slot: u32, code: u16, now: u64) -> bool {
        let line = self.socket_line(slot);
        let Some(line) = line.filter(|_| self.unusable(line).is_none()) else {
            self.drop_socket(slot);
            return true;
        };
        if let Some(socket) = self.web(line).and_then(|web| web.socket.as_mut()) {
            socket.close(code);
        }
        self.write_messages(line);
        self.expect(line, self.settings.timeout, now);
        false
    }

    /// The first `count` bytes of the buffer came over the WebSocket of `line`.
    pub(super) fn feed_socket(&mut self, line: u32, count: usize, now: u64) {
        let buffer = std::mem::take(&mut self.connections.read_buffer);
        if let Some(socket) = self.web(line).and_then(|web| web.socket.as_mut()) {
            socket.feed(&buffer[..count]);
        }
        self.connections.read_buffer = buffer;
        self.sort(line, now);
        if self.line(line).awaited.is_some() && self.look_through(line, now) == State::Done {
            let slot = self.owner(line);
            self.go_on(slot, Verdict::Done, now);
        }
    }

    /// Messages that came for the transaction in `slot`, which is over, are for no other.
    pub(super) fn pass_over(&mut self, slot: u32) {
        let Some(line) = self.socket_line(slot) else { return };
        if let Some(web) = self.web(line) {
            web.inbox.clear();
            web.bytes = 0;
        }
    }

    /// The step under way in `slot`.
    fn step(&self, slot: u32) -> Option<Step> {
        let running = self.slots[slot as usize].session.running.as_ref()?;
        Some(self.scenario.transactions[running.transaction].requests[running.step].step)
    }

    /// Puts the messages that came over `line` where steps find them; nobody waits for those between transactions, or
    /// for further ones while a good-bye is. Nothing more is read where none will come.
    fn sort(&mut self, line: u32, now: u64) {
        let step = self.step(self.owner(line));
        let wanted = step.is_some_and(|step| !matches!(step, Step::Close(_)));
        let waits = self.line(line).awaited.is_some();
        let arrived = self.connections.arrived.min(now);
        let mut events = 0;
        let Some(web) = self.web(line) else { return };
        while let (Some(socket), None) = (&mut web.socket, &web.over) {
            match socket.read() {
                Ok(Some(Incoming::Message(data))) => {
                    events += 1;
                    if wanted {
                        web.bytes += data.len();
                        web.inbox.push_back((arrived, data));
                    }
                    if !waits && (web.inbox.len() > MOST_MESSAGES || web.bytes > MOST_BYTES) {
                        let message = "more than 10,000 messages or 64 MiB of them that no step waits for";
                        web.over = Some((ErrorKind::Protocol, message.into()));
                    }
                }
                Ok(Some(Incoming::Close(text))) => {
                    let text = if text.is_empty() { "without a code".into() } else { text };
                    web.over = Some((ErrorKind::Event, format!("the server closed the WebSocket: {text}")));
                }
                Ok(None) => break,
                Err(text) => web.over = Some((ErrorKind::Protocol, text)),
            }
        }
        self.measurement.result.events += events;
        self.write_messages(line);
        if self.web(line).is_some_and(|web| web.over.is_some()) {
            self.line(line).close();
        }
    }

    /// Whether what came over `line` is what the current step waits for.
    fn look_through(&mut self, line: u32, now: u64) -> State {
        let slot = self.owner(line);
        let session = &self.slots[slot as usize].session;
        let wait = match (self.step(slot), session.wait(self.scenario)) {
            (Some(Step::Close(_)), _) => return self.closed(slot, line, now),
            (Some(Step::Await), Some(wait)) => wait,
            _ => return State::Waits,
        };
        while let Some((arrived, data)) = self.web(line).and_then(|web| web.inbox.pop_front()) {
            if let Some(web) = self.web(line) {
                web.bytes -= data.len();
            }
            self.connections.arrived = arrived;
            match self.count(slot, wait, b"", data) {
                Ok(true) if wait.duration.is_none() => return self.finish_wait(slot, line, arrived, now),
                Ok(_) => {}
                Err(error) => {
                    self.end(slot, Outcome::Failed(ErrorKind::Template), &error.to_string(), now);
                    return State::Ended;
                }
            }
        }
        let Some((kind, message)) = self.unusable(Some(line)) else { return State::Waits };
        let lacking = self.slots[slot as usize].session.lacking(self.scenario).replace(" in time", "");
        self.end(slot, Outcome::Failed(kind), &format!("{lacking}: {message}"), now);
        State::Ended
    }

    /// Whether the server answered the good-bye, or went without.
    fn closed(&mut self, slot: u32, line: u32, now: u64) -> State {
        match self.unusable(Some(line)) {
            None => return State::Waits,
            Some((ErrorKind::Protocol, message)) => {
                self.end(slot, Outcome::Failed(ErrorKind::Protocol), &message, now);
                return State::Ended;
            }
            Some(_) => {}
        }
        let arrived = self.connections.arrived.min(now);
        if let Some(running) = &mut self.slots[slot as usize].session.running {
            running.last_byte = running.last_byte.max(Some(arrived));
        }
        self.drop_socket(slot);
        State::Done
    }

    /// The messages that the current step waits for are there; the last of them is looked at.
    fn finish_wait(&mut self, slot: u32, line: u32, arrived: u64, now: u64) -> State {
        self.line(line).awaited = None;
        let session = &mut self.slots[slot as usize].session;
        if let Some(running) = &mut session.running {
            running.last_byte = running.last_byte.max(Some(arrived));
        }
        match session.judge_message(self.scenario) {
            Verdict::End(outcome, message) => {
                self.end(slot, outcome, &message, now);
                State::Ended
            }
            _ => State::Done,
        }
    }

    /// The session in `slot` listened to its WebSocket as long as its step says.
    pub(super) fn heard_enough(&mut self, slot: u32, now: u64) {
        let Some(line) = self.socket_line(slot) else { return };
        let session = &self.slots[slot as usize].session;
        let (Some(wait), Some(running)) = (session.wait(self.scenario), &session.running) else { return };
        if running.waited.count < wait.count {
            let message = running.waited.of(wait, "messages when the time was over");
            self.end(slot, Outcome::Failed(ErrorKind::Event), &message, now);
        } else if self.finish_wait(slot, line, now, now) == State::Done {
            self.go_on(slot, Verdict::Done, now);
        }
    }

    /// The connection of the WebSocket of `line` is gone while a step waits.
    pub(super) fn socket_ended(&mut self, line: u32, kind: ErrorKind, message: &str, now: u64) {
        let kind = if kind == ErrorKind::Closed { ErrorKind::Event } else { kind };
        if let Some(web) = self.web(line) {
            web.over.get_or_insert((kind, message.into()));
        }
        self.line(line).close();
        if self.look_through(line, now) == State::Done {
            let slot = self.owner(line);
            self.go_on(slot, Verdict::Done, now);
        }
    }

    /// Writes what there is to say, as far as the socket takes it.
    pub(super) fn write_messages(&mut self, line: u32) {
        let connection = self.line(line);
        let web = connection.web.as_mut().and_then(|web| web.socket.as_mut());
        let (Some(stream), Some(web)) = (&mut connection.socket, web) else { return };
        let mut sent = 0;
        while !web.unsent().is_empty() {
            match stream.write(web.unsent()) {
                Ok(count) => {
                    web.wrote(count);
                    sent += count as u64;
                }
                Err(error) if error.kind() == Io::Interrupted => {}
                Err(error) => {
                    connection.was_reset |= error.kind() == Io::ConnectionReset;
                    break; // later, or never: reading tells
                }
            }
        }
        let flooded = web.unsent().len() > MOST_UNSENT;
        self.measurement.result.bytes_out += sent;
        if let (true, Some(web)) = (flooded, self.web(line)) {
            web.over.get_or_insert((ErrorKind::Protocol, "the server does not read what it is sent".into()));
        }
    }

    /// Closes the WebSocket of the session in `slot`, if it has one; who gets one with the login logs in again.
    pub(super) fn drop_socket(&mut self, slot: u32) {
        let Some(extra) = self.slots[slot as usize].socket.take() else { return };
        let line = extra | EXTRA;
        if self.unusable(Some(line)).is_none() {
            if let Some(socket) = self.web(line).and_then(|web| web.socket.as_mut()) {
                socket.close(GOING_AWAY);
            }
            self.write_messages(line);
        }
        let connection = self.line(line);
        connection.awaited = None;
        connection.parser.upgrade = false;
        connection.forget();
        self.connections.spare_extra.push(extra);
        let opens = |login: usize| self.scenario.transactions[login].requests.iter().any(|r| r.step == Step::Connect);
        if self.population(slot).login.is_some_and(opens) {
            self.slots[slot as usize].session.logged_in = false;
        }
    }
}
