//! Reads the transactions of a scenario.

use super::checks::{read_check, read_checks, read_extracts};
use super::limits::read_limits;
use super::node::Problems;
use super::scope::Scope;
use super::wait::{read_wait, Wait};
use super::{Body, Checks, Loop, Method, Request, Step, Transaction, WhenMissing};
use crate::grpc;
use crate::template::{push_json_escaped, Template};
use marked_yaml::types::MarkedMappingNode;
use marked_yaml::Node;

/// Most rounds of one loop.
pub const MOST_TIMES: u32 = 1_000_000;

/// Connections browsers open to one host over HTTP/1.1.
const BROWSER_CONNECTIONS: u32 = 6;

const METHODS: [(&str, Method); 6] = [
    ("get", Method::Get),
    ("head", Method::Head),
    ("post", Method::Post),
    ("put", Method::Put),
    ("patch", Method::Patch),
    ("delete", Method::Delete),
];

pub(super) const TRANSACTION_KEYS: [&str; 4] = ["requests", "when_missing", "ends_session", "limits"];
pub(super) const REQUEST_KEYS: [&str; 20] = [
    "get",
    "head",
    "post",
    "put",
    "patch",
    "delete",
    "headers",
    "form",
    "json",
    "text",
    "check",
    "extract",
    "follow",
    "embedded",
    "events",
    "websocket",
    "send",
    "await",
    "close",
    "grpc",
];

/// Steps of a WebSocket, and what belongs to each.
const SOCKET_STEPS: [(&str, &[&str]); 4] =
    [("websocket", &["headers", "check"]), ("send", &[]), ("await", &["check", "extract"]), ("close", &[])];

pub(super) fn read_transaction(problems: &mut Problems, scope: &Scope, name: &str, node: &Node) -> Option<Transaction> {
    let (mut when_missing, mut ends_session, mut limits) = (WhenMissing::Fail, false, Vec::new());
    let list = if node.as_sequence().is_some() {
        node
    } else {
        let mapping = problems.mapping(node, &format!("transaction `{name}`"), &TRANSACTION_KEYS)?;
        if let Some(node) = mapping.get_node("limits") {
            limits = read_limits(problems, scope, node);
        }
        if let Some(node) = mapping.get_node("when_missing") {
            let words = [("fail", WhenMissing::Fail), ("skip", WhenMissing::Skip)];
            when_missing = problems.word(node, "when_missing", &words)?;
        }
        if let Some(node) = mapping.get_node("ends_session") {
            ends_session = problems.word(node, "ends_session", &[("true", true), ("false", false)])?;
        }
        match mapping.get_node("requests") {
            Some(list) => list,
            None => {
                problems.add(mapping.span(), format!("`requests` is missing in transaction `{name}`"));
                return None;
            }
        }
    };
    let before = problems.0.len();
    let (mut requests, mut loops) = (Vec::new(), Vec::new());
    read_requests(problems, scope, name, list, &mut requests, &mut loops);
    (problems.0.len() == before).then(|| Transaction {
        name: name.to_string(),
        when_missing,
        ends_session,
        has_links: requests.iter().any(|request| request.path.begins_with_an_expression()),
        requests,
        loops,
        limits,
    })
}

/// Requests and, in between, `{ repeat: times, requests: [...] }`.
fn read_requests(
    problems: &mut Problems,
    scope: &Scope,
    name: &str,
    list: &Node,
    requests: &mut Vec<Request>,
    loops: &mut Vec<Loop>,
) {
    let Some(nodes) = problems.sequence(list, &format!("the requests of `{name}`")) else { return };
    if nodes.is_empty() {
        problems.add(list.span(), format!("transaction `{name}` has no request"));
    }
    for node in nodes {
        let Some(repeat) = node.as_mapping().and_then(|mapping| mapping.get_node("repeat")) else {
            requests.extend(read_request(problems, scope, node));
            continue;
        };
        let Some(mapping) = problems.mapping(node, "a loop", &["repeat", "requests"]) else { continue };
        let times = scope.template(problems, repeat, "repeat").unwrap_or_default();
        if times.fixed().is_some_and(|text| !text.parse().is_ok_and(|times: u32| times <= MOST_TIMES)) {
            problems.add(repeat.span(), format!("repeat: not a whole number from 0 to {MOST_TIMES}"));
        }
        let (at, first) = (loops.len(), requests.len());
        loops.push(Loop { first, last: first, times });
        match mapping.get_node("requests") {
            Some(inner) => read_requests(problems, scope, name, inner, requests, loops),
            None => problems.add(mapping.span(), "`requests` is missing in a loop"),
        }
        loops[at].last = requests.len().saturating_sub(1);
    }
}

