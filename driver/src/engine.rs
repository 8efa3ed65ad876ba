//! The loop: one thread, one epoll, sessions in slots.

mod connection;
mod embedded;
mod events;
mod pace;
mod pool;
mod refusals;
mod shared_h2;
mod sockets;
mod state;
mod streams;
mod transactions;
mod waiting;

use crate::arrivals::profile::Profile;
use crate::arrivals::windows::Windows;
use crate::arrivals::{Bursts, Model, Phases};
use crate::measure::summary::LoopResult;
use crate::measure::writer::Outlet;
use crate::measure::{ErrorKind, Outcome};
use crate::scenario::{Arrive, Population, Scenario};
use crate::session::Session;
use crate::share::Share;
use crate::sys::alarms::Alarms;
use crate::sys::poller::Poller;
use crate::sys::process::stop_requested;
use crate::sys::tls::User;
use crate::transport::Transport;
use connection::Connection;
use embedded::ExtraConnection;
use shared_h2::SharedH2;
use state::{boundary_after, Arrivals, Connections, EngineClock, Measurement, Reading, Sessions};
use std::io;
use std::net::IpAddr;
use std::time::Instant;

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
    /// Every transaction is recorded.
    pub records: bool,
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
        self.loaded_from(self.phases.ramp_up)
    }

    /// The same after `from`.
    pub fn loaded_from(&self, from: u64) -> u64 {
        let (from, end) = (from.max(self.phases.ramp_up), self.phases.steady_end());
        let in_windows = |w: &Windows| w.passed(end).saturating_sub(w.passed(from));
        self.windows.as_ref().map_or(end.saturating_sub(from), in_windows)
    }
}

/// Most starts between two looks at the sockets.
const STARTS: usize = 256;
/// A session whose connection failed waits at least this long, so that a dead server is not hammered.
const BACK_OFF: u64 = 100_000_000;
const SAMPLES: usize = 3;
/// Marks the number of a further connection, as against a slot's own.
const EXTRA: u32 = 1 << 31;
/// Marks the number of a shared connection over HTTP/2.
const SHARED_H2: u32 = 1 << 30;

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
    extra_connections: Vec<u32>,
    /// The further connection that is the session's WebSocket.
    socket: Option<u32>,
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
    poller: Poller,
    alarms: Alarms,
    clock: EngineClock,
    arrivals: Arrivals,
    slots: Vec<Slot>,
    sessions: Sessions,
    connections: Connections,
    reading: Reading,
    measurement: Measurement,
    scratch: Vec<u8>,
    /// The longest time of a request.
    patience: u64,
}

impl<'a> Engine<'a> {
    pub fn new(scenario: &'a Scenario, settings: &'a Settings, outlet: Outlet) -> io::Result<Self> {
        Ok(Engine {
            scenario,
            settings,
            poller: Poller::new()?,
            alarms: Alarms::new()?,
            clock: EngineClock::new(Instant::now(), settings.lead),
            arrivals: Arrivals::default(),
            slots: Vec::new(),
            sessions: Sessions::new(scenario, settings),
            connections: Connections::new(settings),
            reading: Reading::new(scenario),
            measurement: Measurement::new(scenario, settings, outlet),
            scratch: Vec::new(),
            patience: settings.timeout.max(scenario.longest_wait()),
        })
    }

