//! Requests over HTTP/2: streams of their session's one connection, or of shared ones.

use super::connection::{is_shared_h2, named};
use super::{Engine, EXTRA};
use crate::http::h2::{Client, ErrorCode, Event, Responses};
use crate::http::response::Parser;
use crate::measure::{ErrorKind, Outcome};
use crate::transport::Http;
use std::io::ErrorKind as Io;

/// Streams a browser has open at once.
const BROWSER_STREAMS: u32 = 100;

impl Responses for Engine<'_> {
    fn parser(&mut self, line: u32) -> &mut Parser {
        &mut self.line(line).parser
    }
}

impl Engine<'_> {
    /// Whether the request of `line` is a stream.
    pub(super) fn shares(&mut self, line: u32) -> bool {
        let owner = self.owner(line);
        if self.line(line).web.is_some() {
            return false;
        }
        let host = self.line(owner);
        if host.h2.is_some() || host.spoke_h2 {
            return true;
        }
        self.settings.transport.http == Http::Two
    }

    /// How much of a page is fetched at once, where a browser would use `connections` over HTTP/1.1.
    pub(super) fn parallel(&self, slot: u32, connections: u32) -> u32 {
        match &self.slots[slot as usize].connection.h2 {
            Some(client) if connections > 1 => client.most_streams().clamp(1, BROWSER_STREAMS),
            _ => connections,
        }
    }

    /// The request of `line` waits for its stream.
    pub(super) fn enqueue(&mut self, line: u32, now: u64) {
        if self.shares_h2() {
            self.want_stream(line, now);
            return;
        }
        let slot = self.owner(line);
        self.line(line).host = Some(slot);
        self.line(slot).queue.push_back(line);
        self.pump(slot, now);
    }

    /// The connection of `host` is there and speaks HTTP/2.
    pub(super) fn begin_streams(&mut self, host: u32, now: u64) {
        self.measurement.result.http2_connections += 1;
        let connection = self.line(host);
        connection.h2 = Some(Box::new(Client::new()));
        connection.spoke_h2 = true;
        if connection.queue.is_empty() && connection.awaited.is_some() {
            connection.host = Some(host);
            connection.queue.push_back(host);
        }
        self.pump(host, now);
    }

    /// Opens streams for what waits, over a new connection where the old one takes no more.
    fn pump(&mut self, slot: u32, now: u64) {
        if is_shared_h2(slot) {
            self.pump_shared_h2(slot, now);
            return;
        }
        let most = self.settings.transport.requests_per_connection;
        loop {
            let connection = self.line(slot);
            let Some(line) = connection.queue.front().copied() else { break };
            if connection.socket.is_none() {
                self.connect(slot, now);
                return;
            }
            if !connection.is_ready() {
                return;
            }
            let Some(client) = &mut connection.h2 else { return };
            if client.is_leaving() || most > 0 && client.opened() >= most {
                if !client.is_idle() {
                    break;
                }
                let unused = client.opened() == 0;
                connection.close();
                let refusals = &mut self.line(line).refusals;
                if unused {
                    refusals.add(false);
                }
                if refusals.too_many() {
                    self.fail_stream(line, ErrorKind::Closed, "the server takes no requests", now);
                    return;
                }
                continue;
            }
            if !client.may_open() {
                break;
            }
            connection.queue.pop_front();
            self.open(slot, line, now);
        }
        self.write_streams(slot);
    }

    /// Sends the request of `line` over the connection of `host`.
    pub(super) fn open(&mut self, host: u32, line: u32, now: u64) {
        if self.line(line).awaited.is_none() {
            return;
        }
        let owner = self.owner(line) as usize;
        let secure = self.settings.transport.targets[self.slots[owner].target].secure();
        let Some(mut client) = self.line(host).h2.take() else { return };
        let connection = self.line(line);
        connection.stream = client.open(line, secure, &connection.out);
        let waited = now.saturating_sub(connection.wanted);
        self.line(host).h2 = Some(client);
        if let Some(running) = &mut self.slots[owner].session.running {
            running.blocked += waited;
            running.first_byte.get_or_insert(now);
        }
    }

    /// Writes what the streams have to say, as far as the socket takes it.
    pub(super) fn write_streams(&mut self, host: u32) {
        let connection = named(&mut self.slots, &mut self.connections.extra, &mut self.connections.shared_h2, host);
        let (Some(client), Some(socket)) = (&mut connection.h2, &mut connection.socket) else { return };
        while !client.unsent().is_empty() {
            match socket.write(client.unsent()) {
                Ok(count) => {
                    client.wrote(count);
                    self.measurement.result.bytes_out += count as u64;
                }
                Err(error) if error.kind() == Io::Interrupted => {}
                Err(error) => {
                    connection.was_reset |= error.kind() == Io::ConnectionReset;
                    return; // later, or never: reading tells
                }
            }
        }
    }

    /// The first `count` bytes of the buffer came over the connection of `host`.
    pub(super) fn feed_streams(&mut self, host: u32, count: usize, now: u64) {
        if is_shared_h2(host) {
            self.hear(host, now);
        }
        let connection = self.line(host);
        let generation = connection.generation;
        let Some(mut client) = connection.h2.take() else { return };
        let buffer = std::mem::take(&mut self.connections.read_buffer);
        let mut events = std::mem::take(&mut self.connections.events);
        let fed = client.feed(&buffer[..count], self, &mut events);
        if let Err(broken) = &fed {
            client.leave(broken);
        }
        self.connections.read_buffer = buffer;
        self.line(host).h2 = Some(client);
        for event in events.drain(..) {
            // What one response leads to may end a shared connection; the others that came over it count all the same.
            if self.line(host).generation == generation || is_shared_h2(host) {
                self.on_stream(host, event, now);
            }
        }
        self.connections.events = events;
        let connection = self.line(host);
        if connection.generation != generation || connection.h2.is_none() {
            return;
        }
        if let Err(broken) = fed {
            self.write_streams(host);
            let message = format!("HTTP/2: {}", broken.message);
            self.fail(host, ErrorKind::Protocol, &message, now);
            return;
        }
        self.pump(host, now);
    }

    fn on_stream(&mut self, host: u32, event: Event, now: u64) {
        let (Event::Begun { line, stream }
        | Event::Part { line, stream }
        | Event::Complete { line, stream }
        | Event::Malformed { line, stream, .. }
        | Event::Reset { line, stream, .. }
        | Event::Refused { line, stream, .. }) = event;
        let connection = self.line(line);
        if connection.stream != stream || connection.host != Some(host) || connection.awaited.is_none() {
            return;
        }
        match event {
            Event::Begun { .. } => return self.first_byte(line),
            Event::Part { .. } => {
                self.take_events(line, now);
                return;
            }
            _ => (connection.host, connection.stream) = (None, 0),
        }
        match event {
            Event::Begun { .. } | Event::Part { .. } => {}
            Event::Complete { .. } => {
                connection.awaited = None;
                self.line(host).reused = true;
                self.complete(line, now);
            }
            Event::Malformed { error, .. } => self.fail_stream(line, ErrorKind::Protocol, &error.to_string(), now),
            Event::Refused { others, .. } => self.refused(host, line, others, now),
            Event::Reset { code, .. } => {
                let message = format!("stream reset: {}", ErrorCode::name(code));
                self.fail_stream(line, ErrorKind::Reset, &message, now);
            }
        }
    }

    /// The server did not look at the request of `line`, which had a stream of `host`, but maybe at others: it is sent
    /// again.
    fn refused(&mut self, host: u32, line: u32, others: bool, now: u64) {
        let refusals = &mut self.line(line).refusals;
        refusals.add(others);
        let (times, elsewhere, too_many) = (refusals.times, refusals.leads_elsewhere(), refusals.too_many());
        if too_many {
            let message = format!("the server refused the stream {times} times");
            self.fail_stream(line, ErrorKind::Closed, &message, now);
            return;
        }
        if let (true, Some(client)) = (elsewhere, &mut self.line(host).h2) {
            client.retire();
        }
        self.again(host, line, now);
    }

    /// The request of `line`, of which `host` had a stream, will be sent once more.
    fn again(&mut self, host: u32, line: u32, now: u64) {
        self.measurement.result.sent += 1;
        self.measurement.result.repeated += 1;
        let connection = self.line(line);
        connection.wanted = now;
        connection.parser.begin_again();
        if is_shared_h2(host) {
            self.want_stream(line, now);
        } else {
            connection.host = Some(host);
            self.line(host).queue.push_back(line);
        }
    }

    /// Ends the transaction of one stream; the connection stays.
    pub(super) fn fail_stream(&mut self, line: u32, kind: ErrorKind, message: &str, now: u64) {
        let message = match &self.line(line).resource {
            Some(resource) => format!("{}: {message}", String::from_utf8_lossy(&resource.path)),
            None => message.to_string(),
        };
        let owner = self.owner(line);
        self.end(owner, Outcome::Failed(kind), &message, now);
    }

    /// The connection is gone: what may be sent again is, over another one.
    pub(super) fn lost_streams(&mut self, host: u32, kind: ErrorKind, now: u64) {
        let connection = self.line(host);
        let Some(client) = connection.h2.take() else { return };
        let reused = connection.reused;
        let mut lines: Vec<u32> = client.active().collect();
        if is_shared_h2(host) {
            lines.extend(connection.queue.drain(..));
            self.drop_shared_h2(host);
        } else {
            connection.close();
        }
        for line in lines {
            let connection = self.line(line);
            if connection.awaited.is_none() || connection.host != Some(host) {
                continue;
            }
            let started = connection.parser.started();
            if reused && !started && connection.retried && !connection.repeated {
                connection.repeated = true;
                self.again(host, line, now);
                continue;
            }
            let (kind, message) = match (kind, started) {
                (ErrorKind::Reset, _) => (kind, "connection reset"),
                (_, true) => (ErrorKind::Protocol, "connection closed inside a response"),
                _ => (kind, "connection closed before the response"),
            };
            self.fail_stream(line, kind, message, now);
        }
        if !is_shared_h2(host) {
            self.pump(host, now);
        }
    }

    /// The transaction of `slot` is over: its streams are too.
    pub(super) fn stop_streams(&mut self, slot: u32) {
        let mut hosts = Vec::new();
        for number in 0..=self.slots[slot as usize].extra_connections.len() {
            let line = if number == 0 { slot } else { self.slots[slot as usize].extra_connections[number - 1] | EXTRA };
            let connection = self.line(line);
            connection.resource = None;
            let (awaited, stream) = (connection.awaited.take(), std::mem::take(&mut connection.stream));
            let Some(host) = connection.host.take().filter(|_| awaited.is_some()) else { continue };
            if hosts.last() != Some(&host) {
                hosts.push(host);
            }
            let connection = self.line(host);
            connection.queue.retain(|other| *other != line);
            if let Some(client) = &mut connection.h2 {
                client.cancel(stream);
            }
        }
        hosts.into_iter().for_each(|host| self.write_streams(host));
    }
}
