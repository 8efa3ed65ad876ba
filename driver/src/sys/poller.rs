//! epoll with nanosecond time-outs.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

pub struct Poller {
    epoll: OwnedFd,
    /// Used where the kernel has no `epoll_pwait2` (before Linux 5.11).
    timer: Option<OwnedFd>,
    events: Vec<libc::epoll_event>,
}

/// Readiness of one registered socket.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub token: u64,
    pub flags: u32,
}

impl Event {
    pub fn readable(&self) -> bool {
        self.flags & (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0
    }

    pub fn writable(&self) -> bool {
        self.flags & (libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0
    }

    /// The peer will send nothing more.
    pub fn closing(&self) -> bool {
        self.flags & (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0
    }
}

const TIMER_TOKEN: u64 = u64::MAX;
const BATCH: usize = 512;

impl Poller {
    pub fn new() -> io::Result<Self> {
        // SAFETY: plain system call; the descriptor returned is owned by nobody else.
        let epoll = unsafe { owned(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }?;
        let mut poller = Poller { epoll, timer: None, events: vec![libc::epoll_event { events: 0, u64: 0 }; BATCH] };
        if let Err(error) = poller.wait_precise(Some(0)) {
            if error.raw_os_error() != Some(libc::ENOSYS) {
                return Err(error);
            }
            poller.use_timer()?;
        }
        // SAFETY: plain system call. The default slack would add 50 us to every sleep.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        Ok(poller)
    }

    fn use_timer(&mut self) -> io::Result<()> {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: plain system call; the descriptor returned is owned by nobody else.
        let timer = unsafe { owned(libc::timerfd_create(libc::CLOCK_MONOTONIC, flags)) }?;
        self.control(timer.as_raw_fd(), (libc::EPOLLIN | libc::EPOLLET) as u32, TIMER_TOKEN)?;
        self.timer = Some(timer);
        Ok(())
    }

    /// Registers a socket for its whole life, edge-triggered. Closing the socket removes it.
    pub fn add(&self, socket: RawFd, token: u64) -> io::Result<()> {
        let flags = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        self.control(socket, flags as u32, token)
    }

    fn control(&self, descriptor: RawFd, flags: u32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: flags, u64: token };
        // SAFETY: `event` lives through the call.
        let result = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, descriptor, &mut event) };
        check(result).map(|_| ())
    }

    /// Waits at most `timeout` nanoseconds; number of events, read with [`Poller::event`]. A signal ends it with 0.
    pub fn wait(&mut self, timeout: u64) -> io::Result<usize> {
        let found = if self.timer.is_some() { self.wait_timer(timeout) } else { self.wait_precise(Some(timeout)) };
        match found {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            other => other,
        }
    }

    /// Whether there may be more events than the `found` ones.
    pub fn is_full(&self, found: usize) -> bool {
        found >= self.events.len()
    }

    pub fn event(&self, at: usize) -> Event {
        let event = self.events[at];
        Event { token: event.u64, flags: event.events }
    }

    fn wait_precise(&mut self, timeout: Option<u64>) -> io::Result<usize> {
        let limit = timeout.map(|ns| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), |t| t as *const libc::timespec);
        // SAFETY: the buffer holds BATCH events and `limit` lives through the call.
        let found = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                BATCH as libc::c_int,
                limit,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        check(found as libc::c_int).map(|n| n as usize)
    }

    fn wait_timer(&mut self, timeout: u64) -> io::Result<usize> {
        let mut limit = 0;
        if let (Some(timer), true) = (&self.timer, timeout > 0) {
            limit = -1;
            let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let value = libc::itimerspec {
                it_interval: zero,
                it_value: libc::timespec {
                    tv_sec: (timeout / 1_000_000_000) as libc::time_t,
                    tv_nsec: (timeout % 1_000_000_000) as libc::c_long,
                },
            };
            // SAFETY: `value` lives through the call; no old value is asked for.
            check(unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &value, std::ptr::null_mut()) })?;
        }
        // SAFETY: the buffer holds BATCH events.
        let found =
            unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), self.events.as_mut_ptr(), BATCH as libc::c_int, limit) };
        check(found).map(|n| n as usize)
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// # Safety
/// `descriptor` is negative or an open descriptor that nothing else owns.
unsafe fn owned(descriptor: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: as promised by the caller.
    check(descriptor).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn both_clocks_wait_at_least_as_long_as_asked() {
        let mut precise = Poller::new().unwrap();
        let mut with_timer = Poller::new().unwrap();
        with_timer.use_timer().unwrap();
        for poller in [&mut precise, &mut with_timer] {
            let start = Instant::now();
            poller.wait(3_000_000).unwrap();
            assert!(start.elapsed() >= Duration::from_millis(3), "{:?}", start.elapsed());
            assert_eq!(poller.wait(0).unwrap(), 0);
        }
    }
}
