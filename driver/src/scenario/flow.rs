//! Reads what follows what: a weighted mix, or a graph with probabilities.

use super::node::Problems;
use super::scope::Scope;
use super::{Graph, Row};
use crate::nearest::hint;
use marked_yaml::types::MarkedMappingNode;
use marked_yaml::{Node, Span};

/// How far the sum of a row may be from 1.
const TOLERANCE: f64 = 1e-6;
pub(super) const START: &str = "start";
pub(super) const END: &str = "end";

pub(super) fn find(text: &str, known: &[&str]) -> Result<usize, String> {
    known.iter().position(|name| *name == text).ok_or_else(|| format!("no transaction `{text}`{}", hint(text, known)))
}

/// The mix (empty with a graph) and the graph.
pub(super) fn read_flow(
    problems: &mut Problems,
    whole: &Span,
    top: &MarkedMappingNode,
    scope: &Scope,
    known: &[&str],
) -> (Vec<(usize, f64)>, Option<Graph>) {
    match (top.get_node("mix"), top.get_node("graph")) {
        (Some(_), Some(graph)) => problems.add(graph.span(), "a scenario has a `mix` or a `graph`, not both"),
        (None, Some(graph)) => return (Vec::new(), read_graph(problems, graph, scope, known)),
        (Some(mix), None) => return (read_mix(problems, mix, scope, known), None),
        (None, None) => problems.add(whole, "`mix` (transaction: weight) or `graph` is missing"),
    }
    (Vec::new(), None)
}

fn read_mix(problems: &mut Problems, node: &Node, scope: &Scope, known: &[&str]) -> Vec<(usize, f64)> {
    let mut mix = Vec::new();
    let Some(mapping) = problems.any_mapping(node, "mix") else { return mix };
    for (key, value) in mapping.iter() {
        let weight = scope.fixed_value(problems, value, key.as_str(), |text| match text.parse::<f64>() {
            Ok(weight) if weight.is_finite() && weight >= 0.0 => Ok(weight),
            _ => Err(format!("`{text}` is not a weight (a number of at least 0)")),
        });
        match (find(key.as_str(), known), weight) {
            (Ok(index), Some(weight)) => mix.push((index, weight)),
            (Err(error), _) => problems.add(key.span(), error),
            _ => {}
        }
    }
    if mix.iter().map(|(_, weight)| weight).sum::<f64>() <= 0.0 {
        problems.add(node.span(), "the weights of `mix` add up to nothing");
    }
    mix
}

/// `start` and one row for each transaction that can be reached: next transaction (or `end`) and its probability.
fn read_graph(problems: &mut Problems, node: &Node, scope: &Scope, known: &[&str]) -> Option<Graph> {
    let mapping = problems.any_mapping(node, "graph")?;
    let before = problems.0.len();
    let mut rows: Vec<Option<Row>> = vec![None; known.len()];
    let mut start = None;
    for (key, value) in mapping.iter() {
        let name = key.as_str();
        let row = read_row(problems, value, name, scope, known);
        if name == START {
            start = row;
        } else {
            let mut valid = known.to_vec();
            valid.push(START);
            match known.iter().position(|other| *other == name) {
                Some(index) => rows[index] = row,
                None => problems.add(key.span(), format!("no transaction `{name}`{}", hint(name, &valid))),
            }
        }
    }
    if problems.0.len() > before {
        return None;
    }
    let Some(start) = start else {
        problems.add(node.span(), "`start` is missing in graph: where a session begins");
        return None;
    };
    for row in rows.iter().flatten().chain([&start]) {
        for (next, _) in row.iter().filter(|(_, share)| *share > 0.0) {
            if let Some(to) = next.filter(|to| rows[*to].is_none()) {
                problems.add(node.span(), format!("the graph reaches `{}`, which has no row", known[to]));
            }
        }
    }
    (problems.0.len() == before).then_some(Graph { start, rows })
}

fn read_row(problems: &mut Problems, node: &Node, name: &str, scope: &Scope, known: &[&str]) -> Option<Row> {
    let mapping = problems.any_mapping(node, &format!("row `{name}` of graph"))?;
    let before = problems.0.len();
    let (mut row, mut sum) = (Vec::new(), 0.0);
    for (key, value) in mapping.iter() {
        let share = scope.fixed_value(problems, value, key.as_str(), |text| match text.parse::<f64>() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
            _ => Err(format!("`{text}` is not a probability (0 to 1)")),
        });
        sum += share.unwrap_or(0.0);
        let next = if key.as_str() == END && name != START {
            None
        } else {
            let mut valid = known.to_vec();
            valid.extend((name != START).then_some(END));
            match known.iter().position(|other| *other == key.as_str()) {
                Some(index) => Some(index),
                None => {
                    let message = format!("no transaction `{}`{}", key.as_str(), hint(key.as_str(), &valid));
                    problems.add(key.span(), message);
                    continue;
                }
            }
        };
        row.push((next, share?));
    }
    if problems.0.len() > before {
        return None;
    }
    if (sum - 1.0).abs() > TOLERANCE {
        let places = if (sum - 1.0).abs() < 0.001 { 6 } else { 3 };
        problems.add(node.span(), format!("row `{name}` of graph adds up to {sum:.places$}, not to 1"));
        return None;
    }
    Some(row)
}
