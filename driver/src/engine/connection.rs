//! Connections of the sessions: sending, receiving, reconnecting.

mod opening;
mod receiving;

use super::pool::{Lease, SHARED};
use super::refusals::Refusals;
use super::sockets::Web;
use super::{Engine, ExtraConnection, SharedH2, Slot, EXTRA, SHARED_H2};
use crate::http::h2::Client;
use crate::http::response::{Limits, Parser};
use crate::measure::{ErrorKind, Outcome};
use crate::scenario::Method;
use crate::sys::poller::Event;
use crate::sys::stream::Stream;
use crate::sys::tls::Records;
use std::collections::VecDeque;
use std::io::ErrorKind as Io;

/// Reads of one connection before the others have their turn.
const READS: usize = 16;

/// Something a page embeds, being fetched.
#[derive(Debug)]
pub struct Fetch {
    pub path: Vec<u8>,
    pub redirects: u32,
}

/// A session's connection; at most one, kept between requests.
#[derive(Debug, Default)]
pub struct Connection {
    pub(super) socket: Option<Stream>,
    /// The socket is one that sessions share, for the time of one request.
    lease: Option<Lease>,
    connecting: bool,
    /// The socket is connected, TLS is not.
    handshaking: bool,
    /// Over HTTP/2: the streams of this connection, and the lines whose requests wait for one.
    pub(super) h2: Option<Box<Client>>,
    pub(super) queue: VecDeque<u32>,
    /// The server spoke HTTP/2 before.
    pub(super) spoke_h2: bool,
    /// Over HTTP/2: the line of the connection that carries the current request, or will, and its stream there.
    pub(super) host: Option<u32>,
    pub(super) stream: u32,
    /// Requests sent over this socket.
    served: u32,
    /// A write told of a reset: reading, and a further write, will only tell of an end.
    pub(super) was_reset: bool,
    /// Whether a response came over this socket before.
    pub(super) reused: bool,
    /// Whether the session had a connection before this one.
    had_one: bool,
    /// Distinguishes the sockets that used one slot.
    pub(super) generation: u32,
    /// The request being written, and how much of it was.
    pub out: Vec<u8>,
    written: usize,
    pub parser: Parser,
    pub keep_body: bool,
    /// The number of the request whose response is awaited.
    pub awaited: Option<u64>,
    /// When the current request was due.
    pub(super) due: u64,
    /// Since when the current request waits for this connection.
    pub(super) wanted: u64,
    /// When it was begun to be made.
    dialled: u64,
    /// The current request may be sent again, and was.
    pub(super) retried: bool,
    pub(super) repeated: bool,
    /// How often the server would not look at it, and how little that leaves to hope for.
    pub(super) refusals: Refusals,
    /// It is the session's WebSocket, or is to be.
    pub(super) web: Option<Box<Web>>,
    /// What the current request fetches for a page; None when it is the transaction's own.
    pub resource: Option<Fetch>,
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
        self.lease = None;
        self.connecting = false;
        self.handshaking = false;
        self.reused = false;
        self.h2 = None;
        self.served = 0;
        self.was_reset = false;
    }

    /// Bytes of HTTP may be sent.
    pub(super) fn is_ready(&self) -> bool {
        self.socket.is_some() && !self.connecting && !self.handshaking
    }

    /// It was upgraded to a WebSocket.
    pub(super) fn is_socket(&self) -> bool {
        self.web.as_ref().is_some_and(|web| web.socket.is_some())
    }

    /// TLS was not ended as its peers should.
    fn is_cut(&self) -> bool {
        self.socket.as_ref().and_then(Stream::tls).is_some_and(Records::is_cut)
    }

    /// Whether the next request is the last one of its connection, when `most` are allowed (0: any number).
    pub fn closes_with_next(&self, most: u32) -> bool {
        most > 0 && self.h2.is_none() && self.served + 1 >= most
    }

    /// Closes it if a response is still awaited.
    pub fn stop(&mut self) {
        self.resource = None;
        self.queue.clear();
        if self.awaited.take().is_some() {
            self.close();
        }
    }

    /// Uses a shared connection that was idle.
    pub(super) fn take_over(&mut self, stream: Stream, lease: Lease, served: u32) {
        self.generation = self.generation.wrapping_add(1);
        (self.socket, self.lease, self.served, self.reused) = (Some(stream), Some(lease), served + 1, true);
    }

    /// Leaves its shared connection, with the number of requests sent over it, to others.
    pub(super) fn part_with(&mut self) -> Option<(Stream, Lease, u32)> {
        let found = (self.socket.take()?, self.lease.take()?, self.served);
        self.close();
        Some(found)
    }

    /// Forgets that there was a connection: the slot serves another session.
    pub fn forget(&mut self) {
        self.close();
        self.queue.clear();
        self.web = None;
        self.spoke_h2 = false;
        self.had_one = false;
    }
}

