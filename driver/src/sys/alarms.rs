//! Sleeping until a moment, with the moment after it armed as well.
//!
//! A timer that becomes its CPU's next one has to be written to the CPU's timer device, which costs a virtual machine
//! an exit to its host. One that is armed while an earlier one is pending only joins a queue, and when the earlier one
//! rings, the kernel's interrupt writes the next one to the device, as it does in any case.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// An alarm this near a moment serves for it, nanoseconds: the lead changes a little from one start to the next.
const NEAR: u64 = 3_000;
/// A moment further away is not armed ahead.
const FAR: u64 = 1_000_000_000;

#[derive(Debug)]
struct Alarm {
    timer: OwnedFd,
    /// When it rings; a moment of the past where it is not armed.
    at: u64,
}

impl Alarm {
    fn new() -> io::Result<Self> {
        // SAFETY: plain system call; the descriptor returned is owned by nobody else.
        let timer = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
        if timer < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(Alarm { timer: unsafe { OwnedFd::from_raw_fd(timer) }, at: 0 })
    }

    fn serves(&self, moment: u64, now: u64) -> bool {
        self.at > now && self.at.abs_diff(moment) <= NEAR
    }

    fn arm(&mut self, at: u64, now: u64) {
        let left = at - now;
        let value = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: libc::timespec {
                tv_sec: (left / 1_000_000_000) as libc::time_t,
                tv_nsec: (left % 1_000_000_000) as libc::c_long,
            },
        };
        // SAFETY: `value` lives through the call; no old value is asked for. It cannot fail with such a time.
        unsafe { libc::timerfd_settime(self.timer.as_raw_fd(), 0, &raw const value, std::ptr::null_mut()) };
        self.at = at;
    }

    /// Until it rings, or a signal comes.
    fn wait(&mut self) {
        let mut rung = 0u64;
        // SAFETY: the buffer takes the eight bytes that a timer gives.
        unsafe { libc::read(self.timer.as_raw_fd(), (&raw mut rung).cast(), size_of::<u64>()) };
        self.at = 0;
    }
}

/// Times are nanoseconds of the caller's clock, which must run as CLOCK_MONOTONIC does.
#[derive(Debug)]
pub struct Alarms {
    alarms: [Alarm; 2],
}

impl Alarms {
    pub fn new() -> io::Result<Self> {
        Ok(Alarms { alarms: [Alarm::new()?, Alarm::new()?] })
    }

    /// Sleeps from `now` until `until` and arms `after` (any moment that is not later: none) for the next sleep. Returns
    /// when the kernel was to end the sleep, 3 us from `until` at most. A signal ends it.
    pub fn sleep(&mut self, now: u64, until: u64, after: u64) -> u64 {
        if until <= now {
            return until;
        }
        let found = |alarms: &[Alarm; 2], moment| alarms.iter().position(|alarm| alarm.serves(moment, now));
        let this = found(&self.alarms, until).unwrap_or_else(|| {
            let free = found(&self.alarms, after).map_or(0, |taken| 1 - taken);
            self.alarms[free].arm(until, now);
            free
        });
        let other = &mut self.alarms[1 - this];
        if after > until + NEAR && after < now + FAR && !other.serves(after, now) {
            other.arm(after, now);
        }
        let at = self.alarms[this].at;
        self.alarms[this].wait();
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn sleeps_last_as_long_as_asked_whatever_was_armed_ahead() {
        let mut alarms = Alarms::new().unwrap();
        let start = Instant::now();
        let now = || start.elapsed().as_nanos() as u64;
        let ms = 1_000_000;
        // As planned; earlier than planned; the plan forgotten; nothing planned; an alarm of the past.
        for (until, after) in [(5, 10), (10, 30), (15, 18), (40, 42), (41, 50), (50, 0), (53, 200), (56, 57)] {
            let asked = until * ms;
            let rung = alarms.sleep(now(), asked, after * ms);
            assert!(rung.abs_diff(asked) <= NEAR, "{rung} for {asked}");
            assert!(now() >= rung, "woken at {} before {rung}", now());
        }
        let begun = now();
        assert_eq!(alarms.sleep(begun, begun - 1, begun + ms), begun - 1, "nothing to wait for");
    }

    #[test]
    fn the_moment_after_is_armed_once() {
        let mut alarms = Alarms::new().unwrap();
        let start = Instant::now();
        let now = || start.elapsed().as_nanos() as u64;
        let (first, second) = (now() + 5_000_000, now() + 20_000_000);
        alarms.sleep(now(), first, second);
        let ahead: Vec<u64> = alarms.alarms.iter().map(|alarm| alarm.at).filter(|at| *at > 0).collect();
        assert_eq!(ahead, [second]);
        assert_eq!(alarms.sleep(now(), second + 1_000, second + 5_000_000), second, "not the one that was armed");
    }
}
