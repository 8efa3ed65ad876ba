//! Events in the order of time, whatever the order of the lines, and what no JVM can have done.
//!
//! People have logs with the newest line first, shuffled by what collected them, or with the pages of a rotated log in
//! another order.

use crate::log::{every_list, Event, Jvm, Log, Pause};

/// Seconds by which lines of several threads may be out of order.
pub const SLACK: f64 = 1.0;
/// Seconds; uptime and wall clock of one JVM agree on when it began, but for steps of the clock.
pub const SAME_START: f64 = 0.25;
/// Of one JVM; two may be one that started over.
const PIECES: usize = 3;
/// Of the pauses' time that safepoints have to cover, the longest pause left out.
const WITHIN: f64 = 0.95;
/// Bytes by which the heap may seem smaller: sizes are rounded.
const SHRUNK: i64 = 2 << 20;
/// Seconds by which a pause may begin before the one in front has ended: a line is written late.
const OVERLAP: f64 = 0.1;

/// Join the pieces of one JVM and order the events. `started` (one for each JVM): it has told of its start.
pub fn put_in_order(log: &mut Log, started: &[bool]) {
    let owners = if one_by_numbers(log, started) { vec![0; log.jvms.len()] } else { by_start(&log.jvms) };
    let together = owners.iter().enumerate().any(|(number, owner)| number != *owner);
    if together {
        join(log, &owners);
    }
    let backward: Vec<f64> = log
        .pauses
        .windows(2)
        .filter(|two| two[0].when.jvm == two[1].when.jvm && two[1].when.at < two[0].when.at)
        .map(|two| two[0].when.at - two[1].when.at)
        .collect();
    if backward.is_empty() && !together {
        return;
    }
    every_list!(log, events => events.sort_by(|one, other| {
        let (mut first, mut second) = (*one, *other);
        let (a, b) = (*first.when(), *second.when());
        a.jvm.cmp(&b.jvm).then(a.at.total_cmp(&b.at)).then(one.number().cmp(&other.number()))
    }));
    // Threads' lines may change places; more than that is no log as its JVM wrote it.
    if together || backward.len() > 1 + log.pauses.len() / 8 || backward.iter().any(|by| *by > OVERLAP) {
        for pause in &log.pauses {
            if let Some(id) = pause.gc_id {
                log.jvms[pause.when.jvm].begun.remove(&id); // the line of its beginning came later
            }
        }
        log.notes.push("the lines were not in the order of time: the events were put in order".to_owned());
    }
}

/// Note what no JVM can have done, and take away the figures that rest on it.
pub fn check_physics(log: &mut Log) {
    check_overlaps(log);
    let mut pauses: Vec<Vec<Pause>> = vec![Vec::new(); log.jvms.len()];
    for pause in &log.pauses {
        pauses[pause.when.jvm].push(*pause);
    }
    for (number, pauses) in pauses.iter().enumerate() {
        let who = if log.jvms.len() > 1 { format!("JVM {}: ", number + 1) } else { String::new() };
        let length = log.jvms[number].last - log.jvms[number].first;
        let stopped = pauses.iter().map(|pause| pause.ms).sum::<f64>() / 1e3;
        let longest = pauses.iter().map(|pause| pause.ms).fold(0.0, f64::max);
        if !log.timeless && stopped > length + SLACK + longest / 1e3 {
            log.notes.push(format!("{who}{stopped:.1} s of pauses in {length:.1} s of log: the times are wrong"));
            log.timeless = true;
        }
        check_safepoints(log, number, stopped * 1e3 - longest, &who);
        check_heap(log, number, pauses, &who);
    }
}

fn check_overlaps(log: &mut Log) {
    let overlaps: Vec<Pause> = log
        .pauses
        .windows(2)
        .filter(|two| two[0].when.jvm == two[1].when.jvm && two[1].begin() < two[0].when.at - OVERLAP)
        .map(|two| two[1])
        .collect();
    let Some(first) = overlaps.first().filter(|_| !log.timeless) else { return };
    let which = first.gc_id.map_or(String::new(), |id| format!(" (collection {id})"));
    let count =
        if overlaps.len() == 1 { "1 pause begins".to_owned() } else { format!("{} pauses begin", overlaps.len()) };
    log.notes.push(format!(
        "{count} before the one in front has ended, the first at {:.3} s{which}: a JVM stops once at a time, so the \
         times are wrong or of several JVMs",
        first.begin()
    ));
    log.timeless = true;
}

