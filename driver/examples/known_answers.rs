//! A server whose response times are known: each request is answered after a fixed service time, without any
//! limit on concurrency, and the whole server stands still at fixed moments. Loopback only, for bench/driver.
//!
//! known_answers --port 16000 [--service-us 1000] [--freeze-ms 200 --period-ms 2000] [--body 100] [--log FILE]
//!
//! With a log it writes down, when SIGTERM ends it, what it really did, in Unix nanoseconds: a line `freeze FROM UNTIL`
//! for each freeze, and `PATH CAME READ ANSWERING SENT` for each request: when the kernel received it, when the server
//! read it, when it began to hand its answer to the kernel, and when the kernel gave that to the (loopback) device, which
//! is when it reaches the other side.

use leadline_load::sys::poller::Poller;
use leadline_load::sys::process::{catch_signals, stop_requested};
use leadline_load::sys::stamp::{enable, receive, receive_as, unix_now};
use std::collections::{HashMap, VecDeque};
use std::io::{BufWriter, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

const LISTENER: u64 = u64::MAX - 1;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |name: &str| {
        let at = arguments.iter().position(|a| a == name)?;
        arguments.get(at + 1).cloned()
    };
    let option = |name: &str, otherwise: u64| -> u64 {
        text(name)
            .map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name} {text}: not a whole number")))
    };
    let listener = TcpListener::bind(("127.0.0.1", option("--port", 16000) as u16))?;
    let body = option("--body", 100) as usize;
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: keep-alive\r\nContent-Length: {body}\r\n\r\n"
    );
    let server = Server {
        service: Duration::from_micros(option("--service-us", 1000)),
        freeze: Duration::from_millis(option("--freeze-ms", 0)),
        period: Duration::from_millis(option("--period-ms", 2000)),
        answer: [head.into_bytes(), vec![b'x'; body]].concat(),
        clients: HashMap::new(),
        log: text("--log").map(|_| Log::default()),
    };
    catch_signals()?;
    let log = server.serve(&listener)?;
    match (text("--log"), log) {
        (Some(path), Some(log)) => log.write(&path),
        _ => Ok(()),
    }
}

/// Asks the kernel to stamp what the socket sends, too (Documentation/networking/timestamping.rst).
fn enable_sent(socket: RawFd) {
    let flags =
        libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    // SAFETY: `flags` lives through the call and its size is given.
    let result = unsafe {
        libc::setsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            size_of_val(&flags) as u32,
        )
    };
    assert_eq!(result, 0, "the kernel does not stamp what is sent");
}

/// When the kernel gave what was just sent to the device, Unix nanoseconds. Loopback does so within the call.
fn sent(socket: RawFd) -> u64 {
    let found = receive_as(socket, &mut [0; 1], libc::MSG_ERRQUEUE);
    found.ok().and_then(|(_, stamp)| stamp).expect("a stamp of what was sent")
}

struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

/// A request being served.
struct Request {
    client: u64,
    path: String,
    came: u64,
    read: u64,
}

#[derive(Default)]
struct Log {
    freezes: Vec<(u64, u64)>,
    requests: Vec<(Request, u64, u64)>,
}

impl Log {
    fn write(&self, path: &str) -> std::io::Result<()> {
        let mut file = BufWriter::new(std::fs::File::create(path)?);
        for (from, until) in &self.freezes {
            writeln!(file, "freeze {from} {until}")?;
        }
        for (request, answering, sent) in &self.requests {
            writeln!(file, "{} {} {} {answering} {sent}", request.path, request.came, request.read)?;
        }
        file.flush()
    }
}

struct Server {
    service: Duration,
    freeze: Duration,
    period: Duration,
    answer: Vec<u8>,
    clients: HashMap<u64, Client>,
    log: Option<Log>,
}

