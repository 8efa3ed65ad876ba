//! One slice of the run: at most a second, in one phase.

use crate::arrivals::Phase;
use hdrhistogram::Histogram;

/// Why a transaction failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum ErrorKind {
    /// No connection could be made.
    Connect,
    /// A request was not answered in time.
    Timeout,
    /// The connection was reset.
    Reset,
    /// The connection was closed before the first byte of the answer.
    Closed,
    /// The answer was no valid HTTP.
    Protocol,
    /// Too many redirects, or one to another server.
    Redirect,
    Status3xx,
    Status4xx,
    Status5xx,
    /// A 2xx that the scenario does not accept.
    Status2xx,
    /// A check of the body failed.
    Check,
    /// A value was not found in the body.
    Extract,
    /// A template needed a value that was not there.
    Template,
    /// The run ended before the transaction did.
    Unfinished,
}

impl ErrorKind {
    pub const ALL: [ErrorKind; 14] = [
        ErrorKind::Connect,
        ErrorKind::Timeout,
        ErrorKind::Reset,
        ErrorKind::Closed,
        ErrorKind::Protocol,
        ErrorKind::Redirect,
        ErrorKind::Status3xx,
        ErrorKind::Status4xx,
        ErrorKind::Status5xx,
        ErrorKind::Status2xx,
        ErrorKind::Check,
        ErrorKind::Extract,
        ErrorKind::Template,
        ErrorKind::Unfinished,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Connect => "connect",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Reset => "reset",
            ErrorKind::Closed => "closed",
            ErrorKind::Protocol => "protocol",
            ErrorKind::Redirect => "redirect",
            ErrorKind::Status3xx => "status_3xx",
            ErrorKind::Status4xx => "status_4xx",
            ErrorKind::Status5xx => "status_5xx",
            ErrorKind::Status2xx => "status_2xx",
            ErrorKind::Check => "check",
            ErrorKind::Extract => "extract",
            ErrorKind::Template => "template",
            ErrorKind::Unfinished => "unfinished",
        }
    }

    pub fn of_status(status: u16) -> Self {
        match status / 100 {
            2 => ErrorKind::Status2xx,
            3 => ErrorKind::Status3xx,
            4 => ErrorKind::Status4xx,
            _ => ErrorKind::Status5xx,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ok,
    Skipped,
    Failed(ErrorKind),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub ok: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.ok += other.ok;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    pub fn total(&self) -> u64 {
        self.ok + self.failed + self.skipped
    }
}

pub type Nanos = Histogram<u64>;

/// A histogram of nanoseconds: three significant digits above 64 ns, growing as needed.
pub fn nanos() -> Nanos {
    let mut histogram = Histogram::new_with_bounds(64, 1 << 27, 3).expect("constant bounds are valid");
    histogram.auto(true);
    histogram
}

/// Adds a value; a value too large for the histogram (over an hour) counts as an hour.
pub fn record(histogram: &mut Nanos, ns: u64) {
    const HOUR: u64 = 3_600_000_000_000;
    let recorded = histogram.record(ns.min(HOUR));
    debug_assert!(recorded.is_ok());
}

#[derive(Clone, Debug)]
pub struct PerTransaction {
    pub counts: Counts,
    pub response: Nanos,
    pub service: Nanos,
}

impl PerTransaction {
    pub fn new() -> Self {
        PerTransaction { counts: Counts::default(), response: nanos(), service: nanos() }
    }

    pub fn add(&mut self, other: &PerTransaction) {
        self.counts.add(&other.counts);
        merge(&mut self.response, &other.response);
        merge(&mut self.service, &other.service);
    }

    pub fn clear(&mut self) {
        self.counts = Counts::default();
        clear(&mut self.response);
        clear(&mut self.service);
    }
}

impl Default for PerTransaction {
    fn default() -> Self {
        PerTransaction::new()
    }
}

pub fn merge(into: &mut Nanos, from: &Nanos) {
    if !from.is_empty() {
        let added = into.add(from);
        debug_assert!(added.is_ok());
    }
}

pub fn clear(histogram: &mut Nanos) {
    if !histogram.is_empty() {
        histogram.reset();
    }
}

/// Times are nanoseconds since the start of the run.
#[derive(Debug)]
pub struct Slice {
    pub start: u64,
    pub end: u64,
    pub phase: Phase,
    pub transactions: Vec<PerTransaction>,
    pub errors: [u64; ErrorKind::ALL.len()],
    pub blocked: Nanos,
    pub lag: Nanos,
    /// Transactions in flight at the end of the slice.
    pub in_flight: u64,
    /// Integral of the transactions in flight, transaction nanoseconds.
    pub area: u128,
    /// Sum over ended transactions of the time since they were taken up, nanoseconds.
    pub residence: u128,
}

impl Slice {
    pub fn new(transactions: usize) -> Self {
        Slice {
            start: 0,
            end: 0,
            phase: Phase::RampUp,
            transactions: (0..transactions).map(|_| PerTransaction::new()).collect(),
            errors: [0; ErrorKind::ALL.len()],
            blocked: nanos(),
            lag: nanos(),
            in_flight: 0,
            area: 0,
            residence: 0,
        }
    }

    pub fn clear(&mut self) {
        self.transactions.iter_mut().for_each(PerTransaction::clear);
        self.errors = [0; ErrorKind::ALL.len()];
        clear(&mut self.blocked);
        clear(&mut self.lag);
        self.area = 0;
        self.residence = 0;
    }
}
