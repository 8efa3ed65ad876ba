//! What the engine keeps, cut along what changes together.

use super::embedded::ExtraConnection;
use super::pool::Pools;
use super::shared_h2::SharedH2;
use super::waiting::{Continuation, DeferredRead};
use super::Settings;
use crate::arrivals::{Model, Phases, Schedule};
use crate::feeds::Feeds;
use crate::http::h2;
use crate::measure::pending::Pending;
use crate::measure::slice::Work;
use crate::measure::summary::LoopResult;
use crate::measure::writer::Outlet;
use crate::measure::{Ended, Outcome, Slice};
use crate::scenario::Scenario;
use crate::sys::process::Cpu;
use crate::sys::stamp::{Clock, Stamping};
use crate::timer::{Lead, Requests, Timers};
use crate::transport::Http;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;
use std::time::Instant;

const SECOND: u64 = 1_000_000_000;
/// Cleared slices that are kept: more were made while the writer was late.
const SPARE: usize = 2;
/// Identities that are kept in a queue at most.
const MOST_IDENTITIES: u64 = 10_000_000;

/// The moments of the run: nanoseconds since its start.
pub(super) struct EngineClock {
    start: Instant,
    /// Of the kernel's receive timestamps.
    pub stamps: Clock,
    /// How early the kernel is asked to wake the loop.
    pub lead: Lead,
}

impl EngineClock {
    pub fn new(start: Instant, lead: u64) -> Self {
        EngineClock { start, stamps: Clock::new(start), lead: Lead::new(lead) }
    }

    pub fn begin(&mut self, start: Instant) {
        self.start = start;
        self.stamps = Clock::new(start);
    }

    pub fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

/// What is due when.
#[derive(Default)]
pub(super) struct Arrivals {
    /// The next transactions of sessions.
    pub timers: Timers,
    /// Open arrivals, and the next of them.
    pub schedule: Option<Schedule>,
    pub next: Option<u64>,
    /// Nothing new starts.
    pub draining: bool,
}

impl Arrivals {
    /// When the next transaction is to start.
    pub fn next_start(&self) -> Option<u64> {
        [self.timers.next(), self.next].into_iter().flatten().min()
    }

    /// When the first one after that is to start.
    pub fn start_after(&self) -> Option<u64> {
        let next = self.next_start()?;
        let arrival = self.next.filter(|at| *at > next);
        [arrival, self.timers.later_than(next)].into_iter().flatten().min()
    }
}

/// The sessions besides their slots.
pub(super) struct Sessions {
    pub made: u64,
    pub live: usize,
    /// Dead slots, for new sessions.
    pub dead: Vec<u32>,
    /// At rest when transactions arrive.
    pub resting: VecDeque<u32>,
    pub identities: VecDeque<u64>,
    pub feeds: Rc<Feeds>,
}

impl Sessions {
    pub fn new(scenario: &Scenario, settings: &Settings) -> Self {
        let identities = match (settings.model, scenario.identities) {
            (Model::Constant | Model::Poisson | Model::Replay, Some(all)) => {
                (1..=all.min(MOST_IDENTITIES)).filter(|identity| settings.share.owns(identity - 1)).collect()
            }
            _ => VecDeque::new(),
        };
        Sessions {
            made: 0,
            live: 0,
            dead: Vec::new(),
            resting: VecDeque::new(),
            identities,
            feeds: Rc::new(Feeds::new(Rc::clone(&scenario.feeds), settings.share)),
        }
    }
}

/// Connections besides those of the slots, and the requests that are under way over all of them.
pub(super) struct Connections {
    pub extra: Vec<ExtraConnection>,
    pub spare_extra: Vec<u32>,
    pub shared_h2: Vec<SharedH2>,
    pub spare_shared_h2: Vec<u32>,
    /// Where sessions share them.
    pub pools: Option<Pools>,
    /// Some may have several requests under way.
    pub may_share: bool,
    pub requests_made: u64,
    pub deadlines: Requests,
    /// Connections that were not read to their end.
    pub unread: Vec<(u64, bool)>,
    pub events: Vec<h2::Event>,
    pub read_buffer: Vec<u8>,
    /// When the bytes read last came in.
    pub arrived: u64,
}

impl Connections {
    pub fn new(settings: &Settings) -> Self {
        Connections {
            extra: Vec::new(),
            spare_extra: Vec::new(),
            shared_h2: Vec::new(),
            spare_shared_h2: Vec::new(),
            pools: settings.transport.shared.map(Pools::new),
            may_share: match settings.transport.http {
                Http::Auto => settings.transport.tls.is_some(),
                Http::One => false,
                Http::Two => true,
            },
            requests_made: 0,
            deadlines: Requests::default(),
            unread: Vec::new(),
            events: Vec::new(),
            read_buffer: vec![0; 64 << 10],
            arrived: 0,
        }
    }
}

/// What is known of responses under way: which are read at once, and how long the others may stay unread.
#[derive(Default)]
pub(super) struct Reading {
    /// Requests whose responses are to be read at once, in the order they were sent.
    pub urgent: Requests,
    /// The others, of sessions that rest after them.
    pub deferred: BinaryHeap<Reverse<DeferredRead>>,
    /// When the loop last began to look at all sockets, and when at as many as it can at once.
    pub surveyed: u64,
    pub looked: u64,
    /// What followed each transaction's last response.
    pub continuations: Vec<Continuation>,
    /// Whether the kernel stamps what it receives.
    pub stamping: Stamping,
}

impl Reading {
    pub fn new(scenario: &Scenario) -> Self {
        Reading { continuations: vec![Continuation::Unknown; scenario.transactions.len()], ..Reading::default() }
    }
}

/// The slice under way, and where full ones go.
pub(super) struct Measurement {
    pub slice: Slice,
    /// Its end.
    pub boundary: u64,
    /// Transactions in flight, integrated up to `advanced`.
    pub in_flight: u64,
    /// Transactions that were taken up or are to be.
    pub pending: Pending,
    advanced: u64,
    outlet: Outlet,
    /// Cleared slices.
    spare: Vec<Slice>,
    /// The writer is gone.
    pub broken: bool,
    pub result: LoopResult,
    /// CPU of the loop's thread at the beginning of the steady phase, and at the end of the last slice.
    pub steady_cpu_from: Option<f64>,
    pub slice_cpu: f64,
}

impl Measurement {
    pub fn new(scenario: &Scenario, settings: &Settings, outlet: Outlet) -> Self {
        let phases = &settings.phases;
        let mut slice = Slice::new(scenario.transactions.len(), settings.records);
        slice.phase = phases.at(0);
        Measurement {
            slice,
            boundary: boundary_after(phases, 0),
            in_flight: 0,
            pending: Pending::new(phases.steady_end()),
            advanced: 0,
            outlet,
            spare: Vec::new(),
            broken: false,
            result: LoopResult::default(),
            steady_cpu_from: None,
            slice_cpu: 0.0,
        }
    }