impl Server {
    fn serve(mut self, listener: &TcpListener) -> std::io::Result<Option<Log>> {
        listener.set_nonblocking(true)?;
        // A freeze must not overflow the queue of new connections: lost SYNs are resent after a second.
        // SAFETY: listening again only changes the length of the queue.
        unsafe { libc::listen(listener.as_raw_fd(), 4096) };
        if self.log.is_some() {
            enable(listener.as_raw_fd()); // inherited by what is accepted
        }
        let mut poller = Poller::new()?;
        poller.add(listener.as_raw_fd(), LISTENER)?;
        let mut due: VecDeque<(Instant, Request)> = VecDeque::new();
        let mut buffer = vec![0u8; 64 << 10];
        let mut next_token = 0u64;
        let mut next_freeze = Instant::now() + self.period;
        println!("listening on {}", listener.local_addr()?);
        while !stop_requested() {
            let now = Instant::now();
            if !self.freeze.is_zero() && now >= next_freeze {
                let from = unix_now();
                std::thread::sleep((next_freeze + self.freeze).saturating_duration_since(now));
                if let Some(log) = &mut self.log {
                    log.freezes.push((from, unix_now()));
                }
                next_freeze += self.period;
                continue;
            }
            while due.front().is_some_and(|(at, _)| *at <= now) {
                if let Some((_, request)) = due.pop_front() {
                    self.reply(request);
                }
            }
            let mut wake = due.front().map_or(now + Duration::from_secs(1), |(at, _)| *at);
            if !self.freeze.is_zero() {
                wake = wake.min(next_freeze);
            }
            let found = poller.wait(wake.saturating_duration_since(Instant::now()).as_nanos() as u64)?;
            for at in 0..found {
                let event = poller.event(at);
                if event.token == LISTENER {
                    while let Ok((stream, _)) = listener.accept() {
                        stream.set_nonblocking(true)?;
                        stream.set_nodelay(true)?;
                        if self.log.is_some() {
                            enable_sent(stream.as_raw_fd());
                        }
                        poller.add(stream.as_raw_fd(), next_token)?;
                        self.clients.insert(next_token, Client { stream, received: Vec::new() });
                        next_token += 1;
                    }
                } else if event.readable() {
                    for request in self.read(event.token, &mut buffer) {
                        if self.service.is_zero() {
                            self.reply(request);
                        } else {
                            due.push_back((Instant::now() + self.service, request));
                        }
                    }
                }
            }
        }
        Ok(self.log)
    }

    /// Complete requests (without bodies) that came in.
    fn read(&mut self, token: u64, buffer: &mut [u8]) -> Vec<Request> {
        let Some(client) = self.clients.get_mut(&token) else { return Vec::new() };
        let mut came = None;
        loop {
            match receive(client.stream.as_raw_fd(), buffer) {
                Ok((count, stamp)) if count > 0 => {
                    came = stamp.or(came);
                    client.received.extend_from_slice(&buffer[..count]);
                    if count < buffer.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                _ => {
                    self.clients.remove(&token);
                    return Vec::new();
                }
            }
        }
        let logging = self.log.is_some();
        let read = if logging { unix_now() } else { 0 };
        let mut requests = Vec::new();
        while let Some(end) = client.received.windows(4).position(|w| w == b"\r\n\r\n") {
            let path = if logging { path_of(&client.received[..end]) } else { String::new() };
            client.received.drain(..end + 4);
            requests.push(Request { client: token, path, came: came.unwrap_or(read), read });
        }
        requests
    }

    fn reply(&mut self, request: Request) {
        let Some(client) = self.clients.get_mut(&request.client) else { return };
        let answering = if self.log.is_some() { unix_now() } else { 0 };
        if client.stream.write_all(&self.answer).is_err() {
            self.clients.remove(&request.client);
            return;
        }
        if let Some(log) = &mut self.log {
            let sent = sent(client.stream.as_raw_fd());
            assert!(sent >= answering, "the stamp of an earlier answer: one call has to send a whole one");
            log.requests.push((request, answering, sent));
        }
    }
}

fn path_of(head: &[u8]) -> String {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or(head);
    String::from_utf8_lossy(line.split(|byte| *byte == b' ').nth(1).unwrap_or(b"-")).into_owned()
}
