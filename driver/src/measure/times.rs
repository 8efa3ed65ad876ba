//! Histograms of times.

use hdrhistogram::Histogram;

pub type Nanos = Histogram<u64>;

const LOWEST: u64 = 64;
const DIGITS: u8 = 3;
const HOUR: u64 = 3_600_000_000_000;

/// A histogram of nanoseconds: three significant digits above 64 ns, growing as needed.
fn nanos() -> Nanos {
    let mut histogram = Histogram::new_with_bounds(LOWEST, 1 << 27, DIGITS).expect("constant bounds are valid");
    histogram.auto(true);
    histogram
}

/// A histogram of nanoseconds that takes memory only once something was recorded.
#[derive(Clone, Debug, Default)]
pub struct Times(Option<Box<Nanos>>);

impl Times {
    /// As another driver recorded them; None for a histogram of another resolution.
    pub fn of(mut histogram: Nanos) -> Option<Self> {
        histogram.auto(true);
        (histogram.low() == LOWEST && histogram.sigfig() == DIGITS).then(|| Times(Some(Box::new(histogram))))
    }

    /// Adds a value; a value too large for the histogram (over an hour) counts as an hour.
    pub fn record(&mut self, ns: u64) {
        self.record_n(ns, 1);
    }

    pub fn record_n(&mut self, ns: u64, count: u64) {
        let histogram = self.0.get_or_insert_with(|| Box::new(nanos()));
        let recorded = histogram.record_n(ns.min(HOUR), count);
        debug_assert!(recorded.is_ok());
    }

    /// Every value with its count: the same histogram in less memory.
    pub fn packed(&self) -> Vec<(u64, u64)> {
        let values = self.get().into_iter().flat_map(Nanos::iter_recorded);
        values.map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
    }

    pub fn add(&mut self, other: &Times) {
        if let Some(from) = other.get() {
            let added = self.0.get_or_insert_with(|| Box::new(nanos())).add(from);
            debug_assert!(added.is_ok());
        }
    }

    /// What was recorded; None where nothing was.
    pub fn get(&self) -> Option<&Nanos> {
        self.0.as_deref().filter(|histogram| !histogram.is_empty())
    }

    pub fn clear(&mut self) {
        if let Some(histogram) = self.0.as_deref_mut().filter(|histogram| !histogram.is_empty()) {
            histogram.reset();
        }
    }

    /// Nanoseconds; 0 where nothing was recorded.
    pub fn mean(&self) -> f64 {
        self.get().map_or(0.0, Nanos::mean)
    }

    /// Nanoseconds; 0 where nothing was recorded. A quantile is the upper end of its bucket: in the lowest one that
    /// would make 63 ns of nothing.
    pub fn quantile(&self, share: f64) -> u64 {
        self.get().map(|histogram| histogram.value_at_quantile(share)).filter(|ns| *ns >= LOWEST).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_take_no_memory_before_they_are_recorded() {
        let (mut times, mut sum) = (Times::default(), Times::default());
        sum.add(&times);
        assert!(sum.0.is_none() && sum.get().is_none() && sum.quantile(0.5) == 0 && sum.mean() == 0.0);
        for ns in [5, 1_000_000, u64::MAX] {
            times.record(ns);
        }
        sum.add(&times);
        times.clear();
        assert!(times.get().is_none());
        assert_eq!(sum.get().map(Nanos::len), Some(3));
        assert_eq!(sum.quantile(0.1), 0);
        assert!(sum.quantile(0.5).abs_diff(1_000_000) < 1000 && sum.quantile(1.0).abs_diff(HOUR) < HOUR / 1000);
    }
}
