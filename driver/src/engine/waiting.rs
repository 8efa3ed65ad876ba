//! How the loop sleeps. The kernel stamps what it receives, so a response that nothing waits for may stay unread in the
//! socket buffer until the loop is awake anyway; and the kernel wakes late, so the loop asks it to do so a little
//! early.

use super::{awaits, Engine, EXTRA};
use crate::arrivals::Model;
use crate::scenario::{PauseFrom, PauseShape};
use std::cmp::Reverse;
use std::io;

/// A response longer than this is read as it comes, or the server would wait for the driver.
const LONG: u64 = 16 << 10;
/// A shorter pause than this is hardly longer than the response takes: sleeping through it gains nothing.
const SHORT: u64 = 1_000_000;
/// Sockets with deferred reads are polled this often, or the loop would ask once for each.
const POLL_EVERY: u64 = 1_000_000;
/// The loop looks at the sockets before a start, and not after it, when it is awake so long before it.
const LOOK: u64 = 25_000;
/// A start that is so near comes before the next socket's turn.
const TURN: u64 = 10_000;
/// Looks in a row while every one finds as many sockets as it can.
const MOST_LOOKS: usize = 100;
/// Answered requests that may be left in a heap.
const MOST_ANSWERED: usize = 1000;

/// What follows the last response of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Continuation {
    Unknown,
    /// Nothing at once.
    Pause,
    /// Another request at once (a redirect), or the response is long.
    Request,
}

/// A response that may stay unread until it is needed: a deferred read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeferredRead {
    needed: u64,
    line: u32,
    request: u64,
    /// The pause that begins with the response; 0 where it began with the transaction.
    pause: u64,
}

