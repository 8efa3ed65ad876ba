//! How connections come to be: connecting, TLS, what is spoken then.

use super::is_shared_h2;
use crate::engine::pool::{Lease, SHARED};
use crate::engine::{Engine, EXTRA, SHARED_H2};
use crate::measure::ErrorKind;
use crate::sys::socket::of_this_host;
use crate::sys::stream::Stream;
use crate::sys::tls::Records;
use crate::transport::Http;

impl Engine<'_> {
    /// Begins to connect, for the request of `line`, or for all that wait for a shared connection.
    pub(in crate::engine) fn connect(&mut self, line: u32, now: u64) {
        let settings = self.settings;
        let (target, source, pool) = if is_shared_h2(line) {
            let at = &self.connections.shared_h2[(line & !SHARED_H2) as usize];
            (at.target, at.source, at.pool)
        } else {
            let slot = &self.slots[self.owner(line) as usize];
            (slot.target, slot.source, slot.pool)
        };
        let target = &settings.transport.targets[target];
        let tls = match (&target.name, &settings.transport.tls) {
            (Some(name), Some(tls)) => {
                let owner = self.owner(line) as usize;
                let known = match &mut self.connections.pools {
                    Some(pools) => pools.tls(pool),
                    None => &mut self.slots[owner].tls,
                };
                let user = known.get_or_insert_with(|| tls.user());
                // Further connections of a user whose first one speaks HTTP/1.1 do so too.
                Records::new(user, name, line & EXTRA != 0).map(Some)
            }
            _ => Ok(None),
        };
        let lease = self.connections.pools.as_mut().map(|pools| pools.lease(pool, line));
        let connection = self.line(line);
        connection.generation = connection.generation.wrapping_add(1);
        connection.served = 1;
        let own = (u64::from(connection.generation) << 32 | u64::from(line)) & !SHARED;
        let token = lease.as_ref().map_or(own, Lease::token);
        connection.lease = lease;
        let made = tls
            .and_then(|tls| Stream::connect(&target.peer, source, tls))
            .and_then(|socket| self.poller.add(socket.fd(), token).map(|()| socket));
        match made {
            Ok(socket) => {
                if !self.settings.unstamped {
                    socket.ask_for_stamps();
                }
                let connection = self.line(line);
                connection.dialled = now;
                connection.socket = Some(socket);
                connection.connecting = true;
                connection.reused = false;
                let again = match &connection.lease {
                    None => std::mem::replace(&mut connection.had_one, true),
                    Some(_) => connection.repeated,
                };
                self.measurement.result.connects += 1;
                self.measurement.result.reconnects += u64::from(again);
            }
            Err(error) => {
                self.measurement.result.unmade += u64::from(of_this_host(&error));
                self.fail(line, ErrorKind::Connect, &error.to_string(), now);
            }
        }
    }

    pub(super) fn shake_hands(&mut self, line: u32, now: u64) {
        let connection = self.line(line);
        let Some(socket) = &mut connection.socket else { return };
        match socket.handshake() {
            Ok(false) => {}
            Ok(true) => {
                connection.handshaking = false;
                let (resumed, two) = socket.tls().map_or((false, false), |tls| (tls.resumed(), tls.is_h2()));
                self.measurement.result.tls_handshakes += 1;
                self.measurement.result.tls_resumed += u64::from(resumed);
                if self.settings.transport.http == Http::Two && !two && self.line(line).web.is_none() {
                    self.fail(line, ErrorKind::Connect, "the server does not offer HTTP/2 (ALPN)", now);
                    return;
                }
                self.line(line).spoke_h2 = two;
                let generation = self.line(line).generation;
                self.connected(line, now);
                if self.line(line).generation == generation {
                    self.receive(line, false); // what came along with the handshake
                }
            }
            Err(error) => {
                let text = format!("TLS handshake: {error}");
                self.fail(line, ErrorKind::Connect, text.trim_start_matches("TLS handshake: TLS: "), now);
            }
        }
    }

    /// Bytes of HTTP may be sent from now on.
    pub(super) fn connected(&mut self, line: u32, now: u64) {
        let known = self.settings.transport.http == Http::Two;
        let waits = if is_shared_h2(line) { self.opener(line) } else { Some(line) };
        let took = now.saturating_sub(self.line(line).dialled);
        let owner = waits.map(|line| self.owner(line));
        if let Some(running) = owner.and_then(|owner| self.slots[owner as usize].session.running.as_mut()) {
            *running.connecting.get_or_insert(0) += took;
        }
        let connection = self.line(line);
        let plain = connection.socket.as_ref().is_some_and(|socket| socket.tls().is_none());
        if connection.web.is_none() && if plain { known } else { connection.spoke_h2 } {
            self.begin_streams(line, now);
            return;
        }
        for other in std::mem::take(&mut connection.queue) {
            if other != line {
                self.connect(other, now);
            }
        }
        self.has_connection(line, now);
    }
}
