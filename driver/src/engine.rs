//! The loop: one thread, one epoll, sessions in slots.

mod connection;
mod embedded;
mod pace;
mod pool;
mod refusals;
mod shared_h2;
mod streams;
mod transactions;
mod waiting;

use crate::arrivals::profile::Profile;
use crate::arrivals::windows::Windows;
use crate::arrivals::{Bursts, Model, Phases, Schedule};
use crate::feeds::Feeds;
use crate::http::h2;
use crate::measure::slice::Work;
use crate::measure::summary::LoopResult;
use crate::measure::writer::Outlet;
use crate::measure::{ErrorKind, Outcome, Slice};
use crate::scenario::{Arrive, Scenario};
use crate::session::Session;
use crate::share::Share;
use crate::sys::alarms::Alarms;
use crate::sys::poller::Poller;
use crate::sys::process::{stop_requested, Cpu};
use crate::sys::stamp::{Clock, Stamping};
use crate::sys::tls::User;
use crate::timer::{Lead, Requests, Timers};
use crate::transport::{Http, Transport};
use connection::Connection;
use embedded::Lane;
use pool::Pools;
use shared_h2::SharedH2;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;
use waiting::{Continuation, DeferredRead};

/// How the scenario is driven. Times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Settings {
    pub transport: Transport,
    pub model: Model,
    pub users: u64,
    /// Open: arrivals a second. Closed: users at each moment, where they do not simply start over the ramp.
    pub profile: Option<Profile>,
    pub bursts: Option<Bursts>,
    /// Load only in these.
    pub windows: Option<Windows>,
    /// Offsets to be replayed.
    pub recorded: Vec<u64>,
    pub phases: Phases,
    pub seed: u64,
    /// Sessions this driver itself may have at once.
    pub max_sessions: usize,
    /// Its part of users, arrivals and whatever else is numbered through.
    pub share: Share,
    pub timeout: u64,
    /// What is due is planned at multiples of this; 0: at any moment.
    pub grid: u64,
    /// Longest time the loop stays awake before something is due.
    pub lead: u64,
    /// Longest time a response that nothing waits for may stay unread in the socket buffer.
    pub gather: u64,
    /// Responses count from the moment the loop read them, not from the kernel's stamp.
    pub unstamped: bool,
}

/// How long users or a rate rise: the ramp-up, where load comes in windows the first of them at most.
pub fn rise(phases: &Phases, windows: Option<&Windows>) -> u64 {
    windows.map_or(phases.ramp_up, |windows| windows.first().min(phases.ramp_up))
}

impl Settings {
    /// See `rise`.
    pub fn rise(&self) -> u64 {
        rise(&self.phases, self.windows.as_ref())
    }

    /// Time of the steady phase in which there is load.
    pub fn loaded(&self) -> u64 {
        let phases = &self.phases;
        let in_windows = |w: &Windows| w.passed(phases.steady_end()) - w.passed(phases.ramp_up);
        self.windows.as_ref().map_or(phases.steady, in_windows)
    }
}

/// Most starts between two looks at the sockets.
const STARTS: usize = 256;
/// A session whose connection failed waits at least this long, so that a dead server is not hammered.
const BACK_OFF: u64 = 100_000_000;
const SAMPLES: usize = 3;
/// Cleared slices that are kept: more were made while the writer was late.
const SPARE: usize = 2;
/// Marks the number of a further connection, as against a slot's own.
const LANE: u32 = 1 << 31;
/// Marks the number of a shared connection over HTTP/2.
const SHARED_H2: u32 = 1 << 30;
const SECOND: u64 = 1_000_000_000;

struct Slot {
    session: Session,
    /// Which target the session talks to, from which address, and what it remembers of TLS.
    target: usize,
    source: Option<IpAddr>,
    tls: Option<User>,
    /// Where connections are shared: the pool of that target and address.
    pool: u32,
    connection: Connection,
    /// Further connections, for what pages embed.
    lanes: Vec<u32>,
    /// The next transaction: when it may start and when it is due, and was before it was put on the grid.
    start_at: u64,
    due: u64,
    exact: u64,
    /// Open sessions: transactions of the mix still to do.
    left: u32,
    /// Open sessions: the next transaction is the final logout.
    leaving: bool,
    /// Open transactions: the arrival that waits for this session's login.
    waiting_due: Option<u64>,
    /// The identity was taken from the pool and goes back there.
    owns_identity: bool,
    live: bool,
}

