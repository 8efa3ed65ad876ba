//! Connections of the sessions: sending, receiving, reconnecting.

use super::Engine;
use crate::http::response::{Limits, Parser};
use crate::measure::{ErrorKind, Outcome};
use crate::scenario::Method;
use crate::sys::poller::Event;
use crate::sys::socket::Socket;
use std::io::ErrorKind as Io;

/// A session's connection; at most one, kept between requests.
#[derive(Debug, Default)]
pub struct Connection {
    socket: Option<Socket>,
    connecting: bool,
    /// Whether an answer came over this socket before.
    reused: bool,
    /// Whether the session had a connection before this one.
    had_one: bool,
    /// Distinguishes the sockets that used one slot.
    generation: u32,
    /// The request being written, and how much of it was.
    pub out: Vec<u8>,
    written: usize,
    pub parser: Parser,
    pub keep_body: bool,
    /// The number of the request whose answer is awaited.
    pub awaited: Option<u64>,
}

impl Connection {
    pub fn new(max_body: u64) -> Self {
        let parser = Parser::new(Limits { body: max_body, ..Limits::default() });
        Connection { parser, ..Connection::default() }
    }

    pub fn awaits(&self, request: u64) -> bool {
        self.awaited == Some(request)
    }

    pub fn close(&mut self) {
        self.socket = None;
        self.connecting = false;
        self.reused = false;
    }

    /// Forgets that there was a connection: the slot serves another session.
    pub fn forget(&mut self) {
        self.close();
        self.had_one = false;
    }
}

