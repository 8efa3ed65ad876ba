//! The rate over time as straight pieces, with the rests of bursts cut out, and the inverse of its integral.

use super::profile::Profile;
use crate::random::{Random, Stream};
use crate::units::parse_duration;

/// Arrivals only while on: for a time, then not for a time, over and over from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// Nanoseconds; means when random.
    pub on: u64,
    pub off: u64,
    /// Both lengths are negative exponential (an interrupted Poisson process when arrivals are Poisson).
    pub random: bool,
}

impl Bursts {
    /// Reads `ON/OFF` or `random:ON/OFF`, such as `2s/3s`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (random, lengths) = text.strip_prefix("random:").map_or((false, text), |rest| (true, rest));
        let wrong = || format!("`{text}`: write ON/OFF or random:ON/OFF, such as 2s/3s");
        let (on, off) = lengths.split_once('/').ok_or_else(wrong)?;
        let (on, off) = (parse_duration(on)?, parse_duration(off)?);
        if on < SHORTEST || off < SHORTEST {
            return Err(format!("`{text}`: on and off last at least 1ms each"));
        }
        Ok(Bursts { on, off, random })
    }
}

const SHORTEST: u64 = 1_000_000;

/// Rates in arrivals a nanosecond; time in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Segment {
    from: u64,
    length: f64,
    first: f64,
    last: f64,
}

impl Segment {
    fn arrivals(&self) -> f64 {
        (self.first + self.last) / 2.0 * self.length
    }

    /// When `count` arrivals are expected since its start: the root of first t + slope t^2 / 2 = count, in the form
    /// that does not cancel.
    fn time_of(&self, count: f64) -> u64 {
        let slope = (self.last - self.first) / self.length;
        let root = (self.first * self.first + 2.0 * count * slope).max(0.0).sqrt();
        let denominator = self.first + root;
        if denominator <= 0.0 {
            return self.from;
        }
        self.from + (2.0 * count / denominator).min(self.length) as u64
    }
}

#[derive(Debug)]
pub struct Segments {
    profile: Profile,
    bursts: Option<Bursts>,
    random: Random,
    end: u64,
    current: Segment,
    /// The end of the current segment, and whether the bursts are on after it until the moment given.
    at: u64,
    on: bool,
    switch: u64,
}

impl Segments {
    /// Over `profile` (arrivals a second) from 0 to `end`.
    pub fn new(profile: &Profile, bursts: Option<Bursts>, end: u64, seed: u64) -> Self {
        let mut segments = Segments {
            profile: profile.clone(),
            bursts,
            random: Random::new(seed, 0, Stream::Bursts),
            end,
            current: Segment { from: 0, length: 1.0, first: 0.0, last: 0.0 },
            at: 0,
            on: true,
            switch: 0,
        };
        segments.switch = segments.length_of(true);
        segments
    }

    fn length_of(&mut self, on: bool) -> u64 {
        let Some(bursts) = self.bursts else { return u64::MAX };
        let length = if on { bursts.on } else { bursts.off };
        if bursts.random {
            ((self.random.exponential() * length as f64) as u64).max(1)
        } else {
            length
        }
    }

    /// Goes on to the next segment with a rate; false at the end.
    fn advance(&mut self) -> bool {
        while self.at < self.end {
            if self.at == self.switch {
                self.on = !self.on;
                self.switch = self.at.saturating_add(self.length_of(self.on));
            }
            if !self.on {
                self.at = self.switch;
                continue;
            }
            let piece = self.profile.piece(self.at);
            let until = piece.until.min(self.switch).min(self.end);
            let from = self.at;
            let last = if until == piece.until { piece.last } else { piece.at(until) };
            self.at = until;
            let length = (until - from) as f64;
            self.current = Segment { from, length, first: piece.at(from) / 1e9, last: last / 1e9 };
            if self.current.arrivals() > 0.0 {
                return true;
            }
        }
        false
    }

    /// The time by which `count` arrivals are expected since the start of the current segment. What later segments
    /// hold is taken off `count`; None beyond the end.
    pub fn time_of(&mut self, count: &mut f64) -> Option<u64> {
        while *count > self.current.arrivals() {
            *count -= self.current.arrivals();
            if !self.advance() {
                self.current = Segment { from: self.end, length: 1.0, first: 0.0, last: 0.0 };
                return None;
            }
        }
        let due = self.current.time_of(*count);
        // The end of a burst is no longer in it.
        Some(if self.at < self.end { due.min(self.at.saturating_sub(1)) } else { due })
    }
}