pub struct Engine<'a> {
    scenario: &'a Scenario,
    settings: &'a Settings,
    start: Instant,
    poller: Poller,
    alarms: Alarms,
    slots: Vec<Slot>,
    lanes: Vec<Lane>,
    spare_lanes: Vec<u32>,
    shared_h2: Vec<SharedH2>,
    spare_shared_h2: Vec<u32>,
    /// Dead slots, for new sessions.
    dead: Vec<u32>,
    /// Sessions at rest when transactions arrive.
    resting: VecDeque<u32>,
    identities: VecDeque<u64>,
    feeds: Rc<Feeds>,
    sessions_made: u64,
    live: usize,
    timers: Timers,
    deadlines: Requests,
    schedule: Option<Schedule>,
    next_arrival: Option<u64>,
    draining: bool,
    in_flight: u64,
    advanced: u64,
    slice: Slice,
    boundary: u64,
    outlet: Outlet,
    /// Cleared slices.
    spare: Vec<Slice>,
    broken: bool,
    requests_made: u64,
    /// The connections, where sessions share them.
    pools: Option<Pools>,
    /// Some connections may have several requests under way.
    may_share: bool,
    /// Connections that were not read to their end.
    unread: Vec<(u64, bool)>,
    events: Vec<h2::Event>,
    read_buffer: Vec<u8>,
    scratch: Vec<u8>,
    result: LoopResult,
    steady_cpu_from: Option<f64>,
    /// CPU of the loop's thread at the end of the last slice.
    slice_cpu: f64,
    clock: Clock,
    lead: Lead,
    /// Requests whose responses are to be read at once, in the order they were sent.
    urgent: Requests,
    /// The others, of sessions that rest after them.
    deferred: BinaryHeap<Reverse<DeferredRead>>,
    /// When the loop last began to look at all sockets, and when at as many as it can at once.
    surveyed: u64,
    looked: u64,
    /// What is known of each transaction's last response.
    continuations: Vec<Continuation>,
    /// When the bytes read last came in.
    arrived: u64,
    /// Whether the kernel stamps what it receives.
    stamping: Stamping,
}

impl<'a> Engine<'a> {
    pub fn new(scenario: &'a Scenario, settings: &'a Settings, outlet: Outlet) -> io::Result<Self> {
        let pool = match (settings.model, scenario.identities) {
            (Model::Constant | Model::Poisson | Model::Replay, Some(all)) => {
                (1..=all.min(10_000_000)).filter(|identity| settings.share.owns(identity - 1)).collect()
            }
            _ => VecDeque::new(),
        };
        let mut engine = Engine {
            scenario,
            settings,
            start: Instant::now(),
            poller: Poller::new()?,
            alarms: Alarms::new()?,
            slots: Vec::new(),
            lanes: Vec::new(),
            spare_lanes: Vec::new(),
            shared_h2: Vec::new(),
            spare_shared_h2: Vec::new(),
            dead: Vec::new(),
            resting: VecDeque::new(),
            identities: pool,
            feeds: Rc::new(Feeds::new(Rc::clone(&scenario.feeds), settings.share)),
            sessions_made: 0,
            live: 0,
            timers: Timers::default(),
            deadlines: Requests::default(),
            schedule: None,
            next_arrival: None,
            draining: false,
            in_flight: 0,
            advanced: 0,
            slice: Slice::new(scenario.transactions.len()),
            boundary: 0,
            outlet,
            spare: Vec::new(),
            broken: false,
            requests_made: 0,
            pools: settings.transport.shared.map(Pools::new),
            may_share: match settings.transport.http {
                Http::Auto => settings.transport.tls.is_some(),
                Http::One => false,
                Http::Two => true,
            },
            unread: Vec::new(),
            events: Vec::new(),
            read_buffer: vec![0; 64 << 10],
            scratch: Vec::new(),
            result: LoopResult::default(),
            steady_cpu_from: None,
            slice_cpu: 0.0,
            clock: Clock::new(Instant::now()),
            lead: Lead::new(settings.lead),
            urgent: Requests::default(),
            deferred: BinaryHeap::new(),
            surveyed: 0,
            looked: 0,
            continuations: waiting::continuations(scenario),
            arrived: 0,
            stamping: Stamping::default(),
        };
        engine.boundary = engine.boundary_after(0);
        engine.slice.phase = settings.phases.at(0);
        Ok(engine)
    }

