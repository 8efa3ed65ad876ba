//! The names that a scenario may use in its values.

use super::node::Problems;
use crate::feeds::Feed;
use crate::template::{Names, Template, Variable};
use marked_yaml::Node;
use prost_reflect::DescriptorPool;
use std::collections::BTreeMap;

/// Names a template may use while the file is read.
pub(super) struct Scope {
    pub parameters: BTreeMap<String, String>,
    pub variables: Vec<String>,
    pub feeds: Vec<Feed>,
    /// Methods of gRPC.
    pub pools: Vec<DescriptorPool>,
}

impl Names for Scope {
    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    fn variable(&self, name: &str) -> Option<Variable> {
        self.variables.iter().position(|v| v == name)
    }

    fn feed(&self, name: &str) -> Option<(usize, usize)> {
        let (feed, column) = name.split_once('.').map_or((name, None), |(feed, column)| (feed, Some(column)));
        let at = self.feeds.iter().position(|known| known.name == feed)?;
        let columns = &self.feeds[at].columns;
        match column {
            Some(column) => Some((at, columns.iter().position(|known| known == column)?)),
            None => columns.is_empty().then_some((at, 0)),
        }
    }

    fn all(&self) -> Vec<String> {
        let columns = self.feeds.iter().flat_map(|feed| match feed.columns.is_empty() {
            true => vec![feed.name.clone()],
            false => feed.columns.iter().map(|column| format!("{}.{column}", feed.name)).collect(),
        });
        self.parameters.keys().chain(&self.variables).cloned().chain(columns).collect()
    }
}

impl Scope {
    pub fn template(&self, problems: &mut Problems, node: &Node, what: &str) -> Option<Template> {
        problems.value(node, what, |text| Template::parse(text, self))
    }

    /// A scalar in which only parameters may vary, filled in.
    pub fn fixed(&self, problems: &mut Problems, node: &Node, what: &str) -> Option<String> {
        problems.value(node, what, |text| {
            Template::parse(text, self)?
                .fixed()
                .ok_or_else(|| "only parameters may stand here, not values that vary".to_string())
        })
    }

    pub fn fixed_value<T>(
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

/// Whether `name` is letters, digits, `-` and `_`.
pub(super) fn plain(name: &str) -> bool {
    !name.is_empty() && name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}
