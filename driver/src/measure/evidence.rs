//! Was the driver the limit? Four tests, each with its evidence.

use crate::units::millis;

/// Above this share of its core the loop can no longer be trusted to be on time.
const CPU_SHARE: f64 = 0.9;
/// Lags below this are the kernel's wake-up time, not the driver's.
const SMALL_LAG: u64 = 1_000_000;
/// Share of the mean response time that may be the driver's own lag.
const LAG_SHARE: f64 = 0.1;
/// Share of the planned work that must have been started.
const STARTED: f64 = 0.98;

#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// CPU seconds of the loop's thread over the seconds of the steady phase.
    pub cpu_share: f64,
    pub lag_mean: u64,
    pub lag_p99: u64,
    pub response_mean: u64,
    pub response_p50: u64,
    pub planned: u64,
    pub started: u64,
    pub dropped: u64,
    /// Connections that this host could not make.
    pub unmade: u64,
}

/// Whether the driver was the limit, and one sentence for each test.
pub fn judge(e: &Evidence) -> (bool, Vec<String>) {
    let mut limit = false;
    let mut sentences = Vec::new();
    let mut say = |bad: bool, text: String| {
        limit |= bad;
        sentences.push(format!("{}: {text}", if bad { "limit" } else { "fine" }));
    };
    say(
        e.cpu_share > CPU_SHARE,
        format!("the loop used {:.1} % of a core (bound {:.0} %)", e.cpu_share * 100.0, CPU_SHARE * 100.0),
    );
    let bound = e.response_p50.max(SMALL_LAG);
    let starts = format!("99 % of the starts were at most {:.3} ms late", millis(e.lag_p99));
    match e.response_mean {
        // Nothing succeeded or timed out: late or not, there is no time that the driver could have spoiled.
        0 => say(false, format!("{starts}; no response time was measured that this could be compared with")),
        mean => {
            let late = e.lag_p99 > bound && e.lag_mean as f64 > LAG_SHARE * mean as f64;
            let (average, share) = (millis(e.lag_mean), 100.0 * e.lag_mean as f64 / mean as f64);
            let share = if share > 100.0 { "more than 100".to_string() } else { format!("{share:.1}") };
            say(
                late,
                format!(
                    "{starts} (bound {:.3} ms, the median response time or 1 ms), on average {average:.3} ms, {share} \
                     % of the mean response time (bound {:.0} %)",
                    millis(bound),
                    100.0 * LAG_SHARE
                ),
            );
        }
    }
    // Dropped arrivals are the server's doing, or that of the bound on sessions: the run's verdict counts them.
    let expected = e.planned.saturating_sub(e.dropped);
    say(
        (e.started as f64) < STARTED * expected as f64,
        format!("{} of {expected} planned starts that were not dropped happened", e.started),
    );
    say(
        e.unmade > 0,
        format!("{} connections could not be made for want of ports, open files or memory on this host", e.unmade),
    );
    (limit, sentences)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fine() -> Evidence {
        Evidence {
            cpu_share: 0.3,
            lag_mean: 20_000,
            lag_p99: 100_000,
            response_mean: 2_000_000,
            response_p50: 1_500_000,
            planned: 1000,
            started: 1000,
            dropped: 0,
            unmade: 0,
        }
    }

    #[test]
    fn an_idle_driver_is_not_the_limit() {
        let (limit, evidence) = judge(&fine());
        assert!(!limit);
        assert_eq!(evidence.len(), 4);
    }

    #[test]
    fn each_test_can_fail_alone() {
        assert!(judge(&Evidence { cpu_share: 0.95, ..fine() }).0);
        assert!(judge(&Evidence { lag_p99: 5_000_000, lag_mean: 500_000, ..fine() }).0);
        assert!(judge(&Evidence { started: 900, ..fine() }).0);
        assert!(judge(&Evidence { unmade: 1, ..fine() }).0);
        assert!(!judge(&Evidence { started: 900, dropped: 100, ..fine() }).0);
    }

    #[test]
    fn a_driver_whose_server_is_dead_does_not_blame_itself() {
        let nothing = Evidence { response_mean: 0, response_p50: 0, lag_mean: 116_054, lag_p99: 2_000_000, ..fine() };
        let (limit, evidence) = judge(&nothing);
        assert!(!limit && evidence[1].contains("no response time was measured"), "{evidence:?}");
        let late = Evidence { response_mean: 1000, response_p50: 900, ..nothing };
        let (limit, evidence) = judge(&late);
        assert!(limit && evidence[1].contains("more than 100 % of the mean"), "{evidence:?}");
    }
}
