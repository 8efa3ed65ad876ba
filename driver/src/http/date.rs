//! Dates of cookies, read as browsers do.

const MONTHS: [&[u8; 3]; 12] =
    [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];

/// Seconds since 1970 of the `Expires` of a cookie (RFC 6265, 5.1.1); None where it holds no date.
pub fn parse(text: &[u8]) -> Option<i64> {
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    let between = |b: &u8| matches!(b, b'\t' | b' '..=b'/' | b';'..=b'@' | b'['..=b'`' | b'{'..=b'~');
    for token in text.split(between) {
        let found = |known: bool, value: Option<i64>| if known { None } else { value };
        if let Some(value) = found(time.is_some(), clock(token)) {
            time = Some(value);
        } else if let Some(value) = found(day.is_some(), number(token, 1, 2)) {
            day = Some(value);
        } else if let Some(value) = found(month.is_some(), month_of(token)) {
            month = Some(value);
        } else if let Some(value) = found(year.is_some(), number(token, 2, 4)) {
            year = Some(value);
        }
    }
    let (time, day, month) = (time?, day?, month?);
    let year = match year? {
        year @ 70..=99 => year + 1900,
        year @ 0..=69 => year + 2000,
        year => year,
    };
    if year < 1601 || !(1..=length_of(month, year)).contains(&day) || time < 0 {
        return None;
    }
    Some(days(year, month, day) * 86_400 + time)
}

/// The number that `token` begins with, of so many digits.
fn number(token: &[u8], least: usize, most: usize) -> Option<i64> {
    let digits = token.iter().take_while(|b| b.is_ascii_digit()).count();
    let value = || token[..digits].iter().fold(0, |sum, b| sum * 10 + i64::from(b - b'0'));
    (least..=most).contains(&digits).then(value)
}

/// Seconds of `h:m:s`; -1 where a day has no such time.
fn clock(token: &[u8]) -> Option<i64> {
    let mut parts = token.splitn(3, |b| *b == b':');
    let mut whole = || parts.next().filter(|part| part.iter().all(u8::is_ascii_digit)).and_then(|p| number(p, 1, 2));
    let (hour, minute) = (whole()?, whole()?);
    let second = number(parts.next()?, 1, 2)?;
    Some(if hour > 23 || minute > 59 || second > 59 { -1 } else { hour * 3600 + minute * 60 + second })
}

/// 1 to 12.
fn month_of(token: &[u8]) -> Option<i64> {
    let name = token.get(..3)?;
    MONTHS.iter().position(|month| name.eq_ignore_ascii_case(*month)).map(|at| at as i64 + 1)
}

fn length_of(month: i64, year: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the Gregorian calendar, counted in years that begin in March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let in_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + in_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_servers_write() {
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Thu, 01-Jan-1970 00:00:10 GMT", 10),
            ("Wed, 31 Dec 1969 23:59:59 GMT", -1),
            ("Thu, 01-Dec-1994 16:00:00 GMT", 786_297_600),
            ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
            ("Sun Nov  6 08:49:37 1994", 784_111_777),
            ("\"Tue, 29 Feb 2000 12:0:0\"", 951_825_600),
            ("1 march 2038 3:4:5.6", 2_151_025_445),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799),
            ("1 Jan 1601 0:0:0", -11_644_473_600),
            ("1 Jan 69 0:0:0", 3_124_224_000),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(seconds), "{text}");
        }
        for text in [
            "",
            "0",
            "1970",
            "1 Jan 1970",
            "1 Jan 0:0:0",
            "Jan 1970 0:0:0",
            "1 Jan 1970 24:0:0",
            "1 Jan 1970 0:60:0",
            "1 Jan 1970 0:0:60",
            "1 Jan 1970 0:0",
            "1 Jan 1600 0:0:0",
            "0 Jan 1970 0:0:0",
            "29 Feb 1900 0:0:0",
            "31 Apr 1999 0:0:0",
            "1 Jan 19700 0:0:0",
            "1 J\u{e4}n 1970 0:0:0",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut expected = parse(b"1 Jan 1896 0:0:0").expect("a date");
        for year in 1896..=2104 {
            for (month, name) in MONTHS.iter().enumerate() {
                let name = String::from_utf8_lossy(*name);
                let length = (1..=31).take_while(|day| {
                    let found = parse(format!("{day} {name} {year} 0:0:0").as_bytes());
                    let next = found == Some(expected);
                    expected += if next { 86_400 } else { 0 };
                    next
                });
                assert_eq!(length.count() as i64, length_of(month as i64 + 1, year), "{name} {year}");
            }
        }
    }
}
