//! Shared connections over HTTP/2, as those of a gRPC client or a gateway: few trunks, of each of which the requests of
//! many sessions are streams, as many at once as the server allows.

use super::connection::Connection;
use super::{awaits, Engine, TRUNK};
use crate::measure::ErrorKind;
use crate::transport::Http;
use std::collections::VecDeque;
use std::net::IpAddr;

/// Streams of a trunk at once, where the server allows more.
const MOST_STREAMS: u32 = 1000;
/// Requests that wait for a trunk to be made before another one is begun.
const EXPECTED: u32 = 100;

/// A connection over HTTP/2 that sessions share. It is a line of its own, which has no request.
pub(super) struct Trunk {
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
    pub(super) fn has_trunks(&self) -> bool {
        self.pools.is_some() && self.settings.transport.http == Http::Two
    }

    fn trunk(&mut self, trunk: u32) -> &mut Trunk {
        &mut self.trunks[(trunk & !TRUNK) as usize]
    }

    /// The line whose transaction waits for `trunk` to be made, if it still does.
    pub(super) fn opener(&self, trunk: u32) -> Option<u32> {
        let (line, request) = self.trunks[(trunk & !TRUNK) as usize].opener;
        awaits(&self.slots, &self.lanes, line, request).then_some(line)
    }

    /// Bytes came over `trunk`.
    pub(super) fn hear(&mut self, trunk: u32, now: u64) {
        self.trunk(trunk).heard = now;
    }

    /// The request of `line` takes a stream, makes a trunk, or waits.
    pub(super) fn want_stream(&mut self, line: u32, now: u64) {
        let pool = self.slots[self.owner(line) as usize].pool;
        let Some(request) = self.line(line).awaited else { return };
        let first = self.pools.as_ref().is_some_and(|pools| !pools.has_waiting(pool));
        if first && self.board(line, pool, now) {
            return;
        }
        if let Some(pools) = &mut self.pools {
            pools.wait(pool, line, request);
        }
    }

    /// Finds the request of `line` a trunk, the oldest one first; false where all are full and no other may be made.
    pub(super) fn board(&mut self, line: u32, pool: u32, now: u64) -> bool {
        let most = self.settings.transport.requests_per_connection;
        let mut at = 0;
        while let Some(trunk) = self.pools.as_ref().and_then(|pools| pools.trunk(pool, at)) {
            let connection = self.line(trunk);
            if connection.room(most) > 0 {
                self.join(trunk, line, now);
                return true;
            }
            if connection.is_over(most) {
                self.drop_trunk(trunk);
                continue;
            }
            if connection.h2.as_ref().is_some_and(|client| client.is_greeted() && client.is_idle()) {
                return false; // the server allows no streams: further connections would not help
            }
            at += 1;
        }
        let room = self.pools.as_ref().is_some_and(|pools| !pools.is_full(pool));
        if room {
            self.make_trunk(line, pool, now);
        }
        room
    }

    fn join(&mut self, trunk: u32, line: u32, now: u64) {
        self.line(line).host = Some(trunk);
        let connection = self.line(trunk);
        if connection.is_greeted() {
            self.open(trunk, line, now);
            self.write_streams(trunk);
        } else {
            connection.queue.push_back(line);
        }
    }

    fn make_trunk(&mut self, line: u32, pool: u32, now: u64) {
        let slot = &self.slots[self.owner(line) as usize];
        let (target, source) = (slot.target, slot.source);
        let opener = (line, self.line(line).awaited.unwrap_or(0));
        let number = match self.spare_trunks.pop() {
            Some(number) => {
                let at = &mut self.trunks[number as usize];
                (at.pool, at.target, at.source, at.opener, at.heard) = (pool, target, source, opener, now);
                number
            }
            None => {
                let connection = Connection::default();
                self.trunks.push(Trunk { connection, pool, target, source, opener, heard: now });
                self.trunks.len() as u32 - 1
            }
        };
        let trunk = number | TRUNK;
        if let Some(pools) = &mut self.pools {
            pools.add_trunk(pool, trunk);
        }
        self.join(trunk, line, now);
        self.connect(trunk, now);
    }

    /// Closes `trunk`; its requests have to be seen to.
    pub(super) fn drop_trunk(&mut self, trunk: u32) {
        let at = self.trunk(trunk);
        at.connection.close();
        at.connection.queue.clear();
        let pool = at.pool;
        if self.pools.as_mut().is_some_and(|pools| pools.remove_trunk(pool, trunk)) {
            self.spare_trunks.push(trunk & !TRUNK);
        }
    }

    /// Opens streams for the requests that waited for `trunk`; those it has no room for go to others.
    pub(super) fn pump_trunk(&mut self, trunk: u32, now: u64) {
        let most = self.settings.transport.requests_per_connection;
        if !self.line(trunk).is_ready() {
            return;
        }
        if self.line(trunk).is_greeted() {
            let mut queue = std::mem::take(&mut self.line(trunk).queue);
            while self.line(trunk).room(most) > 0 {
                let Some(line) = queue.pop_front() else { break };
                self.open(trunk, line, now);
            }
            let unused = self.line(trunk).h2.as_ref().is_some_and(|client| client.is_leaving() && client.opened() == 0);
            if unused && !queue.is_empty() {
                self.line(trunk).queue = queue;
                self.fail_trunk(trunk, ErrorKind::Closed, "the server takes no requests", now);
                return;
            }
            self.send_elsewhere(self.trunks[(trunk & !TRUNK) as usize].pool, queue);
        }
        self.write_streams(trunk);
        if self.line(trunk).is_over(most) {
            self.drop_trunk(trunk);
        }
    }

    /// The requests of `lines` wait for another trunk, before all others.
    fn send_elsewhere(&mut self, pool: u32, lines: VecDeque<u32>) {
        for line in lines.into_iter().rev() {
            let connection = self.line(line);
            connection.host = None;
            if let (Some(request), Some(pools)) = (connection.awaited, &mut self.pools) {
                pools.put_back(pool, line, request);
                pools.waited += 1;
            }
        }
    }

    /// The request of `line` has no answer in time: its stream will be given up. The trunk stays for the others, but
    /// takes no more where nothing at all came over it meanwhile.
    pub(super) fn overdue(&mut self, line: u32) {
        let connection = self.line(line);
        let (wanted, host) = (connection.wanted, connection.host);
        let Some(trunk) = host else { return };
        let at = self.trunk(trunk);
        if !at.connection.is_greeted() {
            let pool = at.pool;
            let mut others = std::mem::take(&mut at.connection.queue);
            others.retain(|other| *other != line);
            self.drop_trunk(trunk);
            self.send_elsewhere(pool, others);
        } else if at.heard < wanted {
            if let Some(client) = &mut at.connection.h2 {
                client.retire();
            }
        }
    }

    /// `trunk` could not be made or is useless: so end the transactions whose requests are its streams.
    pub(super) fn fail_trunk(&mut self, trunk: u32, kind: ErrorKind, message: &str, now: u64) {
        let connection = self.line(trunk);
        let mut lines: Vec<u32> = connection.h2.iter().flat_map(|client| client.active()).collect();
        lines.extend(connection.queue.drain(..));
        self.drop_trunk(trunk);
        for line in lines {
            let connection = self.line(line);
            if connection.awaited.is_some() && connection.host == Some(trunk) {
                self.fail_stream(line, kind, message, now);
            }
        }
    }
}