impl Engine<'_> {
    /// Sleeps until something is to be done, and does what the sockets ask for.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        let now = self.now();
        if self.may_rest() && (self.poll_due(now) || self.defers_until() <= now) {
            self.serve_sockets(0)?;
        }
        let rests = self.may_rest();
        let (aim, now) = (self.aim(), self.now());
        let deferred_until = self.defers_until();
        if rests && deferred_until > now {
            // In the past where serving the sockets took longer than responses may stay unread: then they are looked at
            // again.
            let until = aim.min(self.reading.surveyed + self.settings.gather).min(deferred_until);
            if until > now {
                let after = self.arrivals.start_after().map_or(0, |at| at.saturating_sub(self.clock.lead.ns()));
                let rung = self.alarms.sleep(now, until, after);
                self.woke(rung);
            }
        } else {
            let unread = !self.connections.unread.is_empty();
            let found = self.serve_sockets(if unread { 0 } else { aim.saturating_sub(now) })?;
            if unread {
                self.read_on();
                self.serve_waiting();
            } else if found == 0 && aim > now {
                self.woke(aim);
            }
        }
        self.await_start()
    }

    /// Whether it is time to look for responses whose reading is deferred.
    pub(super) fn poll_due(&self, now: u64) -> bool {
        now >= self.reading.surveyed + POLL_EVERY.min(self.settings.gather / 2)
    }

    /// Spends the rest of the lead: with the sockets where there is time, then waiting for the start.
    fn await_start(&mut self) -> io::Result<()> {
        let Some(start) = self.arrivals.next_start() else { return Ok(()) };
        let lead = self.clock.lead.ns();
        let now = self.now();
        if (LOOK..=lead).contains(&start.saturating_sub(now)) && self.poll_due(now) && self.may_rest() {
            self.serve_sockets(0)?;
        }
        self.stay_awake(lead);
        Ok(())
    }

    /// Waits for a start at most `longest` away.
    fn stay_awake(&self, longest: u64) {
        let Some(start) = self.arrivals.next_start() else { return };
        while (1..=longest).contains(&start.saturating_sub(self.now())) {
            std::hint::spin_loop();
        }
    }

    /// When the kernel is to wake the loop.
    fn aim(&mut self) -> u64 {
        let start = self.arrivals.next_start().map_or(u64::MAX, |at| at.saturating_sub(self.clock.lead.ns()));
        self.next_other().min(start)
    }

    /// Waits for the sockets at most that long, and serves those that are ready. Starts that become due meanwhile do
    /// not wait for the rest of them.
    pub(super) fn serve_sockets(&mut self, timeout: u64) -> io::Result<usize> {
        let before = self.now();
        let found = self.poller.wait(timeout)?;
        self.reading.looked = before;
        for at in 0..found {
            let event = self.poller.event(at);
            self.stay_awake(TURN.min(self.clock.lead.ns()));
            let now = self.now();
            if self.arrivals.next_start().is_some_and(|start| start <= now) {
                self.start_due(now);
            }
            self.on_event(event);
            self.serve_waiting();
        }
        if !self.poller.is_full(found) {
            self.reading.surveyed = before;
        }
        Ok(found)
    }

    /// Serves all sockets that are ready now, and reads them to their end or a turn further.
    pub(super) fn serve_all(&mut self) -> io::Result<()> {
        for _ in 0..MOST_LOOKS {
            let found = self.serve_sockets(0)?;
            self.read_on();
            if !self.poller.is_full(found) {
                break;
            }
        }
        Ok(())
    }

    /// The kernel was asked to wake the loop at `aim`.
    fn woke(&mut self, aim: u64) {
        let now = self.now();
        if now >= aim {
            self.measurement.slice.timer.record(now - aim);
            self.clock.lead.learn(now - aim);
        }
    }

    /// When anything else has to be done.
    fn next_other(&mut self) -> u64 {
        let (slots, extra) = (&self.slots, &self.connections.extra);
        let live = |line: u32, request: u64| awaits(slots, extra, line, request);
        let wake = self.measurement.boundary.min(self.connections.deadlines.next(live).unwrap_or(u64::MAX));
        if !self.arrivals.draining {
            return wake;
        }
        let end = self.settings.phases.end();
        wake.min(if self.measurement.in_flight == 0 { end } else { self.last_moment().max(end) })
    }

    /// Whether no response under way has to be read at once, unless one is [needed](Engine::defers_until).
    fn may_rest(&mut self) -> bool {
        let (slots, extra) = (&self.slots, &self.connections.extra);
        self.reading.urgent.next(|line, request| awaits(slots, extra, line, request)).is_none()
            && self.reading.stamping.holds()
            && self.connections.unread.is_empty()
            && self.measurement.in_flight > 0
            && self.settings.gather > 0
    }

    /// Until when the reading of all responses may be deferred that nothing else waits for: early enough for the next
    /// transaction of one of their sessions to start in time.
    fn defers_until(&mut self) -> u64 {
        self.needed_first().saturating_sub(self.clock.lead.ns() + TURN)
    }

    /// When the first of their sessions' next transactions may be due.
    fn needed_first(&mut self) -> u64 {
        while let Some(Reverse(read)) = self.reading.deferred.peek() {
            let read = *read;
            if !awaits(&self.slots, &self.connections.extra, read.line, read.request) {
                self.reading.deferred.pop();
                continue;
            }
            // It was not there when all sockets were looked at, so its pause begins after that.
            let needed = self.reading.surveyed.saturating_add(read.pause);
            if read.pause == 0 || needed <= read.needed {
                return read.needed;
            }
            self.reading.deferred.pop();
            self.reading.deferred.push(Reverse(DeferredRead { needed, ..read }));
        }
        u64::MAX
    }

    /// The response that the session in `slot` awaits to `request`, sent at `now`: when it is needed, for the next
    /// transaction may be due. None where it may stay unread for ever.
    fn needed(&self, line: u32, request: u64, now: u64) -> Option<DeferredRead> {
        if self.opens_transactions() {
            return None;
        }
        let population = self.population(line);
        let slot = &self.slots[line as usize];
        let running = slot.session.running.as_ref()?;
        let pause = slot.session.plan.pause_after(population, running.transaction);
        Some(match population.pause.measure {
            PauseFrom::Due => DeferredRead { needed: slot.exact + pause, line, request, pause: 0 },
            PauseFrom::End => DeferredRead { needed: now + pause, line, request, pause },
        })
    }

    /// Notes whether the response to the request just sent over `line` has to be read at once: unless it ends a
    /// transaction over an open connection after which nothing is due at once.
    pub(super) fn note_urgency(&mut self, line: u32, request: u64, open: bool, now: u64) {
        let calm = open && line & EXTRA == 0 && self.pauses(line) && {
            let slot = &self.slots[line as usize];
            let streams = slot.connection.h2.is_some() || slot.connection.spoke_h2; // its frames do not wait
            !streams
                && slot.session.running.as_ref().is_some_and(|running| {
                    let transaction = &self.scenario.transactions[running.transaction];
                    self.reading.continuations[running.transaction] == Continuation::Pause
                        && running.step + 1 == transaction.requests.len()
                        && transaction.loops.is_empty()
                        && transaction.requests[running.step].embedded.is_none()
                        && transaction.requests[running.step].wait.is_none()
                        && slot.waiting_due.is_none()
                })
        };
        if !calm {
            self.reading.urgent.set(now, line, request);
        } else if let Some(read) = self.needed(line, request, now) {
            if read.needed < now + SHORT {
                self.reading.urgent.set(now, line, request);
                return;
            }
            self.reading.deferred.push(Reverse(read));
            if self.reading.deferred.len() > MOST_ANSWERED + 2 * self.measurement.in_flight as usize {
                let (slots, extra) = (&self.slots, &self.connections.extra);
                self.reading.deferred.retain(|Reverse(read)| awaits(slots, extra, read.line, read.request));
            }
        }
    }

    /// Whether transactions are due at `now` for which no session rests, though the response of one may be there,
    /// unread.
    pub(super) fn lacks_session(&self, now: u64) -> bool {
        self.opens_transactions()
            && self.sessions.resting.is_empty()
            && self.measurement.in_flight > 0
            && self.reading.looked < now
            && self.arrivals.next.is_some_and(|due| due <= now)
    }

    /// Whether the session in `slot` rests after a transaction, and a late end of one changes nothing.
    fn pauses(&self, slot: u32) -> bool {
        if self.settings.model != Model::Closed && self.sessions.live >= self.settings.max_sessions {
            return false;
        }
        self.opens_transactions() || self.population(slot).pause.shape != PauseShape::None
    }

    /// The transaction in `slot` got a response of so many bytes, or is redirected.
    pub(super) fn observe(&mut self, slot: u32, length: u64, redirected: bool) {
        if let Some(running) = &self.slots[slot as usize].session.running {
            let continuation = &mut self.reading.continuations[running.transaction];
            if redirected || length > LONG {
                *continuation = Continuation::Request;
            } else if *continuation == Continuation::Unknown {
                *continuation = Continuation::Pause;
            }
        }
    }
}
