//! summary.json as a file.

use crate::textfile;
use serde_json::Value;
use std::io::{self, Write};
use std::path::Path;

/// Bytes of a summary.
const LARGEST: u64 = 64 << 20;
const FORMAT: &str = "leadline-load/1";

/// The summary in `directory`. The error names the file.
pub fn read(directory: &Path) -> Result<Value, String> {
    let path = directory.join("summary.json");
    let wrong = |problem: String| format!("{}: {problem}", path.display());
    if !path.exists() {
        return Err(format!("{} is missing: the driver did not end in order", path.display()));
    }
    let text = textfile::read(&path, LARGEST).map_err(wrong)?;
    let value: Value = serde_json::from_slice(&text).map_err(|e| wrong(format!("not JSON: {e}")))?;
    match value["format"] == FORMAT {
        true => Ok(value),
        false => Err(wrong(format!("not a summary of format {FORMAT}"))),
    }
}

/// A reader sees the whole summary or none.
pub fn write(directory: &Path, summary: &Value) -> io::Result<()> {
    let text = serde_json::to_string_pretty(summary)?;
    let (part, whole) = (directory.join("summary.json.part"), directory.join("summary.json"));
    let mut file = std::fs::File::create(&part)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(part, whole)
}
