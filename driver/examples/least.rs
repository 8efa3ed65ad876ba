//! The least that a generator can do which starts its requests one by one and in time: wakes, sends a fixed request over
//! a connection that is open, reads what came of the one before; it looks at nothing. For bench/driver, against its
//! session_server.
//!
//! least --port 16000 --rate 2000 --seconds 5
//!
//! Prints the requests sent, the bytes read, and the CPU seconds from the first request on.

use leadline_load::sys::alarms::Alarms;
use leadline_load::sys::process::Cpu;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| -> u64 {
        let at = arguments.iter().position(|a| a == name).unwrap_or_else(|| panic!("{name} is missing"));
        arguments[at + 1].parse().unwrap_or_else(|_| panic!("{name}: not a whole number"))
    };
    // SAFETY: plain system call. The default slack would add 50 us to every sleep.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let mut server = TcpStream::connect(("127.0.0.1", u16::try_from(option("--port")).expect("a port")))?;
    server.set_nodelay(true)?;
    server.set_nonblocking(true)?;
    let (gap, count) = (1_000_000_000 / option("--rate"), option("--rate") * option("--seconds"));
    let request = b"GET /look HTTP/1.1\r\nHost: 127.0.0.1:16000\r\nCookie: sid=s1x\r\n\r\n";
    let (mut alarms, mut buffer, mut read) = (Alarms::new()?, vec![0; 64 << 10], 0u64);
    let start = Instant::now();
    let before = Cpu::of_process().total();
    for number in 1..=count {
        let due = number * gap;
        alarms.sleep(start.elapsed().as_nanos() as u64, due, due + gap);
        server.write_all(request)?;
        read += came(&mut server, &mut buffer)?;
    }
    let cpu = Cpu::of_process().total() - before;
    std::thread::sleep(Duration::from_millis(100));
    read += came(&mut server, &mut buffer)?;
    println!("{count} {read} {cpu}");
    Ok(())
}

/// Bytes that lay there.
fn came(server: &mut TcpStream, buffer: &mut [u8]) -> std::io::Result<u64> {
    match server.read(buffer) {
        Ok(count) => Ok(count as u64),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(error),
    }
}
