//! Shared connections over HTTP/2, as those of a gRPC client or a gateway: few connections, of each of which the
//! requests of many sessions are streams, as many at once as the server allows.

use super::connection::Connection;
use super::{awaits, Engine, SHARED_H2};
use crate::measure::ErrorKind;
use crate::transport::Http;
use std::collections::VecDeque;
use std::net::IpAddr;

/// Streams of a connection at once, where the server allows more.
const MOST_STREAMS: u32 = 1000;
/// Requests that wait for a connection to be made before another one is begun.
const EXPECTED: u32 = 100;

/// A connection over HTTP/2 that sessions share. It is a line of its own, which has no request.
pub(super) struct SharedH2 {
    pub connection: Connection,
    pub pool: u32,
    pub target: usize,
    pub source: Option<IpAddr>,
    /// The line whose request was the first to need it, and which request.
    opener: (u32, u64),
    /// When bytes came over it last.
    heard: u64,
}

impl Connection {
    fn is_greeted(&self) -> bool {
        self.h2.as_ref().is_some_and(|client| client.is_greeted())
    }

    /// Further requests it may be given, when `most` are allowed in all (0: any number).
    fn room(&self, most: u32) -> u32 {
        let (streams, opened) = match &self.h2 {
            Some(client) if client.is_leaving() => return 0,
            Some(client) if client.is_greeted() => {
                (client.most_streams().min(MOST_STREAMS).saturating_sub(client.under_way()), client.opened())
            }
            _ => (EXPECTED, 0),
        };
        let left = if most == 0 { u32::MAX } else { most.saturating_sub(opened) };
        streams.min(left).saturating_sub(self.queue.len() as u32)
    }

    /// Nothing goes over it any more, and nothing will.
    fn is_over(&self, most: u32) -> bool {
        self.queue.is_empty()
            && self
                .h2
                .as_ref()
                .is_some_and(|client| client.is_idle() && (client.is_leaving() || most > 0 && client.opened() >= most))
    }
}

