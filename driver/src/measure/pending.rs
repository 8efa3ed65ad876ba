//! Transactions that are due and have no outcome yet.

use std::collections::VecDeque;

const SECOND: u64 = 1_000_000_000;

/// How many in each second of the steady phase and before.
#[derive(Debug)]
pub struct Pending {
    /// What is due from here on never starts.
    end: u64,
    first: u64,
    counts: VecDeque<u32>,
}

impl Pending {
    pub fn new(end: u64) -> Self {
        Pending { end, first: 0, counts: VecDeque::new() }
    }

    pub fn add(&mut self, due: u64) {
        if due >= self.end {
            return;
        }
        let second = due / SECOND;
        if self.counts.is_empty() {
            self.first = second;
        }
        while second < self.first {
            self.counts.push_front(0);
            self.first -= 1;
        }
        let at = (second - self.first) as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
    }

    /// One that was added is over.
    pub fn remove(&mut self, due: u64) {
        if due < self.end {
            let at = (due / SECOND).checked_sub(self.first).map(|at| at as usize);
            let count = at.and_then(|at| self.counts.get_mut(at)).filter(|count| **count > 0);
            debug_assert!(count.is_some(), "{due} was not pending");
            count.into_iter().for_each(|count| *count -= 1);
        }
    }

    pub fn clear(&mut self) {
        self.counts.clear();
    }

    /// The first second with one.
    pub fn first(&mut self) -> Option<u64> {
        while self.counts.front() == Some(&0) {
            self.counts.pop_front();
            self.first += 1;
        }
        (!self.counts.is_empty()).then_some(self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_second_with_one_is_known() {
        let mut pending = Pending::new(100 * SECOND);
        assert_eq!(pending.first(), None);
        for second in [7, 3, 90, 3, 100, 500] {
            pending.add(second * SECOND + 5);
        }
        pending.remove(3 * SECOND + 5);
        assert_eq!(pending.first(), Some(3));
        pending.remove(3 * SECOND);
        assert_eq!(pending.first(), Some(7));
        pending.add(2 * SECOND);
        assert_eq!(pending.first(), Some(2));
        for second in [2, 7, 90, 500] {
            pending.remove(second * SECOND);
        }
        assert_eq!(pending.first(), None);
        pending.add(SECOND);
        assert_eq!(pending.first(), Some(1));
    }
}
