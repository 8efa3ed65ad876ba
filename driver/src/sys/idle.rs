//! How deeply this host's CPUs may sleep.

use std::fs::File;
use std::io::{self, Write};

pub const FILE: &str = "/dev/cpu_dma_latency";

/// No CPU of the host enters an idle state that takes longer to leave, until this is dropped or the process ends,
/// however it does (Linux, admin-guide/pm/cpuidle and power/pm_qos_interface).
#[derive(Debug)]
pub struct CpuLatency {
    _request: File,
}

impl CpuLatency {
    /// At most `microseconds`; with 0 idle CPUs do not halt at all. Errors are those of the file, which only root may
    /// write to.
    pub fn request(microseconds: i32) -> io::Result<Self> {
        let mut request = File::options().write(true).open(FILE)?;
        request.write_all(&microseconds.to_ne_bytes())?;
        Ok(CpuLatency { _request: request })
    }
}