fn read_request(problems: &mut Problems, scope: &Scope, node: &Node) -> Option<Request> {
    let mapping = problems.mapping(node, "a request", &REQUEST_KEYS)?;
    let named: Vec<(Method, &Node)> =
        METHODS.iter().filter_map(|(word, method)| Some((*method, mapping.get_node(word)?))).collect();
    let steps: Vec<(&str, &[&str])> =
        SOCKET_STEPS.into_iter().filter(|(word, _)| mapping.get_node(word).is_some()).collect();
    let (method, path) = match (&named[..], &steps[..], mapping.get_node("grpc")) {
        ([(method, path)], [], None) => (*method, *path),
        ([], [], Some(path)) => return read_call(problems, scope, mapping, path),
        ([], [(word, keys)], None) => return read_socket_step(problems, scope, mapping, word, keys),
        _ => {
            let words = "get, head, post, put, patch, delete, websocket, send, await, close, grpc";
            problems.add(mapping.span(), format!("a step has exactly one of {words}"));
            return None;
        }
    };
    let before = problems.0.len();
    let path = read_path(problems, scope, path);
    if let Some(node) = mapping.get_node("check").and_then(Node::as_mapping).and_then(|m| m.get_node("grpc_status")) {
        problems.add(node.span(), "`grpc_status` belongs to a `grpc` step");
    }
    if let (Some(_), Some(events)) = (mapping.get_node("embedded"), mapping.get_node("events")) {
        problems.add(events.span(), "a request has `embedded` or `events`, not both");
    }
    let request = Request {
        step: Step::Http,
        method,
        method_of: None,
        wait: mapping.get_node("events").and_then(|node| read_wait(problems, scope, node, "events")),
        path,
        headers: mapping.get_node("headers").map(|n| read_header_lines(problems, scope, n)).unwrap_or_default(),
        body: read_body(problems, scope, mapping),
        checks: read_checks(problems, scope, mapping),
        extract: read_extracts(problems, scope, mapping),
        follow: mapping.get_node("follow").and_then(|node| {
            problems.value(node, "follow", |text| match text.parse::<u32>() {
                Ok(number) if number <= 100 => Ok(number),
                _ => Err(format!("`{text}` is not a number of redirects (0 to 100)")),
            })
        }),
        embedded: mapping.get_node("embedded").and_then(|node| {
            problems.value(node, "embedded", |text| match (text, text.parse::<u32>()) {
                ("true", _) => Ok(Some(BROWSER_CONNECTIONS)),
                ("false", _) => Ok(None),
                (_, Ok(number)) if (1..=64).contains(&number) => Ok(Some(number)),
                _ => Err(format!("`{text}` is not true, false or a number of connections (1 to 64)")),
            })?
        }),
    };
    (problems.0.len() == before).then_some(request)
}

fn read_path(problems: &mut Problems, scope: &Scope, node: &Node) -> Template {
    let template = scope.template(problems, node, "path");
    let link = template.as_ref().is_some_and(Template::begins_with_an_expression);
    if !link && node.as_scalar().is_some_and(|text| !text.as_str().starts_with('/')) {
        problems.add(node.span(), "a path begins with `/`");
    }
    template.unwrap_or_default()
}