    /// The run begins.
    pub fn begin(&mut self, phases: &Phases) {
        if phases.ramp_up == 0 {
            self.steady_cpu_from = Some(Cpu::of_thread().total());
        }
    }

    /// Integrates the transactions in flight up to `now`.
    pub fn advance(&mut self, now: u64) {
        if now > self.advanced {
            self.slice.area += u128::from(self.in_flight) * u128::from(now - self.advanced);
            self.advanced = now;
        }
    }

    /// A transaction is over.
    pub fn book(&mut self, ended: Ended, settings: &Settings) {
        self.pending.remove(ended.due);
        let result = &mut self.result;
        match ended.outcome {
            Outcome::Ok => {
                if ended.end.saturating_sub(result.last_ok) > result.gap && ended.end <= settings.phases.steady_end() {
                    let gap = settings.loaded_from(result.last_ok).saturating_sub(settings.loaded_from(ended.end));
                    result.gap = result.gap.max(gap);
                }
                (result.last_ok, result.silent) = (ended.end, 0);
            }
            Outcome::Failed(kind) if kind.is_silence() => result.silent += 1,
            _ => {}
        }
        self.slice.book(ended);
    }

    /// Ends the slice, at whose end so many sessions live and `next` arrives next, and gives it to the writer.
    pub fn hand_over(&mut self, end: u64, sessions: usize, next: Option<u64>) {
        self.slice.end = end;
        let open = [self.pending.first(), next.map(|due| due / SECOND)];
        self.slice.settled = open.into_iter().flatten().fold(end / SECOND, u64::min);
        self.slice.in_flight = self.in_flight;
        self.slice.sessions = sessions;
        self.slice_cpu = Cpu::of_thread().total();
        self.slice.work = Work {
            requests: self.result.requests,
            planned: self.result.planned,
            started: self.result.started,
            dropped: self.result.dropped,
            cpu: self.slice_cpu,
        };
        self.spare.extend(self.outlet.empty.try_iter());
        self.spare.truncate(SPARE);
        let next =
            self.spare.pop().unwrap_or_else(|| Slice::new(self.slice.transactions.len(), self.slice.records.is_some()));
        let full = std::mem::replace(&mut self.slice, next);
        self.broken |= self.outlet.full.send(full).is_err();
    }
}

/// The end of the slice that begins at `at`.
pub(super) fn boundary_after(phases: &Phases, at: u64) -> u64 {
    let second = (at / SECOND + 1) * SECOND;
    [phases.ramp_up, phases.steady_end()].into_iter().filter(|b| *b > at).fold(second, u64::min)
}
