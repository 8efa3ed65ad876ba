//! Connections that the sessions share, as those of a proxy or a gateway: a request takes an idle one, opens one
//! while there are fewer than the most allowed, or waits its turn. Cookies and all else stay with the sessions. Over
//! HTTP/2 a request takes a stream: see [`super::shared_h2`].

use super::{awaits, Engine};
use crate::sys::stream::Stream;
use crate::sys::tls::User;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind as Io;
use std::net::IpAddr;
use std::rc::Rc;

/// Marks the poller's token of a shared connection, as against one of a session's own.
pub(super) const SHARED: u64 = 1 << 63;

/// One place for an open connection, whoever uses it.
#[derive(Debug, Default)]
struct Place {
    /// Distinguishes the sockets that used the place.
    generation: u32,
    /// The line whose request it carries; None while it is idle or gone.
    line: Option<u32>,
}

/// Every shared connection there is.
#[derive(Debug, Default)]
struct Ledger {
    places: Vec<Place>,
    free: Vec<u32>,
    /// Open or being opened: of each pool, and in all.
    open: Vec<usize>,
    total: usize,
}

/// The right to a connection of a pool; dropping it, with the connection, gives the place back.
#[derive(Debug)]
pub struct Lease {
    ledger: Rc<RefCell<Ledger>>,
    pool: u32,
    place: u32,
}

impl Lease {
    /// What the poller is to call the connection.
    pub(super) fn token(&self) -> u64 {
        let generation = self.ledger.borrow().places[self.place as usize].generation;
        SHARED | u64::from(generation) << 32 | u64::from(self.place)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut ledger = self.ledger.borrow_mut();
        ledger.open[self.pool as usize] -= 1;
        ledger.total -= 1;
        let place = &mut ledger.places[self.place as usize];
        place.generation = (place.generation + 1) & (u32::MAX >> 1);
        place.line = None;
        ledger.free.push(self.place);
    }
}

/// A connection that no request uses.
struct Idle {
    stream: Stream,
    lease: Lease,
    /// Requests sent over it.
    served: u32,
}

/// The connections to one server from one address.
#[derive(Default)]
struct Pool {
    /// Places and generations of idle connections, the one used last on top; some may have been closed since.
    idle: Vec<(u32, u32)>,
    /// Lines whose requests wait for a connection, and which request.
    waiting: VecDeque<(u32, u64)>,
    /// Over HTTP/2: the lines of its connections, the oldest one first.
    h2: Vec<u32>,
    tls: Option<User>,
}

pub(super) struct Pools {
    /// Most connections of a pool.
    most: usize,
    ledger: Rc<RefCell<Ledger>>,
    pools: Vec<Pool>,
    numbers: HashMap<(usize, Option<IpAddr>), u32>,
    /// By place.
    idle: Vec<Option<Idle>>,
    waiting: usize,
    /// Requests that had to wait for another one's connection.
    pub waited: u64,
    /// Most connections there were at once.
    pub peak: usize,
}

/// Who is concerned by what happened to a socket.
pub(super) enum Whose {
    Line(u32),
    Idle(u32),
    Nobody,
}

impl Pools {
    pub fn new(most: usize) -> Self {
        Pools {
            most,
            ledger: Rc::default(),
            pools: Vec::new(),
            numbers: HashMap::new(),
            idle: Vec::new(),
            waiting: 0,
            waited: 0,
            peak: 0,
        }
    }

    /// The pool of connections to `target` from `source`.
    pub fn of(&mut self, target: usize, source: Option<IpAddr>) -> u32 {
        let next = self.pools.len() as u32;
        let number = *self.numbers.entry((target, source)).or_insert(next);
        if number == next {
            self.pools.push(Pool::default());
            self.ledger.borrow_mut().open.push(0);
        }
        number
    }

    /// A place for one more connection of `pool`, for the request of `line`.
    pub fn lease(&mut self, pool: u32, line: u32) -> Lease {
        let mut ledger = self.ledger.borrow_mut();
        ledger.open[pool as usize] += 1;
        ledger.total += 1;
        self.peak = self.peak.max(ledger.total);
        let place = ledger.free.pop().unwrap_or_else(|| {
            ledger.places.push(Place::default());
            ledger.places.len() as u32 - 1
        });
        ledger.places[place as usize].line = Some(line);
        Lease { ledger: Rc::clone(&self.ledger), pool, place }
    }

    pub fn tls(&mut self, pool: u32) -> &mut Option<User> {
        &mut self.pools[pool as usize].tls
    }

    fn whose(&self, token: u64) -> Whose {
        let (place, generation) = (token as u32, (token >> 32) as u32 & (u32::MAX >> 1));
        match self.ledger.borrow().places.get(place as usize) {
            Some(known) if known.generation == generation => known.line.map_or(Whose::Idle(place), Whose::Line),
            _ => Whose::Nobody,
        }
    }

    /// An idle connection of `pool` for `line`.
    fn take(&mut self, pool: u32, line: u32) -> Option<Idle> {
        let mut ledger = self.ledger.borrow_mut();
        while let Some((at, generation)) = self.pools[pool as usize].idle.pop() {
            let place = &mut ledger.places[at as usize];
            if place.generation == generation {
                place.line = Some(line);
                return self.idle[at as usize].take();
            }
        }
        None
    }

    fn keep(&mut self, idle: Idle) {
        let (pool, at) = (idle.lease.pool as usize, idle.lease.place);
        let place = &mut self.ledger.borrow_mut().places[at as usize];
        place.line = None;
        self.pools[pool].idle.push((at, place.generation));
        if self.idle.len() <= at as usize {
            self.idle.resize_with(at as usize + 1, || None);
        }
        self.idle[at as usize] = Some(idle);
    }

