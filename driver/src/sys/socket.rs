//! Non-blocking TCP sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

#[derive(Debug)]
pub struct Socket(OwnedFd);

impl Socket {
    /// Begins to connect. The poller says when that is done; ask [`Socket::error`] then.
    pub fn connect(address: &SocketAddr) -> io::Result<Self> {
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: plain system call.
        let descriptor = check(unsafe { libc::socket(family, kind, 0) } as isize)?;
        // SAFETY: the descriptor was just made and is owned by nobody else.
        let socket = Socket(unsafe { OwnedFd::from_raw_fd(descriptor as i32) });
        let on: libc::c_int = 1;
        // SAFETY: `on` lives through the call and its size is given.
        unsafe {
            libc::setsockopt(
                socket.fd(),
                libc::IPPROTO_TCP,
                libc::TCP_NODELAY,
                (&raw const on).cast(),
                size_of::<libc::c_int>() as u32,
            )
        };
        let result = match address {
            SocketAddr::V4(v4) => {
                let raw = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                    sin_zero: [0; 8],
                };
                // SAFETY: `raw` lives through the call and its size is given.
                unsafe { libc::connect(socket.fd(), (&raw const raw).cast(), size_of_val(&raw) as u32) }
            }
            SocketAddr::V6(v6) => {
                let raw = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: `raw` lives through the call and its size is given.
                unsafe { libc::connect(socket.fd(), (&raw const raw).cast(), size_of_val(&raw) as u32) }
            }
        };
        match check(result as isize) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(socket),
        }
    }

    pub fn fd(&self) -> i32 {
        self.0.as_raw_fd()
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

    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the buffer is writable for its length.
        check(unsafe { libc::recv(self.fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) }).map(|n| n as usize)
    }

    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the buffer is readable for its length.
        check(unsafe { libc::send(self.fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) })
            .map(|n| n as usize)
    }
}

fn check(result: isize) -> io::Result<isize> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
