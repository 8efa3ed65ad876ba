//! Reads a scenario file; every problem is reported with its line and column.

use super::node::Problems;
use super::transaction::read_transaction;
use super::{Arrive, Pause, PauseFrom, PauseShape, Scenario};
use crate::nearest::hint;
use crate::template::{Names, Template, Variable};
use crate::units::parse_duration;
use marked_yaml::types::MarkedMappingNode;
use marked_yaml::{LoadError, Node, Span};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;

pub use super::node::Problem;

const KEYS: [&str; 14] = [
    "scenario",
    "description",
    "parameters",
    "identities",
    "variables",
    "pause",
    "login",
    "logout",
    "arrivals",
    "mix",
    "transactions",
    "headers",
    "follow",
    "max_body",
];

/// Names a template may use while the file is read.
pub(super) struct Scope {
    pub parameters: BTreeMap<String, String>,
    pub variables: Vec<String>,
}

impl Names for Scope {
    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    fn variable(&self, name: &str) -> Option<Variable> {
        self.variables.iter().position(|v| v == name)
    }

    fn all(&self) -> Vec<&str> {
        self.parameters.keys().chain(&self.variables).map(String::as_str).collect()
    }
}

impl Scope {
    pub fn template(&self, problems: &mut Problems, node: &Node, what: &str) -> Option<Template> {
        problems.value(node, what, |text| Template::parse(text, self))
    }

    /// A scalar in which only parameters may vary, filled in.
    fn fixed(&self, problems: &mut Problems, node: &Node, what: &str) -> Option<String> {
        problems.value(node, what, |text| {
            Template::parse(text, self)?
                .fixed()
                .ok_or_else(|| "only parameters may stand here, not values that vary".to_string())
        })
    }

    fn fixed_value<T>(
        &self,
        problems: &mut Problems,
        node: &Node,
        what: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.fixed(problems, node, what)?;
        match parse(&text) {
            Ok(value) => Some(value),
            Err(error) => {
                problems.add(node.span(), format!("{what}: {error}"));
                None
            }
        }
    }
}

/// The scenario in `path` with `overrides` of its parameters; the error is ready to print.
pub fn load(path: &Path, overrides: &[(String, String)]) -> Result<Scenario, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read scenario {}: {e}", path.display()))?;
    parse(&text, overrides).map_err(|problems| {
        let lines: Vec<String> = problems
            .iter()
            .map(|p| {
                if p.line == 0 {
                    p.message.clone()
                } else {
                    format!("{}:{}:{}: {}", path.display(), p.line, p.column, p.message)
                }
            })
            .collect();
        lines.join("\n")
    })
}

/// The scenario in `text`, or all problems in the order of the file (line 0: not from the file).
pub fn parse(text: &str, overrides: &[(String, String)]) -> Result<Scenario, Vec<Problem>> {
    let options = marked_yaml::LoaderOptions::default().error_on_duplicate_keys(true).prevent_coercion(true);
    let root = match marked_yaml::parse_yaml_with_options(0, text, options) {
        Ok(root) => root,
        Err(error) => return Err(vec![load_problem(&error)]),
    };
    let mut problems = Problems::default();
    let scenario = read_root(&mut problems, &root, text, overrides);
    match scenario {
        Some(scenario) if problems.0.is_empty() => Ok(scenario),
        _ => {
            problems.0.sort();
            Err(problems.0)
        }
    }
}

fn load_problem(error: &LoadError) -> Problem {
    let (mark, message) = match error {
        LoadError::TopLevelMustBeMapping(mark) => (mark, "a scenario is a mapping (`key: value` lines)".to_string()),
        LoadError::UnexpectedAnchor(mark) => (mark, "anchors and aliases are not supported".to_string()),
        LoadError::UnexpectedTag(mark) => (mark, "tags are not supported".to_string()),
        LoadError::MappingKeyMustBeScalar(mark) => (mark, "a key must be a single value".to_string()),
        LoadError::ScanError(mark, error) => (mark, format!("not YAML: {}", error.info())),
        LoadError::DuplicateKey(inner) => {
            let message = format!("key `{}` stands here twice", inner.key.as_str());
            let place = inner.key.span().start().copied();
            let (line, column) = place.map_or((1, 1), |m| (m.line(), m.column()));
            return Problem { line, column, message };
        }
        other => return Problem { line: 1, column: 1, message: other.to_string() },
    };
    Problem { line: mark.line(), column: mark.column(), message }
}

