//! What the kernel offers: readiness, alarms, sockets, signals, CPU time; and TLS on its sockets.

pub mod alarms;
pub mod host;
pub mod idle;
pub mod perfmap;
pub mod poller;
pub mod process;
pub mod socket;
pub mod stamp;
pub mod stream;
pub mod tls;
