//! How the loop sleeps. The kernel stamps what it receives, so an answer that nothing waits for may lie there until
//! the loop is awake anyway; and the kernel wakes late, so the loop asks it to do so a little early.

use super::{awaits, Engine, LANE};
use crate::arrivals::Model;
use crate::scenario::{PauseFrom, PauseShape, Scenario};
use crate::timer::on_tick;
use std::cmp::Reverse;
use std::io;

/// An answer longer than this is read as it comes, or the server would wait for the driver.
const LONG: usize = 16 << 10;
/// A pause this many times as long as answers may lie makes it rare that something is due meanwhile.
const PAUSES: u64 = 20;
/// Answered requests that may be left in a heap.
const MOST_ANSWERED: usize = 1000;

/// What follows the last answer of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Unknown,
    /// Nothing at once.
    Calm,
    /// Another request at once (a redirect), or the answer is long.
    Restless,
}

impl Engine<'_> {
    /// Sleeps until something is to be done, and does what the sockets ask for.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        if !self.may_rest() {
            let unread = !self.unread.is_empty();
            let (aim, now) = (self.aim(), self.now());
            let found = self.serve_sockets(if unread { 0 } else { aim.saturating_sub(now) })?;
            if unread {
                self.read_on();
                self.serve_waiting();
            } else if found == 0 && aim > now {
                self.woke(aim);
            }
        } else {
            self.serve_sockets(0)?;
            let (aim, now) = (self.aim(), self.now());
            if aim > now && self.may_rest() {
                let until = aim.min(now + self.settings.gather).min(self.patience());
                self.poller.rest(until.saturating_sub(now));
                self.woke(until);
            }
        }
        if let Some(start) = self.next_start() {
            let lead = self.lead.ns();
            while (1..=lead).contains(&start.saturating_sub(self.now())) {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    /// When the kernel is to wake the loop.
    fn aim(&mut self) -> u64 {
        let start = self.next_start().map_or(u64::MAX, |at| at.saturating_sub(self.lead.ns()));
        self.next_other().min(start)
    }

    /// Waits for the sockets at most that long, and serves those that are ready. Starts that become due meanwhile do
    /// not wait for the rest of them.
    fn serve_sockets(&mut self, timeout: u64) -> io::Result<usize> {
        let found = self.poller.wait(timeout)?;
        for at in 0..found {
            let event = self.poller.event(at);
            self.on_event(event);
            self.serve_waiting();
            let now = self.now();
            if self.next_start().is_some_and(|start| start <= now) {
                self.start_due(now);
            }
        }
        Ok(found)
    }

    /// The kernel was asked to wake the loop at `aim`.
    fn woke(&mut self, aim: u64) {
        let now = self.now();
        if now >= aim {
            self.slice.timer.record(now - aim);
            self.lead.learn(now - aim);
        }
    }

    /// When the next transaction is to start.
    fn next_start(&self) -> Option<u64> {
        let next = [self.timers.next(), self.next_arrival].into_iter().flatten().min()?;
        Some(on_tick(next, self.settings.tick))
    }

    /// When anything else has to be done.
    fn next_other(&mut self) -> u64 {
        let (slots, lanes) = (&self.slots, &self.lanes);
        let live = |line: u32, request: u64| awaits(slots, lanes, line, request);
        let wake = self.boundary.min(self.deadlines.next(live).unwrap_or(u64::MAX));
        if !self.draining {
            return wake;
        }
        let end = self.settings.phases.end();
        wake.min(if self.in_flight == 0 { end } else { self.last_moment().max(end) })
    }

    /// Whether no answer under way has to be read at once.
    fn may_rest(&mut self) -> bool {
        while let Some((line, request)) = self.urgent.front() {
            if awaits(&self.slots, &self.lanes, *line, *request) {
                return false;
            }
            self.urgent.pop_front();
        }
        let patience = self.patience();
        self.stamping.holds()
            && (patience == u64::MAX || patience > self.now())
            && self.unread.is_empty()
            && self.in_flight > 0
            && self.settings.gather > 0
    }

    /// Until when all answers may lie that nothing else waits for: with cycle times a session's next transaction may
    /// be due before its answer is there, and then begins with it.
    fn patience(&mut self) -> u64 {
        while let Some(Reverse((next, line, request))) = self.patient.peek() {
            if awaits(&self.slots, &self.lanes, *line, *request) {
                return *next;
            }
            self.patient.pop();
        }
        u64::MAX
    }

    /// The due moment of the transaction after the one in `slot`, where it does not depend on the answer.
    fn next_due(&self, slot: u32) -> Option<u64> {
        let pause = &self.scenario.pause;
        if pause.measure != PauseFrom::Due || pause.shape == PauseShape::None || self.opens_transactions() {
            return None;
        }
        let session = &self.slots[slot as usize].session;
        let running = session.running.as_ref()?;
        Some(running.due + session.plan.pause_after(self.scenario, running.transaction))
    }

    /// Notes whether the answer to the request just sent over `line` has to be read at once: unless it ends a
    /// transaction over an open connection after which nothing is due at once.
    pub(super) fn note_urgency(&mut self, line: u32, request: u64, open: bool) {
        let calm = open && line & LANE == 0 && self.pauses() && {
            let slot = &self.slots[line as usize];
            slot.session.running.as_ref().is_some_and(|running| {
                let transaction = &self.scenario.transactions[running.transaction];
                self.manners[running.transaction] == Manner::Calm
                    && running.step + 1 == transaction.requests.len()
                    && transaction.loops.is_empty()
                    && transaction.requests[running.step].embedded.is_none()
                    && slot.waiting_due.is_none()
            })
        };
        if !calm {
            self.urgent.push_back((line, request));
        } else if let Some(next) = self.next_due(line) {
            self.patient.push(Reverse((next, line, request)));
            if self.patient.len() > MOST_ANSWERED + 2 * self.in_flight as usize {
                let (slots, lanes) = (&self.slots, &self.lanes);
                self.patient.retain(|Reverse((_, line, request))| awaits(slots, lanes, *line, *request));
            }
        }
    }

    /// Whether sessions rest after a transaction, and a late end of one changes nothing.
    fn pauses(&self) -> bool {
        if self.settings.model != Model::Closed && self.live >= self.settings.max_sessions {
            return false;
        }
        let pause = &self.scenario.pause;
        self.opens_transactions() || pause.shape != PauseShape::None && pause.mean >= PAUSES * self.settings.gather
    }

    /// The transaction in `slot` got `count` bytes of an answer at once, or is redirected.
    pub(super) fn observe(&mut self, slot: u32, count: usize, redirected: bool) {
        if let Some(running) = &self.slots[slot as usize].session.running {
            let manner = &mut self.manners[running.transaction];
            if redirected || count > LONG {
                *manner = Manner::Restless;
            } else if *manner == Manner::Unknown {
                *manner = Manner::Calm;
            }
        }
    }
}

pub(super) fn manners(scenario: &Scenario) -> Vec<Manner> {
    vec![Manner::Unknown; scenario.transactions.len()]
}
