use super::*;
use crate::scenario::{Body, Method, Pause, PauseFrom, PauseShape, Pick, WhenMissing};

const GOOD: &str = r#"
scenario: shop
parameters: { units: 2, accounts: "${mul:200:${units}}", think: 50ms }
identities: ${accounts}
pause: { kind: cycle, shape: fixed, mean: "${think}" }
arrivals: { unit: session, session_length: 7 }
login: login
logout: bye
variables: { account: "user-${zpad:3:${user}}" }
headers: { Accept: text/html }
mix: { look: 3, sell: 1.5, bye: 1 }
transactions:
  login: [{ post: /login, form: { user: "${account}" } }]
  bye: [{ post: /logout }]
  look:
    - get: /items?n=${random:1:9}
      check: { status: [200, 304], contains: Items, lacks: [Error], matches: '\bprice=\d+' }
  sell:
    when_missing: skip
    requests:
      - get: /mine
        extract: { item: { regex: 'id="(\d+)"', pick: random }, token: 'token=(\w+)' }
        follow: 0
      - post: /sell
        json: { item: "${number:${item}}", note: 'a "${account}"', deep: [1, true, "2", { x: null }] }
        check: { skip_status: 409 }
"#;

fn problems(text: &str) -> Vec<String> {
    let found = parse(text, &[]).expect_err("a scenario with mistakes");
    found.iter().map(|p| format!("{}:{}: {}", p.line, p.column, p.message)).collect()
}

fn broken(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    problems(&GOOD.replacen(from, to, 1)).join("\n")
}

