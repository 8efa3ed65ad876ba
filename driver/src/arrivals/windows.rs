//! Load in windows only: between them no time passes for users and arrivals.

use crate::units::parse_duration;

/// Windows in order of time, nanoseconds from the start of the run, the later end excluded.
///
/// Window time is the time that has passed inside windows. What is due so much window time after something is due at
/// the moment at which so much has passed: a pause that a window cuts off goes on in the next one.
#[derive(Clone, Debug, PartialEq)]
pub struct Windows {
    spans: Vec<(u64, u64)>,
    /// Window time before each of them.
    before: Vec<u64>,
}

const MOST: usize = 10_000;

impl Windows {
    /// Reads `FROM-UNTIL,FROM-UNTIL,...`, such as `0s-4s,12s-16s`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut found = Windows { spans: Vec::new(), before: Vec::new() };
        let mut passed = 0;
        for item in text.split(',').map(str::trim) {
            let Some((from, until)) = item.split_once('-') else {
                return Err(format!("`{item}` is no window: write FROM-UNTIL, such as 12s-16s"));
            };
            let (from, until) = (parse_duration(from)?, parse_duration(until)?);
            if until <= from {
                return Err(format!("`{item}` does not end after it begins"));
            }
            if found.spans.last().is_some_and(|(_, end)| *end > from) {
                return Err(format!("`{item}` begins before the end of an earlier one: windows go in order of time"));
            }
            found.spans.push((from, until));
            found.before.push(passed);
            passed += until - from;
        }
        if found.spans.len() > MOST {
            return Err(format!("more than {MOST} windows"));
        }
        Ok(found)
    }

    /// Length of the first window.
    pub fn first(&self) -> u64 {
        self.spans[0].1 - self.spans[0].0
    }

    /// The end of the last one.
    pub fn end(&self) -> u64 {
        self.spans[self.spans.len() - 1].1
    }

    /// Window time that has passed until `at`.
    pub fn passed(&self, at: u64) -> u64 {
        let begun = self.spans.partition_point(|(from, _)| *from <= at);
        match begun.checked_sub(1) {
            Some(last) => self.before[last] + at.min(self.spans[last].1) - self.spans[last].0,
            None => 0,
        }
    }

    /// The moment, inside a window, at which so much window time has passed; None after the last one.
    pub fn moment(&self, passed: u64) -> Option<u64> {
        let last = self.before.partition_point(|before| *before <= passed) - 1;
        let (from, until) = self.spans[last];
        let at = from + (passed - self.before[last]);
        (at < until).then_some(at)
    }

    /// `at`, or the beginning of the next window where it lies in none.
    pub fn inside(&self, at: u64) -> Option<u64> {
        self.moment(self.passed(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn refuses_what_are_no_windows() {
        for (text, part) in [
            ("", "write FROM-UNTIL"),
            ("4s", "write FROM-UNTIL"),
            ("4s-4s", "does not end after"),
            ("0s-4s,3s-5s", "in order of time"),
            ("0s-soon", "unknown unit `soon`"),
        ] {
            let error = Windows::parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn time_stands_still_between_windows() {
        let windows = Windows::parse("1s-3s, 10s-12s,12s-13s").unwrap();
        assert_eq!((windows.first(), windows.end()), (2 * S, 13 * S));
        let passed = |at: u64| windows.passed(at * S) / S;
        assert_eq!([0, 1, 2, 3, 9, 10, 11, 12, 13, 99].map(passed), [0, 0, 1, 2, 2, 2, 3, 4, 5, 5]);
        let moment = |passed: u64| windows.moment(passed * S).map(|at| at / S);
        assert_eq!([0, 1, 2, 3, 4, 5].map(moment), [Some(1), Some(2), Some(10), Some(11), Some(12), None]);
        assert_eq!(windows.moment(2 * S - 1), Some(3 * S - 1));
        assert_eq!(
            [0, 2, 5, 12, 13].map(|at| windows.inside(at * S).map(|at| at / S)),
            [Some(1), Some(2), Some(10), Some(12), None]
        );
    }
}