/// A call of the method of gRPC that `node` names.
fn read_call(problems: &mut Problems, scope: &Scope, mapping: &MarkedMappingNode, node: &Node) -> Option<Request> {
    let before = problems.0.len();
    for (key, _) in mapping.iter() {
        if !["grpc", "json", "headers", "check", "extract", "events"].contains(&key.as_str()) {
            problems.add(key.span(), format!("`{}` does not belong to `grpc`", key.as_str()));
        }
    }
    let method = scope.fixed_value(problems, node, "grpc", |path| grpc::method(&scope.pools, path))?;
    let json = mapping.get_node("json");
    let nodes: Vec<&Node> = match json.and_then(Node::as_sequence) {
        Some(list) if method.is_client_streaming() => list.iter().collect(),
        _ => json.into_iter().collect(),
    };
    let mut messages = Vec::new();
    for node in nodes {
        let Body::Json(template) = read_json(problems, scope, node) else { continue };
        let fixed = template.fixed().map(|text| grpc::frame(&method.input(), text.as_bytes(), &mut Vec::new()));
        if let Some(Err(error)) = fixed {
            problems.add(node.span(), error);
        }
        messages.push(template);
    }
    if messages.is_empty() && !method.is_client_streaming() {
        messages.extend(Template::parse("{}", scope).ok());
    }
    let wait = match mapping.get_node("events") {
        Some(node) => read_wait(problems, scope, node, "events"),
        None => Some(Wait { count: 1, end: true, ..Wait::default() }),
    };
    if let (Some(node), true) = (mapping.get_node("events"), wait.as_ref().is_some_and(|wait| wait.kind.is_some())) {
        problems.add(node.span(), "`type` belongs to server-sent events");
    }
    let path = node.as_scalar().map(|path| path.as_str().replace("$$", "$")).unwrap_or_default();
    let request = Request {
        step: Step::Http,
        method: Method::Post,
        path: Template::parse(&path, scope).unwrap_or_default(),
        headers: mapping.get_node("headers").map(|n| read_header_lines(problems, scope, n)).unwrap_or_default(),
        body: Body::Grpc(messages, method.input()),
        checks: read_checks(problems, scope, mapping),
        extract: read_extracts(problems, scope, mapping),
        follow: None,
        embedded: None,
        wait,
        method_of: Some(method),
    };
    (problems.0.len() == before).then_some(request)
}

/// A step of a WebSocket, named by `word`, to which `keys` belong.
fn read_socket_step(
    problems: &mut Problems,
    scope: &Scope,
    mapping: &MarkedMappingNode,
    word: &str,
    keys: &[&str],
) -> Option<Request> {
    let before = problems.0.len();
    for (key, _) in mapping.iter().filter(|(key, _)| key.as_str() != word && !keys.contains(&key.as_str())) {
        problems.add(key.span(), format!("`{}` does not belong to `{word}`", key.as_str()));
    }
    let node = mapping.get_node(word)?;
    let mut request = Request {
        step: Step::Await,
        method: Method::Get,
        path: Template::default(),
        headers: mapping.get_node("headers").map(|n| read_header_lines(problems, scope, n)).unwrap_or_default(),
        body: Body::None,
        checks: match (mapping.get_node("check"), word) {
            (Some(node), "websocket") => read_check(problems, scope, node, "check", &["header"]),
            (Some(node), _) => read_check(problems, scope, node, "check", &["contains", "lacks", "matches", "json"]),
            (None, _) => Checks::default(),
        },
        extract: read_extracts(problems, scope, mapping),
        follow: None,
        embedded: None,
        wait: None,
        method_of: None,
    };
    match word {
        "websocket" => (request.step, request.path) = (Step::Connect, read_path(problems, scope, node)),
        "send" => {
            request.step = Step::Send;
            request.body = match node.as_scalar() {
                Some(_) => scope.template(problems, node, "send").map_or(Body::None, Body::Text),
                None => read_json(problems, scope, node),
            };
        }
        "await" => request.wait = read_wait(problems, scope, node, "await"),
        _ => {
            let code = |text: &str| match (text, text.parse::<u16>()) {
                ("normal", _) => Ok(1000),
                (_, Ok(code)) if code == 1000 || (3000..5000).contains(&code) => Ok(code),
                _ => Err(format!("`{text}` is not `normal`, 1000 or 3000 to 4999")),
            };
            request.step = Step::Close(problems.value(node, "close", code).unwrap_or(1000));
        }
    }
    (problems.0.len() == before).then_some(request)
}

