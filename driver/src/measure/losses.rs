//! What a summary tells of failed transactions, and shares in words.

use serde_json::Value;
use std::collections::BTreeMap;

/// Transactions of the whole run, over all names.
pub fn total(summary: &Value, what: &str) -> u64 {
    let parts = summary["total"].as_object().into_iter().flatten();
    parts.map(|(_, part)| part[what].as_u64().unwrap_or(0)).sum()
}

/// Failed transactions by kind, the most frequent one first.
pub fn kinds(summary: &Value) -> String {
    let known: BTreeMap<String, u64> = serde_json::from_value(summary["errors"].clone()).unwrap_or_default();
    let mut kinds: Vec<(String, u64)> = known.into_iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>().join(", ")
}

/// A share as people read it.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent == percent.round() {
        format!("{percent:.0} %")
    } else if percent < 0.1 {
        format!("{percent:.3} %")
    } else {
        format!("{percent:.1} %")
    }
}
