//! A driver's share of a load that several drivers bear: of everything that is numbered through, each takes its own
//! numbers, so that all of them together do exactly what one driver would.

/// Of every `of` numbers those from `from` until `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    from: u64,
    until: u64,
    of: u64,
}

impl Share {
    pub const WHOLE: Share = Share { from: 0, until: 1, of: 1 };

    /// Reads `FROM-UNTIL/OF`, such as `0-1/2` for the first of two equal drivers.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no share: write FROM-UNTIL/OF, such as 0-1/2 for the first of two drivers");
        let (range, of) = text.split_once('/').ok_or_else(wrong)?;
        let (from, until) = range.split_once('-').ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
        let share = Share { from: number(from)?, until: number(until)?, of: number(of)? };
        if share.from < share.until && share.until <= share.of && share.of <= 1_000_000 {
            Ok(share)
        } else {
            Err(wrong())
        }
    }

    /// That of driver `at`, from 0, among so many equal ones.
    pub fn equal(at: u64, of: u64) -> Self {
        Share { from: at, until: at + 1, of }
    }

    pub fn is_whole(&self) -> bool {
        self.until - self.from == self.of
    }

    /// Whether `index`, from 0, belongs to it.
    pub fn owns(&self, index: u64) -> bool {
        (self.from..self.until).contains(&(index % self.of))
    }

    /// Its own number `index`, from 0, among all numbers.
    pub fn nth(&self, index: u64) -> u64 {
        let width = self.until - self.from;
        (index / width).wrapping_mul(self.of).wrapping_add(self.from + index % width)
    }

    /// As [`Share::count`], but whatever is left over counts for every share in part: rounded up.
    pub fn count_up(&self, all: u64) -> u64 {
        (u128::from(all) * u128::from(self.until - self.from)).div_ceil(u128::from(self.of)) as u64
    }

    /// How many of the numbers 0 to `all` - 1 belong to it.
    pub fn count(&self, all: u64) -> u64 {
        let rest = (all % self.of).clamp(self.from, self.until) - self.from;
        all / self.of * (self.until - self.from) + rest
    }
}

impl Default for Share {
    fn default() -> Self {
        Share::WHOLE
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}/{}", self.from, self.until, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_every_number_once() {
        let shares = ["0-3/6", "3-4/6", "4-6/6"].map(|text| Share::parse(text).expect("a share"));
        for index in 0..100 {
            assert_eq!(shares.iter().filter(|share| share.owns(index)).count(), 1, "{index}");
        }
        for share in shares {
            let own: Vec<u64> = (0..1000).filter(|index| share.owns(*index)).collect();
            assert!(own.iter().enumerate().all(|(at, index)| share.nth(at as u64) == *index), "{share}");
            for all in 0..50 {
                assert_eq!(share.count(all), (0..all).filter(|index| share.owns(*index)).count() as u64);
            }
        }
        assert!((0..100).all(|index| Share::WHOLE.owns(index) && Share::WHOLE.nth(index) == index));
    }

    #[test]
    fn what_is_no_share_is_refused() {
        for text in ["", "1/2", "0-1", "1-1/2", "0-3/2", "a-1/2", "0-1/0"] {
            assert!(Share::parse(text).is_err(), "{text}");
        }
    }
}