impl Engine<'_> {
    /// Whether requests are streams of connections that sessions share.
    pub(super) fn shares_h2(&self) -> bool {
        self.connections.pools.is_some() && self.settings.transport.http == Http::Two
    }

    fn shared_h2_at(&mut self, host: u32) -> &mut SharedH2 {
        &mut self.connections.shared_h2[(host & !SHARED_H2) as usize]
    }

    /// The line whose transaction waits for `host` to be made, if it still does.
    pub(super) fn opener(&self, host: u32) -> Option<u32> {
        let (line, request) = self.connections.shared_h2[(host & !SHARED_H2) as usize].opener;
        awaits(&self.slots, &self.connections.extra, line, request).then_some(line)
    }

    /// Bytes came over `host`.
    pub(super) fn hear(&mut self, host: u32, now: u64) {
        self.shared_h2_at(host).heard = now;
    }

    /// The request of `line` takes a stream, makes a connection, or waits.
    pub(super) fn want_stream(&mut self, line: u32, now: u64) {
        let pool = self.slots[self.owner(line) as usize].pool;
        let Some(request) = self.line(line).awaited else { return };
        let first = self.connections.pools.as_ref().is_some_and(|pools| !pools.has_waiting(pool));
        if first && self.board(line, pool, now) {
            return;
        }
        if let Some(pools) = &mut self.connections.pools {
            pools.wait(pool, line, request);
        }
    }

    /// Finds the request of `line` a connection, the oldest one first; false where all are full and no other may be
    /// made.
    pub(super) fn board(&mut self, line: u32, pool: u32, now: u64) -> bool {
        let most = self.settings.transport.requests_per_connection;
        let mut at = 0;
        while let Some(host) = self.connections.pools.as_ref().and_then(|pools| pools.h2_connection(pool, at)) {
            let connection = self.line(host);
            if connection.room(most) > 0 {
                self.join(host, line, now);
                return true;
            }
            if connection.is_over(most) {
                self.drop_shared_h2(host);
                continue;
            }
            if connection.h2.as_ref().is_some_and(|client| client.is_greeted() && client.is_idle()) {
                return false; // the server allows no streams: further connections would not help
            }
            at += 1;
        }
        let room = self.connections.pools.as_ref().is_some_and(|pools| !pools.is_full(pool));
        if room {
            self.make_shared_h2(line, pool, now);
        }
        room
    }

    fn join(&mut self, host: u32, line: u32, now: u64) {
        self.line(line).host = Some(host);
        let connection = self.line(host);
        if connection.is_greeted() {
            self.open(host, line, now);
            self.write_streams(host);
        } else {
            connection.queue.push_back(line);
        }
    }

    fn make_shared_h2(&mut self, line: u32, pool: u32, now: u64) {
        let slot = &self.slots[self.owner(line) as usize];
        let (target, source) = (slot.target, slot.source);
        let opener = (line, self.line(line).awaited.unwrap_or(0));
        let number = match self.connections.spare_shared_h2.pop() {
            Some(number) => {
                let at = &mut self.connections.shared_h2[number as usize];
                (at.pool, at.target, at.source, at.opener, at.heard) = (pool, target, source, opener, now);
                number
            }
            None => {
                let connection = Connection::default();
                self.connections.shared_h2.push(SharedH2 { connection, pool, target, source, opener, heard: now });
                self.connections.shared_h2.len() as u32 - 1
            }
        };
        let host = number | SHARED_H2;
        if let Some(pools) = &mut self.connections.pools {
            pools.add_h2(pool, host);
        }
        self.join(host, line, now);
        self.connect(host, now);
    }

    /// Closes `host`; its requests have to be seen to.
    pub(super) fn drop_shared_h2(&mut self, host: u32) {
        let at = self.shared_h2_at(host);
        at.connection.close();
        at.connection.queue.clear();
        let pool = at.pool;
        if self.connections.pools.as_mut().is_some_and(|pools| pools.remove_h2(pool, host)) {
            self.connections.spare_shared_h2.push(host & !SHARED_H2);
        }
    }

    /// Opens streams for the requests that waited for `host`; those it has no room for go to others.
    pub(super) fn pump_shared_h2(&mut self, host: u32, now: u64) {
        let most = self.settings.transport.requests_per_connection;
        if !self.line(host).is_ready() {
            return;
        }
        if self.line(host).is_greeted() {
            let mut queue = std::mem::take(&mut self.line(host).queue);
            while self.line(host).room(most) > 0 {
                let Some(line) = queue.pop_front() else { break };
                self.open(host, line, now);
            }
            let unused = self.line(host).h2.as_ref().is_some_and(|client| client.is_leaving() && client.opened() == 0);
            if unused && !queue.is_empty() {
                self.line(host).queue = queue;
                self.fail_shared_h2(host, ErrorKind::Closed, "the server takes no requests", now);
                return;
            }
            self.send_elsewhere(self.connections.shared_h2[(host & !SHARED_H2) as usize].pool, queue);
        }
        self.write_streams(host);
        if self.line(host).is_over(most) {
            self.drop_shared_h2(host);
        }
    }

    /// The requests of `lines` wait for another connection, before all others.
    fn send_elsewhere(&mut self, pool: u32, lines: VecDeque<u32>) {
        for line in lines.into_iter().rev() {
            let connection = self.line(line);
            connection.host = None;
            if let (Some(request), Some(pools)) = (connection.awaited, &mut self.connections.pools) {
                pools.put_back(pool, line, request);
                pools.waited += 1;
            }
        }
    }

    /// The request of `line` has no response in time: its stream will be given up. The connection stays for the others,
    /// but takes no more where nothing at all came over it meanwhile.
    pub(super) fn overdue(&mut self, line: u32) {
        let connection = self.line(line);
        let (wanted, host) = (connection.wanted, connection.host);
        let Some(host) = host else { return };
        let at = self.shared_h2_at(host);
        if !at.connection.is_greeted() {
            let pool = at.pool;
            let mut others = std::mem::take(&mut at.connection.queue);
            others.retain(|other| *other != line);
            self.drop_shared_h2(host);
            self.send_elsewhere(pool, others);
        } else if at.heard < wanted {
            if let Some(client) = &mut at.connection.h2 {
                client.retire();
            }
        }
    }

    /// `host` could not be made or is useless: so end the transactions whose requests are its streams.
    pub(super) fn fail_shared_h2(&mut self, host: u32, kind: ErrorKind, message: &str, now: u64) {
        let connection = self.line(host);
        let mut lines: Vec<u32> = connection.h2.iter().flat_map(|client| client.active()).collect();
        lines.extend(connection.queue.drain(..));
        self.drop_shared_h2(host);
        for line in lines {
            let connection = self.line(line);
            if connection.awaited.is_some() && connection.host == Some(host) {
                self.fail_stream(line, kind, message, now);
            }
        }
    }
}
