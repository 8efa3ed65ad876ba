//! When work is due: open arrivals as a point process whose rate is a profile, cut by bursts, or a recording.

pub mod profile;
pub mod replay;
mod segments;
pub mod windows;

use crate::random::{Random, Stream};
use crate::share::Share;
use profile::Profile;
pub use segments::Bursts;
use segments::Segments;
use windows::Windows;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Model {
    Closed,
    Constant,
    Poisson,
    /// Recorded times.
    Replay,
}

impl Model {
    pub fn as_str(self) -> &'static str {
        match self {
            Model::Closed => "closed",
            Model::Constant => "constant",
            Model::Poisson => "poisson",
            Model::Replay => "replay",
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
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

    /// How much of the time from `taken` to `now` lies in the phase at `now`; before and after the steady phase the
    /// whole of it.
    pub fn stay(&self, taken: u64, now: u64) -> u64 {
        let steady = (self.ramp_up..=self.steady_end()).contains(&now);
        now.saturating_sub(if steady { taken.max(self.ramp_up) } else { taken })
    }
}

/// Due times of open arrivals, nanoseconds from the start, in order. Ends with the steady phase.
#[derive(Debug)]
pub struct Schedule {
    source: Source,
    end: u64,
    share: Share,
    seen: u64,
    grid: u64,
    windows: Option<Windows>,
}

/// A due moment this little before a multiple of the grid is on it: moments of a rate are rounded.
const NEARLY: u64 = 1_000;

#[derive(Debug)]
enum Source {
    Rate(Box<Process>),
    Recorded(std::vec::IntoIter<u64>),
}

/// A point process by the change of time: arrivals of rate 1 at the inverse of the integrated rate.
#[derive(Debug)]
struct Process {
    poisson: bool,
    segments: Segments,
    /// Arrivals expected up to the last one, counted from the start of the segment it is in.
    reached: f64,
    random: Random,
}

impl Schedule {
    /// Arrivals at the rate of `profile` (a second), evenly spaced in its integral or Poisson.
    pub fn new(model: Model, profile: &Profile, bursts: Option<Bursts>, phases: &Phases, seed: u64) -> Self {
        let end = phases.steady_end();
        let process = Process {
            poisson: model == Model::Poisson,
            segments: Segments::new(profile, bursts, end, seed),
            reached: 0.0,
            random: Random::new(seed, 0, Stream::Arrivals),
        };
        Schedule { source: Source::Rate(Box::new(process)), end, share: Share::WHOLE, seen: 0, grid: 0, windows: None }
    }

    /// Arrivals at recorded offsets.
    pub fn recorded(offsets: Vec<u64>, phases: &Phases) -> Self {
        let source = Source::Recorded(offsets.into_iter());
        Schedule { source, end: phases.steady_end(), share: Share::WHOLE, seen: 0, grid: 0, windows: None }
    }

    /// Only the arrivals that belong to `share`.
    pub fn of(self, share: Share) -> Self {
        Schedule { share, ..self }
    }

    /// Every arrival at the multiple of `grid` nanoseconds that it is due at or was last passed; 0: as it is.
    pub fn on(self, grid: u64) -> Self {
        Schedule { grid, ..self }
    }

    /// The same arrivals in window time.
    pub fn within(self, windows: Option<Windows>) -> Self {
        Schedule { windows, ..self }
    }

    fn gridded(&self, due: u64) -> u64 {
        if self.grid == 0 {
            return due;
        }
        let nearly = (due + NEARLY.min(self.grid / 2)).min(self.end - 1);
        nearly / self.grid * self.grid
    }

