//! Timers: a heap of due moments and queues of requests.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Session slots woken at given moments; equal moments in the order they were set.
#[derive(Default, Debug)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    order: u64,
}

impl Timers {
    const MOST_LOOKED_AT: usize = 64;

    pub fn set(&mut self, at: u64, slot: u32) {
        self.order += 1;
        self.heap.push(Reverse((at, self.order, slot)));
    }

    pub fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// The earliest moment after `at`; None also where more than a few dozen timers come before it.
    pub fn later_than(&self, at: u64) -> Option<u64> {
        let heap = self.heap.as_slice();
        let (mut places, mut known, mut found) = ([0; Self::MOST_LOOKED_AT], 1, None);
        let mut next = 0;
        while next < known {
            match heap.get(places[next]) {
                None => {}
                Some(Reverse((later, ..))) if *later > at => {
                    found = Some(found.map_or(*later, |other: u64| other.min(*later)));
                }
                Some(_) if known + 2 > places.len() => return None,
                Some(_) => {
                    // What stands below them in the heap is no earlier than they are.
                    places[known] = 2 * places[next] + 1;
                    places[known + 1] = 2 * places[next] + 2;
                    known += 2;
                }
            }
            next += 1;
        }
        found
    }

    /// The earliest timer if it is due at `now`.
    pub fn pop_due(&mut self, now: u64) -> Option<u32> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, _, slot))| slot)
    }

    pub fn clear(&mut self) {
        self.heap.clear();
    }
}

/// Requests, each mostly with a moment no earlier than that of the one before: as nearly all have the same time-out,
/// they expire in the order they were sent, and a queue does what a heap would do at a fraction of the cost. A heap has
/// those that expire before one that was sent earlier. Answered requests are dropped lazily.
#[derive(Default, Debug)]
pub struct Requests {
    queue: VecDeque<(u64, u32, u64)>,
    sooner: BinaryHeap<Reverse<(u64, u32, u64)>>,
    /// Answered requests are dropped everywhere when there are more than this.
    bound: usize,
}

impl Requests {
    /// Answered requests that may be left behind one that is not.
    const MOST_ANSWERED: usize = 1000;

    pub fn set(&mut self, at: u64, slot: u32, request: u64) {
        match self.queue.back() {
            Some((last, ..)) if *last > at => self.sooner.push(Reverse((at, slot, request))),
            _ => self.queue.push_back((at, slot, request)),
        }
    }

    /// The first one, and whether it is in the heap.
    fn first(&self) -> Option<((u64, u32, u64), bool)> {
        match (self.queue.front(), self.sooner.peek()) {
            (front, Some(Reverse(sooner))) if front.is_none_or(|front| sooner < front) => Some((*sooner, true)),
            (front, _) => front.map(|front| (*front, false)),
        }
    }

    fn pop(&mut self, sooner: bool) {
        if sooner {
            self.sooner.pop();
        } else {
            self.queue.pop_front();
        }
    }

    /// The moment of the first request for which `live` holds.
    pub fn next(&mut self, live: impl Fn(u32, u64) -> bool) -> Option<u64> {
        if self.queue.len() + self.sooner.len() > self.bound {
            self.queue.retain(|(_, slot, request)| live(*slot, *request));
            self.sooner.retain(|Reverse((_, slot, request))| live(*slot, *request));
            self.bound = Self::MOST_ANSWERED + 2 * (self.queue.len() + self.sooner.len());
        }
        while let Some(((at, slot, request), sooner)) = self.first() {
            if live(slot, request) {
                return Some(at);
            }
            self.pop(sooner);
        }
        None
    }

    /// Slot and number of the first live request, if its moment passed.
    pub fn pop_expired(&mut self, now: u64, live: impl Fn(u32, u64) -> bool) -> Option<(u32, u64)> {
        if self.next(live)? > now {
            return None;
        }
        let ((_, slot, request), sooner) = self.first()?;
        self.pop(sooner);
        Some((slot, request))
    }
}

/// How early the kernel is asked to wake the loop, so that it is awake when something is due: what two thirds of its
/// wake-ups were late at most, tracked by stochastic approximation (Robbins and Monro, 1951). What is left until the due
/// moment the loop spends awake.
#[derive(Debug)]
pub struct Lead {
    ns: u64,
    longest: u64,
}

impl Lead {
    const STEP: u64 = 250;

    pub fn new(longest: u64) -> Self {
        Lead { ns: 0, longest }
    }

    pub fn ns(&self) -> u64 {
        self.ns
    }

    /// The kernel woke the loop this late.
    pub fn learn(&mut self, late: u64) {
        self.ns = if late > self.ns {
            (self.ns + 2 * Self::STEP).min(self.longest)
        } else {
            self.ns.saturating_sub(Self::STEP)
        };
    }
}