/// [`Engine::line`] where other parts of the engine are in use.
pub(super) fn named<'a>(
    slots: &'a mut [Slot],
    extra: &'a mut [ExtraConnection],
    shared_h2: &'a mut [SharedH2],
    line: u32,
) -> &'a mut Connection {
    if line & EXTRA != 0 {
        &mut extra[(line & !EXTRA) as usize].connection
    } else if line & SHARED_H2 != 0 {
        &mut shared_h2[(line & !SHARED_H2) as usize].connection
    } else {
        &mut slots[line as usize].connection
    }
}

/// Whether `line` is that of a shared connection over HTTP/2.
pub(super) fn is_shared_h2(line: u32) -> bool {
    line & (EXTRA | SHARED_H2) == SHARED_H2
}

impl Engine<'_> {
    /// The connection named by `line`: a slot's own, one more of a page, or a shared one over HTTP/2.
    pub(super) fn line(&mut self, line: u32) -> &mut Connection {
        named(&mut self.slots, &mut self.connections.extra, &mut self.connections.shared_h2, line)
    }

    /// The slot whose session uses `line`.
    pub(super) fn owner(&self, line: u32) -> u32 {
        if line & EXTRA == 0 {
            line
        } else {
            self.connections.extra[(line & !EXTRA) as usize].slot
        }
    }

    /// Sends the request in `out`, connecting first where needed.
    pub(super) fn send(&mut self, line: u32, method: Method, now: u64) {
        self.connections.requests_made += 1;
        let request = self.connections.requests_made;
        let shared = self.connections.pools.is_some() && self.line(line).socket.is_none();
        let open = self.find_open(line, shared, method, now);
        let (due, deadline) = self.times_of_request(line, now);
        let connection = self.line(line);
        connection.due = due;
        connection.wanted = now;
        connection.repeated = false;
        connection.refusals = Refusals::default();
        connection.retried = method.retried();
        connection.written = 0;
        connection.awaited = Some(request);
        connection.parser.begin(method == Method::Head, connection.keep_body);
        self.measurement.result.sent += 1;
        self.connections.deadlines.set(deadline, line, request);
        self.note_urgency(line, request, open, now);
        if self.connections.may_share && self.shares(line) {
            self.enqueue(line, now);
        } else if open {
            self.line(line).served += u32::from(!shared);
            self.flush(line, now);
        } else if shared {
            self.open_or_wait(line, request, now);
        } else {
            self.connect(line, now);
        }
    }

    /// Whether `line` has a connection, or gets a shared one. A request that may not be sent twice goes over none that
    /// the server closed meanwhile.
    fn find_open(&mut self, line: u32, shared: bool, method: Method, now: u64) -> bool {
        loop {
            if shared && !self.borrow_connection(line) {
                return false;
            }
            if !method.retried() && self.line(line).h2.is_none() && self.poll_due(now) {
                self.receive(line, false);
            }
            let open = self.line(line).socket.is_some();
            if open || !shared {
                return open;
            }
        }
    }

    /// Ends the transaction that uses `line`, whose connection is gone or useless.
    pub(super) fn fail(&mut self, line: u32, kind: ErrorKind, message: &str, now: u64) {
        if is_shared_h2(line) {
            self.fail_shared_h2(line, kind, message, now);
            return;
        }
        let connection = self.line(line);
        connection.close();
        let message = match &connection.resource {
            Some(resource) => format!("{}: {message}", String::from_utf8_lossy(&resource.path)),
            None => message.to_string(),
        };
        let owner = self.owner(line);
        self.end(owner, Outcome::Failed(kind), &message, now);
    }

    pub(super) fn on_event(&mut self, event: Event) {
        let Some(line) = self.concerned(event.token) else { return };
        let connection = self.line(line);
        let generation = connection.generation;
        let Some(socket) = &connection.socket else { return };
        if connection.connecting {
            if !event.writable() {
                return;
            }
            let error = if event.closing() { socket.error() } else { None };
            let now = self.now();
            if let Some(error) = error {
                self.fail(line, ErrorKind::Connect, &error.to_string(), now);
                return;
            }
            let connection = self.line(line);
            connection.connecting = false;
            connection.handshaking = connection.socket.as_ref().is_some_and(|socket| socket.tls().is_some());
            if connection.handshaking {
                self.shake_hands(line, now);
            } else {
                self.connected(line, now);
            }
        } else if connection.handshaking {
            let now = self.now();
            self.shake_hands(line, now);
        } else if event.writable() && (connection.h2.is_some() || connection.web.is_some() || socket.tls().is_some()) {
            let now = self.now();
            self.write_on(line, now);
        } else if event.writable() && connection.written < connection.out.len() && connection.awaited.is_some() {
            let now = self.now();
            self.flush(line, now);
        }
        if event.readable() && self.line(line).generation == generation {
            self.receive(line, event.closing());
        }
    }

    /// The line whose socket has that token, if it still has.
    fn concerned(&mut self, token: u64) -> Option<u32> {
        if token & SHARED != 0 {
            return self.line_of(token);
        }
        let line = token as u32;
        let known = if line & EXTRA == 0 { self.slots.len() } else { self.connections.extra.len() };
        let same = |connection: &Connection| u64::from(connection.generation) & ((SHARED >> 32) - 1) == token >> 32;
        (((line & !EXTRA) as usize) < known && same(self.line(line))).then_some(line)
    }

    /// The socket takes bytes again, of TLS or of streams.
    fn write_on(&mut self, line: u32, now: u64) {
        let connection = self.line(line);
        if let Some(Err(error)) = connection.socket.as_mut().map(Stream::flush) {
            connection.was_reset |= error.kind() == Io::ConnectionReset;
            return; // reading tells what happened
        }
        if connection.h2.is_some() {
            self.write_streams(line);
        } else if connection.is_socket() {
            self.write_messages(line);
        } else if connection.written < connection.out.len() && connection.awaited.is_some() {
            self.flush(line, now);
        }
    }

    /// The request of `line` need not wait for a connection any longer.
    pub(super) fn has_connection(&mut self, line: u32, now: u64) {
        let waited = now.saturating_sub(self.line(line).wanted);
        let owner = self.owner(line);
        if let Some(running) = &mut self.slots[owner as usize].session.running {
            running.blocked += waited;
        }
        self.flush(line, now);
    }

    fn flush(&mut self, line: u32, now: u64) {
        let owner = self.owner(line);
        if !self.line(line).is_ready() {
            return;
        }
        if let Some(running) = &mut self.slots[owner as usize].session.running {
            running.first_byte.get_or_insert(now);
        }
        let mut sent = 0;
        let connection = self.line(line);
        let Some(socket) = &mut connection.socket else { return };
        let mut lost = false;
        while connection.written < connection.out.len() {
            match socket.write(&connection.out[connection.written..]) {
                Ok(count) => {
                    connection.written += count;
                    sent += count as u64;
                }
                Err(error) if error.kind() == Io::WouldBlock => break,
                Err(error) if error.kind() == Io::Interrupted => {}
                // The response may have been sent before the reset: reading tells.
                Err(error) => {
                    connection.was_reset |= error.kind() == Io::ConnectionReset;
                    lost = connection.reused && !connection.parser.started();
                    break;
                }
            }
        }
        self.measurement.result.bytes_out += sent;
        if lost {
            let (generation, unread) = (self.line(line).generation, self.connections.unread.len());
            self.receive(line, true);
            let goes_on = self.connections.unread.len() > unread;
            let connection = self.line(line);
            let same = connection.generation == generation && connection.socket.is_some();
            if goes_on || !same || connection.awaited.is_none() {
                return;
            }
            let kind = if self.line(line).was_reset { ErrorKind::Reset } else { ErrorKind::Closed };
            self.lost(line, kind, now);
        }
    }
}
