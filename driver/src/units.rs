//! Durations as people write them.

/// Nanoseconds of `250ms`, `10s`, `2m`, `1h`, `40us`, `5ns`; a plain number is seconds.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let scale = match &text[split..] {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "" | "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        other => return Err(format!("unknown unit `{other}` in `{text}`: use us, ms, s, m or h")),
    };
    let number: f64 =
        text[..split].trim().parse().map_err(|_| format!("`{text}` is not a duration: write 250ms, 10s or 2m"))?;
    if !number.is_finite() || number < 0.0 || number * scale > 1e18 {
        return Err(format!("`{text}` is not a duration between 0 and 30 years"));
    }
    Ok((number * scale).round() as u64)
}

/// As `parse_duration`, but a number without a unit is refused unless it is 0: nobody says it back.
pub fn parse_time(text: &str) -> Result<u64, String> {
    let found = parse_duration(text)?;
    match text.trim().parse::<f64>() {
        Ok(number) if number != 0.0 => Err(format!("`{0}` has no unit: write {0}ms or {0}s", text.trim())),
        _ => Ok(found),
    }
}

/// A share: `1%` or `0.01`.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    match number.trim().parse::<f64>() {
        Ok(number) if (0.0..=scale).contains(&number) => Ok(number / scale),
        _ => Err(format!("`{text}` is not a share such as 1% or 0.01")),
    }
}

/// Nanoseconds as seconds.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Nanoseconds as milliseconds.
pub fn millis(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_unit() {
        assert_eq!(parse_duration("250ms"), Ok(250_000_000));
        assert_eq!(parse_duration("0us"), Ok(0));
        assert_eq!(parse_duration("1.5"), Ok(1_500_000_000));
        assert_eq!(parse_duration("2m"), Ok(120_000_000_000));
    }

    #[test]
    fn a_time_of_a_scenario_has_a_unit() {
        assert_eq!(parse_time("100ms"), Ok(100_000_000));
        assert_eq!(parse_time("0"), Ok(0));
        assert_eq!(parse_time("100").unwrap_err(), "`100` has no unit: write 100ms or 100s");
    }

    #[test]
    fn refuses_what_is_no_duration() {
        for text in ["", "ms", "-1s", "10 parsecs", "1e40h", "NaN"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