/// `at` rounded up to a multiple of `grid` (0: as it is).
pub fn on_grid(at: u64, grid: u64) -> u64 {
    if grid == 0 {
        at
    } else {
        at.div_ceil(grid).saturating_mul(grid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn timers_fire_in_order_and_never_early() {
        let mut timers = Timers::default();
        for (at, slot) in [(30, 3), (10, 1), (20, 2), (10, 4)] {
            timers.set(at, slot);
        }
        assert_eq!(timers.pop_due(9), None);
        assert_eq!((timers.next(), timers.later_than(10), timers.later_than(29)), (Some(10), Some(20), Some(30)));
        assert_eq!((timers.pop_due(10), timers.pop_due(10), timers.pop_due(10)), (Some(1), Some(4), None));
        assert_eq!((timers.next(), timers.later_than(20), timers.later_than(30)), (Some(20), Some(30), None));
        assert_eq!((timers.pop_due(99), timers.pop_due(99), timers.pop_due(99)), (Some(2), Some(3), None));
    }

    #[test]
    fn the_moment_after_a_batch_is_found_in_the_heap() {
        let mut timers = Timers::default();
        let moments = |at: u64| (at * 7919 % 61) / 4 * 10; // sixteen moments, about four timers each
        (0..60).for_each(|at| timers.set(moments(at), 0));
        while let Some(next) = timers.next() {
            let truth = timers.heap.iter().map(|Reverse((at, ..))| *at).filter(|at| *at > next).min();
            assert_eq!(timers.later_than(next), truth, "after {next}");
            timers.pop_due(next);
        }
        (0..100).for_each(|_| timers.set(5, 0));
        timers.set(9, 0);
        assert_eq!(timers.later_than(5), None, "too many before it");
        assert_eq!(Timers::default().later_than(0), None);
    }

    #[test]
    fn answered_requests_are_skipped() {
        let mut deadlines = Requests::default();
        for request in [1, 3, 2] {
            deadlines.set(request * 10, 0, request);
        }
        let live = |_: u32, request: u64| request != 1;
        assert_eq!(deadlines.next(live), Some(20));
        assert_eq!(deadlines.pop_expired(15, live), None);
        assert_eq!(deadlines.pop_expired(20, live), Some((0, 2)));
        assert_eq!(deadlines.pop_expired(20, live), None);
    }

    #[test]
    fn requests_with_other_time_outs_expire_between_them() {
        let mut deadlines = Requests::default();
        for request in 1..=30_000_u64 {
            deadlines.set(request + [60_000, 10, 500][request as usize % 3], 7, request);
        }
        assert_eq!(deadlines.queue.len(), 10_002, "the first two, and those before which others expire");
        let mut moments = Vec::new();
        while let Some(at) = deadlines.next(|_, request| request % 7 > 0) {
            moments.push(at);
            deadlines.pop_expired(at, |_, _| true);
        }
        assert!(moments.is_sorted() && moments.len() == 30_000 - 30_000 / 7, "{}", moments.len());
        assert_eq!(deadlines.first(), None);
    }

    #[test]
    fn a_slow_request_keeps_no_answered_ones() {
        let mut deadlines = Requests::default();
        let (looks, mut most) = (Cell::new(0u64), 0);
        let slow = [1, 500, 40_000];
        let live = |now: u64, request: u64| {
            looks.set(looks.get() + 1);
            slow.contains(&request) || request + 50 > now // fifty in flight beside them
        };
        for request in 1..=100_000 {
            deadlines.set(request, 7, request);
            assert_eq!(deadlines.next(|_, other| live(request, other)), Some(1));
            most = most.max(deadlines.queue.capacity());
        }
        assert!(most < 3000, "{most}");
        assert!(looks.get() < 400_000, "{}", looks.get());
        for left in slow.into_iter().chain(99_951..=100_000) {
            assert_eq!(deadlines.pop_expired(100_000, |_, other| live(100_000, other)), Some((7, left)));
        }
        assert_eq!(deadlines.next(|_, other| live(100_000, other)), None);
    }

    #[test]
    fn the_lead_tends_to_two_thirds_of_the_latenesses() {
        let late = |at: u64| 20_000 + 1_000 * (at * 7919 % 61); // 20 to 80 us, two thirds up to 60
        let mut lead = Lead::new(1_000_000);
        (0..2000).for_each(|at| lead.learn(late(at)));
        assert!(lead.ns().abs_diff(60_000) < 5_000, "{}", lead.ns());
        let mut bounded = Lead::new(30_000);
        (0..2000).for_each(|at| bounded.learn(late(at)));
        assert!(bounded.ns() <= 30_000);
        (0..2000).for_each(|_| bounded.learn(0));
        assert_eq!(bounded.ns(), 0);
    }

    #[test]
    fn a_grid_rounds_up() {
        assert_eq!([on_grid(0, 10), on_grid(1, 10), on_grid(10, 10), on_grid(7, 0)], [0, 10, 10, 7]);
    }
}
