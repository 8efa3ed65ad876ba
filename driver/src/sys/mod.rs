//! What the kernel offers: readiness, sockets, signals, CPU time; and TLS on its sockets.

pub mod host;
pub mod poller;
pub mod process;
pub mod socket;
pub mod stamp;
pub mod stream;
pub mod tls;
