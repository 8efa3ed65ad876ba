//! Reads a scenario file; every problem is reported with its line and column.

use super::checks::read_logged_out;
use super::feed::read_feeds;
use super::node::Problems;
use super::populations::read_populations;
use super::scope::{plain, Scope};
use super::transaction::read_transaction;
use super::{Arrive, Scenario, Step};
use crate::grpc;
use crate::nearest::hint;
use crate::template::{Names, Template, Variable};
use crate::textfile;
use marked_yaml::types::MarkedMappingNode;
use marked_yaml::{LoadError, Node};
use prost_reflect::DescriptorPool;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;
use yaml_rust2::parser::{Event, Parser};

pub use super::node::Problem;

pub(super) const KEYS: [&str; 21] = [
    "scenario",
    "description",
    "parameters",
    "least",
    "identities",
    "variables",
    "pause",
    "login",
    "logout",
    "logged_out",
    "arrivals",
    "feeds",
    "mix",
    "graph",
    "populations",
    "transactions",
    "headers",
    "follow",
    "max_body",
    "compression",
    "protos",
];

/// A scenario has one of these at least.
const KNOWN_BY: [&str; 3] = ["scenario", "transactions", "mix"];

/// Bytes of a scenario.
const LARGEST: u64 = 16 << 20;

/// Most levels of lists and mappings in each other: they are read by recursion.
const DEEPEST: usize = 100;

