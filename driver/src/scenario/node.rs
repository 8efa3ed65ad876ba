//! Access to YAML nodes that remembers where they stand.

use crate::nearest::{hint, meant};
use marked_yaml::types::{MarkedMappingNode, MarkedScalarNode};
use marked_yaml::{Node, Span};

/// One thing wrong with a scenario, at a line and column (both from 1).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

/// Collects problems so that one reading reports them all.
#[derive(Default, Debug)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    pub fn add(&mut self, span: &Span, message: impl Into<String>) {
        let (line, column) = span.start().map_or((1, 1), |mark| (mark.line(), mark.column()));
        self.0.push(Problem { line, column, message: message.into().replace('\n', " ") });
    }

    /// The mapping at `node`, its keys checked against `keys`.
    pub fn mapping<'a>(&mut self, node: &'a Node, what: &str, keys: &[&str]) -> Option<&'a MarkedMappingNode> {
        let mapping = self.any_mapping(node, what)?;
        for (key, _) in mapping.iter() {
            if !keys.contains(&key.as_str()) {
                self.add(key.span(), format!("unknown key `{}` in {what}{}", key.as_str(), hint(key.as_str(), keys)));
            }
        }
        Some(mapping)
    }

    /// The mapping at `node`, with keys of the author's choice.
    pub fn any_mapping<'a>(&mut self, node: &'a Node, what: &str) -> Option<&'a MarkedMappingNode> {
        let mapping = node.as_mapping();
        if mapping.is_none() {
            self.add(node.span(), format!("{what} must be a mapping (`key: value` lines)"));
        }
        mapping
    }

    pub fn sequence<'a>(&mut self, node: &'a Node, what: &str) -> Option<&'a [Node]> {
        let found = node.as_sequence().map(|list| &list[..]);
        if found.is_none() {
            self.add(node.span(), format!("{what} must be a list (`- item` lines)"));
        }
        found
    }

    pub fn scalar<'a>(&mut self, node: &'a Node, what: &str) -> Option<&'a MarkedScalarNode> {
        let found = node.as_scalar();
        if found.is_none() {
            self.add(node.span(), format!("{what} must be a single value"));
        }
        found
    }

    pub fn text<'a>(&mut self, node: &'a Node, what: &str) -> Option<&'a str> {
        self.scalar(node, what).map(|scalar| scalar.as_str())
    }

    /// A scalar that `parse` understands.
    pub fn value<T>(&mut self, node: &Node, what: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let text = self.text(node, what)?;
        match parse(text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.add(node.span(), format!("{what}: {error}"));
                None
            }
        }
    }

    /// One of a few words.
    pub fn word<T: Copy>(&mut self, node: &Node, what: &str, words: &[(&str, T)]) -> Option<T> {
        self.value(node, what, |text| {
            words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
                let valid: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                format!("`{text}` is not one of {}{}", valid.join(", "), meant(text, &valid))
            })
        })
    }

    /// Each item of a list, or a single value as a list of one.
    pub fn one_or_more<'a>(&mut self, node: &'a Node) -> Vec<&'a Node> {
        match node.as_sequence() {
            Some(list) => list.iter().collect(),
            None => vec![node],
        }
    }
}
