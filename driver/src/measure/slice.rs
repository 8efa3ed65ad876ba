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
    /// The connection was closed before the first byte of the response.
    Closed,
    /// The response was no valid HTTP.
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
    /// An event stream or a WebSocket ended before the events or messages that the scenario waits for.
    Event,
    /// A call of gRPC ended with a status that the scenario does not accept.
    Grpc,
    /// A value was not found in the body.
    Extract,
    /// A template needed a value that was not there.
    Template,
    /// The run ended before the transaction did.
    Unfinished,
}

impl ErrorKind {
    pub const ALL: [ErrorKind; 16] = [
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
        ErrorKind::Event,
        ErrorKind::Grpc,
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
            ErrorKind::Event => "event",
            ErrorKind::Grpc => "grpc",
            ErrorKind::Extract => "extract",
            ErrorKind::Template => "template",
            ErrorKind::Unfinished => "unfinished",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        ErrorKind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether the server said nothing.
    pub fn is_silence(self) -> bool {
        use ErrorKind::{Closed, Connect, Reset, Timeout, Unfinished};
        matches!(self, Connect | Timeout | Reset | Closed | Unfinished)
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

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Skipped => "skipped",
            Outcome::Failed(kind) => kind.as_str(),
        }
    }

    /// Whether it was given up while its response might still have come.
    pub fn is_unanswered(self) -> bool {
        matches!(self, Outcome::Failed(ErrorKind::Timeout | ErrorKind::Unfinished))
    }
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

/// A transaction that is over, with the outcome that the second in which it was due gets. Nanoseconds; moments since
/// the start of the run.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub transaction: usize,
    pub due: u64,
    pub outcome: Outcome,
    pub end: u64,
    /// Since it was due, and since its first byte was sent.
    pub response: u64,
    pub service: u64,
    pub connect: Option<u64>,
    pub blocked: u64,
}

/// A time within a transaction that comes with each of its requests, events or messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Mark {
    /// From the moment a request was due to the first byte of its response.
    FirstByte,
    /// From there to the first event or message that was waited for.
    FirstEvent,
    /// From one of those to the next.
    Gap,
}

pub const MARKS: usize = 3;

/// One of them, of a transaction that was due at `due`.
#[derive(Clone, Copy, Debug)]
pub struct Marked {
    pub transaction: usize,
    pub due: u64,
    pub mark: Mark,
    pub ns: u64,
    /// It was given up: the time is at least so long.
    pub censored: bool,
}

pub type Nanos = Histogram<u64>;

const LOWEST: u64 = 64;
const DIGITS: u8 = 3;
const HOUR: u64 = 3_600_000_000_000;

/// A histogram of nanoseconds: three significant digits above 64 ns, growing as needed.
fn nanos() -> Nanos {
    let mut histogram = Histogram::new_with_bounds(LOWEST, 1 << 27, DIGITS).expect("constant bounds are valid");
    histogram.auto(true);
    histogram
}

/// A histogram of nanoseconds that takes memory only once something was recorded.
#[derive(Clone, Debug, Default)]
pub struct Times(Option<Box<Nanos>>);

impl Times {
    /// As another driver recorded them; None for a histogram of another resolution.
    pub fn of(mut histogram: Nanos) -> Option<Self> {
        histogram.auto(true);
        (histogram.low() == LOWEST && histogram.sigfig() == DIGITS).then(|| Times(Some(Box::new(histogram))))
    }

    /// Adds a value; a value too large for the histogram (over an hour) counts as an hour.
    pub fn record(&mut self, ns: u64) {
        self.record_n(ns, 1);
    }

    pub fn record_n(&mut self, ns: u64, count: u64) {
        let histogram = self.0.get_or_insert_with(|| Box::new(nanos()));
        let recorded = histogram.record_n(ns.min(HOUR), count);
        debug_assert!(recorded.is_ok());
    }

    /// Every value with its count: the same histogram in less memory.
    pub fn packed(&self) -> Vec<(u64, u64)> {
        let values = self.get().into_iter().flat_map(Nanos::iter_recorded);
        values.map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
    }

    pub fn add(&mut self, other: &Times) {
        if let Some(from) = other.get() {
            let added = self.0.get_or_insert_with(|| Box::new(nanos())).add(from);
            debug_assert!(added.is_ok());
        }
    }

    /// What was recorded; None where nothing was.
    pub fn get(&self) -> Option<&Nanos> {
        self.0.as_deref().filter(|histogram| !histogram.is_empty())
    }

    pub fn clear(&mut self) {
        if let Some(histogram) = self.0.as_deref_mut().filter(|histogram| !histogram.is_empty()) {
            histogram.reset();
        }
    }

    /// Nanoseconds; 0 where nothing was recorded.
    pub fn mean(&self) -> f64 {
        self.get().map_or(0.0, Nanos::mean)
    }

