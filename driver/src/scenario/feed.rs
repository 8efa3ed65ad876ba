//! Reads the data feeds of a scenario.

use super::node::Problems;
use super::scope::{plain, Scope};
use crate::feeds::{Choose, Feed, Hold, Origin, Zipf};
use crate::textfile;
use marked_yaml::types::MarkedMappingNode;
use marked_yaml::Node;
use std::path::Path;

pub(super) const KEYS: [&str; 6] = ["csv", "sequence", "zipf", "pick", "exponent", "per"];
const LARGEST_FILE: u64 = 256 << 20;

/// The feeds, and the bytes of the files they come from.
pub(super) fn read_feeds(
    problems: &mut Problems,
    top: &MarkedMappingNode,
    scope: &Scope,
    folder: &Path,
) -> (Vec<Feed>, Vec<u8>) {
    let (mut feeds, mut bytes) = (Vec::new(), Vec::new());
    let Some(mapping) = top.get_node("feeds").and_then(|n| problems.any_mapping(n, "feeds")) else {
        return (feeds, bytes);
    };
    for (key, node) in mapping.iter() {
        let name = key.as_str();
        if !plain(name) {
            problems.add(key.span(), "a feed's name is letters, digits, `-` and `_`");
        }
        feeds.extend(read_feed(problems, scope, folder, name, node, &mut bytes));
    }
    (feeds, bytes)
}

fn read_feed(
    problems: &mut Problems,
    scope: &Scope,
    folder: &Path,
    name: &str,
    node: &Node,
    bytes: &mut Vec<u8>,
) -> Option<Feed> {
    let mapping = problems.mapping(node, &format!("feed `{name}`"), &KEYS)?;
    let kinds = ["csv", "sequence", "zipf"].into_iter().filter_map(|kind| Some((kind, mapping.get_node(kind)?)));
    let [(kind, value)] = kinds.collect::<Vec<_>>()[..] else {
        problems.add(mapping.span(), format!("feed `{name}` has exactly one of csv, sequence, zipf"));
        return None;
    };
    for (key, only) in [("pick", "csv"), ("exponent", "zipf")] {
        let zipf_rows = key == "exponent" && kind == "csv";
        if let (Some(node), false) = (mapping.get_node(key), kind == only || zipf_rows) {
            problems.add(node.span(), format!("`{key}` belongs to a feed of {only}"));
        }
    }
    let exponent =
        mapping.get_node("exponent").and_then(|n| scope.fixed_value(problems, n, "exponent", exponent)).unwrap_or(1.0);
    let mut hold = Hold::Transaction;
    let (columns, origin) = match kind {
        "csv" => {
            let (columns, rows) = read_rows(problems, scope, folder, value, bytes)?;
            let words = [("sequential", 0), ("random", 1), ("unique", 2), ("zipf", 3)];
            let pick = match mapping.get_node("pick").map(|n| problems.word(n, "pick", &words)) {
                None | Some(Some(0)) => Choose::Sequential,
                Some(Some(1)) => Choose::Random,
                Some(Some(2)) => {
                    hold = Hold::Session;
                    Choose::Unique
                }
                _ => Choose::Zipf(Zipf::new(rows.len() as u64, exponent)),
            };
            (columns, Origin::Rows { rows, pick })
        }
        "sequence" => (Vec::new(), read_sequence(problems, scope, value)?),
        _ => {
            let count = scope.fixed_value(problems, value, "zipf", |text| match text.parse::<u64>() {
                Ok(count) if (1..=1 << 50).contains(&count) => Ok(count),
                _ => Err(format!("`{text}` is not a number of ranks (1 or more)")),
            })?;
            (Vec::new(), Origin::Zipf(Zipf::new(count, exponent)))
        }
    };
    if let Some(node) = mapping.get_node("per") {
        let words = [("use", Hold::Use), ("transaction", Hold::Transaction), ("session", Hold::Session)];
        let given = problems.word(node, "per", &words)?;
        if hold == Hold::Session && given != hold {
            problems.add(node.span(), "a unique row is kept for the whole session: per is session");
        }
        hold = given;
    }
    Some(Feed { name: name.to_string(), columns, origin, hold })
}

