//! A server with sessions, for bench/driver: one thread, answers at once, trusts nobody. Loopback only.
//!
//! session_server --port 16000
//!
//! `POST /login` sets the cookie `sid`; every other request without it is answered 403. Pages hold a token in a form
//! field; `POST /act` without the token of the session in its body is answered 403. `POST /logout` ends it.
//! `GET /counts` tells, as JSON, how many requests of each kind were answered rightly, and how many were refused, and
//! how many connections there were; it is counted nowhere.

use leadline_load::sys::poller::Poller;
use leadline_load::sys::process::{catch_signals, stop_requested};
use std::collections::{BTreeMap, HashMap};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

const LISTENER: u64 = u64::MAX - 1;

/// What was asked for so far.
#[derive(Default)]
struct Seen {
    sessions: u64,
    connections: u64,
    counts: BTreeMap<&'static str, u64>,
}

impl Seen {
    fn counts(&self) -> String {
        let counts = self.counts.iter().map(|(kind, count)| format!("\"{kind}\": {count}, ")).collect::<String>();
        format!("{{{counts}\"connections\": {}}}", self.connections)
    }
}

struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let at = arguments.iter().position(|a| a == "--port");
    let port = at.and_then(|at| arguments.get(at + 1)).map_or(16000, |text| text.parse().expect("a port"));
    catch_signals()?;
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    // SAFETY: listening again only changes the length of the queue.
    unsafe { libc::listen(listener.as_raw_fd(), 16384) };
    let mut poller = Poller::new()?;
    poller.add(listener.as_raw_fd(), LISTENER)?;
    let (mut clients, mut next, mut seen) = (HashMap::new(), 0u64, Seen::default());
    let mut buffer = vec![0; 64 << 10];
    println!("listening on {}", listener.local_addr()?);
    while !stop_requested() {
        let found = poller.wait(1_000_000_000)?;
        for at in 0..found {
            let event = poller.event(at);
            if event.token == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    poller.add(stream.as_raw_fd(), next)?;
                    clients.insert(next, Client { stream, received: Vec::new() });
                    next += 1;
                    seen.connections += 1;
                }
            } else if event.readable() {
                let stays = clients.get_mut(&event.token).is_none_or(|client| serve(client, &mut buffer, &mut seen));
                if !stays {
                    clients.remove(&event.token);
                }
            }
        }
    }
    Ok(())
}

/// Reads and answers; false when the connection is over.
fn serve(client: &mut Client, buffer: &mut [u8], seen: &mut Seen) -> bool {
    loop {
        match client.stream.read(buffer) {
            Ok(0) => return false,
            Ok(count) => {
                client.received.extend_from_slice(&buffer[..count]);
                if count < buffer.len() {
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(_) => return false,
        }
    }
    while let Some(end) = client.received.windows(4).position(|w| w == b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&client.received[..end]).into_owned();
        let length = header(&head, "content-length").and_then(|text| text.parse::<usize>().ok()).unwrap_or(0);
        if client.received.len() < end + 4 + length {
            break;
        }
        let body = String::from_utf8_lossy(&client.received[end + 4..end + 4 + length]).into_owned();
        client.received.drain(..end + 4 + length);
        if client.stream.write_all(answer(&head, &body, seen).as_bytes()).is_err() {
            return false;
        }
    }
    true
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}

fn answer(head: &str, body: &str, seen: &mut Seen) -> String {
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    if path == "/counts" {
        let page = seen.counts();
        return format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{page}", page.len());
    }
    let sid = header(head, "cookie").and_then(|text| text.split("sid=").nth(1)).and_then(|s| s.split(';').next());
    let sid = sid.filter(|sid| !sid.is_empty());
    let mut more = String::new();
    let (kind, page) = match (method, path, sid) {
        ("POST", "/login", _) => {
            seen.sessions += 1;
            more = format!("Set-Cookie: sid=s{}x; Path=/\r\n", seen.sessions);
            ("login", "<p>Welcome</p>".to_string())
        }
        (_, _, None) => ("refused", "no session".into()),
        ("POST", "/logout", Some(_)) => {
            more = "Set-Cookie: sid=; Max-Age=0; Path=/\r\n".into();
            ("logout", "<p>Bye</p>".into())
        }
        ("POST", "/act", Some(sid)) if !body.contains(&format!("token=t{sid}")) => ("refused", "wrong token".into()),
        ("POST", "/act", Some(_)) => ("act", "<p>done</p>".into()),
        ("GET", "/look" | "/form", Some(sid)) => {
            let form = format!("<form><input name=\"token\" value=\"t{sid}\"></form>");
            let page = format!("<h1>page</h1>{form}{}", "<p>text</p>".repeat(80));
            (if path == "/look" { "look" } else { "form" }, page)
        }
        _ => ("refused", "nothing here".into()),
    };
    let status = if kind == "refused" { "403 Forbidden" } else { "200 OK" };
    *seen.counts.entry(kind).or_insert(0) += 1;
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: text/html\r\nCache-Control: no-store\r\n{more}");
    format!("{head}Content-Length: {}\r\n\r\n{page}", page.len())
}
