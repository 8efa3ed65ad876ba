//! The results of one driver, as they are read.

use crate::arrivals::Phase;
use crate::measure::intervals::cannot_read;
use crate::measure::slice::PerTransaction;
use crate::measure::{document, Counts, ErrorKind};
use crate::share::Share;
use serde::de::DeserializeOwned;
use serde::Deserialize;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// What the caller says of each part.
pub type Notes = Vec<Map<String, Value>>;

/// A row of seconds.csv; the times of all drivers come from the histograms.
#[derive(Debug, Deserialize)]
pub struct SecondRow {
    second: u64,
    pub phase: Phase,
    pub transaction: String,
    ok: u64,
    failed: u64,
    skipped: u64,
    pub in_flight: u64,
    unanswered: u64,
    unanswered_from_ms: Option<f64>,
    /// Arrivals, in the row of all.
    pub dropped: u64,
}

impl SecondRow {
    pub fn add_to(&self, part: &mut PerTransaction) {
        part.counts.add(&Counts { ok: self.ok, failed: self.failed, skipped: self.skipped });
        part.unanswered += self.unanswered;
        let from = self.unanswered_from_ms.map(|ms| (ms * 1e6).round() as u64);
        part.unanswered_from = [part.unanswered_from, from].into_iter().flatten().min();
    }
}

/// A row of outcomes.csv.
#[derive(Debug, Deserialize)]
pub struct OutcomeRow {
    second: u64,
    pub transaction: String,
    what: String,
    name: String,
    count: u64,
}

impl OutcomeRow {
    pub fn add_to(&self, part: &mut PerTransaction) -> Result<(), String> {
        let strange = || format!("outcomes.csv: {} {} is no status and no kind of error", self.what, self.name);
        match self.what.as_str() {
            "status" => part.status(self.name.parse().map_err(|_| strange())?, self.count),
            _ => part.errors[ErrorKind::parse(&self.name).ok_or_else(strange)? as usize] += self.count,
        }
        Ok(())
    }
}

pub struct Part {
    pub name: String,
    pub directory: PathBuf,
    /// summary.json.
    pub document: Value,
    pub seconds: BTreeMap<u64, Vec<SecondRow>>,
    pub outcomes: BTreeMap<u64, Vec<OutcomeRow>>,
}

impl Part {
    /// All but the histograms.
    pub fn read(directory: &Path) -> Result<Self, String> {
        let name =
            directory.file_name().map_or_else(|| directory.display().to_string(), |n| n.to_string_lossy().into());
        Ok(Part {
            name,
            directory: directory.into(),
            document: document::read(directory)?,
            seconds: rows(&directory.join("seconds.csv"), |row: &SecondRow| row.second)?,
            outcomes: rows(&directory.join("outcomes.csv"), |row: &OutcomeRow| row.second)?,
        })
    }

    /// A value of summary.json, by its JSON pointer.
    pub fn value(&self, pointer: &str) -> Result<&Value, String> {
        let path = self.directory.join("summary.json");
        self.document.pointer(pointer).ok_or_else(|| format!("{}: {pointer} is missing", path.display()))
    }

    /// A whole number of summary.json.
    pub fn count(&self, pointer: &str) -> Result<u64, String> {
        let path = self.directory.join("summary.json");
        let value = self.value(pointer)?;
        value.as_u64().ok_or_else(|| format!("{}: {pointer} is {value}, not a whole number", path.display()))
    }

    /// What `drivers` says of it, with the notes.
    pub fn entry(&self, notes: Map<String, Value>) -> Result<Value, String> {
        let share = self.document["share"].as_str().map_or_else(|| Share::WHOLE.to_string(), String::from);
        let mut found = Map::from_iter([("name".into(), json!(self.name)), ("share".into(), json!(share))]);
        found.extend(notes);
        for (key, pointer) in [
            ("url", "/url"),
            ("requests", "/requests/count"),
            ("arrivals_planned", "/arrivals_planned"),
            ("arrivals_actual", "/arrivals_actual"),
            ("cpu_share", "/driver/cpu_share"),
            ("scheduling", "/driver/scheduling"),
            ("lag_ms", "/driver/lag_ms"),
            ("limit", "/driver/limit"),
        ] {
            found.insert(key.into(), self.value(pointer)?.clone());
        }
        Ok(Value::Object(found))
    }
}

/// The rows of a table by second.
fn rows<Row: DeserializeOwned>(path: &Path, second: fn(&Row) -> u64) -> Result<BTreeMap<u64, Vec<Row>>, String> {
    let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
    let mut found: BTreeMap<u64, Vec<Row>> = BTreeMap::new();
    for row in csv::Reader::from_reader(file).into_deserialize() {
        let row: Row = row.map_err(|error| format!("{}: {error}", path.display()))?;
        found.entry(second(&row)).or_default().push(row);
    }
    Ok(found)
}

pub fn parse_notes(text: &str) -> Result<Notes, String> {
    serde_json::from_str(text).map_err(|error| format!("not a JSON list of objects: {error}"))
}
