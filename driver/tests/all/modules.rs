//! Modules use each other in one direction. A module is part of the one that contains it, which may use its parts.

use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

type Uses = BTreeMap<String, BTreeSet<String>>;

/// Sources of all modules but those of tests, by path such as `engine::pool`.
fn sources(root: &Path, prefix: &str, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(root).expect("a directory").map(|entry| entry.expect("an entry").path()) {
        let name = entry.file_stem().expect("a name").to_string_lossy().into_owned();
        let module = [prefix, &name].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("::");
        if entry.is_dir() {
            sources(&entry, &module, found);
        } else if entry.extension().is_some_and(|ext| ext == "rs") && !name.ends_with("_tests") && prefix != "bin" {
            let module = if name == "mod" { prefix.to_string() } else { module };
            found.insert(module, std::fs::read_to_string(&entry).expect("a source"));
        }
    }
}

/// `crate::a::b`, `super::{`, ...: where it begins, the rest of the path, whether braces follow.
static PATH: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b(crate|super|self)((?:::\w+)*)(::\{)?").expect("a pattern"));
static WORDS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"[\w:]+").expect("a pattern"));

/// Paths that a source names, from the crate's root; those in braces one by one.
fn paths(source: &str, module: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or(source);
    let code: String = code.lines().map(|line| line.split("//").next().unwrap_or(line).to_string() + "\n").collect();
    let mut found = Vec::new();
    for place in PATH.captures_iter(&code) {
        let base = match &place[1] {
            "crate" => "",
            "super" => module.rsplit_once("::").map_or("", |(parent, _)| parent),
            _ => module,
        };
        let stem = format!("{base}{}", &place[2]).trim_start_matches("::").to_string();
        if place.get(3).is_some() {
            let inside = code[place.get(0).expect("the match").end()..].split(';').next().unwrap_or_default();
            let inner = WORDS.find_iter(inside).map(|word| format!("{stem}::{}", word.as_str()));
            found.extend(inner.map(|path| path.trim_start_matches("::").to_string()));
        }
        found.push(stem);
    }
    found
}

fn uses(sources: &BTreeMap<String, String>) -> Uses {
    let module_of = |path: &str| {
        let mut path = path;
        while !sources.contains_key(path) {
            path = path.rsplit_once("::")?.0;
        }
        Some(path.to_string())
    };
    let used = |(module, source): (&String, &String)| {
        let within = format!("{module}::");
        let others = paths(source, module).into_iter().filter_map(|path| module_of(&path));
        (module.clone(), others.filter(|other| other != module && !other.starts_with(&within)).collect())
    };
    sources.iter().map(used).collect()
}

/// A way from a module back to itself, if there is one.
fn circle(uses: &Uses) -> Option<Vec<String>> {
    fn walk(uses: &Uses, way: &mut Vec<String>, done: &mut BTreeSet<String>) -> bool {
        let last = way[way.len() - 1].clone();
        for next in uses.get(&last).into_iter().flatten() {
            if let Some(begin) = way.iter().position(|module| module == next) {
                way.drain(..begin);
                way.push(next.clone());
                return true;
            }
            if !done.contains(next) {
                way.push(next.clone());
                if walk(uses, way, done) {
                    return true;
                }
                way.pop();
            }
        }
        done.insert(last);
        false
    }
    let mut done = BTreeSet::new();
    uses.keys().find_map(|module| {
        let mut way = vec![module.clone()];
        walk(uses, &mut way, &mut done).then_some(way)
    })
}

#[test]
fn there_is_no_circle_between_modules() {
    let mut found = BTreeMap::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut found);
    let uses = uses(&found);
    assert!(uses.len() > 60 && uses["run"].contains("engine"), "{uses:?}");
    assert_eq!(circle(&uses).map(|way| way.join(" -> ")), None);
}

#[test]
fn no_folder_uses_one_that_uses_it() {
    let mut found = BTreeMap::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut found);
    let top = |module: &str| module.split("::").next().unwrap_or_default().to_string();
    let mut folders = Uses::new();
    for (module, used) in uses(&found) {
        let others = used.iter().map(|other| top(other)).filter(|other| *other != top(&module));
        folders.entry(top(&module)).or_default().extend(others);
    }
    assert_eq!(circle(&folders).map(|way| way.join(" -> ")), None);
}

#[test]
fn a_circle_is_seen() {
    let source = |text: &str| text.to_string();
    let mut found = BTreeMap::from([
        ("a".to_string(), source("use crate::{\n    b::Thing,\n    c,\n};\n// use crate::d;\nmod part;\n")),
        ("a::part".to_string(), source("use super::Thing;\nuse crate::b::{Other, More as Most};\n")),
        ("b".to_string(), source("fn f() { crate::c::g() }\n#[cfg(test)]\nmod tests { use crate::a; }\n")),
        ("c".to_string(), source("use std::fmt;\n")),
        ("d".to_string(), source("use super::a::Thing;\n")),
    ]);
    let known = uses(&found);
    assert_eq!(known["a"], BTreeSet::from(["b".to_string(), "c".to_string()]));
    assert_eq!(known["a::part"], BTreeSet::from(["a".to_string(), "b".to_string()]));
    assert_eq!(circle(&known), None);
    found.insert("c".to_string(), source("use crate::a::part::{self, Thing};\n"));
    assert_eq!(circle(&uses(&found)).map(|way| way.join(" -> ")), Some("a -> b -> c -> a::part -> a".to_string()));
}
