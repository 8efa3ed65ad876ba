//! One slice of the run: at most a second, in one phase.

use super::outcome::{Counts, ErrorKind, Outcome};
use super::times::Times;
use crate::arrivals::Phase;

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
