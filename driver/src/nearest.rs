//! The valid word most like a misspelt one.

/// Edit distance with insertions, deletions, substitutions and swaps of neighbours.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut rows = vec![vec![0usize; right.len() + 1]; left.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=left.len() {
        for j in 1..=right.len() {
            let change = usize::from(left[i - 1] != right[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[left.len()][right.len()]
}

/// The closest of `choices`, if it is close enough to be meant.
pub fn nearest<'a>(word: &str, choices: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.chars().take(64).collect();
    choices
        .into_iter()
        .map(|choice| (distance(&word, choice), choice))
        .filter(|(far, choice)| *far * 5 <= 2 * word.chars().count().max(choice.chars().count()))
        .min_by_key(|(far, _)| *far)
        .map(|(_, choice)| choice)
}

/// ` Did you mean "x"?`, or the list of valid words when none is close.
pub fn hint(word: &str, choices: &[&str]) -> String {
    match nearest(word, choices.iter().copied()) {
        Some(choice) => format!("; did you mean `{choice}`?"),
        None if choices.is_empty() => String::new(),
        None => format!("; valid: {}", choices.join(", ")),
    }
}

/// ` Did you mean "x"?`, or nothing: for messages that list the valid words themselves.
pub fn meant(word: &str, choices: &[&str]) -> String {
    nearest(word, choices.iter().copied()).map_or_else(String::new, |choice| format!("; did you mean `{choice}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_misspelt_word() {
        assert_eq!(nearest("exrtact", ["extract", "check"]), Some("extract"));
        assert_eq!(nearest("reqests", ["requests", "when_missing"]), Some("requests"));
        assert_eq!(nearest("zebra", ["extract", "check"]), None);
    }
}