    /// Drives the scenario through its phases; `start` is moment zero.
    pub fn run(mut self, start: Instant) -> io::Result<LoopResult> {
        self.start = start;
        self.clock = Clock::new(start);
        if self.settings.phases.ramp_up == 0 {
            self.steady_cpu_from = Some(Cpu::of_thread().total());
        }
        self.plan_arrivals();
        loop {
            let now = self.now();
            self.roll(now);
            if stop_requested() {
                self.result.interrupted = true;
                break;
            }
            if self.broken {
                break;
            }
            self.expire(now)?;
            if self.lacks_session(now) {
                self.serve_sockets(0)?;
            }
            self.start_due(now);
            self.serve_waiting();
            if self.finished(now) {
                break;
            }
            self.wait()?;
        }
        self.abandon()?;
        let end = self.now();
        self.roll(end);
        self.advance(end);
        self.result.drained = end;
        self.result.shared = self.pools.as_ref().map(|pools| (pools.peak, pools.waited));
        if end > self.slice.start {
            self.hand_over(end);
        }
        Ok(self.result)
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn finished(&self, now: u64) -> bool {
        let phases = &self.settings.phases;
        self.draining && now >= phases.end() && (self.in_flight == 0 || now >= self.last_moment())
    }

    /// When what is still in flight is given up.
    fn last_moment(&self) -> u64 {
        let phases = &self.settings.phases;
        phases.steady_end() + phases.ramp_down.max(self.settings.timeout)
    }

    /// Ends the slice at each boundary passed by `now`.
    fn roll(&mut self, now: u64) {
        while now >= self.boundary {
            let boundary = self.boundary;
            self.advance(boundary);
            if boundary == self.settings.phases.steady_end() {
                self.slice.residence += self.under_way(boundary);
            }
            self.hand_over(boundary);
            self.slice.start = boundary;
            self.slice.phase = self.settings.phases.at(boundary);
            self.boundary = self.boundary_after(boundary);
            let cpu = self.slice_cpu;
            if boundary == self.settings.phases.ramp_up {
                self.steady_cpu_from = Some(cpu);
            }
            if boundary <= self.settings.phases.steady_end() {
                self.result.steady_cpu = cpu - self.steady_cpu_from.unwrap_or(cpu);
            }
        }
    }

    fn boundary_after(&self, at: u64) -> u64 {
        let phases = &self.settings.phases;
        let second = (at / SECOND + 1) * SECOND;
        [phases.ramp_up, phases.steady_end()].into_iter().filter(|b| *b > at).fold(second, u64::min)
    }

    /// Integrates the transactions in flight up to `now`.
    fn advance(&mut self, now: u64) {
        if now > self.advanced {
            self.slice.area += u128::from(self.in_flight) * u128::from(now - self.advanced);
            self.advanced = now;
        }
    }

    /// How long the transactions under way at `end`, that of the steady phase, were in it. Counted by the sessions, as
    /// against the integral, so that a transaction one of them forgot shows.
    fn under_way(&self, end: u64) -> u128 {
        let phases = &self.settings.phases;
        let taken = self.slots.iter().filter_map(|slot| slot.session.running.as_ref()).map(|running| running.taken);
        taken.map(|taken| u128::from(phases.stay(taken, end))).sum()
    }

    fn hand_over(&mut self, end: u64) {
        self.slice.end = end;
        self.slice.in_flight = self.in_flight;
        self.slice.sessions = self.live;
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
        let next = self.spare.pop().unwrap_or_else(|| Slice::new(self.scenario.transactions.len()));
        let full = std::mem::replace(&mut self.slice, next);
        self.broken |= self.outlet.full.send(full).is_err();
    }

    /// Ends the requests whose time is over, but for those whose response is there, unread.
    fn expire(&mut self, now: u64) -> io::Result<()> {
        let (slots, lanes) = (&self.slots, &self.lanes);
        if self.deadlines.next(|line, request| awaits(slots, lanes, line, request)).is_none_or(|at| at > now) {
            return Ok(());
        }
        self.serve_all()?;
        let end = self.now();
        loop {
            let (slots, lanes) = (&self.slots, &self.lanes);
            let live = |line: u32, request: u64| awaits(slots, lanes, line, request);
            let Some((line, _)) = self.deadlines.pop_expired(now, live) else { return Ok(()) };
            let owner = self.owner(line);
            if self.shares_h2() {
                self.overdue(line);
            } else {
                let host = if self.line(owner).h2.is_some() { owner } else { line };
                self.line(host).close();
            }
            self.end(owner, Outcome::Failed(ErrorKind::Timeout), "no complete response in time", end);
        }
    }

    /// Counts what is still in flight as unfinished, but for what was answered.
    fn abandon(&mut self) -> io::Result<()> {
        self.draining = true;
        self.serve_all()?;
        let now = self.now();
        for slot in 0..self.slots.len() as u32 {
            if self.slots[slot as usize].session.running.is_some() {
                self.end(slot, Outcome::Failed(ErrorKind::Unfinished), "the run ended first", now);
            }
        }
        Ok(())
    }

    fn opens_sessions(&self) -> bool {
        self.settings.model != Model::Closed && self.scenario.arrive == Arrive::Session
    }

    fn opens_transactions(&self) -> bool {
        self.settings.model != Model::Closed && self.scenario.arrive == Arrive::Transaction
    }
}

fn awaits(slots: &[Slot], lanes: &[Lane], line: u32, request: u64) -> bool {
    if line & LANE == 0 {
        slots[line as usize].connection.awaits(request)
    } else {
        lanes[(line & !LANE) as usize].connection.awaits(request)
    }
}
