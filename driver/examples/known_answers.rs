//! A server whose response times are known: each request is answered after a fixed service time, without any
//! limit on concurrency, and the whole server stands still at fixed moments. Loopback only, for bench/driver.
//!
//! known_answers --port 16000 [--service-us 1000] [--freeze-ms 200 --period-ms 2000] [--body 100]

use leadline_load::sys::poller::Poller;
use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const LISTENER: u64 = u64::MAX - 1;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str, otherwise: u64| -> u64 {
        let at = arguments.iter().position(|a| a == name);
        at.and_then(|at| arguments.get(at + 1))
            .map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name} {text}: not a whole number")))
    };
    let listener = TcpListener::bind(("127.0.0.1", option("--port", 16000) as u16))?;
    let (service, body) = (Duration::from_micros(option("--service-us", 1000)), option("--body", 100) as usize);
    let freeze = Duration::from_millis(option("--freeze-ms", 0));
    let period = Duration::from_millis(option("--period-ms", 2000));
    serve(&listener, service, freeze, period, body)
}

struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

fn serve(
    listener: &TcpListener,
    service: Duration,
    freeze: Duration,
    period: Duration,
    body: usize,
) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    // A freeze must not overflow the queue of new connections: lost SYNs are resent after a second.
    // SAFETY: listening again only changes the length of the queue.
    unsafe { libc::listen(listener.as_raw_fd(), 4096) };
    let mut poller = Poller::new()?;
    poller.add(listener.as_raw_fd(), LISTENER)?;
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: keep-alive\r\nContent-Length: {body}\r\n\r\n"
    );
    let answer = [head.into_bytes(), vec![b'x'; body]].concat();
    let mut clients: HashMap<u64, Client> = HashMap::new();
    let mut due: VecDeque<(Instant, u64)> = VecDeque::new();
    let mut buffer = vec![0u8; 64 << 10];
    let mut next_token = 0u64;
    let start = Instant::now();
    let mut next_freeze = start + period;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let now = Instant::now();
        if !freeze.is_zero() && now >= next_freeze {
            std::thread::sleep((next_freeze + freeze).saturating_duration_since(now));
            next_freeze += period;
            continue;
        }
        while due.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, token)) = due.pop_front() {
                reply(&mut clients, token, &answer);
            }
        }
        let mut wake = due.front().map_or(now + Duration::from_secs(1), |(at, _)| *at);
        if !freeze.is_zero() {
            wake = wake.min(next_freeze);
        }
        let found = poller.wait(wake.saturating_duration_since(Instant::now()).as_nanos() as u64)?;
        for at in 0..found {
            let event = poller.event(at);
            if event.token == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    poller.add(stream.as_raw_fd(), next_token)?;
                    clients.insert(next_token, Client { stream, received: Vec::new() });
                    next_token += 1;
                }
            } else if event.readable() {
                let requests = read(&mut clients, event.token, &mut buffer);
                let at = Instant::now() + service;
                for _ in 0..requests {
                    if service.is_zero() {
                        reply(&mut clients, event.token, &answer);
                    } else {
                        due.push_back((at, event.token));
                    }
                }
            }
        }
    }
}

/// Complete requests (without bodies) that came in.
fn read(clients: &mut HashMap<u64, Client>, token: u64, buffer: &mut [u8]) -> usize {
    let Some(client) = clients.get_mut(&token) else { return 0 };
    loop {
        match client.stream.read(buffer) {
            Ok(0) => {
                clients.remove(&token);
                return 0;
            }
            Ok(count) => {
                client.received.extend_from_slice(&buffer[..count]);
                if count < buffer.len() {
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(_) => {
                clients.remove(&token);
                return 0;
            }
        }
    }
    let mut requests = 0;
    while let Some(end) = client.received.windows(4).position(|w| w == b"\r\n\r\n") {
        client.received.drain(..end + 4);
        requests += 1;
    }
    requests
}

fn reply(clients: &mut HashMap<u64, Client>, token: u64, answer: &[u8]) {
    if let Some(client) = clients.get_mut(&token) {
        if client.stream.write_all(answer).is_err() {
            clients.remove(&token);
        }
    }
}
