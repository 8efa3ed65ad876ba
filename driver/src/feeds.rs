//! Data feeds: values that sessions take from files, sequences and skewed distributions.

use crate::random::Random;
use crate::render::{push_number, RenderError};
use crate::share::Share;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Where the values of a feed come from.
#[derive(Debug)]
pub enum Origin {
    /// Rows of a file and how one is picked.
    Rows { rows: Vec<Vec<Box<[u8]>>>, pick: Choose },
    /// `from`, `from + step`, ... up to `until`, then from the start again; one counter for all sessions.
    Sequence { from: i64, step: i64, until: Option<i64> },
    /// Ranks 1, 2, ...
    Zipf(Zipf),
}

#[derive(Debug)]
pub enum Choose {
    /// In the order of the file, one after the other over all sessions, over and over.
    Sequential,
    Random,
    /// A row belongs to one session until that session ends.
    Unique,
    /// The first rows most often.
    Zipf(Zipf),
}

/// How long a session keeps a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    Use,
    Transaction,
    Session,
}

#[derive(Debug)]
pub struct Feed {
    pub name: String,
    /// Names of the columns; empty for a feed of single values.
    pub columns: Vec<String>,
    pub origin: Origin,
    pub hold: Hold,
}

/// What all sessions share.
#[derive(Debug, Default)]
pub struct Feeds {
    feeds: Rc<[Feed]>,
    states: Vec<State>,
    share: Share,
}

#[derive(Debug, Default)]
struct State {
    taken: Cell<u64>,
    free: RefCell<VecDeque<u32>>,
}

/// The values one session holds, by feed.
pub type Held = Vec<Option<i64>>;

impl Feeds {
    /// Of rows and numbers that are taken one after the other only those that belong to `share`.
    pub fn new(feeds: Rc<[Feed]>, share: Share) -> Self {
        let state = |feed: &Feed| {
            let free = match &feed.origin {
                Origin::Rows { rows, pick: Choose::Unique } => {
                    (0..rows.len() as u32).filter(|row| share.owns(u64::from(*row))).collect()
                }
                _ => VecDeque::new(),
            };
            State { taken: Cell::new(0), free: RefCell::new(free) }
        };
        Feeds { states: feeds.iter().map(state).collect(), feeds, share }
    }

    pub fn len(&self) -> usize {
        self.feeds.len()
    }

    pub fn is_empty(&self) -> bool {
        self.feeds.is_empty()
    }

    /// Writes the value of column `column` of feed `feed`, drawing one where the session holds none.
    pub fn write(
        &self,
        feed: usize,
        column: usize,
        held: &mut [Option<i64>],
        random: &mut Random,
        out: &mut Vec<u8>,
    ) -> Result<(), RenderError> {
        let known = held.get(feed).copied().flatten().filter(|_| self.feeds[feed].hold != Hold::Use);
        let value = match known {
            Some(value) => value,
            None => self.draw(feed, random)?,
        };
        if let Some(place) = held.get_mut(feed) {
            *place = Some(value);
        }
        match &self.feeds[feed].origin {
            Origin::Rows { rows, .. } => out.extend_from_slice(&rows[value as usize][column]),
            _ => push_number(out, value),
        }
        Ok(())
    }

    fn draw(&self, feed: usize, random: &mut Random) -> Result<i64, RenderError> {
        let state = &self.states[feed];
        let next = || {
            let taken = state.taken.get();
            state.taken.set(taken + 1);
            self.share.nth(taken)
        };
        Ok(match &self.feeds[feed].origin {
            Origin::Rows { rows, pick } => match pick {
                Choose::Sequential => (next() % rows.len() as u64) as i64,
                Choose::Random => random.between(0, rows.len() as i64 - 1),
                Choose::Zipf(zipf) => zipf.draw(random) - 1,
                Choose::Unique => match state.free.borrow_mut().pop_front() {
                    Some(row) => i64::from(row),
                    None => return Err(RenderError::Exhausted(self.feeds[feed].name.clone())),
                },
            },
            Origin::Sequence { from, step, until } => {
                let count = until.map_or(u64::MAX, |until| ((until - from) / step) as u64 + 1);
                from.wrapping_add(step.wrapping_mul((next() % count) as i64))
            }
            Origin::Zipf(zipf) => zipf.draw(random),
        })
    }

    /// Forgets what was held for one transaction.
    pub fn begin_transaction(&self, held: &mut Held) {
        for (feed, place) in self.feeds.iter().zip(held) {
            if feed.hold != Hold::Session {
                *place = None;
            }
        }
    }

    /// Forgets everything and gives unique rows back.
    pub fn release(&self, held: &mut Held) {
        for ((feed, state), place) in self.feeds.iter().zip(&self.states).zip(held) {
            if let (Some(row), Origin::Rows { pick: Choose::Unique, .. }) = (place.take(), &feed.origin) {
                state.free.borrow_mut().push_back(row as u32);
            }
        }
    }
}

/// Ranks 1 to `count` with probabilities proportional to rank^-exponent, by rejection-inversion: exact, without a
/// table (Hoermann and Derflinger, ACM TOMACS 6(3), 1996).
#[derive(Clone, Debug)]
pub struct Zipf {
    count: f64,
    exponent: f64,
    first: f64,
    last: f64,
    shortcut: f64,
}

