//! This process: its CPU time, its limits, the signals that end it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// Makes SIGINT, SIGTERM and SIGHUP set the flag that [`stop_requested`] reads. A SIGHUP that whoever started the
/// process had ignored (nohup) stays ignored.
pub fn catch_signals() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only stores to an atomic; the structure is fully initialised.
        let result = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal, std::ptr::null(), &mut action) == 0;
            if known && signal == libc::SIGHUP && action.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            action = std::mem::zeroed();
            action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(signal, &action, std::ptr::null_mut())
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Ends the run in order, as a signal does.
pub fn request_stop() {
    STOP.store(true, Ordering::Relaxed);
}

pub fn stop_requested() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Sends a signal to another process.
pub fn send(process: u32, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes plain numbers.
    match unsafe { libc::kill(process as libc::pid_t, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// CPUs on which this process may run.
pub fn allowed_cpus() -> Vec<usize> {
    // SAFETY: the set is plain data that the call fills in; numbers stay within it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).collect()
    }
}

/// Lets another process run on these CPUs only.
pub fn keep_to(process: u32, cpus: &[usize]) -> io::Result<()> {
    // SAFETY: the set is plain data that lives through the call; the CPUs are those of such a set.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.iter().for_each(|cpu| libc::CPU_SET(*cpu, &mut set));
        libc::sched_setaffinity(process as libc::pid_t, size_of::<libc::cpu_set_t>(), &set)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// CPU seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cpu {
    pub user: f64,
    pub system: f64,
}

impl Cpu {
    pub fn of_process() -> Self {
        usage(libc::RUSAGE_SELF)
    }

    pub fn of_thread() -> Self {
        usage(libc::RUSAGE_THREAD)
    }

    pub fn total(&self) -> f64 {
        self.user + self.system
    }
}

fn usage(whom: libc::c_int) -> Cpu {
    // SAFETY: the structure is plain data that the call fills in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(whom, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Cpu { user: seconds(usage.ru_utime), system: seconds(usage.ru_stime) }
}

/// Raises the soft limit of open files to the hard one; the limit now in force.
pub fn raise_file_limit() -> u64 {
    // SAFETY: the structure is plain data that lives through the calls.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
            return 1024;
        }
        if limit.rlim_cur < limit.rlim_max {
            let raised = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raised) == 0 {
                return raised.rlim_cur;
            }
        }
        limit.rlim_cur
    }
}

/// Lets every other thread run before the calling one.
pub fn lower_priority_of_thread() {
    // SAFETY: plain system calls on the calling thread.
    unsafe {
        let thread = libc::syscall(libc::SYS_gettid) as libc::id_t;
        libc::setpriority(libc::PRIO_PROCESS, thread, 19);
    }
}

/// How the kernel schedules the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// SCHED_RR at its lowest priority: runs as soon as it has work.
    Realtime,
    /// Niceness -10.
    Raised,
    Normal,
}

impl Scheduling {
    pub fn as_str(self) -> &'static str {
        match self {
            Scheduling::Realtime => "realtime",
            Scheduling::Raised => "raised",
            Scheduling::Normal => "normal",
        }
    }
}

/// Schedules the calling thread as far ahead of others as this process may. The loop sleeps whenever it has no
/// work, so it takes no more CPU than otherwise: it only gets it when it is due.
pub fn raise_priority_of_thread() -> Scheduling {
    // SAFETY: plain system calls on the calling thread; the parameter lives through the call.
    unsafe {
        let parameter = libc::sched_param { sched_priority: 1 };
        let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
        if libc::sched_setscheduler(0, policy, &parameter) == 0 {
            return Scheduling::Realtime;
        }
        let thread = libc::syscall(libc::SYS_gettid) as libc::id_t;
        if libc::setpriority(libc::PRIO_PROCESS, thread, -10) == 0 {
            return Scheduling::Raised;
        }
    }
    Scheduling::Normal
}
