//! Random mixes of outcomes: what is written of a second is what was due in it, each transaction once.

use super::*;
use crate::measure::intervals::Reader;
use crate::measure::pending::Pending;
use crate::measure::{ErrorKind, Outcome};
use crate::random::{Random, Stream};
use std::collections::BTreeMap;
use std::sync::mpsc::{channel, sync_channel};

const MIXES: usize = 25;
const ROUNDS: u64 = 80; // of 25 transactions in 5 seconds: 10,000 mixes
const PHASES: Phases = Phases { ramp_up: 3 * SECOND / 2, steady: 7 * SECOND / 2, ramp_down: SECOND };

fn below(random: &mut Random, end: u64) -> u64 {
    random.between(0, end as i64 - 1) as u64
}

fn outcome(random: &mut Random) -> Outcome {
    match below(random, 9) {
        0 => Outcome::Failed(ErrorKind::Timeout),
        1 => Outcome::Failed(ErrorKind::Unfinished),
        2 => Outcome::Failed(ErrorKind::Status5xx),
        3 => Outcome::Skipped,
        _ => Outcome::Ok,
    }
}

fn transactions(random: &mut Random) -> Vec<Ended> {
    let count = below(random, 400);
    let lasted = [SECOND / 100, SECOND, 4 * SECOND];
    let mut found: Vec<Ended> = (0..count)
        .map(|_| {
            let (due, pick) = (below(random, PHASES.steady_end()), below(random, 3) as usize);
            let response = 1 + below(random, lasted[pick]);
            Ended {
                transaction: below(random, MIXES as u64) as usize,
                due,
                outcome: outcome(random),
                end: due + response,
                response,
                service: response / 2,
                connect: None,
                blocked: 0,
            }
        })
        .collect();
    found.sort_by_key(|ended| ended.end);
    found
}

/// Slices as the loop makes them of these transactions and dropped arrivals.
fn slices(ended: &[Ended], dropped: &[u64]) -> Vec<Slice> {
    let mut pending = Pending::new(PHASES.steady_end());
    ended.iter().for_each(|ended| pending.add(ended.due));
    let last = ended.last().map_or(0, |ended| ended.end).max(PHASES.end());
    let mut edges: Vec<u64> = (1..=last / SECOND + 1).map(|second| second * SECOND).collect();
    edges.extend([PHASES.ramp_up, PHASES.steady_end()]);
    edges.sort_unstable();
    edges.dedup();
    let (mut found, mut start, mut rest) = (Vec::new(), 0, ended);
    for end in edges {
        let mut slice = Slice::new(MIXES, true);
        (slice.start, slice.end, slice.phase) = (start, end, PHASES.at(start));
        let count = rest.partition_point(|ended| ended.end < end);
        for ended in &rest[..count] {
            pending.remove(ended.due);
            slice.book(*ended);
        }
        rest = &rest[count..];
        slice.dropped.extend(dropped.iter().filter(|due| (start..end).contains(*due)));
        slice.settled = pending.first().map_or(end / SECOND, |first| first.min(end / SECOND));
        found.push(slice);
        start = end;
    }
    found
}

fn written(slices: Vec<Slice>, directory: &Path) -> Totals {
    let names: Vec<String> = (0..MIXES).map(|at| format!("t{at}")).collect();
    let files = Files {
        directory,
        names: &names,
        started: SystemTime::UNIX_EPOCH,
        progress: Progress::None,
        phases: PHASES,
        records: true,
    };
    let (full, filled) = sync_channel(slices.len());
    let (emptied, _empty) = channel();
    slices.into_iter().for_each(|slice| full.send(slice).expect("room"));
    drop(full);
    run(&files, &filled, &emptied).expect("written")
}

type Key = (u64, String);

fn expected(ended: &[Ended]) -> BTreeMap<Key, PerTransaction> {
    let mut found: BTreeMap<Key, PerTransaction> = BTreeMap::new();
    for ended in ended {
        found.entry((ended.due / SECOND, format!("t{}", ended.transaction))).or_default().book(ended);
    }
    found
}

#[test]
fn every_transaction_counts_once_in_the_second_in_which_it_was_due() {
    for round in 0..ROUNDS {
        let mut random = Random::new(round, 7, Stream::Data);
        let ended = transactions(&mut random);
        let dropped: Vec<u64> = (0..below(&mut random, 30)).map(|_| below(&mut random, PHASES.steady_end())).collect();
        let directory = std::env::temp_dir().join(format!("outcomes-{}-{round}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let totals = written(slices(&ended, &dropped), &directory);
        let expected = expected(&ended);
        let mut rows = 0;
        for row in csv::Reader::from_path(directory.join("seconds.csv")).expect("rows").into_records() {
            let row = row.expect("a row");
            let number = |at: usize| row[at].parse::<u64>().expect("a number");
            if &row[3] == "all" {
                let due = dropped.iter().filter(|due| **due / SECOND == number(1)).count();
                assert_eq!(number(14), due as u64);
                continue;
            }
            let part = expected.get(&(number(1), row[3].to_string())).expect("a mix");
            let counts = [part.counts.ok, part.counts.failed, part.counts.skipped, part.unanswered];
            assert_eq!([number(4), number(5), number(11), number(12)], counts);
            let from = part.unanswered_from.map_or(String::new(), |ns| format!("{:.6}", millis(ns)));
            assert_eq!(&row[13], from);
            rows += 1;
        }
        assert_eq!(rows, expected.len());
        let mut log = Reader::open(&directory.join("response.hlog")).expect("a log");
        while let Some(interval) = log.any().expect("an interval") {
            let part = &expected[&(interval.second(), interval.tag.clone())];
            assert_eq!(interval.times.packed(), part.response.packed());
        }
        for (at, total) in totals.steady.iter().enumerate() {
            let mut sum = PerTransaction::default();
            let mine = ended.iter().filter(|ended| ended.transaction == at && ended.due >= PHASES.ramp_up);
            mine.for_each(|ended| sum.book(ended));
            assert_eq!((total.counts, total.unanswered), (sum.counts, sum.unanswered));
            assert_eq!(total.response.packed(), sum.response.packed());
        }
        let records = std::fs::read_to_string(directory.join("transactions.csv")).expect("records");
        assert_eq!(records.lines().count(), 1 + ended.len() + dropped.len());
        std::fs::remove_dir_all(directory).expect("it is there");
    }
}
