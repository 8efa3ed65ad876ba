//! A rate or a number of users over time: straight lines between given points.

use crate::units::parse_duration;

/// Points in order of time, nanoseconds and value; two at one time are a step. Before the first and after the last
/// point the value stays.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    points: Vec<(u64, f64)>,
}

const MOST_POINTS: usize = 10_000;
const HIGHEST: f64 = 1e8;

/// A straight piece: values at its ends, the later one excluded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    pub from: u64,
    pub until: u64,
    pub first: f64,
    pub last: f64,
}

impl Piece {
    pub fn at(&self, time: u64) -> f64 {
        if self.first == self.last {
            return self.first;
        }
        let share = (time - self.from) as f64 / (self.until - self.from) as f64;
        self.first + share * (self.last - self.first)
    }

    /// When the value passes `level`, which lies between the ends.
    fn crossing(&self, level: f64) -> u64 {
        let share = (level - self.first) / (self.last - self.first);
        self.from + (share.clamp(0.0, 1.0) * (self.until - self.from) as f64) as u64
    }
}

impl Profile {
    /// Reads `TIME:VALUE,TIME:VALUE,...`, such as `0s:10,30s:100,30s:50`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut points: Vec<(u64, f64)> = Vec::new();
        for item in text.split(',').map(str::trim) {
            let Some((time, value)) = item.split_once(':') else {
                return Err(format!("`{item}` is no point: write TIME:VALUE, such as 30s:100"));
            };
            let time = parse_duration(time)?;
            let value = match value.trim().parse::<f64>() {
                Ok(value) if (0.0..=HIGHEST).contains(&value) => value,
                _ => return Err(format!("`{}` in `{item}` is not a number from 0 to {HIGHEST}", value.trim())),
            };
            if points.last().is_some_and(|(before, _)| *before > time) {
                return Err(format!("`{item}` stands after a later time: points go in order of time"));
            }
            points.push((time, value));
        }
        if points.len() > MOST_POINTS {
            return Err(format!("more than {MOST_POINTS} points"));
        }
        if points.iter().all(|(_, value)| *value == 0.0) {
            return Err("no point is above 0".into());
        }
        Ok(Profile { points })
    }

    /// Rises from 0 to `value` in `ramp` nanoseconds and stays there.
    pub fn ramp(value: f64, ramp: u64) -> Self {
        Profile { points: if ramp == 0 { vec![(0, value)] } else { vec![(0, 0.0), (ramp, value)] } }
    }

    pub fn peak(&self) -> f64 {
        self.points.iter().fold(0.0, |most, (_, value)| value.max(most))
    }

    /// The time of the last point.
    pub fn end(&self) -> u64 {
        self.points.last().map_or(0, |(time, _)| *time)
    }

    /// The piece that holds `time`; pieces have a length, and the last one ends with u64::MAX.
    pub fn piece(&self, time: u64) -> Piece {
        let after = self.points.partition_point(|(at, _)| *at <= time);
        let later = self.points.get(after).copied();
        match (after.checked_sub(1).map(|before| self.points[before]), later) {
            (Some((from, first)), Some((until, last))) => Piece { from, until, first, last },
            (Some((from, first)), None) => Piece { from, until: u64::MAX, first, last: first },
            (None, later) => {
                let (until, value) = later.unwrap_or((u64::MAX, 0.0));
                Piece { from: 0, until, first: value, last: value }
            }
        }
    }

    /// The first moment from `from` on after which the value is above `level`.
    pub fn first_above(&self, level: f64, from: u64) -> Option<u64> {
        self.search(from, |piece, start| {
            let value = piece.at(start);
            if value > level || value == level && piece.last > piece.first {
                Some(start)
            } else {
                (piece.last > level).then(|| piece.crossing(level).max(start))
            }
        })
    }

    /// The first moment from `from` on after which the value is not above `level`.
    pub fn first_not_above(&self, level: f64, from: u64) -> Option<u64> {
        self.search(from, |piece, start| {
            let value = piece.at(start);
            if value < level || value == level && piece.last <= piece.first {
                Some(start)
            } else {
                (piece.last < level).then(|| piece.crossing(level).max(start))
            }
        })
    }

    fn search(&self, from: u64, found: impl Fn(&Piece, u64) -> Option<u64>) -> Option<u64> {
        let mut start = from;
        loop {
            let piece = self.piece(start);
            if let Some(at) = found(&piece, start) {
                return Some(at);
            }
            if piece.until == u64::MAX {
                return None;
            }
            start = piece.until;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn reads_lines_and_steps() {
        let profile = Profile::parse("1s:10, 3s:30,3s:5,4s:5").unwrap();
        let at = |seconds: f64| profile.piece((seconds * 1e9) as u64).at((seconds * 1e9) as u64);
        assert_eq!([at(0.0), at(1.0), at(2.0), at(3.0), at(99.0)], [10.0, 10.0, 20.0, 5.0, 5.0]);
        assert_eq!((profile.peak(), profile.end()), (30.0, 4 * S));
    }

    #[test]
    fn refuses_what_is_no_profile() {
        for (text, part) in [
            ("", "no point"),
            ("5s", "write TIME:VALUE"),
            ("5s:x", "not a number"),
            ("5s:-1", "not a number"),
            ("5s:1,4s:1", "in order of time"),
            ("0s:0,9s:0", "above 0"),
            ("soon:1", "not a duration"),
        ] {
            let error = Profile::parse(text).expect_err(text);
            assert!(error.contains(part) || error.contains("unit"), "{text}: {error}");
        }
    }

    #[test]
    fn levels_are_crossed_where_they_should_be() {
        let hill = Profile::parse("0s:0,10s:10,20s:10,20s:2,30s:4").unwrap();
        assert_eq!(hill.first_above(0.0, 0), Some(0));
        assert_eq!(hill.first_above(5.0, 0), Some(5 * S));
        assert_eq!(hill.first_above(3.0, 20 * S), Some(25 * S));
        assert_eq!(hill.first_above(4.0, 20 * S), None);
        assert_eq!(hill.first_not_above(5.0, 6 * S), Some(20 * S));
        assert_eq!(hill.first_not_above(1.0, 2 * S), None);
        assert_eq!(hill.first_not_above(3.0, 25 * S + 1), None);
        let pulse = Profile::parse("0s:3,5s:3,5s:0,8s:0,8s:3,9s:3").unwrap();
        assert_eq!((pulse.first_not_above(2.0, 0), pulse.first_above(2.0, 5 * S)), (Some(5 * S), Some(8 * S)));
    }
}
