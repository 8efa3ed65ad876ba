//! What the kernel offers: readiness, sockets, signals, CPU time.

pub mod host;
pub mod poller;
pub mod process;
pub mod socket;
