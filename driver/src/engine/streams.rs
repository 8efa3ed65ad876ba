//! Sessions over HTTP/2: all their requests are streams of one connection.

use super::{Engine, LANE};
use crate::http::h2::{Answers, Client, ErrorCode, Event};
use crate::http::response::Parser;
use crate::measure::{ErrorKind, Outcome};
use crate::transport::Http;
use std::io::ErrorKind as Io;

/// Streams a browser has open at once.
const BROWSER_STREAMS: u32 = 100;

impl Answers for Engine<'_> {
    fn parser(&mut self, line: u32) -> &mut Parser {
        &mut self.line(line).parser
    }
}

impl Engine<'_> {
    /// Whether the request of `line` is a stream of its session's connection.
    pub(super) fn shares(&mut self, line: u32) -> bool {
        let owner = self.owner(line);
        let host = self.line(owner);
        if host.h2.is_some() || host.spoke_h2 {
            return true;
        }
        let http = self.settings.transport.http;
        http == Http::Two
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
        let slot = self.owner(line);
        self.slots[slot as usize].connection.queue.push_back(line);
        self.pump(slot, now);
    }

    /// The connection of `slot` is there and speaks HTTP/2.
    pub(super) fn begin_streams(&mut self, slot: u32, now: u64) {
        let connection = &mut self.slots[slot as usize].connection;
        connection.h2 = Some(Box::new(Client::new()));
        connection.spoke_h2 = true;
        self.result.http2_connections += 1;
        if connection.queue.is_empty() && connection.awaited.is_some() {
            connection.queue.push_back(slot);
        }
        self.pump(slot, now);
    }

    /// Opens streams for what waits, over a new connection where the old one takes no more.
    fn pump(&mut self, slot: u32, now: u64) {
        let most = self.settings.transport.requests_per_connection;
        loop {
            let connection = &mut self.slots[slot as usize].connection;
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
                connection.close();
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

    fn open(&mut self, slot: u32, line: u32, now: u64) {
        if self.line(line).awaited.is_none() {
            return;
        }
        let secure = self.settings.transport.targets[self.slots[slot as usize].target].secure();
        let Some(mut client) = self.slots[slot as usize].connection.h2.take() else { return };
        let connection = self.line(line);
        connection.stream = client.open(line, secure, &connection.out);
        let waited = now.saturating_sub(connection.wanted);
        let at = &mut self.slots[slot as usize];
        at.connection.h2 = Some(client);
        if let Some(running) = &mut at.session.running {
            running.blocked += waited;
            running.first_byte.get_or_insert(now);
        }
    }

    /// Writes what the streams have to say, as far as the socket takes it.
    pub(super) fn write_streams(&mut self, slot: u32) {
        let connection = &mut self.slots[slot as usize].connection;
        let (Some(client), Some(socket)) = (&mut connection.h2, &mut connection.socket) else { return };
        while !client.unsent().is_empty() {
            match socket.write(client.unsent()) {
                Ok(count) => {
                    client.wrote(count);
                    self.result.bytes_out += count as u64;
                }
                Err(error) if error.kind() == Io::Interrupted => {}
                Err(error) => {
                    connection.was_reset |= error.kind() == Io::ConnectionReset;
                    return; // later, or never: reading tells
                }
            }
        }
    }

    /// The first `count` bytes of the buffer came over the connection of `slot`.
    pub(super) fn feed_streams(&mut self, slot: u32, count: usize, now: u64) {
        let connection = &mut self.slots[slot as usize].connection;
        let generation = connection.generation;
        let Some(mut client) = connection.h2.take() else { return };
        let buffer = std::mem::take(&mut self.read_buffer);
        let mut events = std::mem::take(&mut self.events);
        let fed = client.feed(&buffer[..count], self, &mut events);
        if let Err(broken) = &fed {
            client.leave(broken);
        }
        self.read_buffer = buffer;
        self.slots[slot as usize].connection.h2 = Some(client);
        for event in events.drain(..) {
            if self.slots[slot as usize].connection.generation == generation {
                self.on_stream(slot, event, now);
            }
        }
        self.events = events;
        let connection = &mut self.slots[slot as usize].connection;
        if connection.generation != generation || connection.h2.is_none() {
            return;
        }
        if let Err(broken) = fed {
            self.write_streams(slot);
            let message = format!("HTTP/2: {}", broken.message);
            self.fail(slot, ErrorKind::Protocol, &message, now);
            return;
        }
        self.pump(slot, now);
    }

    fn on_stream(&mut self, slot: u32, event: Event, now: u64) {
        let (Event::Complete { line, stream }
        | Event::Malformed { line, stream, .. }
        | Event::Reset { line, stream, .. }
        | Event::Refused { line, stream }) = event;
        let connection = self.line(line);
        if connection.stream != stream || connection.awaited.is_none() {
            return;
        }
        connection.stream = 0;
        match event {
            Event::Complete { .. } => {
                connection.awaited = None;
                self.slots[slot as usize].connection.reused = true;
                self.complete(line, now);
            }
            Event::Malformed { error, .. } => self.fail_stream(line, ErrorKind::Protocol, &error.to_string(), now),
            Event::Refused { .. } if !connection.repeated => {
                connection.repeated = true;
                self.again(slot, line, now);
            }
            Event::Refused { .. } => self.fail_stream(line, ErrorKind::Closed, "the server refused the stream", now),
            Event::Reset { code, .. } => {
                let message = format!("stream reset: {}", ErrorCode::name(code));
                self.fail_stream(line, ErrorKind::Reset, &message, now);
            }
        }
    }

    /// Sends the request of `line` once more.
    fn again(&mut self, slot: u32, line: u32, now: u64) {
        let connection = self.line(line);
        connection.wanted = now;
        connection.parser.begin_again();
        self.result.requests += 1;
        self.slots[slot as usize].connection.queue.push_back(line);
    }

    /// Ends the transaction of one stream; the connection stays.
    fn fail_stream(&mut self, line: u32, kind: ErrorKind, message: &str, now: u64) {
        let message = match &self.line(line).resource {
            Some(resource) => format!("{}: {message}", String::from_utf8_lossy(&resource.path)),
            None => message.to_string(),
        };
        let owner = self.owner(line);
        self.end(owner, Outcome::Failed(kind), &message, now);
    }

    /// The connection is gone: what may be sent again is, over a new one.
    pub(super) fn lost_streams(&mut self, slot: u32, kind: ErrorKind, now: u64) {
        let connection = &mut self.slots[slot as usize].connection;
        let Some(client) = connection.h2.take() else { return };
        let reused = connection.reused;
        connection.close();
        let lines: Vec<u32> = client.active().map(|(line, _)| line).collect();
        for line in lines {
            let connection = self.line(line);
            if connection.awaited.is_none() {
                continue;
            }
            let started = connection.parser.started();
            if reused && !started && connection.retried && !connection.repeated {
                connection.repeated = true;
                self.again(slot, line, now);
                continue;
            }
            let (kind, message) = match (kind, started) {
                (ErrorKind::Reset, _) => (kind, "connection reset"),
                (_, true) => (ErrorKind::Protocol, "connection closed inside a response"),
                _ => (kind, "connection closed before the answer"),
            };
            self.fail_stream(line, kind, message, now);
            return;
        }
        self.pump(slot, now);
    }

    /// The transaction of `slot` is over: its streams are too.
    pub(super) fn stop_streams(&mut self, slot: u32) {
        let at = &mut self.slots[slot as usize];
        at.connection.queue.clear();
        let own = at.connection.awaited.take();
        at.connection.resource = None;
        let mut any = own.is_some();
        for lane in &at.lanes {
            let connection = &mut self.lanes[*lane as usize].connection;
            connection.resource = None;
            any |= connection.awaited.take().is_some();
        }
        if let (true, Some(client)) = (any, &mut at.connection.h2) {
            client.cancel();
            self.write_streams(slot);
        }
        debug_assert!(slot & LANE == 0);
    }
}
