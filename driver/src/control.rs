//! Control by whoever started this driver, over standard input: when to start, signs of life, an early end.
//!
//! Lines: `start NANOSECONDS` (unix time of this host), `stop` ends the run in order, anything else is a sign of life.
//! The end of the input, or silence for longer than the dead-man switch allows, ends the process at once: nobody would
//! read its results.

use crate::sys::process::request_stop;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::{Duration, Instant, SystemTime};

/// A start that would be later than this is not one in step with the other drivers.
const TOLERANCE: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
const STEP: Duration = Duration::from_millis(50);

/// When a run starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAt {
    Now,
    /// Nanoseconds of unix time.
    Unix(u64),
    /// As standard input says.
    Told,
}

impl StartAt {
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "stdin" {
            return Ok(StartAt::Told);
        }
        text.parse().map(StartAt::Unix).map_err(|_| format!("{text}: unix time in nanoseconds, or stdin"))
    }
}

/// Reads standard input in a thread of its own until the process ends. What it hands over are moments to start at.
pub fn listen(limit: Option<Duration>) -> Receiver<u64> {
    let (told, moments) = channel();
    std::thread::spawn(move || {
        // Not through the buffer of `Stdin`, into which poll cannot look.
        let ended = match std::io::stdin().as_fd().try_clone_to_owned() {
            Ok(input) => follow(&mut File::from(input), limit, &told),
            Err(_) => Ended::Closed,
        };
        let why = match ended {
            Ended::Silent => "no line on standard input for as long as --dead-man-switch allows",
            Ended::Closed => "standard input was closed",
        };
        if limit.is_some() {
            // Not eprintln, which panics where nobody is left to read it.
            let _ = writeln!(std::io::stderr(), "leadline-load: ended: {why}");
            std::process::exit(1);
        }
    });
    moments
}

#[derive(Debug, PartialEq)]
enum Ended {
    Closed,
    Silent,
}

fn follow(input: &mut File, limit: Option<Duration>, told: &Sender<u64>) -> Ended {
    let (mut line, mut bytes) = (Vec::new(), [0; 256]);
    loop {
        if !readable(input.as_raw_fd(), limit) {
            return Ended::Silent;
        }
        let count = match input.read(&mut bytes) {
            Ok(0) | Err(_) => return Ended::Closed,
            Ok(count) => count,
        };
        for byte in &bytes[..count] {
            if *byte != b'\n' {
                line.push(*byte);
                line.truncate(64);
                continue;
            }
            let text = String::from_utf8_lossy(&line).into_owned();
            line.clear();
            if text == "stop" {
                request_stop();
            } else if let Some(Ok(moment)) = text.strip_prefix("start ").map(str::parse) {
                let _ = told.send(moment);
            }
        }
    }
}

/// Waits for input, at most until `limit`.
fn readable(file: i32, limit: Option<Duration>) -> bool {
    let deadline = limit.map(|limit| Instant::now() + limit);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let millis = left.map_or(-1, |left| left.as_millis().min(i32::MAX as u128 - 1) as i32 + 1);
        let mut entry = libc::pollfd { fd: file, events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry that lives through the call.
        let found = unsafe { libc::poll(&mut entry, 1, millis) };
        if found > 0 {
            return true;
        }
        if left.is_some_and(|left| left.is_zero()) {
            return false;
        }
    }
}

/// Waits for the start: its moment by the wall clock and by the clock that is never set. None when the run was ended
/// meanwhile.
pub fn wait(at: StartAt, moments: Option<&Receiver<u64>>) -> Result<Option<(SystemTime, Instant)>, String> {
    let unix = match (at, moments) {
        (StartAt::Unix(unix), _) => unix,
        (StartAt::Told, Some(moments)) => loop {
            match moments.recv_timeout(STEP) {
                Ok(unix) => break unix,
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return Ok(None),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    if crate::sys::process::stop_requested() {
                        return Ok(None);
                    }
                }
            }
        },
        _ => return Ok(Some((SystemTime::now(), Instant::now()))),
    };
    let moment = SystemTime::UNIX_EPOCH + Duration::from_nanos(unix);
    let now = Instant::now();
    let start = match moment.duration_since(SystemTime::now()) {
        Ok(left) if left > LONGEST_WAIT => return Err(format!("the start at {unix} is more than an hour away")),
        Ok(left) => now + left,
        Err(late) => {
            now.checked_sub(late.duration()).ok_or_else(|| format!("the start at {unix} lies too far in the past"))?
        }
    };
    loop {
        let left = start.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        if crate::sys::process::stop_requested() {
            return Ok(None);
        }
        std::thread::sleep(left.min(STEP));
    }
    let late = start.elapsed();
    if late > TOLERANCE {
        return Err(format!(
            "started {:.1} ms late (at most {} ms are in step)",
            late.as_secs_f64() * 1e3,
            TOLERANCE.as_millis()
        ));
    }
    Ok(Some((moment, start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn lines_are_heard_and_silence_ends() {
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        let mut theirs = File::from(OwnedFd::from(theirs));
        let (told, moments) = channel();
        ours.write_all(b"\nstart 12").expect("written");
        ours.write_all(b"345\nnonsense\nstart x\n").expect("written");
        assert_eq!(follow(&mut theirs, Some(Duration::from_millis(20)), &told), Ended::Silent);
        assert_eq!(moments.try_iter().collect::<Vec<_>>(), [12345]);
        drop(ours);
        assert_eq!(follow(&mut theirs, None, &told), Ended::Closed);
    }

    #[test]
    fn a_start_in_step_or_an_error() {
        let unix = |offset: i64| {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_nanos();
            (now as i64 + offset) as u64
        };
        assert!(wait(StartAt::Unix(unix(-10_000_000_000)), None).is_err_and(|error| error.contains("late")));
        assert!(wait(StartAt::Unix(unix(7_200_000_000_000)), None).is_err_and(|error| error.contains("hour")));
        let at = unix(20_000_000);
        let (told, moments) = channel();
        told.send(at).expect("heard");
        let (moment, start) = wait(StartAt::Told, Some(&moments)).expect("in step").expect("not ended");
        assert_eq!(moment, SystemTime::UNIX_EPOCH + Duration::from_nanos(at));
        assert!(Instant::now() >= start);
    }

    #[test]
    fn words_for_the_start() {
        assert_eq!(StartAt::parse("stdin"), Ok(StartAt::Told));
        assert_eq!(StartAt::parse("17"), Ok(StartAt::Unix(17)));
        assert!(StartAt::parse("soon").is_err());
    }
}
