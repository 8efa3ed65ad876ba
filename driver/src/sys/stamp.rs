//! Kernel receive time stamps: when bytes reached this host, however late they are read.

use std::io;
use std::os::fd::RawFd;
use std::time::Instant;

/// Asks the kernel to stamp what the socket receives (socket(7), SO_TIMESTAMPNS). A kernel that does not only leaves
/// the stamps out.
pub fn enable(socket: RawFd) {
    let on: libc::c_int = 1;
    // SAFETY: `on` lives through the call and its size is given.
    unsafe {
        libc::setsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as u32,
        )
    };
}

/// Reads, with the moment the last byte read came in, Unix nanoseconds.
pub fn receive(socket: RawFd, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    receive_as(socket, buffer, 0)
}

/// The same with flags of recv(2).
pub fn receive_as(socket: RawFd, buffer: &mut [u8], flags: libc::c_int) -> io::Result<(usize, Option<u64>)> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // Aligned as control messages have to be.
    let mut control = [0u64; 16];
    // SAFETY: the structure is plain data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the message points to buffers that live through the call, with their lengths.
    let count = unsafe { libc::recvmsg(socket, &raw mut message, flags) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut stamp = None;
    // SAFETY: the kernel filled in the control messages and their length; a stamp is one timespec.
    unsafe {
        let mut each = libc::CMSG_FIRSTHDR(&raw const message);
        while !each.is_null() {
            if (*each).cmsg_level == libc::SOL_SOCKET && (*each).cmsg_type == libc::SCM_TIMESTAMPNS {
                let time: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(each).cast());
                stamp = Some(nanoseconds(time)).filter(|ns| *ns > 0);
            }
            each = libc::CMSG_NXTHDR(&raw const message, each);
        }
    }
    Ok((count as usize, stamp))
}

/// Turns Unix nanoseconds into nanoseconds since the start of the run.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    /// Unix time at the start of the run, as of `measured`.
    zero: u64,
    measured: u64,
}

/// The two clocks are compared this often, because the time of day may be slewed or set.
const COMPARED: u64 = 50_000_000;

impl Clock {
    pub fn new(start: Instant) -> Self {
        let mut clock = Clock { start, zero: 0, measured: 0 };
        clock.compare();
        clock
    }

    /// The moment of a stamp; None when it lies before `earliest` or after `now`, as after a step of the time of day.
    pub fn moment(&mut self, stamp: u64, earliest: u64, now: u64) -> Option<u64> {
        if now > self.measured + COMPARED {
            self.compare();
        }
        stamp.checked_sub(self.zero).filter(|at| (earliest..=now).contains(at))
    }

    fn compare(&mut self) {
        let mut best = u64::MAX;
        for _ in 0..3 {
            let before = self.start.elapsed().as_nanos() as u64;
            let unix = unix_now();
            let after = self.start.elapsed().as_nanos() as u64;
            if after - before < best {
                best = after - before;
                self.zero = unix.saturating_sub(before + best / 2);
                self.measured = after;
            }
        }
    }
}

/// Whether responses may stay unread in the socket buffer: the kernel stamps all of them. One without a stamp, or with
/// one that cannot be (after a step of the time of day), ends that until as many as [`Stamping::AGAIN`] in a row had
/// one.
#[derive(Debug, Default)]
pub struct Stamping {
    seen: bool,
    doubts: u32,
}

impl Stamping {
    const AGAIN: u32 = 1000;

    /// A stamp came with what was read.
    pub fn came(&mut self) {
        self.seen = true;
        self.doubts = self.doubts.saturating_sub(1);
    }

    /// None came, or none that can be.
    pub fn lacked(&mut self) {
        self.doubts = if self.seen { Self::AGAIN } else { 0 };
    }

    pub fn holds(&self) -> bool {
        self.seen && self.doubts == 0
    }
}

/// Unix time, nanoseconds.
pub fn unix_now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives through the call.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    nanoseconds(time)
}

fn nanoseconds(time: libc::timespec) -> u64 {
    (time.tv_sec.max(0) as u64) * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    #[test]
    fn a_stamp_is_from_the_arrival_not_from_the_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        enable(receiver.as_raw_fd());
        let start = Instant::now();
        let mut clock = Clock::new(start);
        let mut buffer = [0; 8];
        let mut stamped = None;
        // The kernel may begin to stamp a moment after it was asked to.
        for _ in 0..20 {
            let sent = start.elapsed();
            sender.write_all(b"abc").unwrap();
            std::thread::sleep(Duration::from_millis(20));
            let read = start.elapsed();
            let (count, stamp) = receive(receiver.as_raw_fd(), &mut buffer).unwrap();
            assert_eq!(&buffer[..count], b"abc");
            if let Some(stamp) = stamp {
                stamped = clock.moment(stamp, sent.as_nanos() as u64, read.as_nanos() as u64).map(|at| (at, read));
                break;
            }
        }
        let (at, read) = stamped.expect("a stamp between the write and the read");
        assert!(read.as_nanos() as u64 - at > 10_000_000, "{at} {read:?}");
        sender.shutdown(std::net::Shutdown::Both).unwrap();
        assert_eq!(receive(receiver.as_raw_fd(), &mut buffer).unwrap(), (0, None));
    }

    #[test]
    fn stamps_are_relied_on_again_after_one_was_missing() {
        let mut stamping = Stamping::default();
        stamping.lacked(); // the kernel may begin to stamp late: that casts no doubt on those that come
        assert!(!stamping.holds());
        stamping.came();
        assert!(stamping.holds());
        stamping.lacked();
        (1..Stamping::AGAIN).for_each(|_| stamping.came());
        assert!(!stamping.holds());
        stamping.came();
        assert!(stamping.holds());
        stamping.lacked();
        (1..Stamping::AGAIN).for_each(|_| stamping.came());
        stamping.lacked();
        stamping.came();
        assert!(!stamping.holds(), "not in a row");
    }

    #[test]
    fn impossible_moments_are_refused() {
        let mut clock = Clock { start: Instant::now(), zero: 1000, measured: 0 };
        assert_eq!(clock.moment(1500, 100, 600), Some(500));
        assert_eq!(clock.moment(1500, 501, 600), None);
        assert_eq!(clock.moment(1500, 100, 499), None);
        assert_eq!(clock.moment(10, 0, 499), None);
    }
}