/// A pause is inside of a stop of all threads, so that stops take longer.
fn check_safepoints(log: &mut Log, number: usize, paused: f64, who: &str) {
    let own = log.safepoints.iter().filter(|point| point.when.jvm == number);
    let (count, total) = own.fold((0, 0.0), |(count, total), point| (count + 1, total + point.total_ms));
    if count > 0 && WITHIN * paused > total {
        log.notes.push(format!(
            "{who}the safepoints take less time than the pauses inside them: they are not all in the log"
        ));
        log.safepoints.retain(|point| point.when.jvm != number);
    }
}

/// What nothing but a pause frees cannot have shrunk before the next one.
fn check_heap(log: &mut Log, number: usize, pauses: &[Pause], who: &str) {
    if !matches!(log.jvms[number].collector.as_str(), "Serial" | "Parallel") {
        return;
    }
    let sized: Vec<_> = pauses.iter().filter_map(|pause| pause.heap.map(|heap| (pause.when.at, heap))).collect();
    let shrunk: Vec<f64> =
        sized.windows(2).filter(|two| two[1].1.before < two[0].1.after - SHRUNK).map(|two| two[1].0).collect();
    if let Some(at) = shrunk.first() {
        log.notes.push(format!(
            "{who}the heap shrank {} times without a collection, first before {at:.3} s: collections are missing or \
             lines are of several JVMs, so no rate of allocation is told",
            shrunk.len()
        ));
        log.allocation_unknown = "the heap shrank without a collection";
    }
}

/// Whether what looks like several JVMs has each collection once, later ones at later times, and no second start.
fn one_by_numbers(log: &Log, started: &[bool]) -> bool {
    if log.jvms.len() < PIECES || started.iter().filter(|told| **told).count() > 1 || !log.ids_apart() {
        return false;
    }
    let mut numbered: Vec<(i64, f64)> =
        log.pauses.iter().filter_map(|pause| pause.gc_id.map(|id| (id, pause.when.at))).collect();
    numbered.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
    numbered.len() >= PIECES && numbered.windows(2).all(|two| two[1].1 >= two[0].1 - SLACK)
}

/// For each JVM the first one that began at the same time by wall clock and uptime; itself where none is known.
/// Without uptime the time of day goes back several times only where lines are out of order.
fn by_start(jvms: &[Jvm]) -> Vec<usize> {
    let began = |jvm: &Jvm| jvm.first_unix.map(|unix| unix - jvm.first);
    let mut owners: Vec<usize> = Vec::new();
    for (number, jvm) in jvms.iter().enumerate() {
        let own = began(jvm).filter(|began| *began != 0.0 || (jvm.ids.is_empty() && jvms.len() >= PIECES));
        let same = own.and_then(|own| {
            owners.iter().copied().find(|at| began(&jvms[*at]).is_some_and(|other| (other - own).abs() <= SAME_START))
        });
        owners.push(same.unwrap_or(number));
    }
    owners
}

/// `owners`: for each JVM the one that it is a piece of.
fn join(log: &mut Log, owners: &[usize]) {
    for (number, owner) in owners.iter().enumerate() {
        if number != *owner {
            let piece = log.jvms[number].clone();
            take(&mut log.jvms[*owner], &piece);
        }
    }
    let mut left = owners.to_vec();
    left.sort_unstable();
    left.dedup();
    log.jvms = left.iter().map(|at| log.jvms[*at].clone()).collect();
    let place: Vec<usize> = owners.iter().map(|owner| left.binary_search(owner).unwrap_or(0)).collect();
    every_list!(log, events => {
        for event in events.iter_mut() {
            let when = event.when();
            when.jvm = place[when.jvm];
        }
    });
}

fn take(jvm: &mut Jvm, piece: &Jvm) {
    if jvm.collector.is_empty() {
        jvm.collector.clone_from(&piece.collector);
    }
    if jvm.version.is_empty() {
        jvm.version.clone_from(&piece.version);
    }
    jvm.heap_max = jvm.heap_max.filter(|most| *most != 0).or(piece.heap_max);
    if piece.first < jvm.first {
        (jvm.first, jvm.first_unix) = (piece.first, piece.first_unix);
    }
    if piece.last > jvm.last {
        (jvm.last, jvm.last_unix) = (piece.last, piece.last_unix);
    }
    jvm.ids.merge(&piece.ids);
    jvm.begun.extend(&piece.begun);
}