fn exponent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..=10.0).contains(&number) => Ok(number),
        _ => Err(format!("`{text}` is not an exponent (0 to 10)")),
    }
}

fn read_sequence(problems: &mut Problems, scope: &Scope, node: &Node) -> Option<Origin> {
    let mapping = problems.mapping(node, "sequence", &["from", "step", "until"])?;
    let mut number = |key: &str| -> Option<i64> {
        scope.fixed_value(problems, mapping.get_node(key)?, key, |text| match text.parse::<i64>() {
            Ok(number) if number.unsigned_abs() < 1 << 60 => Ok(number),
            _ => Err(format!("`{text}` is not a whole number")),
        })
    };
    let (from, step, until) = (number("from").unwrap_or(1), number("step").unwrap_or(1), number("until"));
    if step == 0 || until.is_some_and(|until| (until - from) / step < 0) {
        problems.add(mapping.span(), "the sequence never reaches `until`, or never moves");
        return None;
    }
    Some(Origin::Sequence { from, step, until })
}

type Rows = (Vec<String>, Vec<Vec<Box<[u8]>>>);

/// A CSV file (RFC 4180) whose first line names the columns. A message quotes nothing that stands in it but names of
/// columns: it may be another file than was meant.
fn read_rows(problems: &mut Problems, scope: &Scope, folder: &Path, node: &Node, bytes: &mut Vec<u8>) -> Option<Rows> {
    let name = scope.fixed(problems, node, "csv")?;
    let path = folder.join(&name);
    let mut read = || -> Result<Rows, String> {
        let text = textfile::read(&path, LARGEST_FILE)?;
        let found = parse_rows(&text)?;
        bytes.extend_from_slice(&text);
        Ok(found)
    };
    match read() {
        Ok(found) => Some(found),
        Err(error) => {
            problems.add(node.span(), format!("csv {name}: {error}"));
            None
        }
    }
}

fn parse_rows(text: &[u8]) -> Result<Rows, String> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text);
    let (mut columns, mut rows) = (Vec::new(), Vec::new());
    for record in reader.byte_records() {
        let record = record.map_err(|e| match e.kind() {
            csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
                let line = pos.as_ref().map_or(0, csv::Position::line);
                format!("line {line} has {len} fields, the first line {expected_len}")
            }
            _ => e.to_string(),
        })?;
        if columns.is_empty() {
            for (at, field) in record.iter().enumerate() {
                let name = String::from_utf8_lossy(field).trim().to_string();
                if !plain(&name) {
                    let form = "1 to 64 letters, digits, `-` and `_`";
                    return Err(format!("line 1 names the columns: field {} is no name ({form})", at + 1));
                }
                if columns.contains(&name) {
                    return Err(format!("line 1 names the columns: `{name}` stands twice"));
                }
                columns.push(name);
            }
        } else {
            rows.push(record.iter().map(Box::from).collect());
        }
    }
    if rows.is_empty() {
        return Err("no row below the names of the columns".into());
    }
    Ok((columns, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_their_mistakes_named() {
        let (columns, rows) = parse_rows(b"user,note\r\nann,\"a, \"\"b\"\"\"\nbob,\n").expect("valid");
        assert_eq!(columns, ["user", "note"]);
        assert_eq!((&*rows[0][1], &*rows[1][0], rows.len()), (&b"a, \"b\""[..], &b"bob"[..], 2));
        for (text, part) in [
            (&b"a,b\n1\n"[..], "line 2 has 1 fields"),
            (b"a,a\n1,2\n", "stands twice"),
            (b"ok,root:$6$secret\n1,2\n", "field 2 is no name (1 to"),
            (b"a\n", "no row"),
            (b"", "no row"),
        ] {
            let error = parse_rows(text).expect_err("bad rows");
            assert!(error.contains(part), "{error}");
        }
    }
}
