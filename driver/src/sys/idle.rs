//! How deeply this host's CPUs may sleep.

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;

pub const FILE: &str = "/dev/cpu_dma_latency";
/// The number of the file where it was opened by root, who then became another user.
const HANDED_OVER: &str = "LEADLINE_CPU_LATENCY_FD";

/// No CPU of the host enters an idle state that takes longer to leave, until this is dropped or the process ends,
/// however it does (Linux, admin-guide/pm/cpuidle and power/pm_qos_interface).
#[derive(Debug)]
pub struct CpuLatency {
    _request: File,
    microseconds: i32,
}

impl CpuLatency {
    /// At most `microseconds`; with 0 idle CPUs do not halt at all. Errors are those of the file, which only root may
    /// write to, or say that the kernel allows more all the same.
    pub fn request(microseconds: i32) -> io::Result<Self> {
        let mut request = match env::var(HANDED_OVER).ok().and_then(|number| number.parse().ok()) {
            // SAFETY: whoever sets the variable gives the descriptor away; it is used once.
            Some(number) => unsafe { File::from_raw_fd(number) },
            None => File::options().read(true).write(true).open(FILE)?,
        };
        request.write_all(&microseconds.to_ne_bytes())?;
        let mut allowed = [0; 4];
        request.read_exact(&mut allowed)?;
        let allowed = i32::from_ne_bytes(allowed);
        if allowed > microseconds {
            return Err(io::Error::other(format!("it reads {allowed} us after {microseconds} was written")));
        }
        Ok(CpuLatency { _request: request, microseconds: allowed })
    }

    /// What the kernel allows, read back; less than was requested where another process wants less.
    pub fn microseconds(&self) -> i32 {
        self.microseconds
    }
}
