//! What an earlier run left in the directory of a new one.

use std::io::{self, ErrorKind};
use std::path::Path;

/// Everything a run writes.
const FILES: [&str; 14] = [
    "summary.json",
    "summary.json.part",
    "seconds.csv",
    "outcomes.csv",
    "driver.csv",
    "transactions.csv",
    "response.hlog",
    "service.hlog",
    "connect.hlog",
    "blocked.hlog",
    "first_byte.hlog",
    "first_event.hlog",
    "gap.hlog",
    "steady.hlog",
];

/// The error says which file is there and what to do.
pub fn refuse(directory: &Path) -> Result<(), String> {
    match FILES.iter().find(|name| directory.join(name).exists()) {
        None => Ok(()),
        Some(name) => Err(format!(
            "--out {}: {name} of an earlier run is there: name another directory, or add --replace, which removes that \
             run's results",
            directory.display()
        )),
    }
}

/// All of it, so that no file of one run stands beside those of another.
pub fn remove(directory: &Path) -> io::Result<()> {
    FILES.iter().try_for_each(|name| match std::fs::remove_file(directory.join(name)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    })
}

/// The same of the drivers whose results were merged; what else is there stays.
pub fn remove_parts(directory: &Path) -> io::Result<()> {
    let drivers = directory.join("drivers");
    let Ok(entries) = std::fs::read_dir(&drivers) else { return Ok(()) };
    for entry in entries {
        let part = entry?.path();
        if part.is_dir() {
            remove(&part)?;
            let _ = std::fs::remove_dir(&part); // not where something else is in it
        }
    }
    let _ = std::fs::remove_dir(&drivers);
    Ok(())
}
