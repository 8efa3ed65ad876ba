//! Recorded arrival times.

use crate::textfile;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Bytes of a recording.
const LARGEST: u64 = 1 << 30;

/// Offsets in the file at `path`, nanoseconds: one a line, decimal seconds, in order; what follows a comma, empty
/// lines and lines that begin with `#` are left out. `speed` 2 plays twice as fast. The error is ready to print and quotes
/// nothing of a line that holds no time: it may be another file than was meant.
pub fn read(path: &Path, speed: f64) -> Result<Vec<u64>, String> {
    let file = textfile::open(path, LARGEST).map_err(|e| format!("--replay {}: {e}", path.display()))?;
    parse(BufReader::new(file), speed).map_err(|e| format!("--replay {}{e}", path.display()))
}

fn parse(lines: impl BufRead, speed: f64) -> Result<Vec<u64>, String> {
    let mut found: Vec<u64> = Vec::new();
    for (number, line) in lines.lines().enumerate() {
        let line = line.map_err(|e| format!(":{}: {e}", number + 1))?;
        let text = line.split(',').next().unwrap_or("").trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let exact = seconds(text).ok_or_else(|| {
            format!(":{}: the line holds no time in seconds since the start, such as 12.345", number + 1)
        })?;
        let offset = if speed == 1.0 { exact } else { (exact as f64 / speed).round() as u64 };
        if found.last().is_some_and(|before| *before > offset) {
            return Err(format!(":{}: {text} is earlier than the line before", number + 1));
        }
        found.push(offset);
    }
    if found.is_empty() {
        return Err(": no arrival time in it".into());
    }
    Ok(found)
}

/// Decimal seconds as nanoseconds, without the rounding of a floating point number.
fn seconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || whole.len() > 9 || !digits(whole) || !digits(part) {
        return None;
    }
    let mut nanos = 0;
    for at in 0..9 {
        nanos = nanos * 10 + part.as_bytes().get(at).map_or(0, |b| u64::from(b - b'0'));
    }
    Some(whole.parse::<u64>().ok()? * 1_000_000_000 + nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        let text = "# a recording\n0\n0.000000001,GET /\n\n1.5\n123456789.123456789\n";
        assert_eq!(parse(text.as_bytes(), 1.0), Ok(vec![0, 1, 1_500_000_000, 123_456_789_123_456_789]));
        assert_eq!(parse("1\n3\n".as_bytes(), 2.0), Ok(vec![500_000_000, 1_500_000_000]));
    }

    #[test]
    fn mistakes_have_their_line() {
        for (text, part) in [
            ("0\nsoon\n", ":2: the line holds no time"),
            ("1\n0.5\n", ":2: 0.5 is earlier"),
            ("-1\n", ":1:"),
            ("1e3", ":1:"),
            ("#\n", "no arrival time"),
        ] {
            let error = parse(text.as_bytes(), 1.0).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