impl Zipf {
    /// `count` at least 1, `exponent` at least 0.
    pub fn new(count: u64, exponent: f64) -> Self {
        let mut zipf = Zipf { count: count as f64, exponent, first: 0.0, last: 0.0, shortcut: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(zipf.count + 0.5);
        zipf.shortcut = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    pub fn draw(&self, random: &mut Random) -> i64 {
        loop {
            let u = self.last + random.unit() * (self.first - self.last);
            let x = self.inverse(u);
            let rank = (x + 0.5).floor().clamp(1.0, self.count);
            if rank - x <= self.shortcut || u >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as i64;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let y = (1.0 - self.exponent) * log;
        log * if y.abs() > 1e-8 { y.exp_m1() / y } else { 1.0 + y / 2.0 * (1.0 + y / 3.0) }
    }

    fn inverse(&self, x: f64) -> f64 {
        let y = (x * (1.0 - self.exponent)).max(-1.0);
        (x * if y.abs() > 1e-8 { y.ln_1p() / y } else { 1.0 - y * (0.5 - y / 3.0) }).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    #[test]
    fn ranks_have_their_probabilities() {
        for (count, exponent) in [(10u64, 1.0), (1000, 0.8), (50, 2.5), (7, 0.0), (1, 1.0)] {
            let zipf = Zipf::new(count, exponent);
            let mut random = Random::new(3, 1, Stream::Data);
            const DRAWS: usize = 60_000;
            let mut seen = vec![0f64; count as usize + 1];
            for _ in 0..DRAWS {
                seen[zipf.draw(&mut random) as usize] += 1.0;
            }
            let total: f64 = (1..=count).map(|k| (k as f64).powf(-exponent)).sum();
            let mut chi = 0.0;
            let (mut rest, mut expected_rest, mut cells) = (0.0, 0.0, 0.0);
            for rank in 1..=count {
                let expected = DRAWS as f64 * (rank as f64).powf(-exponent) / total;
                if expected >= 20.0 {
                    chi += (seen[rank as usize] - expected).powi(2) / expected;
                    cells += 1.0;
                } else {
                    rest += seen[rank as usize];
                    expected_rest += expected;
                }
            }
            if expected_rest > 20.0 {
                chi += (rest - expected_rest).powi(2) / expected_rest;
            }
            // Far beyond the 99.99 % point of a chi-squared variable.
            assert!(
                chi < cells + 4.5 * (2.0 * f64::max(cells, 1.0)).sqrt() + 8.0,
                "{count} {exponent}: {chi} of {cells}"
            );
        }
    }

    fn feeds(origin: Origin, hold: Hold) -> Feeds {
        Feeds::new(Rc::new([Feed { name: "f".into(), columns: Vec::new(), origin, hold }]), Share::WHOLE)
    }

    fn rows(count: u8, pick: Choose) -> Origin {
        Origin::Rows { rows: (0..count).map(|i| vec![vec![b'a' + i].into_boxed_slice()]).collect(), pick }
    }

    fn value(feeds: &Feeds, held: &mut Held) -> Result<String, RenderError> {
        let mut out = Vec::new();
        feeds.write(0, 0, held, &mut Random::new(1, 1, Stream::Data), &mut out)?;
        Ok(String::from_utf8(out).expect("ASCII"))
    }

    #[test]
    fn values_are_held_as_long_as_stated() {
        let by_transaction = feeds(Origin::Sequence { from: 5, step: 5, until: Some(15) }, Hold::Transaction);
        let (mut one, mut two) = (vec![None], vec![None]);
        assert_eq!(value(&by_transaction, &mut one), Ok("5".into()));
        assert_eq!(
            (value(&by_transaction, &mut one), value(&by_transaction, &mut two)),
            (Ok("5".into()), Ok("10".into()))
        );
        by_transaction.begin_transaction(&mut one);
        assert_eq!(value(&by_transaction, &mut one), Ok("15".into()));
        by_transaction.begin_transaction(&mut two);
        assert_eq!(value(&by_transaction, &mut two), Ok("5".into()));
        let by_use = feeds(rows(3, Choose::Sequential), Hold::Use);
        let drawn: Vec<String> = (0..4).map(|_| value(&by_use, &mut one).expect("a row")).collect();
        assert_eq!(drawn, ["a", "b", "c", "a"]);
    }

    #[test]
    fn a_unique_row_belongs_to_one_session() {
        let feeds = feeds(rows(2, Choose::Unique), Hold::Session);
        let (mut one, mut two, mut three) = (vec![None], vec![None], vec![None]);
        assert_eq!((value(&feeds, &mut one), value(&feeds, &mut two)), (Ok("a".into()), Ok("b".into())));
        assert_eq!(value(&feeds, &mut three), Err(RenderError::Exhausted("f".into())));
        feeds.begin_transaction(&mut one);
        assert_eq!(value(&feeds, &mut one), Ok("a".into()));
        feeds.release(&mut one);
        assert_eq!(value(&feeds, &mut three), Ok("a".into()));
    }
}
