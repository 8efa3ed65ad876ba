//! What comes in over a connection, and how connections are lost.

use super::{named, READS};
use crate::engine::Engine;
use crate::measure::ErrorKind;
use std::io::ErrorKind as Io;

impl Engine<'_> {
    pub(in crate::engine) fn receive(&mut self, line: u32, closing: bool) {
        let most = self.settings.transport.requests_per_connection;
        for _ in 0..READS {
            let connection = named(&mut self.slots, &mut self.connections.extra, &mut self.connections.shared_h2, line);
            if !connection.is_ready() {
                return;
            }
            let Some(socket) = &mut connection.socket else { return };
            let result = socket.read(&mut self.connections.read_buffer);
            let stamp = socket.stamp();
            let now = self.clock.now();
            let count = match result {
                Ok(0) => {
                    self.at_end(line, now);
                    return;
                }
                Ok(count) => count,
                Err(error) if error.kind() == Io::WouldBlock => return,
                Err(error) if error.kind() == Io::Interrupted => continue,
                Err(error) if matches!(error.kind(), Io::InvalidData | Io::ConnectionRefused) => {
                    if connection.awaited.is_none() && connection.h2.is_none() {
                        connection.close(); // nothing goes over it
                    } else if error.kind() == Io::ConnectionRefused {
                        self.fail(line, ErrorKind::Connect, &format!("TLS handshake: {error}"), now);
                    } else {
                        self.fail(line, ErrorKind::Protocol, &error.to_string(), now);
                    }
                    return;
                }
                Err(_) => {
                    self.lost(line, ErrorKind::Reset, now);
                    return;
                }
            };
            self.measurement.result.bytes_in += count as u64;
            let all = count < self.connections.read_buffer.len() && !closing && socket.tls().is_none();
            let (h2, generation) = (connection.h2.is_some(), connection.generation);
            self.clock_in(line, stamp, now);
            if h2 {
                self.feed_streams(line, count, now);
                let connection = self.line(line);
                if all || connection.h2.is_none() || connection.generation != generation {
                    return;
                }
                continue;
            }
            if self.line(line).is_socket() {
                self.feed_socket(line, count, now);
                let connection = self.line(line);
                if all || connection.generation != generation || connection.web.is_none() {
                    return;
                }
                continue;
            }
            let connection = named(&mut self.slots, &mut self.connections.extra, &mut self.connections.shared_h2, line);
            if connection.awaited.is_none() {
                connection.close(); // bytes nobody asked for
                return;
            }
            if !connection.parser.started() {
                self.first_byte(line);
            }
            let connection = named(&mut self.slots, &mut self.connections.extra, &mut self.connections.shared_h2, line);
            let fed = connection.parser.feed(&self.connections.read_buffer[..count]);
            if connection.parser.has_events() && self.take_events(line, now) {
                return;
            }
            let connection = named(&mut self.slots, &mut self.connections.extra, &mut self.connections.shared_h2, line);
            match fed {
                Ok(Some(used)) => {
                    if connection.parser.head.status == 101 {
                        let rest = self.connections.read_buffer[used..count].to_vec();
                        self.upgraded(line, &rest, now);
                        if all || self.line(line).generation != generation || !self.line(line).is_socket() {
                            return;
                        }
                        continue;
                    }
                    if used < count {
                        self.fail(line, ErrorKind::Protocol, "more bytes than the response announced", now);
                        return;
                    }
                    connection.reused = true;
                    connection.awaited = None;
                    let length = connection.parser.received();
                    let cut = connection.written < connection.out.len(); // answered before it was all sent
                    let last = closing || most > 0 && connection.served >= most;
                    if cut || last || !connection.parser.head.keep_alive {
                        connection.close();
                    } else {
                        self.give_back(line);
                    }
                    let owner = self.owner(line);
                    self.observe(owner, length, false);
                    self.complete(line, now);
                    return;
                }
                Ok(None) if all => return,
                Ok(None) => {}
                Err(error) => {
                    self.fail(line, ErrorKind::Protocol, &error.to_string(), now);
                    return;
                }
            }
        }
        let generation = self.line(line).generation;
        self.connections.unread.push((u64::from(generation) << 32 | u64::from(line), closing));
    }

    /// Goes on reading where a connection had more to say than its turn allowed.
    pub(in crate::engine) fn read_on(&mut self) {
        for (token, closing) in std::mem::take(&mut self.connections.unread) {
            let line = token as u32;
            if self.line(line).generation == (token >> 32) as u32 {
                self.receive(line, closing);
            }
        }
    }

    /// Notes when the bytes just read over `line` came in, by the kernel's stamp where it gave one.
    fn clock_in(&mut self, line: u32, stamp: Option<u64>, now: u64) {
        let sent = self.line(line).wanted;
        self.connections.arrived = now;
        if let Some(moment) = stamp.and_then(|stamp| self.clock.stamps.moment(stamp, sent, now)) {
            self.reading.stamping.came();
            self.measurement.slice.reading.record(now - moment);
            self.connections.arrived = moment;
        } else {
            self.reading.stamping.lacked();
        }
    }

    /// A complete response is in the parser of `line`.
    pub(in crate::engine) fn complete(&mut self, line: u32, now: u64) {
        let owner = self.owner(line);
        self.measurement.result.requests += 1;
        if let Some(running) = &mut self.slots[owner as usize].session.running {
            running.last_byte = running.last_byte.max(Some(self.connections.arrived));
        }
        if self.line(line).resource.is_some() {
            self.fetched(line, now);
        } else if self.line(line).web.is_some() {
            self.not_upgraded(line, now);
        } else {
            self.answered(line, now);
        }
    }

    /// The server closed the connection in good order.
    fn at_end(&mut self, line: u32, now: u64) {
        self.connections.arrived = now;
        let connection = self.line(line);
        let kind = if connection.was_reset { ErrorKind::Reset } else { ErrorKind::Closed };
        if connection.h2.is_some() {
            self.lost_streams(line, kind, now);
        } else if connection.awaited.is_none() {
            connection.close();
        } else if connection.is_socket() {
            self.socket_ended(line, kind, "the connection was closed", now);
        } else if connection.was_reset {
            self.lost(line, kind, now);
        } else if !connection.parser.started() {
            self.lost(line, ErrorKind::Closed, now);
        } else if let Err(error) = connection.parser.end(connection.is_cut()) {
            self.fail(line, ErrorKind::Protocol, &error.to_string(), now);
        } else {
            connection.close();
            connection.awaited = None;
            self.complete(line, now);
        }
    }

    /// The connection is gone. A kept one may have been closed while the request was on its way: an idempotent
    /// request is sent again, once, over a new one.
    pub(super) fn lost(&mut self, line: u32, kind: ErrorKind, now: u64) {
        let connection = self.line(line);
        if connection.h2.is_some() {
            self.lost_streams(line, kind, now);
            return;
        }
        let reused = connection.reused;
        if connection.is_socket() && connection.awaited.is_some() {
            self.socket_ended(line, kind, "the connection was reset", now);
            return;
        }
        connection.close();
        if connection.awaited.is_none() {
            return;
        }
        let started = connection.parser.started();
        if reused && !started && connection.retried && !connection.repeated {
            connection.repeated = true;
            connection.wanted = now;
            connection.written = 0;
            self.measurement.result.sent += 1;
            self.measurement.result.repeated += 1;
            self.connect(line, now);
            return;
        }
        let message = match (kind, started) {
            (ErrorKind::Reset, _) => "connection reset",
            (_, true) => "connection closed inside a response",
            _ => "connection closed before the response",
        };
        self.fail(line, kind, message, now);
    }
}
