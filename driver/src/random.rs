//! Seeded randomness: one independent stream for each purpose of each session.

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// What a stream is for; streams of one session never share state, so that responses of the server
/// (which decide how many values a template draws) cannot change the plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    Plan = 1,
    Data = 2,
    Arrivals = 3,
    Bursts = 4,
}

#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    pub fn new(seed: u64, session: u64, stream: Stream) -> Self {
        let mut state = seed ^ 0x6c65_6164_6c69_6e65;
        for word in [session, stream as u64] {
            state = mix(state.wrapping_add(mix(word.wrapping_add(0x9e37_79b9_7f4a_7c15))));
        }
        Random(Xoshiro256PlusPlus::seed_from_u64(state))
    }

    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `[0, 1)`, 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `low..=high` (Lemire's multiplication; its bias is below 2^-64 times the range).
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let (low, high) = if low <= high { (low, high) } else { (high, low) };
        let range = (high as i128 - low as i128 + 1) as u128;
        let offset = (self.word() as u128 * range) >> 64;
        (low as i128 + offset as i128) as i64
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_repeatable_and_distinct() {
        let draw = |seed, session, stream| Random::new(seed, session, stream).word();
        assert_eq!(draw(1, 1, Stream::Plan), draw(1, 1, Stream::Plan));
        assert_ne!(draw(1, 1, Stream::Plan), draw(1, 1, Stream::Data));
        assert_ne!(draw(1, 1, Stream::Plan), draw(1, 2, Stream::Plan));
        assert_ne!(draw(1, 1, Stream::Plan), draw(2, 1, Stream::Plan));
    }

    #[test]
    fn ranges_hold_their_ends() {
        let mut random = Random::new(7, 1, Stream::Data);
        let drawn: Vec<i64> = (0..1000).map(|_| random.between(1, 6)).collect();
        assert_eq!(drawn.iter().min(), Some(&1));
        assert_eq!(drawn.iter().max(), Some(&6));
        assert_eq!(random.between(5, 5), 5);
        assert_ne!(random.between(i64::MIN, i64::MAX), random.between(i64::MIN, i64::MAX));
    }

    #[test]
    fn exponential_has_mean_one() {
        let mut random = Random::new(3, 1, Stream::Arrivals);
        let mean = (0..100_000).map(|_| random.exponential()).sum::<f64>() / 100_000.0;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
    }
}