    fn next_of_all(&mut self) -> Option<u64> {
        let due = match &mut self.source {
            Source::Recorded(offsets) => offsets.next()?,
            Source::Rate(process) => {
                process.reached += if process.poisson { process.random.exponential() } else { 1.0 };
                process.segments.time_of(&mut process.reached)?
            }
        };
        (due < self.end).then_some(due)
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        loop {
            let due = self.next_of_all()?;
            let due = match &self.windows {
                Some(windows) => windows.moment(due).filter(|at| *at < self.end)?,
                None => due,
            };
            self.seen += 1;
            if self.share.owns(self.seen - 1) {
                return Some(self.gridded(due));
            }
        }
    }
}

/// When user `index` of `users` (from 0) starts: evenly over the ramp.
pub fn user_start(index: u64, users: u64, ramp: u64) -> u64 {
    (ramp as u128 * index as u128 / users.max(1) as u128) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn schedule(model: Model, rate: f64, phases: &Phases, seed: u64) -> Schedule {
        Schedule::new(model, &Profile::ramp(rate, phases.ramp_up), None, phases, seed)
    }

    fn count(due: &[u64], from: u64, until: u64) -> usize {
        due.iter().filter(|t| (from * S..until * S).contains(*t)).count()
    }

    #[test]
    fn constant_arrivals_are_evenly_spaced() {
        let phases = Phases { ramp_up: 0, steady: 2 * S, ramp_down: 0 };
        let due: Vec<u64> = schedule(Model::Constant, 1000.0, &phases, 1).collect();
        assert_eq!(due.len(), 1999);
        assert!(due.windows(2).all(|w| (w[1] - w[0]).abs_diff(S / 1000) <= 1));
    }

    #[test]
    fn the_ramp_rises_linearly() {
        let phases = Phases { ramp_up: 10 * S, steady: 10 * S, ramp_down: 0 };
        let due: Vec<u64> = schedule(Model::Constant, 100.0, &phases, 1).collect();
        let within = |from: u64, until: u64| due.iter().filter(|t| (from * S..until * S).contains(*t)).count();
        assert!(within(0, 5).abs_diff(125) <= 1, "{}", within(0, 5));
        assert!(within(5, 10).abs_diff(375) <= 1);
        assert!(within(10, 20).abs_diff(1000) <= 1);
    }

    #[test]
    fn poisson_gaps_are_exponential_and_seeded() {
        let phases = Phases { ramp_up: 0, steady: 100 * S, ramp_down: 0 };
        let draw = |seed| schedule(Model::Poisson, 200.0, &phases, seed).collect::<Vec<u64>>();
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
    fn shares_of_a_schedule_add_up_to_it() {
        let phases = Phases { ramp_up: S, steady: 9 * S, ramp_down: 0 };
        for model in [Model::Constant, Model::Poisson] {
            let all: Vec<u64> = schedule(model, 50.0, &phases, 4).collect();
            let mut parts: Vec<u64> = ["0-2/3", "2-3/3"]
                .iter()
                .flat_map(|text| schedule(model, 50.0, &phases, 4).of(Share::parse(text).unwrap()))
                .collect();
            parts.sort_unstable();
            assert_eq!(parts, all);
        }
    }

    #[test]
    fn a_grid_moves_arrivals_by_less_than_itself_and_not_those_on_it() {
        let phases = Phases { ramp_up: 0, steady: 5 * S, ramp_down: 0 };
        let grid = 2_000_000;
        for (model, rate, on_it) in
            [(Model::Constant, 500.0, true), (Model::Constant, 730.0, false), (Model::Poisson, 3000.0, false)]
        {
            let plain: Vec<u64> = schedule(model, rate, &phases, 3).collect();
            let moved: Vec<u64> = schedule(model, rate, &phases, 3).on(grid).collect();
            assert_eq!(plain.len(), moved.len());
            assert!(moved.iter().all(|due| due % grid == 0));
            let most = if on_it { 1 } else { grid };
            assert!(plain.iter().zip(&moved).all(|(a, b)| a.abs_diff(*b) <= most && *b <= a + NEARLY), "{rate}");
        }
    }

    #[test]
    fn users_start_evenly() {
        assert_eq!((0..4).map(|i| user_start(i, 4, 10 * S)).collect::<Vec<_>>(), [0, 5 * S / 2, 5 * S, 15 * S / 2]);
    }

    #[test]
    fn a_profile_rises_steps_and_rests() {
        let phases = Phases { ramp_up: 0, steady: 50 * S, ramp_down: 0 };
        let profile = Profile::parse("0s:0,10s:100,20s:100,20s:10,30s:10,30s:0,40s:0,40s:50").unwrap();
        let due: Vec<u64> = Schedule::new(Model::Constant, &profile, None, &phases, 1).collect();
        let counts: Vec<usize> = (0..5).map(|i| count(&due, 10 * i, 10 * (i + 1))).collect();
        assert!(counts.iter().zip([500, 1000, 100, 0, 500]).all(|(n, m)| n.abs_diff(m) <= 1), "{counts:?}");
        // The n-th arrival of the rise is due where the integral 5 t^2 is n.
        assert!((0..400).all(|n| (due[n] as f64 / 1e9 - ((n + 1) as f64 / 5.0).sqrt()).abs() < 1e-8));
        let thin: Vec<u64> = Schedule::new(Model::Poisson, &profile, None, &phases, 1).collect();
        assert!(count(&thin, 10, 20).abs_diff(1000) < 150 && count(&thin, 30, 40) == 0);
    }

    #[test]
    fn bursts_stop_and_go_on() {
        let phases = Phases { ramp_up: 0, steady: 50 * S, ramp_down: 0 };
        let bursts = Bursts::parse("2s/3s").unwrap();
        let profile = Profile::ramp(100.0, 0);
        let due: Vec<u64> = Schedule::new(Model::Constant, &profile, Some(bursts), &phases, 1).collect();
        for cycle in 0..10 {
            assert!(count(&due, 5 * cycle, 5 * cycle + 2).abs_diff(200) <= 1, "{cycle}");
            assert_eq!(count(&due, 5 * cycle + 2, 5 * cycle + 5), 0);
        }
        let bursts = Bursts::parse("random:2s/3s").unwrap();
        let phases = Phases { ramp_up: 0, steady: 20_000 * S, ramp_down: 0 };
        let draw = |seed| Schedule::new(Model::Poisson, &Profile::ramp(10.0, 0), Some(bursts), &phases, seed);
        assert_eq!(draw(1).take(500).collect::<Vec<_>>(), draw(1).take(500).collect::<Vec<_>>());
        let due: Vec<u64> = draw(3).collect();
        assert!((due.len() as f64 / 80_000.0 - 1.0).abs() < 0.06, "{}", due.len());
        // The counts of a process that switches itself on and off vary far more than a Poisson process' do.
        let counts: Vec<f64> = (0..2000).map(|i| count(&due[..], 10 * i, 10 * i + 10) as f64).collect();
        let mean = counts.iter().sum::<f64>() / 2000.0;
        let variance = counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 1999.0;
        assert!(variance / mean > 5.0, "{mean} {variance}");
    }

    #[test]
    fn arrivals_keep_their_rate_in_windows_and_none_is_outside() {
        let phases = Phases { ramp_up: 0, steady: 30 * S, ramp_down: 0 };
        let windows = Windows::parse("2s-6s,10s-14s,28s-40s").unwrap();
        for model in [Model::Constant, Model::Poisson] {
            let due: Vec<u64> = schedule(model, 500.0, &phases, 3).within(Some(windows.clone())).collect();
            let inside = [(2, 6), (10, 14), (28, 30)].map(|(from, until)| count(&due, from, until));
            assert_eq!(inside.iter().sum::<usize>(), due.len());
            for (number, seconds) in inside.iter().zip([4, 4, 2]) {
                assert!(number.abs_diff(500 * seconds) <= 120, "{inside:?}");
            }
        }
    }

    #[test]
    fn a_stay_is_cut_where_the_steady_phase_begins() {
        let phases = Phases { ramp_up: 10, steady: 20, ramp_down: 10 };
        assert_eq!([phases.stay(2, 9), phases.stay(2, 10), phases.stay(2, 30), phases.stay(15, 30)], [7, 0, 20, 15]);
        assert_eq!([phases.stay(20, 35), phases.stay(31, 30)], [15, 0]);
    }

    #[test]
    fn recorded_times_come_as_they_are() {
        let phases = Phases { ramp_up: 0, steady: S, ramp_down: 0 };
        assert_eq!(Schedule::recorded(vec![0, 5, 5, S - 1, S], &phases).collect::<Vec<_>>(), [0, 5, 5, S - 1]);
    }
}
