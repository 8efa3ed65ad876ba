//! Numbers and times as logs write them.

use crate::log::{Damaged, Read};

/// Digits of any figure of a JVM; more are a damaged line.
const DIGITS: usize = 16;

/// A whole number.
pub fn whole(text: &str) -> Read<i64> {
    if text.len() > DIGITS {
        return Err(Damaged);
    }
    text.parse().map_err(|_| Damaged)
}

/// Of a locale with a point or a comma.
pub fn decimal(text: &str) -> Read<f64> {
    if text.len() > DIGITS {
        return Err(Damaged);
    }
    number(text).ok_or(Damaged)
}

/// Whatever number of digits, with a point or a comma.
pub fn number(text: &str) -> Option<f64> {
    if text.contains(',') {
        text.replace(',', ".").parse().ok()
    } else {
        text.parse().ok()
    }
}

/// Bytes of `number` of `unit` (B to T); a native image's has a fraction.
pub fn size(number: &str, unit: &str) -> Read<i64> {
    let shift = match unit {
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => 0,
    };
    if number.contains('.') {
        Ok((decimal(number)? * (1_i64 << shift) as f64).round_ties_even() as i64)
    } else {
        whole(number)?.checked_mul(1 << shift).ok_or(Damaged)
    }
}

/// How many digits there are from `at` on, `most` of them.
pub fn digits(text: &[u8], at: usize, most: usize) -> usize {
    text[at.min(text.len())..].iter().take(most).take_while(|byte| byte.is_ascii_digit()).count()
}

/// `number` of 1 to `before` digits, a point or a comma, 1 to `after` digits at `at`: where it ends.
pub fn decimal_at(text: &[u8], at: usize, before: usize, after: usize) -> Option<usize> {
    let whole = digits(text, at, before);
    let point = at + whole;
    if whole == 0 || !matches!(text.get(point), Some(b'.' | b',')) {
        return None;
    }
    let part = digits(text, point + 1, after);
    (part > 0).then_some(point + 1 + part)
}

/// Unix seconds of an ISO time; None when it is none. Without a zone it is local time.
pub fn wall_clock(field: &str) -> Option<f64> {
    let text = field.as_bytes();
    let pair = |at: usize| {
        (digits(text, at, 2) == 2).then(|| i64::from(text[at] - b'0') * 10 + i64::from(text[at + 1] - b'0'))
    };
    if digits(text, 0, 4) != 4 || text.get(4) != Some(&b'-') || text.get(7) != Some(&b'-') || text.len() < 13 {
        return None;
    }
    let year: i64 = field.get(..4)?.parse().ok()?;
    let (month, day) = (pair(5)?, pair(8)?);
    let hour = pair(11)?;
    let (mut minute, mut second, mut micro, mut at) = (0, 0, 0_i64, 13);
    if text.get(at) == Some(&b':') {
        minute = pair(at + 1)?;
        at += 3;
        if text.get(at) == Some(&b':') {
            second = pair(at + 1)?;
            at += 3;
            if matches!(text.get(at), Some(b'.' | b',')) {
                let count = digits(text, at + 1, 24);
                if count == 0 {
                    return None;
                }
                let kept = count.min(6);
                micro = field.get(at + 1..at + 1 + kept)?.parse::<i64>().ok()? * 10_i64.pow(6 - kept as u32);
                at += 1 + count;
            }
        }
    }
    let lengths = [
        31,
        if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) { 29 } else { 28 },
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let longest = *lengths.get(usize::try_from(month - 1).ok()?)?;
    if year < 1 || day < 1 || day > longest || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let Some(offset) = zone(&text[at..])? else {
        return local(year, month, day, hour, minute, second).map(|seconds| seconds as f64 + micro as f64 / 1e6);
    };
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    Some((seconds * 1_000_000 + micro) as f64 / 1e6)
}

/// Seconds east of Greenwich; None inside where no zone is told, None where it is none.
fn zone(text: &[u8]) -> Option<Option<i64>> {
    let (sign, rest) = match text.split_first() {
        None => return Some(None),
        Some((b'Z', rest)) => return rest.is_empty().then_some(Some(0)),
        Some((b'+', rest)) => (1, rest),
        Some((b'-', rest)) => (-1, rest),
        Some(_) => return None,
    };
    let value = |at: usize| {
        (digits(rest, at, 2) == 2).then(|| i64::from(rest[at] - b'0') * 10 + i64::from(rest[at + 1] - b'0'))
    };
    let (hours, minutes) = match rest.len() {
        2 => (value(0)?, 0),
        4 => (value(0)?, value(2)?),
        5 if rest[2] == b':' => (value(0)?, value(3)?),
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some(Some(sign * (hours * 3600 + minutes * 60)))
}

/// Days from 1970-01-01.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn local(year: i64, month: i64, day: i64, hour: i64, minute: i64, second: i64) -> Option<i64> {
    // SAFETY: all zeros are a time; `mktime` reads and writes it alone.
    unsafe {
        let mut time: libc::tm = std::mem::zeroed();
        time.tm_year = i32::try_from(year - 1900).ok()?;
        time.tm_mon = i32::try_from(month - 1).ok()?;
        (time.tm_mday, time.tm_hour) = (i32::try_from(day).ok()?, i32::try_from(hour).ok()?);
        (time.tm_min, time.tm_sec) = (i32::try_from(minute).ok()?, i32::try_from(second).ok()?);
        time.tm_isdst = -1;
        Some(libc::mktime(&mut time))
    }
}

/// The first `most` bytes, at a letter's end.
pub fn beginning(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// `value` with `digits` significant digits, without zeros at the end.
pub fn rounded(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let written = format!("{value:.*e}", digits - 1);
    let exponent: i32 = written.split('e').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    let exact: f64 = written.parse().unwrap_or(value);
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    let text = format!("{exact:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{rounded, wall_clock};

    #[test]
    fn times_have_a_zone_or_are_local() {
        assert_eq!(wall_clock("2026-11-29T02:44:46.530+0000"), Some(1_795_920_286.53));
        assert_eq!(wall_clock("2026-11-29T04:44:46,530+02:00"), Some(1_795_920_286.53));
        assert_eq!(wall_clock("2024-02-29T00:00:00Z"), Some(1_709_164_800.0));
        assert!(wall_clock("2026-11-29T02:44:46.530").is_some());
        for text in ["2026-02-30T00:00:00Z", "2026-11-29T25:00:00Z", "2026-11-29", "", "2026-11-29T02:44:46.530+00"] {
            assert!(wall_clock(text).is_none() || text.ends_with("+00"), "{text}");
        }
    }

    #[test]
    fn significant_digits() {
        assert_eq!([rounded(0.5, 3), rounded(1234.0, 3), rounded(0.012345, 3)], ["0.5", "1230", "0.0123"]);
    }
}
