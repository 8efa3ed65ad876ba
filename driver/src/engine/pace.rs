//! When sessions and their transactions start.

use super::{Connection, Engine, Slot, BACK_OFF, STARTS};
use crate::arrivals::{user_start, Model, Schedule};
use crate::measure::{ErrorKind, Outcome};
use crate::scenario::{PauseFrom, PauseShape};
use crate::session::{identity_of, Running, Session};
use crate::timer::on_grid;

impl Engine<'_> {
    pub(super) fn plan_arrivals(&mut self) {
        let settings = self.settings;
        if settings.model == Model::Closed {
            for user in (0..settings.users).filter(|user| settings.share.owns(*user)) {
                let due = match &settings.profile {
                    Some(profile) => profile.first_above(user as f64, 0),
                    None => self.in_window(0, user_start(user, settings.users, settings.rise())),
                };
                let Some(due) = due.map(|due| on_grid(due, settings.grid)) else { continue };
                if let Some(slot) = self.new_slot() {
                    self.set_next(slot, due, due);
                }
            }
        } else {
            let schedule = match &settings.profile {
                Some(profile) => {
                    Schedule::new(settings.model, profile, settings.bursts, &settings.phases, settings.seed)
                }
                None => Schedule::recorded(settings.recorded.clone(), &settings.phases),
            };
            let mut schedule = schedule.of(settings.share).on(settings.grid).within(settings.windows.clone());
            self.arrivals.next = schedule.next();
            self.arrivals.schedule = Some(schedule);
        }
    }

    /// Starts what is due at `now`; when the steady phase is over, nothing that is due later.
    pub(super) fn start_due(&mut self, now: u64) {
        if self.arrivals.draining {
            return;
        }
        let end = self.settings.phases.steady_end();
        let limit = now.min(end.saturating_sub(1));
        let mut starts = 0;
        while starts < STARTS {
            let waits = self.lacks_session(now); // the arrival does, for a look
            let arrival = self.arrivals.next.filter(|at| *at <= limit && !waits);
            let timer = self.arrivals.timers.next().filter(|at| *at <= limit);
            match (arrival, timer) {
                (Some(due), timer) if timer.is_none_or(|at| due <= at) => self.arrive(due),
                (_, Some(at)) => {
                    if let Some(slot) = self.arrivals.timers.pop_due(at) {
                        if self.settings.model == Model::Closed {
                            self.measurement.result.planned += 1;
                            self.measurement.result.started += 1;
                        }
                        self.take_up(slot);
                    }
                }
                _ => break,
            }
            starts += 1;
        }
        if now >= end && !self.lacks_session(now) {
            self.begin_draining(end);
        }
    }

    fn begin_draining(&mut self, end: u64) {
        self.arrivals.draining = true;
        while self.arrivals.timers.next().is_some_and(|at| at < end) {
            if let Some(slot) = self.arrivals.timers.pop_due(end) {
                self.measurement.result.planned += u64::from(self.settings.model == Model::Closed);
                self.measurement.slice.dropped.push(self.slots[slot as usize].due);
            }
        }
        self.arrivals.timers.clear();
        for due in self.arrivals.next.take().into_iter().chain(self.arrivals.schedule.take().into_iter().flatten()) {
            self.measurement.result.planned += 1;
            self.measurement.slice.dropped.push(due);
        }
        self.measurement.pending.clear();
        for Session { running, interrupted, .. } in self.slots.iter().map(|slot| &slot.session) {
            let waits = interrupted.iter().map(|(running, _)| running.due);
            running.iter().map(|running| running.due).chain(waits).for_each(|due| self.measurement.pending.add(due));
        }
    }

    fn arrive(&mut self, due: u64) {
        self.arrivals.next = self.arrivals.schedule.as_mut().and_then(Iterator::next);
        self.measurement.result.planned += 1;
        let slot = match self.sessions.resting.pop_front() {
            Some(slot) => Some(slot),
            None => self.new_slot(),
        };
        let Some(slot) = slot else {
            self.roll(due);
            self.measurement.result.dropped += 1;
            self.measurement.slice.dropped.push(due);
            return;
        };
        self.measurement.result.started += 1;
        self.measurement.pending.add(due);
        let at = &mut self.slots[slot as usize];
        (at.start_at, at.due, at.exact) = (due, due, due);
        let population = self.scenario.populations.at(at.session.population);
        at.left = population.session_length;
        if self.opens_transactions() && population.login.is_some() && !self.slots[slot as usize].session.logged_in {
            self.slots[slot as usize].waiting_due = Some(due);
        }
        self.take_up(slot);
    }

    /// A slot with a new session, unless the cap is reached.
    fn new_slot(&mut self) -> Option<u32> {
        if self.sessions.live >= self.settings.max_sessions {
            return None;
        }
        self.sessions.live += 1;
        let number = self.settings.share.nth(self.sessions.made) + 1;
        self.sessions.made += 1;
        let session = Session::new(self.scenario, &self.sessions.feeds, self.settings.seed, number);
        let transport = &self.settings.transport;
        let target = transport.choose(self.sessions.made, session.population);
        let source = transport.source(self.sessions.made);
        let pool = self.connections.pools.as_mut().map_or(0, |pools| pools.of(target, source));
        if let Some(slot) = self.sessions.dead.pop() {
            let at = &mut self.slots[slot as usize];
            at.session = session;
            (at.target, at.source, at.tls, at.pool) = (target, source, None, pool);
            (at.leaving, at.live, at.waiting_due, at.owns_identity) = (false, true, None, false);
            return Some(slot);
        }
        self.slots.push(Slot {
            session,
            target,
            source,
            tls: None,
            pool,
            connection: Connection::new(self.scenario.max_body),
            extra_connections: Vec::new(),
            socket: None,
            start_at: 0,
            due: 0,
            exact: 0,
            left: 0,
            leaving: false,
            waiting_due: None,
            owns_identity: false,
            live: true,
        });
        Some(self.slots.len() as u32 - 1)
    }

    /// The account the session in `slot` logs in as.
    pub(super) fn identity_for(&mut self, slot: u32) -> u64 {
        let at = &mut self.slots[slot as usize];
        if self.settings.model == Model::Closed {
            let (users, identities) = (self.settings.users, self.scenario.identities);
            return identity_of(at.session.number - 1, users, identities, at.session.logins);
        }
        if at.owns_identity {
            return at.session.identity;
        }
        match (self.sessions.identities.pop_front(), self.scenario.identities) {
            (Some(identity), _) => {
                at.owns_identity = true;
                identity
            }
            (None, Some(all)) => at.session.number % all + 1,
            (None, None) => self.settings.share.nth(u64::from(slot)) + 1,
        }
    }

    fn set_next(&mut self, slot: u32, start_at: u64, due: u64) {
        let at = &mut self.slots[slot as usize];
        (at.start_at, at.due, at.exact) = (start_at, due, due);
        self.measurement.pending.add(due);
        self.arrivals.timers.set(start_at, slot);
    }

    /// After a transaction: the next one, rest, or the end of the session.
    pub(super) fn follow_up(&mut self, slot: u32, ended: &Running, outcome: Outcome, now: u64) {
        let population = self.population(slot);
        let is_login = Some(ended.transaction) == population.login;
        let failed_login = is_login && outcome != Outcome::Ok;
        if self.opens_transactions() {
            let waiting = self.slots[slot as usize].waiting_due.take();
            match waiting {
                Some(due) if is_login && !failed_login && self.arrivals.draining => {
                    // It arrived before the end.
                    let at = &mut self.slots[slot as usize];
                    (at.start_at, at.due, at.exact) = (now, due, due);
                    self.measurement.pending.add(due);
                    self.take_up(slot);
                }
                Some(due) if is_login && !failed_login => self.set_next(slot, now, due),
                _ => self.sessions.resting.push_back(slot),
            }
            return;
        }
        let over = self.walk_on(slot, ended.transaction);
        if self.opens_sessions() {
            let at = &mut self.slots[slot as usize];
            if !is_login && !at.leaving {
                at.left = if over { 0 } else { at.left.saturating_sub(1) };
            }
            if self.arrivals.draining || failed_login || at.leaving {
                self.retire(slot);
                return;
            }
            if at.left == 0 {
                if population.logout.is_none() || !at.session.logged_in {
                    self.retire(slot);
                    return;
                }
                at.leaving = true;
            }
        }
        if self.arrivals.draining {
            return;
        }
        let pause = &population.pause;
        let length = self.slots[slot as usize].session.plan.pause(pause);
        let exact = match pause.measure {
            PauseFrom::End => ended.last_byte.filter(|_| outcome == Outcome::Ok).unwrap_or(now),
            PauseFrom::Due if pause.shape == PauseShape::None => now,
            PauseFrom::Due => self.slots[slot as usize].exact,
        };
        let Some(mut exact) = self.in_window(exact, length) else { return self.retire(slot) };
        let mut due = if length > 0 { on_grid(exact, self.settings.grid) } else { exact };
        let mut start_at = due.max(now);
        let lost = [ErrorKind::Connect, ErrorKind::Closed, ErrorKind::Reset].map(Outcome::Failed);
        let unsent = outcome == Outcome::Failed(ErrorKind::Template) && ended.first_byte.is_none();
        if (unsent || lost.contains(&outcome)) && start_at < now + BACK_OFF {
            start_at = now + BACK_OFF;
            (due, exact) = (start_at, start_at);
        }
        if let Some(windows) = &self.settings.windows {
            let Some(inside) = windows.inside(start_at) else { return self.retire(slot) };
            if inside > start_at {
                // It waited for the window, not for the server.
                (start_at, due, exact) = (inside, inside, inside);
            }
        }
        match self.absence(slot, now, start_at) {
            None => {
                self.set_next(slot, start_at, due);
                self.slots[slot as usize].exact = exact;
            }
            Some(None) => self.retire(slot),
            Some(Some(back)) => {
                self.hang_up(slot);
                self.slots[slot as usize].session.logged_in = false;
                let back = on_grid(back, self.settings.grid);
                self.set_next(slot, back, back);
            }
        }
    }

    /// The moment `length` after `from`, of time that passes; None where no window is left.
    fn in_window(&self, from: u64, length: u64) -> Option<u64> {
        match &self.settings.windows {
            Some(windows) => windows.moment(windows.passed(from) + length),
            None => Some(from + length),
        }
    }

    /// Whether the user in `slot` leaves, by the profile of users, before the next start; if so, when it comes back.
    fn absence(&self, slot: u32, now: u64, start_at: u64) -> Option<Option<u64>> {
        let profile = self.settings.profile.as_ref().filter(|_| self.settings.model == Model::Closed)?;
        let user = (self.slots[slot as usize].session.number - 1) as f64;
        let leaves = profile.first_not_above(user, now).filter(|at| *at <= start_at)?;
        Some(profile.first_above(user, leaves))
    }

    /// Moves on in the graph; true when the session is over. Closed users begin another one, after the logout.
    fn walk_on(&mut self, slot: u32, done: usize) -> bool {
        let population = self.population(slot);
        let Some(graph) = &population.graph else { return false };
        let closed = self.settings.model == Model::Closed;
        let at = &mut self.slots[slot as usize];
        if at.leaving {
            if closed {
                at.leaving = false;
                at.session.logged_in = false;
            }
            return true;
        }
        let over = !at.session.plan.move_on(graph, done);
        if self.scenario.transactions[done].ends_session {
            at.session.plan.start_over();
        }
        if over && closed {
            at.leaving = population.logout.is_some() && at.session.logged_in;
            at.session.logged_in = at.leaving;
        }
        over
    }

    fn retire(&mut self, slot: u32) {
        let at = &mut self.slots[slot as usize];
        if !at.live {
            return;
        }
        at.live = false;
        at.session.release();
        if at.owns_identity {
            self.sessions.identities.push_back(at.session.identity);
        }
        self.hang_up(slot);
        self.sessions.live -= 1;
        self.sessions.dead.push(slot);
    }
}
