//! The kinds of sessions of a scenario, and which session is of which.

use super::flow::{find, read_flow};
use super::node::Problems;
use super::scope::{plain, Scope};
use super::{Graph, Pause, PauseFrom, PauseShape};
use crate::units::parse_time;
use marked_yaml::types::MarkedMappingNode;
use marked_yaml::{Node, Span};

/// Most users of all populations together, as of `--users`.
const MOST_USERS: u64 = 10_000_000;

pub(super) const KEYS: [&str; 6] = ["users", "pause", "login", "logout", "mix", "graph"];

/// Sessions of one kind.
#[derive(Debug)]
pub struct Population {
    /// Empty where the scenario has one kind only.
    pub name: String,
    /// Its users, as against those of the others.
    pub users: u64,
    pub pause: Pause,
    /// Index of the transaction that begins a session, and follows a logout.
    pub login: Option<usize>,
    /// Index of the transaction that ends a session.
    pub logout: Option<usize>,
    /// Transactions drawn from the mix in one open session.
    pub session_length: u32,
    /// Transaction and weight; weights need no particular sum.
    pub mix: Vec<(usize, f64)>,
    /// Instead of a mix: what follows what.
    pub graph: Option<Graph>,
}

/// All of them.
#[derive(Debug)]
pub struct Populations {
    all: Vec<Population>,
    /// The populations of consecutive sessions, over and over: each as often as it has users, spread evenly.
    turns: Vec<u16>,
}

impl Populations {
    fn new(all: Vec<Population>) -> Self {
        let step = all.iter().map(|population| population.users).fold(0, common_divisor).max(1);
        let parts: Vec<i128> = all.iter().map(|population| i128::from(population.users / step)).collect();
        let total: i128 = parts.iter().sum();
        let mut given = vec![0i128; parts.len()];
        let mut turns = Vec::new();
        for turn in 1..=total {
            let behind = |at: &usize| parts[*at] * turn - given[*at] * total;
            let next = (0..parts.len()).rev().max_by_key(behind).unwrap_or(0);
            given[next] += 1;
            turns.push(next as u16);
        }
        Populations { all, turns }
    }

    /// Of the session `number` (from 1).
    pub fn index(&self, number: u64) -> usize {
        let turns = self.turns.len().max(1) as u64;
        self.turns.get((number.wrapping_sub(1) % turns) as usize).map_or(0, |at| usize::from(*at))
    }

    pub fn of(&self, number: u64) -> &Population {
        self.at(self.index(number))
    }

    pub fn at(&self, index: usize) -> &Population {
        &self.all[index]
    }

    pub fn iter(&self) -> impl Iterator<Item = &Population> {
        self.all.iter()
    }

    /// Users of all together, where the scenario states them.
    pub fn users(&self) -> Option<u64> {
        let named = self.all.iter().any(|population| !population.name.is_empty());
        named.then(|| self.all.iter().map(|population| population.users).sum())
    }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        common_divisor(b, a % b)
    }
}

/// `populations`, or what stands in its place at the top of the scenario. `length`: of an open session.
pub(super) fn read_populations(
    problems: &mut Problems,
    whole: &Span,
    top: &MarkedMappingNode,
    scope: &Scope,
    known: &[&str],
    length: Option<u32>,
) -> Populations {
    let Some(node) = top.get_node("populations") else {
        let one = read_population(problems, whole, top, (scope, known), (String::new(), 1), length);
        return Populations::new(vec![one]);
    };
    for key in KEYS {
        if let Some(other) = top.get_node(key) {
            let message = format!("`{key}` stands within each of the populations, or instead of `populations`");
            problems.add(other.span(), message);
        }
    }
    let mut all = Vec::new();
    for (key, node) in problems.any_mapping(node, "populations").iter().flat_map(|found| found.iter()) {
        if !plain(key.as_str()) {
            problems.add(key.span(), "a population's name is letters, digits, `-` and `_`");
        }
        let Some(mapping) = problems.mapping(node, &format!("population `{}`", key.as_str()), &KEYS) else { continue };
        let users = read_users(problems, node, mapping, scope);
        let name = key.as_str().to_string();
        all.push(read_population(problems, node.span(), mapping, (scope, known), (name, users), length));
    }
    let users: u64 = all.iter().map(|population| population.users).sum();
    if users == 0 || users > MOST_USERS {
        problems.add(node.span(), format!("the populations have {users} users: from 1 to {MOST_USERS} in all"));
        return Populations { all, turns: Vec::new() };
    }
    Populations::new(all)
}