/// The scenario in `path` with `overrides` of its parameters; the error is ready to print.
pub fn load(path: &Path, overrides: &[(String, String)]) -> Result<Scenario, String> {
    let bytes = textfile::read(path, LARGEST).map_err(|e| format!("cannot read scenario {}: {e}", path.display()))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
        format!("{}:{line}: not UTF-8: save the file as UTF-8", path.display())
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    parse_in(&text, overrides, folder).map_err(|problems| {
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

/// The scenario in `text`, files it names sought in the working directory.
pub fn parse(text: &str, overrides: &[(String, String)]) -> Result<Scenario, Vec<Problem>> {
    parse_in(text, overrides, Path::new(""))
}

/// The scenario in `text`, or all problems in the order of the file (line 0: not from the file). Files it names
/// are sought in `folder`.
pub fn parse_in(text: &str, overrides: &[(String, String)], folder: &Path) -> Result<Scenario, Vec<Problem>> {
    let options = marked_yaml::LoaderOptions::default().error_on_duplicate_keys(true).prevent_coercion(true);
    let yaml = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some(problem) = too_deep(yaml) {
        return Err(vec![problem]);
    }
    let root = match marked_yaml::parse_yaml_with_options(0, yaml, options) {
        Ok(root) => root,
        Err(error) => return Err(vec![load_problem(&error)]),
    };
    let mut problems = Problems::default();
    let scenario = read_root(&mut problems, &root, text, overrides, folder);
    match scenario {
        Some(scenario) if problems.0.is_empty() => Ok(scenario),
        _ => {
            problems.0.sort();
            Err(problems.0)
        }
    }
}

/// Where `yaml` is nested too deeply; what else is wrong with it shows when it is read.
fn too_deep(yaml: &str) -> Option<Problem> {
    let mut parser = Parser::new_from_str(yaml);
    let mut depth = 0;
    while let Ok((event, mark)) = parser.next_token() {
        match event {
            Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
            Event::SequenceEnd | Event::MappingEnd => depth -= 1,
            Event::StreamEnd => break,
            _ => {}
        }
        if depth > DEEPEST {
            let message = format!("more than {DEEPEST} lists and mappings in each other");
            return Some(Problem { line: mark.line(), column: mark.col() + 1, message });
        }
    }
    None
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

fn read_root(
    problems: &mut Problems,
    root: &Node,
    text: &str,
    overrides: &[(String, String)],
    folder: &Path,
) -> Option<Scenario> {
    let top = problems.any_mapping(root, "the scenario")?;
    if !KNOWN_BY.iter().any(|key| top.get_node(key).is_some()) {
        problems.add(root.span(), "no scenario: it has neither `scenario` nor `transactions` nor `mix`");
        return None; // nothing is quoted of a file that is another one
    }
    problems.mapping(root, "the scenario", &KEYS)?;
    let parameters = read_parameters(problems, top, overrides);
    let mut scope = Scope { parameters, variables: Vec::new(), feeds: Vec::new(), pools: Vec::new() };
    check_least(problems, top, &scope);
    let (feeds, files) = read_feeds(problems, top, &scope, folder);
    scope.feeds = feeds;
    for node in top.get_node("protos").map(|node| problems.one_or_more(node)).unwrap_or_default() {
        let pool = scope.fixed_value(problems, node, "protos", |text| grpc::pool(&folder.join(text)));
        scope.pools.extend(pool);
    }
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
    let steps = || transactions.iter().flat_map(|transaction| &transaction.requests).map(|request| request.step);
    if !steps().any(|step| step == Step::Connect) && steps().any(|step| step != Step::Http) {
        problems.add(names.span(), "`send`, `await` and `close` need a `websocket` step");
    }
    let known: Vec<&str> = names.iter().map(|(key, _)| key.as_str()).collect();
    let name = match top.get_node("scenario") {
        Some(node) => problems.text(node, "scenario")?.to_string(),
        None => {
            problems.add(root.span(), "`scenario` (its name) is missing");
            return None;
        }
    };
    let (arrive, length) = read_arrivals(problems, top, &scope);
    let populations = read_populations(problems, root.span(), top, &scope, &known, length);
    if let (Some(node), Arrive::Transaction) = (top.get_node("graph"), arrive) {
        problems.add(node.span(), "a graph is walked by sessions: arrivals have `unit: session`");
    }
    if let (Some(node), Arrive::Transaction) = (top.get_node("populations"), arrive) {
        problems.add(node.span(), "populations are of sessions: arrivals have `unit: session`");
    }
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is not a whole number"));
    let mut amount = |key: &str| top.get_node(key).and_then(|node| scope.fixed_value(problems, node, key, number));
    let (identities, follow, max_body) = (amount("identities"), amount("follow"), amount("max_body"));
    let compression = top
        .get_node("compression")
        .and_then(|node| problems.word(node, "compression", &[("true", true), ("false", false)]));
    let logged_out = read_logged_out(problems, top, &scope);
    if let (Some(node), None) = (top.get_node("logged_out"), populations.iter().find_map(|found| found.login)) {
        problems.add(node.span(), "`logged_out` needs a `login`: who is logged out logs in again");
    }
    for logout in populations.iter().filter_map(|population| population.logout) {
        if let Some(transaction) = transactions.get_mut(logout) {
            transaction.ends_session = true;
        }
    }
    let scenario = Scenario {
        name,
        sha256: Sha256::new()
            .chain_update(text)
            .chain_update(&files)
            .chain_update(scope.pools.iter().flat_map(DescriptorPool::encode_to_vec).collect::<Vec<u8>>())
            .finalize()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect(),
        assignments,
        identities: identities.map(|n| n.max(1)),
        arrive,
        populations,
        feeds: std::mem::take(&mut scope.feeds).into(),
        transactions,
        headers: read_headers(problems, top, &scope),
        compression: compression.unwrap_or(false),
        follow: follow.unwrap_or(5).min(100) as u32,
        max_body: max_body.unwrap_or(16 << 20),
        logged_out,
        variables: scope.variables,
    };
    (scenario.transactions.len() == known.len()).then_some(scenario)
}

/// Parameters in the order of the file; one may be computed from those above it.
fn read_parameters(
    problems: &mut Problems,
    top: &MarkedMappingNode,
    overrides: &[(String, String)],
) -> BTreeMap<String, String> {
    let parameters = BTreeMap::new();
    let mut scope = Scope { parameters, variables: Vec::new(), feeds: Vec::new(), pools: Vec::new() };
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

/// Parameters that may not be below a value, such as the scale of the data below what the load needs.
fn check_least(problems: &mut Problems, top: &MarkedMappingNode, scope: &Scope) {
    let number = |text: &str| text.parse::<f64>().map_err(|_| format!("`{text}` is not a number"));
    let known: Vec<&str> = scope.parameters.keys().map(String::as_str).collect();
    let Some(mapping) = top.get_node("least").and_then(|n| problems.any_mapping(n, "least")) else { return };
    for (key, node) in mapping.iter() {
        let name = key.as_str();
        let Some(value) = scope.parameters.get(name) else {
            problems.add(key.span(), format!("no parameter `{name}`{}", hint(name, &known)));
            continue;
        };
        let bound = scope.fixed_value(problems, node, name, number);
        match (number(value), bound) {
            (Ok(found), Some(bound)) if found < bound => {
                problems.add(node.span(), format!("{name} is {value}: at least {bound} is needed here"));
            }
            (Err(error), _) => problems.add(key.span(), format!("{name}: {error}")),
            _ => {}
        }
    }
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
        requests.into_iter().for_each(|list| declare_in(list, scope));
    }
}

fn declare_in(list: &Node, scope: &mut Scope) {
    for mapping in list.as_sequence().iter().flat_map(|list| list.iter()).filter_map(Node::as_mapping) {
        mapping.get_node("requests").into_iter().for_each(|inner| declare_in(inner, scope));
        for (name, _) in mapping.get_node("extract").and_then(Node::as_mapping).iter().flat_map(|names| names.iter()) {
            if scope.variable(name.as_str()).is_none() {
                scope.variables.push(name.as_str().to_string());
            }
        }
    }
}

fn read_arrivals(problems: &mut Problems, top: &MarkedMappingNode, scope: &Scope) -> (Arrive, Option<u32>) {
    let (mut arrive, mut length) = (Arrive::Session, None);
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
            length = scope.fixed_value(problems, node, "session_length", parse);
        }
    }
    (arrive, length)
}

fn read_headers(problems: &mut Problems, top: &MarkedMappingNode, scope: &Scope) -> Vec<(String, Template)> {
    let Some(node) = top.get_node("headers") else { return Vec::new() };
    super::transaction::read_header_lines(problems, scope, node)
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