impl Engine<'_> {
    /// Sends the request in `out`, connecting first where needed.
    pub(super) fn send(&mut self, slot: u32, now: u64) {
        self.requests_made += 1;
        let request = self.requests_made;
        let at = &mut self.slots[slot as usize];
        let Some(running) = &mut at.session.running else { return };
        running.wanted = now;
        at.connection.written = 0;
        at.connection.awaited = Some(request);
        at.connection.parser.begin(running.sent.method == Method::Head, at.connection.keep_body);
        self.result.requests += 1;
        self.deadlines.set(now.saturating_add(self.settings.timeout), slot, request);
        if at.connection.socket.is_some() {
            self.flush(slot, now);
        } else {
            self.connect(slot, now);
        }
    }

    fn connect(&mut self, slot: u32, now: u64) {
        let connection = &mut self.slots[slot as usize].connection;
        connection.generation = connection.generation.wrapping_add(1);
        let token = u64::from(connection.generation) << 32 | u64::from(slot);
        let made = Socket::connect(&self.settings.target.address)
            .and_then(|socket| self.poller.add(socket.fd(), token).map(|()| socket));
        match made {
            Ok(socket) => {
                connection.socket = Some(socket);
                connection.connecting = true;
                connection.reused = false;
                self.result.connects += 1;
                if connection.had_one {
                    self.result.reconnects += 1;
                }
                connection.had_one = true;
            }
            Err(error) => self.end(slot, Outcome::Failed(ErrorKind::Connect), &error.to_string(), now),
        }
    }

    pub(super) fn on_event(&mut self, event: Event) {
        let slot = event.token as u32;
        let Some(at) = self.slots.get_mut(slot as usize) else { return };
        let connection = &mut at.connection;
        if connection.generation != (event.token >> 32) as u32 {
            return;
        }
        let Some(socket) = &connection.socket else { return };
        if connection.connecting {
            if !event.writable() {
                return;
            }
            let error = socket.error();
            let now = self.now();
            let at = &mut self.slots[slot as usize];
            if let Some(error) = error {
                at.connection.close();
                self.end(slot, Outcome::Failed(ErrorKind::Connect), &error.to_string(), now);
                return;
            }
            at.connection.connecting = false;
            if let Some(running) = &mut at.session.running {
                running.blocked += now.saturating_sub(running.wanted);
            }
            self.flush(slot, now);
        } else if event.writable() && connection.written < connection.out.len() && connection.awaited.is_some() {
            let now = self.now();
            self.flush(slot, now);
        }
        let generation = (event.token >> 32) as u32;
        if event.readable() && self.slots[slot as usize].connection.generation == generation {
            self.receive(slot, event.closing());
        }
    }

    fn flush(&mut self, slot: u32, now: u64) {
        let at = &mut self.slots[slot as usize];
        let connection = &mut at.connection;
        let Some(socket) = &connection.socket else { return };
        if connection.connecting {
            return;
        }
        if let Some(running) = &mut at.session.running {
            running.first_byte.get_or_insert(now);
        }
        while connection.written < connection.out.len() {
            match socket.write(&connection.out[connection.written..]) {
                Ok(count) => {
                    connection.written += count;
                    self.result.bytes_out += count as u64;
                }
                Err(error) if error.kind() == Io::WouldBlock => return,
                Err(error) if error.kind() == Io::Interrupted => {}
                Err(_) if connection.reused && !connection.parser.started() => {
                    self.lost(slot, ErrorKind::Closed, now);
                    return;
                }
                // The answer may have been sent before the reset: reading tells.
                Err(_) => return,
            }
        }
    }

    fn receive(&mut self, slot: u32, closing: bool) {
        loop {
            let connection = &mut self.slots[slot as usize].connection;
            let Some(socket) = &connection.socket else { return };
            let result = socket.read(&mut self.read_buffer);
            let now = self.now();
            let connection = &mut self.slots[slot as usize].connection;
            let count = match result {
                Ok(0) => {
                    self.at_end(slot, now);
                    return;
                }
                Ok(count) => count,
                Err(error) if error.kind() == Io::WouldBlock => return,
                Err(error) if error.kind() == Io::Interrupted => continue,
                Err(_) => {
                    self.lost(slot, ErrorKind::Reset, now);
                    return;
                }
            };
            self.result.bytes_in += count as u64;
            if connection.awaited.is_none() {
                connection.close(); // bytes nobody asked for
                return;
            }
            match connection.parser.feed(&self.read_buffer[..count]) {
                Ok(Some(used)) => {
                    if used < count {
                        connection.close();
                        let message = "more bytes than the response announced";
                        self.end(slot, Outcome::Failed(ErrorKind::Protocol), message, now);
                        return;
                    }
                    connection.reused = true;
                    connection.awaited = None;
                    if closing || !connection.parser.head.keep_alive {
                        connection.close();
                    }
                    self.answered(slot, now);
                    return;
                }
                Ok(None) if count < self.read_buffer.len() && !closing => return,
                Ok(None) => {}
                Err(error) => {
                    connection.close();
                    self.end(slot, Outcome::Failed(ErrorKind::Protocol), &error.to_string(), now);
                    return;
                }
            }
        }
    }

    /// The server closed the connection in good order.
    fn at_end(&mut self, slot: u32, now: u64) {
        let connection = &mut self.slots[slot as usize].connection;
        if connection.awaited.is_none() {
            connection.close();
        } else if !connection.parser.started() {
            self.lost(slot, ErrorKind::Closed, now);
        } else if let Err(error) = connection.parser.end() {
            connection.close();
            self.end(slot, Outcome::Failed(ErrorKind::Protocol), &error.to_string(), now);
        } else {
            connection.close();
            connection.awaited = None;
            self.answered(slot, now);
        }
    }

    /// The connection is gone. A kept one may have been closed while the request was on its way: an idempotent
    /// request is sent again, once, over a new one.
    fn lost(&mut self, slot: u32, kind: ErrorKind, now: u64) {
        let at = &mut self.slots[slot as usize];
        let reused = at.connection.reused;
        at.connection.close();
        if at.connection.awaited.is_none() {
            return;
        }
        let started = at.connection.parser.started();
        if let (Some(running), true, false) = (&mut at.session.running, reused, started) {
            if running.sent.method.retried() && !running.repeated {
                running.repeated = true;
                running.wanted = now;
                at.connection.written = 0;
                self.result.requests += 1;
                self.connect(slot, now);
                return;
            }
        }
        let message = match (kind, started) {
            (ErrorKind::Reset, _) => "connection reset",
            (_, true) => "connection closed inside a response",
            _ => "connection closed before the answer",
        };
        self.end(slot, Outcome::Failed(kind), message, now);
    }
}