#[test]
fn reads_everything() {
    let scenario = parse(GOOD, &[("units".into(), "3".into())]).expect("a valid scenario");
    assert_eq!((scenario.name.as_str(), scenario.identities), ("shop", Some(600)));
    let sessions = scenario.populations.of(1);
    assert_eq!(sessions.pause, Pause { shape: PauseShape::Fixed, mean: 50_000_000, measure: PauseFrom::Due });
    assert_eq!((scenario.arrive, sessions.session_length), (Arrive::Session, 7));
    assert_eq!((sessions.login, sessions.logout), (Some(0), Some(1)));
    assert_eq!(sessions.mix, [(2, 3.0), (3, 1.5), (1, 1.0)]);
    assert!(scenario.transactions[1].ends_session && !scenario.transactions[2].ends_session);
    let sell = &scenario.transactions[3];
    assert_eq!((sell.when_missing, sell.requests.len()), (WhenMissing::Skip, 2));
    assert_eq!(sell.requests[0].extract[0].pick, Pick::Random);
    assert_eq!(sell.requests[0].follow, Some(0));
    assert_eq!(sell.requests[1].method, Method::Post);
    assert_eq!(sell.requests[1].checks.skip_status, [409]);
    let Body::Json(json) = &sell.requests[1].body else { panic!("no JSON body") };
    let mut random = crate::random::Random::new(1, 1, crate::random::Stream::Data);
    let mut values = crate::template::Values {
        variables: &[Some(b"user-\"1\"".to_vec()), Some(b"42".to_vec()), None],
        random: &mut random,
        feeds: &crate::feeds::Feeds::default(),
        held: &mut Vec::new(),
        seq: &mut 0,
        user: 1,
        session: 1,
        seed: 1,
    };
    let mut out = Vec::new();
    json.render(&mut values, &mut out).expect("renders");
    let text = String::from_utf8(out).expect("UTF-8");
    assert_eq!(
        text,
        r#"{"item":42,"note":"a \"user-\"1\"\"","deep":[1,true,"2",{"x":null}]}"#
            .replace(r#"user-"1""#, r#"user-\"1\""#)
    );
}

#[test]
fn mistakes_have_a_place_and_a_remedy() {
    let mut wrong = Vec::new();
    for (from, to, expected) in [
        ("identities:", "identites:", "4:1: unknown key `identites` in the scenario; did you mean `identities`?"),
        ("kind: cycle", "kind: cylce", "5:16: kind: `cylce` is not one of think, cycle; did you mean `cycle`?"),
        ("login: login", "login: lgoin", "7:8: login: no transaction `lgoin`; did you mean `login`?"),
        ("look: 3", "look: many", "11:14: look: `many` is not a weight"),
        ("sell: 1.5", "sel: 1.5", "11:17: no transaction `sel`; did you mean `sell`?"),
        ("form:", "from:", "13:27: unknown key `from` in a request; did you mean `form`?"),
        ("${account}", "${acount}", "did you mean `account`?"),
        ("${random:1:9}", "${radnom:1:9}", "16:12: path: unknown function `radnom`"),
        ("[200, 304]", "[200, 3040]", "17:30: status: `3040` is not a status code"),
        (r"\bprice=\d+", r"price=(\d+", "17:"),
        ("when_missing: skip", "when_missing: jump", "19:19: when_missing: `jump` is not one of fail, skip"),
        ("pick: random", "pick: randm", "did you mean `random`?"),
        ("follow: 0", "follow: -1", "23:17: follow:"),
        ("- get: /mine", "- got: /mine", "unknown key `got` in a request; did you mean `get`?"),
        ("mean: \"${think}\"", "mean: soon", "5:"),
        ("mix: {", "mix: { look: 1,", "key `look` stands here twice"),
        ("post: /sell", "post: sell", "24:15: a path begins with `/`"),
        ("Accept:", "Host:", "10:12: header `Host` cannot be set"),
        ("session_length: 7", "session_length: 0", "6:"),
        ("follow: 0", "events: { cuont: 2 }", "unknown key `cuont` in events; did you mean `count`?"),
        ("follow: 0", "events: { count: 0 }", "23:26: count: `0` is not a number from 1 to 1000000"),
        ("follow: 0", "events: { duration: 5 }", "23:29: duration: `5` has no unit: write 5ms or 5s"),
        ("follow: 0", "events: { duration: 2s, end: true }", "not both"),
        ("follow: 0", "events: { where: { status: 200 } }", "23:28: unknown key `status` in where"),
        ("follow: 0", "send: hello", "21:12: a step has exactly one of get, head"),
        ("- get: /mine", "- send: a\n        form: { b: c }", "`form` does not belong to `send`"),
        ("- post: /sell", "- send: hello\n      - post: /sell", "need a `websocket` step"),
        ("- get: /mine", "- close: 1001", "`1001` is not `normal`, 1000 or 3000 to 4999"),
        ("- get: /mine", "- await: { type: x }", "unknown key `type` in await"),
        ("identities:", "least: { units: 3 }\nidentities:", "4:17: units is 2: at least 3 is needed here"),
        ("identities:", "least: { unit: 3 }\nidentities:", "no parameter `unit`; did you mean `units`?"),
    ] {
        let found = broken(from, to);
        if !found.contains(expected) {
            wrong.push(format!("{from} -> {to}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

const GRAPH: &str = "scenario: walk
feeds:
  order: { sequence: { from: 1 } }
graph:
  start: { a: 0.5, b: 0.5 }
  a: { b: 0.9, end: 0.1 }
  b: { a: 1 }
transactions:
  a:
    limits: { p99: 1s, errors: 1% }
    requests:
      - { get: '/${order}', check: { json: { /x: 1 } }, extract: { v: { css: a, attribute: href } } }
      - { repeat: 2, requests: [{ get: /again }] }
  b: [{ get: /b }]
";

#[test]
fn mistakes_in_graphs_feeds_and_loops() {
    let mut wrong = Vec::new();
    assert!(parse(GRAPH, &[]).is_ok());
    for (from, to, expected) in [
        ("b: 0.9", "b: 0.8", "6:6: row `a` of graph adds up to 0.900, not to 1"),
        ("b: 0.9", "c: 0.9", "6:8: no transaction `c`"),
        ("b: 0.9", "b: 1.9", "6:11: b: `1.9` is not a probability"),
        ("  b: { a: 1 }", "", "the graph reaches `b`, which has no row"),
        ("  start: { a: 0.5, b: 0.5 }", "", "`start` is missing"),
        ("start:", "strat:", "no transaction `strat`; did you mean `start`?"),
        ("a: 0.5, b: 0.5", "a: 0.5, end: 0.5", "5:20: no transaction `end`"),
        ("graph:", "mix: { a: 1 }\ngraph:", "not both"),
        ("graph:", "arrivals: { unit: transaction }\ngraph:", "walked by sessions"),
        ("sequence: {", "sequnce: {", "3:12: unknown key `sequnce`"),
        ("from: 1", "from: 1, step: 0", "never"),
        ("sequence: { from: 1 }", "sequence: { from: 1 }, pick: random", "`pick` belongs to a feed of csv"),
        ("sequence: { from: 1 }", "csv: nowhere.csv", "csv nowhere.csv:"),
        ("${order}", "${ordr}", "did you mean `order`?"),
        ("p99: 1s", "p98: 1s", "10:15: unknown key `p98` in limits"),
        ("errors: 1%", "errors: 101%", "is not a share"),
        ("/x: 1", "x: 1", "is not a JSON pointer"),
        ("css: a,", "css: 'a[',", "bad CSS selector"),
        ("{ css: a, attribute: href }", "{ regex: a, attribute: href }", "`attribute` belongs to css"),
        ("{ css: a, attribute: href }", "{ css: a, json: /a }", "exactly one of regex, json, css, header, cookie"),
        ("repeat: 2", "repeat: -1", "13:19: repeat: not a whole number"),
        ("repeat: 2, requests: [{ get: /again }]", "repeat: 2", "`requests` is missing in a loop"),
    ] {
        assert!(GRAPH.contains(from), "{from}");
        let found = problems(&GRAPH.replacen(from, to, 1)).join("\n");
        if !found.contains(expected) {
            wrong.push(format!("{from} -> {to}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn all_mistakes_at_once_in_order() {
    let found = problems(&GOOD.replace("identities", "identites").replace("look: 3", "look: x"));
    assert!(found.len() == 2 && found[0].starts_with("4:") && found[1].starts_with("11:"), "{found:?}");
}

#[test]
fn odd_files_are_refused_not_fatal() {
    for text in
        ["", "- a\n- b\n", "scenario: x", "a: [", "scenario: [x]\nmix: 3\ntransactions: 4\n", "a: &x 1\nb: *x\n", "\t"]
    {
        assert!(!problems(text).is_empty(), "{text}");
    }
    let found = parse(GOOD, &[("unit".into(), "3".into())]).expect_err("unknown parameter");
    assert!(found[0].message.contains("did you mean `units`"), "{found:?}");
}

#[test]
fn damaged_scenarios_never_panic() {
    let mut random = crate::random::Random::new(5, 0, crate::random::Stream::Data);
    let mut valid = 0;
    for round in 0..800 {
        let mut text: Vec<char> = if round % 2 == 0 { GOOD } else { GRAPH }.chars().collect();
        for _ in 0..random.between(1, 5) {
            let at = random.between(0, text.len() as i64 - 1) as usize;
            match random.between(0, 2) {
                0 => text[at] = char::from(random.between(9, 126) as u8),
                1 => {
                    text.remove(at);
                }
                _ => text.insert(at, ['{', '}', '$', ':', '\n', '"', '-'][random.between(0, 6) as usize]),
            }
        }
        valid += usize::from(parse(&text.into_iter().collect::<String>(), &[]).is_ok());
    }
    assert!(valid > 0 && valid < 800, "{valid}");
}

/// Keys of the properties at a place of the schema.
fn published(pointer: &str) -> Vec<String> {
    let schema: serde_json::Value = serde_json::from_str(crate::scenario::SCHEMA).expect("JSON");
    let properties = schema.pointer(pointer).and_then(|p| p["properties"].as_object()).expect("properties");
    let mut keys: Vec<String> = properties.keys().cloned().collect();
    keys.sort();
    keys
}

#[test]
fn the_schema_has_the_keys_that_are_read() {
    use crate::scenario::{checks, feed, limits, populations, transaction, wait};
    for (pointer, keys) in [
        ("", &KEYS[..]),
        ("/$defs/transaction", &transaction::TRANSACTION_KEYS),
        ("/$defs/request", &transaction::REQUEST_KEYS),
        ("/$defs/check", &checks::CHECK_KEYS),
        ("/$defs/wait", &wait::KEYS),
        ("/$defs/extract", &checks::EXTRACT_KEYS),
        ("/$defs/feed", &feed::KEYS),
        ("/$defs/limits", &limits::KEYS),
        ("/$defs/population", &populations::KEYS),
    ] {
        let mut keys: Vec<String> = keys.iter().map(|key| (*key).to_string()).collect();
        keys.sort();
        assert_eq!(published(pointer), keys, "{pointer}");
    }
}

#[test]
fn a_byte_order_mark_and_other_encodings() {
    let good = "scenario: x\nmix: { a: 1 }\ntransactions: { a: [ { get: / } ] }\n";
    assert!(parse(&format!("\u{feff}{good}"), &[]).is_ok());
    let file = std::env::temp_dir().join(format!("leadline-load-latin-{}.yaml", std::process::id()));
    std::fs::write(&file, [good.as_bytes(), b"description: caf\xe9\n"].concat()).unwrap();
    let said = load(&file, &[]).unwrap_err();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(said, format!("{}:4: not UTF-8: save the file as UTF-8", file.display()));
}

#[test]
fn a_range_that_is_upside_down_is_named_by_line() {
    let text = "scenario: x\nmix: { a: 1 }\ntransactions:\n  a: [ { get: '/${random:9:2}' } ]\n";
    let problems = parse(text, &[]).unwrap_err();
    assert_eq!(problems[0].line, 4);
    assert!(problems[0].message.contains("nothing to draw, 9 is above 2"), "{problems:?}");
}

#[test]
fn nesting_has_an_end() {
    let lists = format!("x: \n{}\n", "- ".repeat(100_000));
    assert_eq!(problems(&lists), ["2:199: more than 100 lists and mappings in each other"]);
    let keys = format!("x:\n  {}\n", "? ".repeat(100_000));
    assert_eq!(problems(&keys), ["2:201: more than 100 lists and mappings in each other"]);
    let mixed = format!("x: {}{}\n", "[".repeat(150), "]".repeat(150));
    assert_eq!(problems(&mixed), ["1:103: more than 100 lists and mappings in each other"]);
    let value = format!("json: {{ levels: {}1{}, ", "[".repeat(90), "]".repeat(90));
    parse(&GOOD.replacen("json: { ", &value, 1), &[]).expect("90 levels of JSON");
}