fn read_root(problems: &mut Problems, root: &Node, text: &str, overrides: &[(String, String)]) -> Option<Scenario> {
    let top = problems.mapping(root, "the scenario", &KEYS)?;
    let mut scope = Scope { parameters: read_parameters(problems, top, overrides), variables: Vec::new() };
    let assignments = read_variables(problems, top, &mut scope);
    let names = match top.get_node("transactions").map(|node| problems.any_mapping(node, "transactions")) {
        Some(found) => found?,
        None => {
            problems.add(root.span(), "`transactions` is missing");
            return None;
        }
    };
    declare_extracted(names, &mut scope);
    let mut transactions = Vec::new();
    for (key, node) in names.iter() {
        if key.as_str() == "all" || !plain(key.as_str()) {
            problems.add(key.span(), "a transaction's name is letters, digits, `-` and `_`, and not `all`");
        }
        transactions.extend(read_transaction(problems, &scope, key.as_str(), node));
    }
    let known: Vec<&str> = names.iter().map(|(key, _)| key.as_str()).collect();
    let name = match top.get_node("scenario") {
        Some(node) => problems.text(node, "scenario")?.to_string(),
        None => {
            problems.add(root.span(), "`scenario` (its name) is missing");
            return None;
        }
    };
    let mix = read_mix(problems, root.span(), top, &scope, &known);
    let (arrive, session_length) = read_arrivals(problems, top, &scope);
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is not a whole number"));
    let mut amount = |key: &str| top.get_node(key).and_then(|node| scope.fixed_value(problems, node, key, number));
    let (identities, follow, max_body) = (amount("identities"), amount("follow"), amount("max_body"));
    let logout = read_reference(problems, top, "logout", &known);
    if let Some(transaction) = logout.and_then(|at| transactions.get_mut(at)) {
        transaction.ends_session = true;
    }
    let scenario = Scenario {
        name,
        sha256: Sha256::digest(text.as_bytes()).iter().map(|b| format!("{b:02x}")).collect(),
        assignments,
        identities: identities.map(|n| n.max(1)),
        pause: read_pause(problems, top, &scope),
        login: read_reference(problems, top, "login", &known),
        logout,
        arrive,
        session_length,
        mix,
        transactions,
        headers: read_headers(problems, top, &scope),
        follow: follow.unwrap_or(5).min(100) as u32,
        max_body: max_body.unwrap_or(16 << 20),
        variables: scope.variables,
    };
    (scenario.transactions.len() == known.len()).then_some(scenario)
}

pub(super) fn plain(name: &str) -> bool {
    !name.is_empty() && name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

/// Parameters in the order of the file; one may be computed from those above it.
fn read_parameters(
    problems: &mut Problems,
    top: &MarkedMappingNode,
    overrides: &[(String, String)],
) -> BTreeMap<String, String> {
    let mut scope = Scope { parameters: BTreeMap::new(), variables: Vec::new() };
    if let Some(mapping) = top.get_node("parameters").and_then(|n| problems.any_mapping(n, "parameters")) {
        for (key, node) in mapping.iter() {
            let name = key.as_str();
            let given = overrides.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.clone());
            if let Some(value) = given.or_else(|| scope.fixed(problems, node, name)) {
                scope.parameters.insert(name.to_string(), value);
            }
        }
    }
    let known: Vec<&str> = scope.parameters.keys().map(String::as_str).collect();
    for (name, _) in overrides.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
        let message = format!("--var {name}: the scenario has no such parameter{}", hint(name, &known));
        problems.0.push(Problem { line: 0, column: 0, message });
    }
    scope.parameters
}

fn read_variables(problems: &mut Problems, top: &MarkedMappingNode, scope: &mut Scope) -> Vec<(Variable, Template)> {
    let mut assignments = Vec::new();
    if let Some(mapping) = top.get_node("variables").and_then(|n| problems.any_mapping(n, "variables")) {
        for (key, node) in mapping.iter() {
            if let Some(template) = scope.template(problems, node, key.as_str()) {
                assignments.push((scope.variables.len(), template));
            }
            scope.variables.push(key.as_str().to_string());
        }
    }
    assignments
}

