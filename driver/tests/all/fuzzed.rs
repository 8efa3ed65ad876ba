//! A short, repeatable run of what `fuzz/` fuzzes: valid inputs, changed at random. `LEADLINE_FUZZ=100` makes it a
//! hundred times as long, with other changes.

#[path = "../../fuzz/entries.rs"]
mod entries;

use leadline_load::random::{Random, Stream};
use std::path::Path;

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(name);
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("seeds").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files.iter().map(|path| std::fs::read(path).expect("a seed")).collect()
}

fn below(random: &mut Random, length: usize) -> usize {
    random.between(0, length.max(1) as i64 - 1) as usize
}

/// One to eight changes: a byte, a bit, a piece left out, doubled, or taken from another seed.
fn change(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut data = seeds[below(random, seeds.len())].clone();
    for _ in 0..=below(random, 8) {
        let at = below(random, data.len());
        let end = (at + 1 + below(random, 24)).min(data.len());
        match random.between(0, 5) {
            0 if !data.is_empty() => data[at] = random.word() as u8,
            1 if !data.is_empty() => data[at] ^= 1 << random.between(0, 7),
            2 => drop(data.drain(at.min(end)..end)),
            3 => {
                let piece = data[at.min(end)..end].to_vec();
                data.splice(at.min(end)..at.min(end), piece);
            }
            4 => {
                let other = &seeds[below(random, seeds.len())];
                let from = below(random, other.len());
                let piece = other[from..(from + 40).min(other.len())].to_vec();
                data.splice(at.min(end)..at.min(end), piece);
            }
            _ => data.truncate(at),
        }
    }
    data
}

fn run(name: &str, rounds: u32) {
    let (_, entry) = entries::ALL.into_iter().find(|(other, _)| *other == name).expect("an entry");
    let seeds = seeds(name);
    assert!(!seeds.is_empty());
    seeds.iter().for_each(|seed| entry(seed));
    let times = std::env::var("LEADLINE_FUZZ").map_or(1, |times| times.parse().expect("a whole number"));
    let mut random = Random::new(times, rounds.into(), Stream::Data);
    for _ in 0..u64::from(rounds) * times {
        let data = change(&mut random, &seeds);
        let survived = std::panic::catch_unwind(|| entry(&data));
        assert!(survived.is_ok(), "{name}: {:?}", String::from_utf8_lossy(&data));
    }
}

#[test]
fn responses() {
    run("response", 6000);
}

#[test]
fn frames_of_http2() {
    run("frames", 1500);
}

#[test]
fn cookies() {
    run("cookies", 3000);
}

#[test]
fn encodings() {
    run("encoding", 2000);
}

#[test]
fn pages() {
    run("page", 1500);
}

#[test]
fn scenarios() {
    run("scenario", 250);
}