fn read_users(problems: &mut Problems, node: &Node, mapping: &MarkedMappingNode, scope: &Scope) -> u64 {
    let Some(users) = mapping.get_node("users") else {
        problems.add(node.span(), "`users` is missing: how many of this population, as against the others");
        return 1;
    };
    let number = |text: &str| match text.parse::<u64>() {
        Ok(number) if number <= MOST_USERS => Ok(number),
        _ => Err(format!("`{text}` is not a whole number from 0 to {MOST_USERS}")),
    };
    scope.fixed_value(problems, users, "users", number).unwrap_or(1)
}

fn read_population(
    problems: &mut Problems,
    whole: &Span,
    mapping: &MarkedMappingNode,
    (scope, known): (&Scope, &[&str]),
    (name, users): (String, u64),
    length: Option<u32>,
) -> Population {
    let (mix, graph) = read_flow(problems, whole, mapping, scope, known);
    let length = length.filter(|_| graph.is_none() || name.is_empty());
    Population {
        users,
        pause: read_pause(problems, mapping, scope),
        login: read_reference(problems, mapping, "login", known),
        logout: read_reference(problems, mapping, "logout", known),
        session_length: length.unwrap_or(if graph.is_some() { u32::MAX } else { 10 }),
        mix,
        graph,
        name,
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
        Some(node) => pause.mean = scope.fixed_value(problems, node, "mean", parse_time).unwrap_or(0),
        None if pause.shape != PauseShape::None => problems.add(mapping.span(), "`mean` is missing in pause"),
        None => {}
    }
    if pause.mean == 0 {
        pause.shape = PauseShape::None;
    }
    pause
}

fn read_reference(problems: &mut Problems, top: &MarkedMappingNode, key: &str, known: &[&str]) -> Option<usize> {
    let node = top.get_node(key)?;
    problems.value(node, key, |text| find(text, known))
}

#[cfg(test)]
mod tests {
    use crate::scenario::read::parse;

    const TWO: &str = "
scenario: two
parameters: { rate: 2 }
populations:
  dealers: { users: '${mul:10:${rate}}', pause: { shape: fixed, mean: 1s }, login: in, mix: { a: 1 } }
  workers: { users: '${mul:3:${rate}}', graph: { start: { b: 1 }, b: { b: 1 } } }
transactions: { in: [{ get: /in }], a: [{ get: /a }], b: [{ get: /b }] }
";

    #[test]
    fn each_run_of_sessions_has_its_share_of_every_population() {
        let scenario = parse(TWO, &[]).expect("a valid scenario");
        let populations = &scenario.populations;
        assert_eq!((populations.users(), populations.turns.len()), (Some(26), 13));
        for from in 1..40u64 {
            let workers = (from..from + 13).filter(|number| populations.of(*number).name == "workers").count();
            assert_eq!(workers, 3, "from {from}");
        }
        let dealers = populations.of(1);
        assert_eq!((dealers.name.as_str(), dealers.login, dealers.pause.mean), ("dealers", Some(0), 1_000_000_000));
        assert_eq!((dealers.session_length, populations.at(1).session_length), (10, u32::MAX));
    }

    #[test]
    fn mistakes_have_a_place() {
        for (from, to, expected) in [
            (
                "workers: { users",
                "workers: { user",
                "unknown key `user` in population `workers`; did you mean `users`?",
            ),
            ("${mul:3:${rate}}", "3.5", "6:21: users: `3.5` is not a whole number"),
            ("mix: { a: 1 }", "mix: { c: 1 }", "no transaction `c`"),
            ("populations:", "mix: { a: 1 }\npopulations:", "`mix` stands within each of the populations"),
            ("rate: 2", "rate: 0", "the populations have 0 users"),
            ("populations:", "arrivals: { unit: transaction }\npopulations:", "arrivals have `unit: session`"),
        ] {
            let found = parse(&TWO.replacen(from, to, 1), &[]).expect_err(to);
            let text: Vec<String> = found.iter().map(|p| format!("{}:{}: {}", p.line, p.column, p.message)).collect();
            assert!(text.join("\n").contains(expected), "{to}: {text:?}");
        }
    }
}
