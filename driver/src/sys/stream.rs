//! A connection's bytes: a socket, encrypted or not.

use super::socket::{Peer, Socket};
use super::tls::Records;
use std::io;
use std::net::IpAddr;

#[derive(Debug)]
pub struct Stream {
    socket: Socket,
    tls: Option<Box<Records>>,
}

impl Stream {
    pub fn connect(peer: &Peer, source: Option<IpAddr>, tls: Option<Records>) -> io::Result<Self> {
        Ok(Stream { socket: Socket::connect(peer, source)?, tls: tls.map(Box::new) })
    }

    pub fn fd(&self) -> i32 {
        self.socket.fd()
    }

    pub fn ask_for_stamps(&self) {
        self.socket.ask_for_stamps();
    }

    /// When the last bytes that the socket gave came in, Unix nanoseconds; None where the kernel does not say.
    pub fn stamp(&self) -> Option<u64> {
        self.socket.stamp()
    }

    /// The pending error of the socket, if any; clears it.
    pub fn error(&self) -> Option<io::Error> {
        self.socket.error()
    }

    pub fn tls(&self) -> Option<&Records> {
        self.tls.as_deref()
    }

    /// Once the socket is connected: true when bytes of HTTP may follow.
    pub fn handshake(&mut self) -> io::Result<bool> {
        self.tls.as_mut().map_or(Ok(true), |tls| tls.handshake(&self.socket))
    }

    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.read(buffer),
            Some(tls) => tls.read(&self.socket, buffer),
        }
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.write(bytes),
            Some(tls) => tls.write(&self.socket, bytes),
        }
    }

    /// The socket takes bytes again: sends what was encrypted before.
    pub fn flush(&mut self) -> io::Result<()> {
        self.tls.as_mut().map_or(Ok(()), |tls| tls.flush(&self.socket))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.close(&self.socket);
        }
    }
}
