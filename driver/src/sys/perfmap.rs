//! `leadline-load perfmap PID`: has a JVM of this host write what it compiled, by address, to `/tmp/perf-PID.map`.
//!
//! This is what `jcmd PID Compiler.perfmap` does, without a JVM of its own.

use std::fs::{read_to_string, remove_file, File};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

const LONGEST: Duration = Duration::from_secs(20);

/// Ends when the file is written.
pub fn write(pid: u32) -> Result<()> {
    if read_to_string(format!("/proc/{pid}/comm"))?.trim_end() != "java" {
        return Err(Error::new(ErrorKind::InvalidInput, "it is no JVM"));
    }
    let path = format!("/tmp/.java_pid{pid}");
    let socket = Path::new(&path);
    if !socket.exists() {
        listen(pid, socket)?;
    }
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LONGEST))?;
    stream.write_all(b"1\0jcmd\0Compiler.perfmap\0\0\0")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once('\n') {
        Some(("0", _)) => Ok(()),
        _ => Err(Error::other(answer.trim().to_string())),
    }
}

/// A JVM listens once it is sent SIGQUIT while there is a file of this name; without one it would print its threads.
fn listen(pid: u32, socket: &Path) -> Result<()> {
    let asked = format!("/tmp/.attach_pid{pid}");
    File::create_new(&asked)?; // of nobody else, who could lead it elsewhere
    let began = Instant::now();
    let sent = super::process::send(pid, libc::SIGQUIT);
    while sent.is_ok() && !socket.exists() && began.elapsed() < LONGEST {
        sleep(Duration::from_millis(20));
    }
    let _ = remove_file(asked);
    sent
}