    pub fn is_full(&self, pool: u32) -> bool {
        self.ledger.borrow().open[pool as usize] >= self.most
    }

    pub fn wait(&mut self, pool: u32, line: u32, request: u64) {
        self.pools[pool as usize].waiting.push_back((line, request));
        self.waiting += 1;
        self.waited += 1;
    }

    /// Goes on waiting, before all others.
    pub fn put_back(&mut self, pool: u32, line: u32, request: u64) {
        self.pools[pool as usize].waiting.push_front((line, request));
        self.waiting += 1;
    }

    pub fn has_waiting(&self, pool: u32) -> bool {
        !self.pools[pool as usize].waiting.is_empty()
    }

    /// The line of the connection over HTTP/2 that is the `at`-th of `pool`.
    pub fn h2_connection(&self, pool: u32, at: usize) -> Option<u32> {
        self.pools[pool as usize].h2.get(at).copied()
    }

    pub fn add_h2(&mut self, pool: u32, line: u32) {
        self.pools[pool as usize].h2.push(line);
    }

    /// False where it was not there.
    pub fn remove_h2(&mut self, pool: u32, line: u32) -> bool {
        let h2 = &mut self.pools[pool as usize].h2;
        let found = h2.iter().position(|other| *other == line);
        found.map(|at| h2.remove(at)).is_some()
    }

    /// Whether something waits that could go on.
    fn may_serve(&self, pool: u32) -> bool {
        self.has_waiting(pool) && (!self.pools[pool as usize].idle.is_empty() || !self.is_full(pool))
    }

    fn next_waiting(&mut self, pool: u32) -> Option<(u32, u64)> {
        let next = self.pools[pool as usize].waiting.pop_front()?;
        self.waiting -= 1;
        Some(next)
    }
}

impl Engine<'_> {
    /// Gives `line` an idle connection to send `request` over, unless others wait for one.
    pub(super) fn borrow_connection(&mut self, line: u32) -> bool {
        let pool = self.slots[self.owner(line) as usize].pool;
        if self.connections.pools.as_ref().is_none_or(|pools| pools.has_waiting(pool)) {
            return false;
        }
        self.install(line, pool)
    }

    fn install(&mut self, line: u32, pool: u32) -> bool {
        let Some(Idle { stream, lease, served }) =
            self.connections.pools.as_mut().and_then(|pools| pools.take(pool, line))
        else {
            return false;
        };
        self.line(line).take_over(stream, lease, served);
        true
    }

    /// No idle connection was there for the request of `line`: it opens one, or waits.
    pub(super) fn open_or_wait(&mut self, line: u32, request: u64, now: u64) {
        let pool = self.slots[self.owner(line) as usize].pool;
        let Some(pools) = &mut self.connections.pools else { return };
        if pools.is_full(pool) || pools.has_waiting(pool) {
            pools.wait(pool, line, request);
        } else {
            self.connect(line, now);
        }
    }

    /// The response to the request of `line` is complete: its connection may serve others.
    pub(super) fn give_back(&mut self, line: u32) {
        if self.connections.pools.is_none() {
            return;
        }
        if let (Some((stream, lease, served)), Some(pools)) = (self.line(line).part_with(), &mut self.connections.pools)
        {
            pools.keep(Idle { stream, lease, served });
        }
    }

    /// Serves the requests that wait, as far as there are connections.
    pub(super) fn serve_waiting(&mut self) {
        if self.connections.pools.as_ref().is_none_or(|pools| pools.waiting == 0) {
            return;
        }
        let now = self.now();
        for pool in 0..self.connections.pools.as_ref().map_or(0, |pools| pools.pools.len() as u32) {
            if self.shares_h2() {
                self.serve_streams(pool, now);
                continue;
            }
            while self.connections.pools.as_ref().is_some_and(|pools| pools.may_serve(pool)) {
                let Some((line, request)) = self.connections.pools.as_mut().and_then(|pools| pools.next_waiting(pool))
                else {
                    break;
                };
                if !awaits(&self.slots, &self.connections.extra, line, request) {
                    continue;
                }
                if self.install(line, pool) {
                    self.has_connection(line, now);
                } else {
                    self.connect(line, now);
                }
            }
        }
    }

    fn serve_streams(&mut self, pool: u32, now: u64) {
        while let Some((line, request)) = self.connections.pools.as_mut().and_then(|pools| pools.next_waiting(pool)) {
            if awaits(&self.slots, &self.connections.extra, line, request) && !self.board(line, pool, now) {
                if let Some(pools) = &mut self.connections.pools {
                    pools.put_back(pool, line, request);
                }
                return;
            }
        }
    }

    /// The line that a shared connection's event concerns; sees to the idle ones.
    pub(super) fn line_of(&mut self, token: u64) -> Option<u32> {
        let pools = self.connections.pools.as_mut()?;
        match pools.whose(token) {
            Whose::Line(line) => Some(line),
            Whose::Idle(place) => {
                let idle = pools.idle[place as usize].as_mut()?;
                let silent = loop {
                    match idle.stream.read(&mut self.connections.read_buffer) {
                        Err(error) if error.kind() == Io::Interrupted => {}
                        Err(error) => break error.kind() == Io::WouldBlock,
                        Ok(_) => break false,
                    }
                };
                if !silent {
                    pools.idle[place as usize] = None; // closed, or bytes nobody asked for
                }
                None
            }
            Whose::Nobody => None,
        }
    }
}
