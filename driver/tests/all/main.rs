//! The driver as a whole, against servers of these tests: one program, which links the driver once.

mod arrivals;
mod browsers;
mod calls;
mod embedded;
mod events;
mod flows;
mod fuzzed;
mod hostile;
mod hostile_h2;
mod hostile_tls;
mod merged;
mod modules;
mod responses;
mod results;
mod sessions;
mod shared;
mod shared_h2;
mod sockets;
mod support;
mod transport;
mod verdicts;
