//! Reads what is done with a response: checks and extractions.

use super::node::Problems;
use super::scope::{plain, Scope};
use super::{Checks, Extract, LoggedOut, Pick, Source};
use crate::grpc;
use crate::pattern::{compile, Pattern};
use crate::select::{Css, Pointer};
use crate::template::Names;
use marked_yaml::types::MarkedMappingNode;
use marked_yaml::Node;

pub(super) const CHECK_KEYS: [&str; 8] =
    ["status", "skip_status", "grpc_status", "contains", "lacks", "matches", "header", "json"];
pub(super) const EXTRACT_KEYS: [&str; 7] = ["regex", "json", "css", "header", "cookie", "attribute", "pick"];

pub(super) fn read_checks(problems: &mut Problems, scope: &Scope, request: &MarkedMappingNode) -> Checks {
    let node = request.get_node("check");
    node.map(|node| read_check(problems, scope, node, "check", &CHECK_KEYS)).unwrap_or_default()
}

pub(super) fn read_check(problems: &mut Problems, scope: &Scope, node: &Node, what: &str, keys: &[&str]) -> Checks {
    let mut checks = Checks::default();
    let Some(mapping) = problems.mapping(node, what, keys) else { return checks };
    for (key, node) in mapping.iter() {
        match key.as_str() {
            "header" => {
                for (name, value) in problems.any_mapping(node, "header").into_iter().flat_map(|m| m.iter()) {
                    checks.headers.extend(Some(name.as_str().to_string()).zip(problems.value(value, name, compile)));
                }
                continue;
            }
            "json" => {
                for (key, value) in problems.any_mapping(node, "json").into_iter().flat_map(|m| m.iter()) {
                    match Pointer::parse(key.as_str()) {
                        Ok(pointer) => checks.json.extend(Some(pointer).zip(scope.template(problems, value, key))),
                        Err(error) => problems.add(key.span(), error),
                    }
                }
                continue;
            }
            _ => {}
        }
        for item in problems.one_or_more(node) {
            match key.as_str() {
                "status" => checks.status.extend(problems.value(item, "status", status)),
                "skip_status" => checks.skip_status.extend(problems.value(item, "skip_status", status)),
                "grpc_status" => checks.grpc_status.extend(problems.value(item, "grpc_status", grpc::status)),
                "contains" => checks.contains.extend(scope.template(problems, item, "contains")),
                "lacks" => checks.lacks.extend(scope.template(problems, item, "lacks")),
                "matches" => checks.matches.extend(problems.value(item, "matches", compile)),
                _ => {}
            }
        }
    }
    checks
}

fn status(text: &str) -> Result<u16, String> {
    match text.parse::<u16>() {
        Ok(code) if (200..600).contains(&code) => Ok(code),
        _ => Err(format!("`{text}` is not a status code (200 to 599)")),
    }
}

pub(super) fn read_logged_out(problems: &mut Problems, top: &MarkedMappingNode, scope: &Scope) -> LoggedOut {
    let mut found = LoggedOut::default();
    let keys = ["status", "redirect", "contains"];
    let Some(mapping) = top.get_node("logged_out").and_then(|n| problems.mapping(n, "logged_out", &keys)) else {
        return found;
    };
    let text = |text: &str| match text.is_empty() {
        true => Err("an empty text is in every response".to_string()),
        false => Ok(text.to_string()),
    };
    for (key, node) in mapping.iter() {
        for item in problems.one_or_more(node) {
            match key.as_str() {
                "status" => found.status.extend(problems.value(item, "status", status)),
                "redirect" => found.redirect.extend(scope.fixed_value(problems, item, "redirect", text)),
                _ => found.contains.extend(scope.fixed_value(problems, item, "contains", text)),
            }
        }
    }
    found
}

pub(super) fn read_extracts(problems: &mut Problems, scope: &Scope, request: &MarkedMappingNode) -> Vec<Extract> {
    let Some(mapping) = request.get_node("extract").and_then(|n| problems.any_mapping(n, "extract")) else {
        return Vec::new();
    };
    let mut extracts = Vec::new();
    for (key, node) in mapping.iter() {
        if let (Some((source, pick)), Some(variable)) =
            (read_extract(problems, key.as_str(), node), scope.variable(key.as_str()))
        {
            extracts.push(Extract { variable, source, pick });
        }
    }
    extracts
}

fn read_extract(problems: &mut Problems, name: &str, node: &Node) -> Option<(Source, Pick)> {
    if node.as_scalar().is_some() {
        return Some((Source::Regex(problems.value(node, "regex", Pattern::new)?), Pick::First));
    }
    let what = format!("extract `{name}`");
    let mapping = problems.mapping(node, &what, &EXTRACT_KEYS)?;
    let words = [("first", Pick::First), ("last", Pick::Last), ("random", Pick::Random)];
    let pick = mapping.get_node("pick").and_then(|n| problems.word(n, "pick", &words)).unwrap_or(Pick::First);
    let kinds =
        ["regex", "json", "css", "header", "cookie"].into_iter().filter_map(|k| Some((k, mapping.get_node(k)?)));
    let [(kind, value)] = kinds.collect::<Vec<_>>()[..] else {
        problems.add(mapping.span(), format!("{what} has exactly one of regex, json, css, header, cookie"));
        return None;
    };
    let attribute = mapping.get_node("attribute");
    if let (Some(node), true) = (attribute, kind != "css") {
        problems.add(node.span(), "`attribute` belongs to css");
    }
    let attribute = attribute.and_then(|n| problems.text(n, "attribute")).map(str::to_ascii_lowercase);
    let source = match kind {
        "regex" => Source::Regex(problems.value(value, "regex", Pattern::new)?),
        "json" => Source::Json(problems.value(value, "json", Pointer::parse)?),
        "css" => Source::Css(problems.value(value, "css", |text| Css::parse(text, attribute.clone()))?),
        _ => {
            let name = problems.value(value, kind, |text| match plain(text) {
                true => Ok(text.to_string()),
                false => Err(format!("`{text}` is no name of a {kind}")),
            })?;
            if kind == "cookie" {
                Source::Cookie(name)
            } else {
                Source::Header(name)
            }
        }
    };
    Some((source, pick))
}