    /// Nanoseconds; 0 where nothing was recorded. A quantile is the upper end of its bucket: in the lowest one that
    /// would make 63 ns of nothing.
    pub fn quantile(&self, share: f64) -> u64 {
        self.get().map(|histogram| histogram.value_at_quantile(share)).filter(|ns| *ns >= LOWEST).unwrap_or(0)
    }
}

/// The times of a transaction: the name of their log, and what they are.
pub const TIMES: [(&str, &str); 7] = [
    ("response", "response time"),
    ("service", "service time"),
    ("connect", "time of connecting"),
    ("blocked", "time of waiting for connections"),
    ("first_byte", "time to the first byte of a response"),
    ("first_event", "time to the first event or message"),
    ("gap", "time between events or messages"),
];

#[derive(Clone, Debug, Default)]
pub struct PerTransaction {
    pub counts: Counts,
    /// Failed transactions by kind.
    pub errors: [u64; ErrorKind::ALL.len()],
    /// Failed transactions that timed out, or were under way at the end of the run: their times in the histograms are
    /// known to be at least so long.
    pub unanswered: u64,
    /// The shortest response time among them.
    pub unanswered_from: Option<u64>,
    /// Responses by status, embedded resources and redirects included.
    pub statuses: Vec<(u16, u64)>,
    pub response: Times,
    pub service: Times,
    /// Time in which connections were made, where the transaction made any.
    pub connect: Times,
    /// Time spent waiting for connections.
    pub blocked: Times,
    /// By [`Mark`], and the shortest one that was given up.
    pub marks: [Times; MARKS],
    pub censored_from: [Option<u64>; MARKS],
}

impl PerTransaction {
    /// Takes in a time of a request, event or message.
    pub fn mark(&mut self, marked: &Marked) {
        let at = marked.mark as usize;
        self.marks[at].record(marked.ns);
        if marked.censored {
            self.censored_from[at] = Some(self.censored_from[at].map_or(marked.ns, |ns| ns.min(marked.ns)));
        }
    }

    /// Takes in the outcome of one, with its times.
    pub fn book(&mut self, ended: &Ended) {
        self.count(ended);
        self.blocked.record(ended.blocked);
        if let Some(connect) = ended.connect {
            self.connect.record(connect);
        }
        if ended.outcome == Outcome::Ok || ended.outcome.is_unanswered() {
            self.response.record(ended.response);
            self.service.record(ended.service);
        }
    }

    /// Takes in the outcome of one without its times.
    pub fn count(&mut self, ended: &Ended) {
        match ended.outcome {
            Outcome::Ok => self.counts.ok += 1,
            Outcome::Skipped => self.counts.skipped += 1,
            Outcome::Failed(kind) => {
                self.counts.failed += 1;
                self.errors[kind as usize] += 1;
            }
        }
        if ended.outcome.is_unanswered() {
            self.unanswered += 1;
            self.unanswered_from = Some(self.unanswered_from.map_or(ended.response, |ns| ns.min(ended.response)));
        }
    }

    pub fn add(&mut self, other: &PerTransaction) {
        self.tally(other);
        for (sum, part) in self.times_mut().into_iter().zip(other.times()) {
            sum.add(part);
        }
    }

    /// In the order of [`TIMES`].
    pub fn times(&self) -> [&Times; TIMES.len()] {
        let [first_byte, first_event, gap] = &self.marks;
        [&self.response, &self.service, &self.connect, &self.blocked, first_byte, first_event, gap]
    }

    /// In the order of [`TIMES`].
    pub fn times_mut(&mut self) -> [&mut Times; TIMES.len()] {
        let [first_byte, first_event, gap] = &mut self.marks;
        [&mut self.response, &mut self.service, &mut self.connect, &mut self.blocked, first_byte, first_event, gap]
    }

    /// Adds all but the times.
    pub fn tally(&mut self, other: &PerTransaction) {
        self.counts.add(&other.counts);
        self.unanswered += other.unanswered;
        self.unanswered_from = [self.unanswered_from, other.unanswered_from].into_iter().flatten().min();
        for (sum, part) in self.censored_from.iter_mut().zip(other.censored_from) {
            *sum = [*sum, part].into_iter().flatten().min();
        }
        for (sum, part) in self.errors.iter_mut().zip(&other.errors) {
            *sum += part;
        }
        for (status, count) in &other.statuses {
            self.status(*status, *count);
        }
    }

    /// Counts answers of a status.
    pub fn status(&mut self, status: u16, count: u64) {
        match self.statuses.iter_mut().find(|(known, _)| *known == status) {
            Some((_, sum)) => *sum += count,
            None => self.statuses.push((status, count)),
        }
    }

