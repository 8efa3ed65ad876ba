//! Non-blocking stream sockets: TCP and Unix.

use super::stamp;
use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq)]
pub enum Peer {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// The connection could not be made for want of something on this host, whatever the server does.
pub fn of_this_host(error: &io::Error) -> bool {
    let wants = [libc::EADDRNOTAVAIL, libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    error.raw_os_error().is_some_and(|code| wants.contains(&code))
}

#[derive(Debug)]
pub struct Socket {
    descriptor: OwnedFd,
    stamped: Cell<bool>,
    stamp: Cell<Option<u64>>,
}

impl Socket {
    /// Begins to connect, from `source` where one is given (TCP only). The poller says when that is done; ask
    /// [`Socket::error`] then.
    pub fn connect(peer: &Peer, source: Option<IpAddr>) -> io::Result<Self> {
        match peer {
            Peer::Tcp(address) => {
                let socket = Socket::new(if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 })?;
                socket.set(libc::IPPROTO_TCP, libc::TCP_NODELAY);
                if let Some(source) = source {
                    // The port is chosen when connecting: one port then serves many servers and addresses.
                    socket.set(libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
                    let raw = Raw::of(&SocketAddr::new(source, 0));
                    // SAFETY: `raw` lives through the call and its size is given.
                    check(unsafe { libc::bind(socket.fd(), raw.pointer(), raw.size()) } as isize)?;
                }
                let raw = Raw::of(address);
                // SAFETY: `raw` lives through the call and its size is given.
                let result = unsafe { libc::connect(socket.fd(), raw.pointer(), raw.size()) };
                socket.begun(result)
            }
            Peer::Unix(path) => {
                let socket = Socket::new(libc::AF_UNIX)?;
                let raw = unix(path)?;
                // SAFETY: `raw` lives through the call and its size is given.
                let result = unsafe {
                    libc::connect(socket.fd(), (&raw const raw).cast(), size_of_val(&raw) as libc::socklen_t)
                };
                socket.begun(result)
            }
        }
    }

    fn new(family: libc::c_int) -> io::Result<Self> {
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: plain system call.
        let descriptor = check(unsafe { libc::socket(family, kind, 0) } as isize)?;
        // SAFETY: the descriptor was just made and is owned by nobody else.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor as i32) };
        Ok(Socket { descriptor, stamped: Cell::new(false), stamp: Cell::new(None) })
    }

    fn begun(self, result: libc::c_int) -> io::Result<Self> {
        match check(result as isize) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(self),
        }
    }

    fn set(&self, level: libc::c_int, option: libc::c_int) {
        let on: libc::c_int = 1;
        // SAFETY: `on` lives through the call and its size is given.
        unsafe { libc::setsockopt(self.fd(), level, option, (&raw const on).cast(), size_of::<libc::c_int>() as u32) };
    }

    pub fn fd(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    /// The pending error of the socket, if any; clears it.
    pub fn error(&self) -> Option<io::Error> {
        let mut code: libc::c_int = 0;
        let mut size = size_of::<libc::c_int>() as u32;
        // SAFETY: both live through the call and `size` is the size of `code`.
        let result =
            unsafe { libc::getsockopt(self.fd(), libc::SOL_SOCKET, libc::SO_ERROR, (&raw mut code).cast(), &mut size) };
        match (result, code) {
            (0, 0) => None,
            (0, code) => Some(io::Error::from_raw_os_error(code)),
            _ => Some(io::Error::last_os_error()),
        }
    }

    /// From now on the kernel stamps what comes in.
    pub fn ask_for_stamps(&self) {
        stamp::enable(self.fd());
        self.stamped.set(true);
    }

    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.stamped.get() {
            // SAFETY: the buffer is writable for its length.
            return check(unsafe { libc::recv(self.fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) })
                .map(|n| n as usize);
        }
        let (count, stamp) = stamp::receive(self.fd(), buffer)?;
        self.stamp.set(stamp);
        Ok(count)
    }

    /// When the last byte read came in, Unix nanoseconds; None where the kernel does not say.
    pub fn stamp(&self) -> Option<u64> {
        self.stamp.get()
    }

    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the buffer is readable for its length.
        check(unsafe { libc::send(self.fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) })
            .map(|n| n as usize)
    }
}

enum Raw {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl Raw {
    fn of(address: &SocketAddr) -> Self {
        match address {
            SocketAddr::V4(v4) => Raw::V4(libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(v6) => Raw::V6(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            }),
        }
    }

    fn pointer(&self) -> *const libc::sockaddr {
        match self {
            Raw::V4(raw) => (&raw const *raw).cast(),
            Raw::V6(raw) => (&raw const *raw).cast(),
        }
    }

    fn size(&self) -> libc::socklen_t {
        let size = match self {
            Raw::V4(raw) => size_of_val(raw),
            Raw::V6(raw) => size_of_val(raw),
        };
        size as libc::socklen_t
    }
}

fn unix(path: &Path) -> io::Result<libc::sockaddr_un> {
    let bytes = path.as_os_str().as_bytes();
    let mut raw = libc::sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path: [0; 108] };
    if bytes.len() >= raw.sun_path.len() || bytes.contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a socket's path has at most 107 bytes"));
    }
    for (to, from) in raw.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(raw)
}

fn check(result: isize) -> io::Result<isize> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