/// Extracted names are known everywhere, so that the order of transactions in the file is free.
fn declare_extracted(transactions: &MarkedMappingNode, scope: &mut Scope) {
    for (_, node) in transactions.iter() {
        let requests = match node.as_mapping() {
            Some(mapping) => mapping.get_node("requests"),
            None => Some(node),
        };
        for request in requests.and_then(Node::as_sequence).iter().flat_map(|list| list.iter()) {
            let extract = request.as_mapping().and_then(|m| m.get_node("extract"));
            if let Some(names) = extract.and_then(Node::as_mapping) {
                for (name, _) in names.iter() {
                    if scope.variable(name.as_str()).is_none() {
                        scope.variables.push(name.as_str().to_string());
                    }
                }
            }
        }
    }
}

fn read_pause(problems: &mut Problems, top: &MarkedMappingNode, scope: &Scope) -> Pause {
    let mut pause = Pause { shape: PauseShape::None, mean: 0, measure: PauseFrom::End };
    let keys = ["kind", "shape", "mean"];
    let Some(mapping) = top.get_node("pause").and_then(|n| problems.mapping(n, "pause", &keys)) else {
        return pause;
    };
    if let Some(node) = mapping.get_node("shape") {
        let words =
            [("none", PauseShape::None), ("fixed", PauseShape::Fixed), ("exponential", PauseShape::Exponential)];
        pause.shape = problems.word(node, "shape", &words).unwrap_or(pause.shape);
    }
    if let Some(node) = mapping.get_node("kind") {
        let words = [("think", PauseFrom::End), ("cycle", PauseFrom::Due)];
        pause.measure = problems.word(node, "kind", &words).unwrap_or(pause.measure);
    }
    match mapping.get_node("mean") {
        Some(node) => pause.mean = scope.fixed_value(problems, node, "mean", parse_duration).unwrap_or(0),
        None if pause.shape != PauseShape::None => problems.add(mapping.span(), "`mean` is missing in pause"),
        None => {}
    }
    if pause.mean == 0 {
        pause.shape = PauseShape::None;
    }
    pause
}

fn read_arrivals(problems: &mut Problems, top: &MarkedMappingNode, scope: &Scope) -> (Arrive, u32) {
    let (mut arrive, mut length) = (Arrive::Session, 10);
    let keys = ["unit", "session_length"];
    if let Some(mapping) = top.get_node("arrivals").and_then(|n| problems.mapping(n, "arrivals", &keys)) {
        if let Some(node) = mapping.get_node("unit") {
            let words = [("session", Arrive::Session), ("transaction", Arrive::Transaction)];
            arrive = problems.word(node, "unit", &words).unwrap_or(arrive);
        }
        if let Some(node) = mapping.get_node("session_length") {
            let parse = |text: &str| match text.parse::<u32>() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(format!("`{text}` is not a whole number above 0")),
            };
            length = scope.fixed_value(problems, node, "session_length", parse).unwrap_or(length);
        }
    }
    (arrive, length)
}

fn read_reference(problems: &mut Problems, top: &MarkedMappingNode, key: &str, known: &[&str]) -> Option<usize> {
    let node = top.get_node(key)?;
    problems.value(node, key, |text| find(text, known))
}

fn find(text: &str, known: &[&str]) -> Result<usize, String> {
    known.iter().position(|name| *name == text).ok_or_else(|| format!("no transaction `{text}`{}", hint(text, known)))
}

fn read_mix(
    problems: &mut Problems,
    whole: &Span,
    top: &MarkedMappingNode,
    scope: &Scope,
    known: &[&str],
) -> Vec<(usize, f64)> {
    let Some(node) = top.get_node("mix") else {
        problems.add(whole, "`mix` (transaction: weight) is missing");
        return Vec::new();
    };
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

fn read_headers(problems: &mut Problems, top: &MarkedMappingNode, scope: &Scope) -> Vec<(String, Template)> {
    let Some(node) = top.get_node("headers") else { return Vec::new() };
    super::transaction::read_header_lines(problems, scope, node)
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
