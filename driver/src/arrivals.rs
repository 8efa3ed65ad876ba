//! When work is due: open arrivals as an inhomogeneous process whose rate rises linearly over the ramp.

use crate::random::{Random, Stream};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    Closed,
    Constant,
    Poisson,
}

impl Model {
    pub const WORDS: [(&'static str, Model); 3] =
        [("closed", Model::Closed), ("constant", Model::Constant), ("poisson", Model::Poisson)];

    pub fn as_str(self) -> &'static str {
        match self {
            Model::Closed => "closed",
            Model::Constant => "constant",
            Model::Poisson => "poisson",
        }
    }
}

/// Lengths of the phases, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases {
    pub ramp_up: u64,
    pub steady: u64,
    pub ramp_down: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    RampUp,
    Steady,
    RampDown,
}

impl Phase {
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::RampUp => "ramp_up",
            Phase::Steady => "steady",
            Phase::RampDown => "ramp_down",
        }
    }
}

impl Phases {
    pub fn steady_end(&self) -> u64 {
        self.ramp_up + self.steady
    }

    pub fn end(&self) -> u64 {
        self.steady_end() + self.ramp_down
    }

    pub fn at(&self, now: u64) -> Phase {
        if now < self.ramp_up {
            Phase::RampUp
        } else if now < self.steady_end() {
            Phase::Steady
        } else {
            Phase::RampDown
        }
    }
}

/// Due times of open arrivals, nanoseconds from the start, in order. Ends with the steady phase.
#[derive(Debug)]
pub struct Schedule {
    model: Model,
    /// Arrivals per nanosecond in the steady phase.
    rate: f64,
    ramp: f64,
    end: u64,
    /// Expected number of arrivals up to the last due time.
    reached: f64,
    random: Random,
}

impl Schedule {
    /// `rate` in arrivals a second.
    pub fn new(model: Model, rate: f64, phases: &Phases, seed: u64) -> Self {
        Schedule {
            model,
            rate: rate / 1e9,
            ramp: phases.ramp_up as f64,
            end: phases.steady_end(),
            reached: 0.0,
            random: Random::new(seed, 0, Stream::Arrivals),
        }
    }

    /// The time by which `count` arrivals are expected: the inverse of the integrated rate.
    fn time_of(&self, count: f64) -> f64 {
        let in_ramp = self.rate * self.ramp / 2.0;
        if count < in_ramp {
            (2.0 * count * self.ramp / self.rate).sqrt()
        } else {
            count / self.rate + self.ramp / 2.0
        }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.reached += match self.model {
            Model::Poisson => self.random.exponential(),
            _ => 1.0,
        };
        let due = self.time_of(self.reached);
        (due < self.end as f64).then_some(due as u64)
    }
}

/// When user `index` of `users` (from 0) starts: evenly over the ramp.
pub fn user_start(index: u64, users: u64, phases: &Phases) -> u64 {
    (phases.ramp_up as u128 * index as u128 / users.max(1) as u128) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn constant_arrivals_are_evenly_spaced() {
        let phases = Phases { ramp_up: 0, steady: 2 * S, ramp_down: 0 };
        let due: Vec<u64> = Schedule::new(Model::Constant, 1000.0, &phases, 1).collect();
        assert_eq!(due.len(), 1999);
        assert!(due.windows(2).all(|w| (w[1] - w[0]).abs_diff(S / 1000) <= 1));
    }

    #[test]
    fn the_ramp_rises_linearly() {
        let phases = Phases { ramp_up: 10 * S, steady: 10 * S, ramp_down: 0 };
        let due: Vec<u64> = Schedule::new(Model::Constant, 100.0, &phases, 1).collect();
        let within = |from: u64, until: u64| due.iter().filter(|t| (from * S..until * S).contains(*t)).count();
        assert!(within(0, 5).abs_diff(125) <= 1, "{}", within(0, 5));
        assert!(within(5, 10).abs_diff(375) <= 1);
        assert!(within(10, 20).abs_diff(1000) <= 1);
    }

    #[test]
    fn poisson_gaps_are_exponential_and_seeded() {
        let phases = Phases { ramp_up: 0, steady: 100 * S, ramp_down: 0 };
        let draw = |seed| Schedule::new(Model::Poisson, 200.0, &phases, seed).collect::<Vec<u64>>();
        let due = draw(1);
        assert_eq!(due, draw(1));
        assert_ne!(due, draw(2));
        assert!((due.len() as f64 - 20_000.0).abs() < 600.0, "{}", due.len());
        let gaps: Vec<f64> = due.windows(2).map(|w| (w[1] - w[0]) as f64 * 200.0 / 1e9).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.03 && (variance - 1.0).abs() < 0.1, "{mean} {variance}");
    }

    #[test]
    fn users_start_evenly() {
        let phases = Phases { ramp_up: 10 * S, steady: S, ramp_down: 0 };
        assert_eq!((0..4).map(|i| user_start(i, 4, &phases)).collect::<Vec<_>>(), [0, 5 * S / 2, 5 * S, 15 * S / 2]);
    }
}
