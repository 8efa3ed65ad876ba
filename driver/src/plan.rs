//! What one session will do, drawn from its own seeded stream: independent of what the server answers.

use crate::random::{Random, Stream};
use crate::scenario::{Graph, Pause, PauseShape, Population, Row};

/// An exponential pause is never longer than this many means; the longer draws become exactly that long,
/// which lowers the mean by 0.7 %.
const LONGEST_PAUSE: f64 = 5.0;

#[derive(Clone, Debug)]
pub struct Plan {
    random: Random,
    /// Where in the graph the session stands; None before its start.
    place: Option<usize>,
}

impl Plan {
    pub fn new(seed: u64, session: u64) -> Self {
        Plan { random: Random::new(seed, session, Stream::Plan), place: None }
    }

    /// The transaction to be done now: the next one of the mix, or the one the graph stands at.
    pub fn transaction(&mut self, population: &Population) -> usize {
        if let Some(graph) = &population.graph {
            if self.place.is_none() {
                self.place = self.draw(&graph.start);
            }
            return self.place.unwrap_or(0);
        }
        let total: f64 = population.mix.iter().map(|(_, weight)| weight).sum();
        let mut point = self.random.unit() * total;
        for (index, weight) in &population.mix {
            if point < *weight {
                return *index;
            }
            point -= weight;
        }
        population.mix.iter().rev().find(|(_, weight)| *weight > 0.0).map_or(0, |(index, _)| *index)
    }

    /// Moves on in the graph after `done`; false when the session ends here. A transaction that is no place of the
    /// graph (a login) leaves the place as it is.
    pub fn move_on(&mut self, graph: &Graph, done: usize) -> bool {
        if self.place != Some(done) {
            return true;
        }
        self.place = graph.rows[done].as_ref().and_then(|row| self.draw(row));
        self.place.is_some()
    }

    /// The next transaction is where the graph starts.
    pub fn start_over(&mut self) {
        self.place = None;
    }

    fn draw(&mut self, row: &Row) -> Option<usize> {
        let mut point = self.random.unit();
        for (next, share) in row {
            if point < *share {
                return *next;
            }
            point -= share;
        }
        row.iter().rev().find(|(_, share)| *share > 0.0).and_then(|(next, _)| *next)
    }

    /// The pause that will follow the transaction `done`, nanoseconds; draws nothing.
    pub fn pause_after(&self, population: &Population, done: usize) -> u64 {
        if population.pause.shape == PauseShape::Fixed {
            return population.pause.mean;
        }
        let mut ahead = self.clone();
        if let Some(graph) = &population.graph {
            ahead.move_on(graph, done);
        }
        ahead.pause(&population.pause)
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
    use crate::scenario::Scenario;

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
        let scenario = scenario.populations.of(1);
        let mut plan = Plan::new(seed, session);
        (0..4000).map(|_| (plan.transaction(scenario), plan.pause(&scenario.pause))).collect()
    }

    #[test]
    fn one_seed_one_plan() {
        assert_eq!(drawn(5, 1), drawn(5, 1));
        assert_ne!(drawn(5, 1), drawn(5, 2));
        assert_ne!(drawn(5, 1), drawn(6, 1));
    }

    #[test]
    fn the_next_pause_is_known_ahead() {
        let walk = "scenario: walk\npause: { shape: exponential, mean: 9ms }\ngraph:\n  start: { a: 1 }\n  a: { a: 0.9, end: 0.1 }\n\
                    transactions: { a: [{ get: /a }] }\n";
        for scenario in [scenario(), parse(walk, &[]).expect("a valid scenario")] {
            let scenario = scenario.populations.of(1);
            let mut plan = Plan::new(3, 1);
            for _ in 0..50 {
                let done = plan.transaction(scenario);
                let (ahead, again) = (plan.pause_after(scenario, done), plan.pause_after(scenario, done));
                if let Some(graph) = &scenario.graph {
                    plan.move_on(graph, done);
                }
                assert_eq!((ahead, again), (plan.pause(&scenario.pause), ahead));
            }
        }
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

    #[test]
    fn the_graph_is_walked_with_its_probabilities() {
        let text = "
scenario: walk
graph:
  start: { a: 0.25, b: 0.75 }
  a: { b: 1 }
  b: { a: 0.5, b: 0.3, end: 0.2 }
transactions: { a: [{ get: /a }], b: [{ get: /b }] }
";
        let scenario = parse(text, &[]).expect("a valid scenario");
        let scenario = scenario.populations.of(1);
        let graph = scenario.graph.as_ref().expect("a graph");
        let mut plan = Plan::new(7, 1);
        let (mut starts, mut moves) = ([0f64; 2], [[0f64; 3]; 2]);
        for _ in 0..3000 {
            let mut at = plan.transaction(scenario);
            starts[at] += 1.0;
            while plan.move_on(graph, at) {
                let next = plan.transaction(scenario);
                assert_eq!(next, plan.transaction(scenario));
                moves[at][next] += 1.0;
                at = next;
            }
            moves[at][2] += 1.0;
        }
        let share = |row: &[f64], at: usize| row[at] / row.iter().sum::<f64>();
        assert!((share(&starts, 0) - 0.25).abs() < 0.03, "{starts:?}");
        assert!(moves[0][0] == 0.0 && moves[0][2] == 0.0);
        for (at, expected) in [0.5, 0.3, 0.2].into_iter().enumerate() {
            assert!((share(&moves[1], at) - expected).abs() < 0.015, "{moves:?}");
        }
    }
}