pub(super) fn read_header_lines(problems: &mut Problems, scope: &Scope, node: &Node) -> Vec<(String, Template)> {
    const OURS: [&str; 5] = ["host", "connection", "content-length", "transfer-encoding", "cookie"];
    let Some(mapping) = problems.any_mapping(node, "headers") else { return Vec::new() };
    let mut lines = Vec::new();
    for (key, value) in mapping.iter() {
        let name = key.as_str();
        if !super::scope::plain(name) || OURS.contains(&name.to_ascii_lowercase().as_str()) {
            problems.add(key.span(), format!("header `{name}` cannot be set"));
        }
        if let Some(template) = scope.template(problems, value, name) {
            lines.push((name.to_string(), template));
        }
    }
    lines
}

fn read_body(problems: &mut Problems, scope: &Scope, request: &MarkedMappingNode) -> Body {
    let kinds: Vec<&str> = ["form", "json", "text"].into_iter().filter(|k| request.get_node(k).is_some()).collect();
    if kinds.len() > 1 {
        problems.add(request.span(), format!("a request has one body, not {}", kinds.join(" and ")));
    }
    if let Some(node) = request.get_node("form") {
        let Some(mapping) = problems.any_mapping(node, "form") else { return Body::None };
        let fields = mapping.iter().filter_map(|(key, value)| {
            Some((key.as_str().to_string(), scope.template(problems, value, key.as_str())?))
        });
        return Body::Form(fields.collect());
    }
    if let Some(node) = request.get_node("json") {
        return read_json(problems, scope, node);
    }
    match request.get_node("text") {
        Some(node) => scope.template(problems, node, "text").map_or(Body::None, Body::Text),
        None => Body::None,
    }
}

fn read_json(problems: &mut Problems, scope: &Scope, node: &Node) -> Body {
    let mut text = String::new();
    write_json(problems, scope, node, &mut text);
    let text = Node::from(marked_yaml::types::MarkedScalarNode::new(*node.span(), text.as_str()));
    scope.template(problems, &text, "json").map_or(Body::None, Body::Json)
}

/// The YAML value as the text of a JSON template. Plain numbers, booleans and null stay bare, `${number:...}` too.
fn write_json(problems: &mut Problems, scope: &Scope, node: &Node, out: &mut String) {
    match node {
        Node::Scalar(scalar) => {
            let text = scalar.as_str();
            let bare = scalar.may_coerce()
                && (matches!(text, "true" | "false" | "null")
                    || serde_json::from_str::<serde_json::Number>(text).is_ok());
            let template = scope.template(problems, node, "json").unwrap_or_default();
            if bare || template.is_number() {
                out.push_str(text);
            } else {
                out.push('"');
                quote(text, out);
                out.push('"');
            }
        }
        Node::Sequence(list) => {
            out.push('[');
            for (at, item) in list.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json(problems, scope, item, out);
            }
            out.push(']');
        }
        Node::Mapping(mapping) => {
            out.push('{');
            for (at, (key, value)) in mapping.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                let mut name = Vec::new();
                push_json_escaped(&mut name, key.as_str().as_bytes());
                out.push('"');
                out.push_str(&String::from_utf8_lossy(&name).replace('$', "$$"));
                out.push_str("\":");
                write_json(problems, scope, value, out);
            }
            out.push('}');
        }
    }
}

/// Text inside a JSON string: literal pieces escaped now, each expression escaped when it is filled in.
fn quote(text: &str, out: &mut String) {
    let mut rest = text;
    let literal = |piece: &str, out: &mut String| {
        let mut escaped = Vec::new();
        push_json_escaped(&mut escaped, piece.as_bytes());
        out.push_str(&String::from_utf8_lossy(&escaped));
    };
    while let Some(at) = rest.find("${") {
        if at > 0 && rest.as_bytes()[at - 1] == b'$' {
            literal(&rest[..at + 2], out);
            rest = &rest[at + 2..];
            continue;
        }
        literal(&rest[..at], out);
        let mut depth = 0;
        let end = rest[at..].char_indices().find_map(|(i, c)| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            (c == '}' && depth == 0).then_some(at + i + 1)
        });
        let end = end.unwrap_or(rest.len());
        out.push_str("${json:");
        out.push_str(&rest[at..end]);
        out.push('}');
        rest = &rest[end..];
    }
    literal(rest, out);
}