    /// Drives the scenario through its phases; `start` is moment zero.
    pub fn run(mut self, start: Instant) -> io::Result<LoopResult> {
        self.clock.begin(start);
        self.measurement.begin(&self.settings.phases);
        self.plan_arrivals();
        loop {
            let now = self.now();
            self.roll(now);
            if stop_requested() {
                self.measurement.result.interrupted = true;
                break;
            }
            if self.measurement.broken {
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
        self.measurement.advance(end);
        self.measurement.result.drained = end;
        self.measurement.result.shared = self.connections.pools.as_ref().map(|pools| (pools.peak, pools.waited));
        if end > self.measurement.slice.start {
            self.measurement.hand_over(end, self.sessions.live, None);
        }
        Ok(self.measurement.result)
    }

    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn finished(&self, now: u64) -> bool {
        let phases = &self.settings.phases;
        self.arrivals.draining && now >= phases.end() && (self.measurement.in_flight == 0 || now >= self.last_moment())
    }

    /// When what is still in flight is given up.
    fn last_moment(&self) -> u64 {
        let phases = &self.settings.phases;
        phases.steady_end() + phases.ramp_down.max(self.patience)
    }

    /// Ends the slice at each boundary passed by `now`.
    fn roll(&mut self, now: u64) {
        while now >= self.measurement.boundary {
            let boundary = self.measurement.boundary;
            self.measurement.advance(boundary);
            if boundary == self.settings.phases.steady_end() {
                self.measurement.slice.residence += self.under_way(boundary);
            }
            self.measurement.hand_over(boundary, self.sessions.live, self.arrivals.next);
            self.measurement.slice.start = boundary;
            self.measurement.slice.phase = self.settings.phases.at(boundary);
            self.measurement.boundary = boundary_after(&self.settings.phases, boundary);
            let cpu = self.measurement.slice_cpu;
            if boundary == self.settings.phases.ramp_up {
                self.measurement.steady_cpu_from = Some(cpu);
            }
            if boundary <= self.settings.phases.steady_end() {
                self.measurement.result.steady_cpu = cpu - self.measurement.steady_cpu_from.unwrap_or(cpu);
            }
        }
    }

    /// How long the transactions under way at `end`, that of the steady phase, were in it. Counted by the sessions, as
    /// against the integral, so that a transaction one of them forgot shows.
    fn under_way(&self, end: u64) -> u128 {
        let phases = &self.settings.phases;
        let sessions = self.slots.iter().map(|slot| &slot.session);
        let waiting = sessions.clone().filter_map(|session| session.interrupted.as_ref()).map(|(running, _)| running);
        let taken = sessions.filter_map(|session| session.running.as_ref()).chain(waiting).map(|running| running.taken);
        taken.map(|taken| u128::from(phases.stay(taken, end))).sum()
    }

    /// Ends the requests whose time is over, but for those whose response is there, unread.
    fn expire(&mut self, now: u64) -> io::Result<()> {
        let (slots, extra) = (&self.slots, &self.connections.extra);
        if self
            .connections
            .deadlines
            .next(|line, request| awaits(slots, extra, line, request))
            .is_none_or(|at| at > now)
        {
            return Ok(());
        }
        self.serve_all()?;
        let end = self.now();
        loop {
            let (slots, extra) = (&self.slots, &self.connections.extra);
            let live = |line: u32, request: u64| awaits(slots, extra, line, request);
            let Some((line, _)) = self.connections.deadlines.pop_expired(now, live) else { return Ok(()) };
            let owner = self.owner(line);
            if self.listened(line, end) {
                continue;
            }
            if self.shares_h2() {
                self.overdue(line);
            } else {
                let own = self.line(owner).h2.is_none() || self.line(line).web.is_some();
                let host = if own { line } else { owner };
                self.line(host).close();
            }
            let message = self.slots[owner as usize].session.lacking(self.scenario);
            self.end(owner, Outcome::Failed(ErrorKind::Timeout), &message, end);
        }
    }

    /// Counts what is still in flight as unfinished, but for what was answered.
    fn abandon(&mut self) -> io::Result<()> {
        self.arrivals.draining = true;
        self.serve_all()?;
        let now = self.now();
        for slot in 0..self.slots.len() as u32 {
            if self.slots[slot as usize].session.running.is_some() {
                self.end(slot, Outcome::Failed(ErrorKind::Unfinished), "the run ended first", now);
            }
        }
        Ok(())
    }

    /// Which kind of session is in `slot`.
    fn population(&self, slot: u32) -> &'a Population {
        self.scenario.populations.at(self.slots[slot as usize].session.population)
    }

    fn opens_sessions(&self) -> bool {
        self.settings.model != Model::Closed && self.scenario.arrive == Arrive::Session
    }

    fn opens_transactions(&self) -> bool {
        self.settings.model != Model::Closed && self.scenario.arrive == Arrive::Transaction
    }
}

fn awaits(slots: &[Slot], extra: &[ExtraConnection], line: u32, request: u64) -> bool {
    if line & EXTRA == 0 {
        slots[line as usize].connection.awaits(request)
    } else {
        extra[(line & !EXTRA) as usize].connection.awaits(request)
    }
}
