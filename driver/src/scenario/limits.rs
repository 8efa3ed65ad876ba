//! Limits of a transaction that are reported, kept or not.

use super::node::Problems;
use super::scope::Scope;
use crate::units::{parse_share, parse_time};
use marked_yaml::Node;

/// A bound and what it bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    pub measure: Measure,
    /// Nanoseconds, or a share.
    pub bound: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    Mean,
    /// A quantile of the response time; 1 is the maximum.
    Quantile(&'static str, f64),
    /// Failed ones among ok and failed.
    Errors,
}

impl Measure {
    pub fn as_str(self) -> &'static str {
        match self {
            Measure::Mean => "mean",
            Measure::Quantile(name, _) => name,
            Measure::Errors => "errors",
        }
    }
}

pub(super) const KEYS: [&str; 8] = ["mean", "p50", "p90", "p95", "p99", "p999", "max", "errors"];
const QUANTILES: [f64; 6] = [0.5, 0.9, 0.95, 0.99, 0.999, 1.0];

pub(super) fn read_limits(problems: &mut Problems, scope: &Scope, node: &Node) -> Vec<Limit> {
    let Some(mapping) = problems.mapping(node, "limits", &KEYS) else { return Vec::new() };
    let mut limits = Vec::new();
    for (key, node) in mapping.iter() {
        let (measure, bound) = match KEYS.iter().position(|name| *name == key.as_str()) {
            Some(0) => (Measure::Mean, scope.fixed_value(problems, node, key, duration)),
            Some(7) => (Measure::Errors, scope.fixed_value(problems, node, key, parse_share)),
            Some(at) => {
                let measure = Measure::Quantile(KEYS[at], QUANTILES[at - 1]);
                (measure, scope.fixed_value(problems, node, key, duration))
            }
            None => continue,
        };
        limits.extend(bound.map(|bound| Limit { measure, bound }));
    }
    limits
}

fn duration(text: &str) -> Result<f64, String> {
    parse_time(text).map(|ns| ns as f64)
}
