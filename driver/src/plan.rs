//! What one session will do, drawn from its own seeded stream: independent of what the server answers.

use crate::random::{Random, Stream};
use crate::scenario::{Pause, PauseShape, Scenario};

/// An exponential pause is never longer than this many means; the longer draws become exactly that long,
/// which lowers the mean by 0.7 %.
const LONGEST_PAUSE: f64 = 5.0;

#[derive(Debug)]
pub struct Plan {
    random: Random,
}

impl Plan {
    pub fn new(seed: u64, session: u64) -> Self {
        Plan { random: Random::new(seed, session, Stream::Plan) }
    }

    /// The next transaction of the mix.
    pub fn transaction(&mut self, scenario: &Scenario) -> usize {
        let total: f64 = scenario.mix.iter().map(|(_, weight)| weight).sum();
        let mut point = self.random.unit() * total;
        for (index, weight) in &scenario.mix {
            if point < *weight {
                return *index;
            }
            point -= weight;
        }
        scenario.mix.iter().rev().find(|(_, weight)| *weight > 0.0).map_or(0, |(index, _)| *index)
    }

    /// The next pause, nanoseconds.
    pub fn pause(&mut self, pause: &Pause) -> u64 {
        match pause.shape {
            PauseShape::None => 0,
            PauseShape::Fixed => pause.mean,
            PauseShape::Exponential => {
                (self.random.exponential().min(LONGEST_PAUSE) * pause.mean as f64).round() as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::read::parse;

    fn scenario() -> Scenario {
        let text = "
scenario: two
pause: { shape: exponential, mean: 100ms }
mix: { a: 3, b: 1, never: 0 }
transactions:
  a: [{ get: /a }]
  b: [{ get: /b }]
  never: [{ get: /c }]
";
        parse(text, &[]).expect("a valid scenario")
    }

    fn drawn(seed: u64, session: u64) -> Vec<(usize, u64)> {
        let scenario = scenario();
        let mut plan = Plan::new(seed, session);
        (0..4000).map(|_| (plan.transaction(&scenario), plan.pause(&scenario.pause))).collect()
    }

    #[test]
    fn one_seed_one_plan() {
        assert_eq!(drawn(5, 1), drawn(5, 1));
        assert_ne!(drawn(5, 1), drawn(5, 2));
        assert_ne!(drawn(5, 1), drawn(6, 1));
    }

    #[test]
    fn weights_and_means_hold() {
        let drawn = drawn(5, 1);
        let first = drawn.iter().filter(|(index, _)| *index == 0).count() as f64 / 4000.0;
        assert!((first - 0.75).abs() < 0.03, "{first}");
        assert!(drawn.iter().all(|(index, pause)| *index < 2 && *pause <= 500_000_000));
        let mean = drawn.iter().map(|(_, pause)| *pause as f64).sum::<f64>() / 4000.0;
        assert!((mean / 1e8 - 1.0).abs() < 0.06, "{mean}");
    }
}