    pub fn clear(&mut self) {
        self.counts = Counts::default();
        self.unanswered = 0;
        self.unanswered_from = None;
        self.censored_from = [None; MARKS];
        self.errors = [0; ErrorKind::ALL.len()];
        self.statuses.clear();
        self.times_mut().into_iter().for_each(Times::clear);
    }
}

/// What the loop did since the start of the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    pub requests: u64,
    pub planned: u64,
    pub started: u64,
    pub dropped: u64,
    /// CPU of the loop's thread, seconds.
    pub cpu: f64,
}

/// Times are nanoseconds since the start of the run.
#[derive(Debug)]
pub struct Slice {
    pub start: u64,
    pub end: u64,
    pub phase: Phase,
    /// Of what was due in the slice.
    pub transactions: Vec<PerTransaction>,
    /// Transactions that ended in this slice and were due before it.
    pub late: Vec<Ended>,
    /// Times of requests of such.
    pub late_marks: Vec<Marked>,
    /// When arrivals were due that are never started, in this slice or before it.
    pub dropped: Vec<u64>,
    /// Where every transaction is recorded: those that ended in this slice.
    pub records: Option<Vec<Ended>>,
    /// Seconds before this one have all their outcomes.
    pub settled: u64,
    /// How late transactions were taken up.
    pub lag: Times,
    /// How late the kernel woke the loop.
    pub timer: Times,
    /// How long responses stayed unread in the socket buffer.
    pub reading: Times,
    /// Transactions in flight at the end of the slice.
    pub in_flight: u64,
    /// Sessions that live at the end of the slice.
    pub sessions: usize,
    /// At the end of the slice.
    pub work: Work,
    /// Integral of the transactions in flight, transaction nanoseconds.
    pub area: u128,
    /// Sum over transactions that ended, or were under way as the steady phase ended, of the time since they were
    /// taken up (of steady slices: since then or the phase's begin, whichever came later), nanoseconds.
    pub residence: u128,
}

impl Slice {
    pub fn new(transactions: usize, records: bool) -> Self {
        Slice {
            start: 0,
            end: 0,
            phase: Phase::RampUp,
            transactions: vec![PerTransaction::default(); transactions],
            late: Vec::new(),
            late_marks: Vec::new(),
            dropped: Vec::new(),
            records: records.then(Vec::new),
            settled: 0,
            lag: Times::default(),
            timer: Times::default(),
            reading: Times::default(),
            in_flight: 0,
            sessions: 0,
            work: Work::default(),
            area: 0,
            residence: 0,
        }
    }

    /// Counts an outcome where the transaction was due.
    pub fn book(&mut self, ended: Ended) {
        match ended.due >= self.start {
            true => self.transactions[ended.transaction].book(&ended),
            false => self.late.push(ended),
        }
        if let Some(records) = &mut self.records {
            records.push(ended);
        }
    }

    /// Counts a first byte or event, and a gap that was given up, where its transaction was due, and another gap, of which
    /// there may be any number, where it ended.
    pub fn mark(&mut self, marked: Marked) {
        match marked.due >= self.start || (marked.mark == Mark::Gap && !marked.censored) {
            true => self.transactions[marked.transaction].mark(&marked),
            false => self.late_marks.push(marked),
        }
    }

    pub fn clear(&mut self) {
        self.transactions.iter_mut().for_each(PerTransaction::clear);
        self.late.clear();
        self.late_marks.clear();
        self.dropped.clear();
        self.records.iter_mut().for_each(Vec::clear);
        for times in [&mut self.lag, &mut self.timer, &mut self.reading] {
            times.clear();
        }
        self.area = 0;
        self.residence = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_take_no_memory_before_they_are_recorded() {
        let (mut times, mut sum) = (Times::default(), Times::default());
        sum.add(&times);
        assert!(sum.0.is_none() && sum.get().is_none() && sum.quantile(0.5) == 0 && sum.mean() == 0.0);
        for ns in [5, 1_000_000, u64::MAX] {
            times.record(ns);
        }
        sum.add(&times);
        times.clear();
        assert!(times.get().is_none());
        assert_eq!(sum.get().map(Nanos::len), Some(3));
        assert_eq!(sum.quantile(0.1), 0);
        assert!(sum.quantile(0.5).abs_diff(1_000_000) < 1000 && sum.quantile(1.0).abs_diff(HOUR) < HOUR / 1000);
    }

    #[test]
    fn statuses_add_up() {
        let (mut one, mut two) = (PerTransaction::default(), PerTransaction::default());
        one.status(200, 2);
        two.status(404, 1);
        two.status(200, 1);
        one.add(&two);
        assert_eq!(one.statuses, [(200, 3), (404, 1)]);
        one.clear();
        assert!(one.statuses.is_empty());
    }
}
