//! Pages as a browser loads them: what a page embeds is fetched over a few connections at once.

use super::connection::{named, Connection, Fetch};
use super::{Engine, Slot, EXTRA};
use crate::http::request::Sent;
use crate::measure::{ErrorKind, Outcome};
use crate::scenario::Method;
use crate::select::{resources, Resource};
use std::collections::HashSet;

/// Resources a page may name.
const MOST_RESOURCES: usize = 4096;

/// One more connection of a session.
pub(super) struct ExtraConnection {
    pub slot: u32,
    pub connection: Connection,
}

impl Engine<'_> {
    /// Begins to fetch what the page just answered embeds, over at most `connections`; false when there is nothing
    /// to wait for.
    pub(super) fn fetch_embedded(&mut self, slot: u32, connections: u32, now: u64) -> bool {
        let connections = self.parallel(slot, connections);
        let at = &mut self.slots[slot as usize];
        let target = &self.settings.transport.targets[at.target];
        let Some(running) = &mut at.session.running else { return false };
        let mut queue: Vec<Vec<u8>> = Vec::new();
        let mut known = HashSet::new();
        for Resource { link, base } in resources(&at.connection.parser.body) {
            let path = target.follow_on(&link, &running.sent.path, base.as_deref());
            queue.extend(path.filter(|path| known.insert(path.clone())));
        }
        if queue.is_empty() {
            return false;
        }
        if queue.len() > MOST_RESOURCES {
            let message = format!("the page embeds more than {MOST_RESOURCES} resources");
            self.end(slot, Outcome::Failed(ErrorKind::Protocol), &message, now);
            return true;
        }
        queue.reverse(); // taken from the end
        running.embedded = queue;
        let mut line = Some(slot);
        for next in 0..connections {
            let Some(free) = line else { break };
            self.fetch(free, now);
            if self.slots[slot as usize].session.running.as_ref().is_none_or(|running| running.embedded.is_empty()) {
                break;
            }
            line = self.extra_connection(slot, next as usize);
        }
        true
    }

    /// The `number`-th further connection of the session in `slot`.
    fn extra_connection(&mut self, slot: u32, number: usize) -> Option<u32> {
        if let Some(extra) = self.slots[slot as usize].extra_connections.get(number) {
            return Some(*extra | EXTRA);
        }
        let extra = self.further_connection(slot);
        self.slots[slot as usize].extra_connections.push(extra);
        Some(extra | EXTRA)
    }

    /// One more connection of the session in `slot`.
    pub(super) fn further_connection(&mut self, slot: u32) -> u32 {
        if let Some(extra) = self.connections.spare_extra.pop() {
            self.connections.extra[extra as usize].slot = slot;
            return extra;
        }
        self.connections.extra.push(ExtraConnection { slot, connection: Connection::new(self.scenario.max_body) });
        self.connections.extra.len() as u32 - 1
    }

    /// Fetches the next resource of the page over `line`.
    fn fetch(&mut self, line: u32, now: u64) {
        let owner = self.owner(line);
        let Some(running) = &mut self.slots[owner as usize].session.running else { return };
        let Some(path) = running.embedded.pop() else { return };
        running.fetching += 1;
        self.ask(line, Fetch { path, redirects: 0 }, now);
    }

    fn ask(&mut self, line: u32, resource: Fetch, now: u64) {
        let owner = self.owner(line);
        let sent = Sent { method: Method::Get, path: resource.path.clone() };
        let mut out = std::mem::take(&mut self.line(line).out);
        let settings = self.settings;
        let closes = self.line(line).closes_with_next(settings.transport.requests_per_connection);
        let Slot { session, target, .. } = &mut self.slots[owner as usize];
        let target = &settings.transport.targets[*target];
        let written = session.resource(self.scenario, target, &sent, closes, &mut out, &mut self.scratch);
        let connection = self.line(line);
        connection.out = out;
        connection.keep_body = false;
        connection.parser.keep_headers = false;
        connection.parser.await_events(None);
        connection.resource = Some(resource);
        match written {
            Ok(()) => self.send(line, Method::Get, now),
            Err(error) => self.end(owner, Outcome::Failed(ErrorKind::Template), &error.to_string(), now),
        }
    }

    /// A resource is there, or its redirect: the next one, or the end of the page.
    pub(super) fn fetched(&mut self, line: u32, now: u64) {
        let owner = self.owner(line);
        let Some(mut resource) = self.line(line).resource.take() else { return };
        let connection = named(&mut self.slots, &mut self.connections.extra, &mut self.connections.shared_h2, line);
        if let Err(error) = connection.parser.decode(&mut self.scratch) {
            let message = format!("embedded {}: {error}", String::from_utf8_lossy(&resource.path));
            self.end(owner, Outcome::Failed(ErrorKind::Protocol), &message, now);
            return;
        }
        let head = &self.line(line).parser.head;
        let (status, location) = (head.status, head.location.clone());
        if let Some(running) = &self.slots[owner as usize].session.running {
            self.measurement.slice.transactions[running.transaction].status(status, 1);
        }
        let cookies = std::mem::take(&mut self.line(line).parser.head.cookies);
        let target = &self.settings.transport.targets[self.slots[owner as usize].target];
        let session = &mut self.slots[owner as usize].session;
        for cookie in &cookies {
            session.jar.store(cookie, &resource.path, target);
        }
        let mut failure = None;
        match (status, location) {
            (200..=299 | 304, _) => {}
            (301..=303 | 307 | 308, Some(location)) => {
                match target.follow(&location, &resource.path) {
                    // One that leads elsewhere belongs to a server that is not under test.
                    None => {}
                    Some(_) if resource.redirects >= self.scenario.follow => failure = Some(ErrorKind::Redirect),
                    Some(path) => {
                        resource.redirects += 1;
                        resource.path = path;
                        self.ask(line, resource, now);
                        return;
                    }
                }
            }
            _ => failure = Some(ErrorKind::of_status(status)),
        }
        if let Some(kind) = failure {
            let message = format!("embedded {}: status {status}", String::from_utf8_lossy(&resource.path));
            self.end(owner, Outcome::Failed(kind), &message, now);
            return;
        }
        let session = &mut self.slots[owner as usize].session;
        let Some(running) = &mut session.running else { return };
        running.fetching -= 1;
        if !running.embedded.is_empty() {
            self.fetch(line, now);
        } else if running.fetching == 0 {
            let next = session.next_step(self.scenario);
            self.go_to(owner, next, now);
        }
    }

    /// Closes what is still on its way for the session in `slot`.
    pub(super) fn stop_fetching(&mut self, slot: u32) {
        if self.shares_h2() || self.slots[slot as usize].connection.h2.is_some() {
            self.stop_streams(slot);
            return;
        }
        let at = &mut self.slots[slot as usize];
        at.connection.stop();
        for extra in &at.extra_connections {
            self.connections.extra[*extra as usize].connection.stop();
        }
    }

    /// Closes every connection of the session in `slot`, which is over.
    pub(super) fn hang_up(&mut self, slot: u32) {
        self.drop_socket(slot);
        let at = &mut self.slots[slot as usize];
        at.connection.forget();
        for extra in at.extra_connections.drain(..) {
            self.connections.extra[extra as usize].connection.forget();
            self.connections.spare_extra.push(extra);
        }
    }
}
