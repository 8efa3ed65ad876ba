use super::*;
use crate::feeds::{Feed, Hold, Origin};
use std::rc::Rc;

struct FakeNames;

impl Names for FakeNames {
    fn parameter(&self, name: &str) -> Option<&str> {
        (name == "instruments").then_some("500")
    }
    fn variable(&self, name: &str) -> Option<Variable> {
        ["account", "holding"].iter().position(|v| *v == name)
    }
    fn feed(&self, name: &str) -> Option<(usize, usize)> {
        (name == "orders").then_some((0, 0))
    }
    fn all(&self) -> Vec<String> {
        ["instruments", "account", "holding", "orders"].map(String::from).to_vec()
    }
}

fn fill(text: &str) -> Result<String, String> {
    let template = Template::parse(text, &FakeNames)?;
    let mut random = Random::new(1, 1, Stream::Data);
    let origin = Origin::Sequence { from: 100, step: 10, until: None };
    let orders = Feed { name: "orders".into(), columns: Vec::new(), origin, hold: Hold::Transaction };
    let mut values = Values {
        variables: &[Some(b"user-1 & co".to_vec()), None],
        random: &mut random,
        feeds: &Feeds::new(Rc::new([orders]), crate::share::Share::WHOLE),
        held: &mut vec![None],
        seq: &mut 0,
        user: 7,
        session: 3,
        seed: 42,
    };
    let mut out = Vec::new();
    template.render(&mut values, &mut out).map_err(|e| e.to_string())?;
    String::from_utf8(out).map_err(|e| e.to_string())
}

#[test]
fn fills_in_names_and_functions() {
    assert_eq!(fill("a$$b $x ${instruments}").unwrap(), "a$b $x 500");
    assert_eq!(fill("${account}").unwrap(), "user-1 & co");
    assert_eq!(fill("user-${zpad:6:${user}}").unwrap(), "user-000007");
    assert_eq!(fill("${seed}-${session}-${seq}-${seq}").unwrap(), "42-3-1-2");
    assert_eq!(fill("${url:${account}}").unwrap(), "user-1%20%26%20co");
    assert_eq!(fill("${json:a\"b\\}").unwrap(), "a\\\"b\\\\");
    assert_eq!(fill("${mod:17:5}${mod:1:0}").unwrap(), "20");
    assert_eq!(fill("${max:500:${mul:20:3}}${min:2:9}").unwrap(), "5002");
    assert_eq!(Template::parse("${zpad:5:${mul:2:${instruments}}}", &FakeNames).unwrap().fixed().unwrap(), "01000");
    assert_eq!(fill("${digits:4}").unwrap().len(), 4);
    let drawn: i64 = fill("${random:1:${instruments}}").unwrap().parse().unwrap();
    assert!((1..=500).contains(&drawn));
    assert_eq!(fill("S${zpad:5:${random:3:3}}").unwrap(), "S00003");
    assert_eq!(fill("${orders}-${zpad:5:${orders}}").unwrap(), "100-00100");
    assert!(["x", "y"].contains(&fill("${choice:x:y}").unwrap().as_str()));
}

#[test]
fn says_what_is_wrong() {
    assert!(fill("${acount}").unwrap_err().contains("did you mean `account`"));
    assert!(fill("${rnadom:1:2}").unwrap_err().contains("did you mean `random`"));
    assert!(fill("${random:1}").unwrap_err().contains("takes 2"));
    assert!(fill("${random:1:instruments}").unwrap_err().contains("not a whole number"));
    assert!(fill("${user").unwrap_err().contains("without its"));
    assert!(fill("${number:${account}}").unwrap_err().contains("not a whole number"));
    assert!(fill(&format!("{}1{}", "${number:".repeat(20), "}".repeat(20))).unwrap_err().contains("nested"));
}

#[test]
fn a_missing_variable_is_an_error_of_its_own() {
    assert_eq!(fill("${holding}").unwrap_err(), "a variable has no value yet");
}

#[test]
fn numbers_of_every_size() {
    let text = |n| {
        let mut out = Vec::new();
        push_number(&mut out, n);
        String::from_utf8(out).unwrap()
    };
    for number in [0, 9, 10, -1, i64::MAX, i64::MIN] {
        assert_eq!(text(number), number.to_string());
    }
}
