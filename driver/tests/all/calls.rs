//! Calls of gRPC, against a server that another implementation of HTTP/2 carries.

use crate::support::{count, run, server, Run};
use bytes::Bytes;
use http::{HeaderMap, Response};
use leadline_load::grpc;
use prost_reflect::MessageDescriptor;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const PROTO: &str = "syntax = \"proto3\";\npackage shop;\nmessage Query { string symbol = 1; int32 count = 2; }\n\
                     message Quote { string symbol = 1; int32 number = 2; }\nservice Quotes {\n  \
                     rpc Get(Query) returns (Quote);\n  rpc Watch(Query) returns (stream Quote);\n  \
                     rpc Add(stream Query) returns (Quote);\n}\n";

fn file() -> &'static PathBuf {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("leadline-load-calls-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("shop.proto"), PROTO).expect("a file");
        folder.join("shop.proto")
    })
}

fn kinds() -> (MessageDescriptor, MessageDescriptor) {
    let method = grpc::method(&[grpc::pool(file()).expect("a proto")], "/shop.Quotes/Get").expect("a method");
    (method.input(), method.output())
}

fn scenario(steps: &str) -> String {
    let file = file().display();
    format!("scenario: shop\nprotos: {file}\npause: {{ shape: fixed, mean: 5ms }}\nmix: {{ ask: 1 }}\ntransactions:\n  ask: {steps}\n")
}

/// Sends as many quotes as the queries ask for, in all, each `pause` after the one before, and then the status that
/// their symbol names; `GONE` is answered with trailers only.
async fn answer(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    log: Arc<AtomicU64>,
    pause: u64,
) -> Result<(), h2::Error> {
    let (head, mut stream) = request.into_parts();
    assert_eq!(
        (head.headers["te"].as_bytes(), head.headers["content-type"].as_bytes()),
        (&b"trailers"[..], &b"application/grpc"[..])
    );
    let mut body = Vec::new();
    while let Some(part) = stream.data().await {
        let part = part?;
        body.extend_from_slice(&part);
        stream.flow_control().release_capacity(part.len())?;
    }
    let (query, quote) = kinds();
    let (mut wanted, mut symbol) = (0, String::new());
    while let [_, a, b, c, d, rest @ ..] = &body[..] {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let text = grpc::json(&query, &rest[..length]).expect("a query");
        let text: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        wanted += text["count"].as_i64().unwrap_or(1);
        symbol = text["symbol"].as_str().unwrap_or("").to_string();
        body.drain(..5 + length);
    }
    if head.uri.path().ends_with("/Add") {
        (wanted, symbol) = (1, format!("sum {wanted}"));
    }
    let builder = Response::builder().header("content-type", "application/grpc+proto");
    if symbol == "GONE" {
        let end = builder.header("grpc-status", "5").header("grpc-message", "no such symbol").body(()).expect("a head");
        respond.send_response(end, true)?;
        return Ok(());
    }
    let mut stream = respond.send_response(builder.body(()).expect("a head"), false)?;
    for number in 0..wanted {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let mut bytes = Vec::new();
        let text = format!("{{\"symbol\": \"{symbol}\", \"number\": {number}}}");
        grpc::frame(&quote, text.as_bytes(), &mut bytes).expect("a quote");
        let (one, two) = bytes.split_at(3);
        stream.send_data(Bytes::copy_from_slice(one), false)?;
        stream.send_data(Bytes::copy_from_slice(two), false)?;
        log.fetch_add(1, Ordering::Relaxed);
    }
    if symbol == "CUT" {
        stream.send_data(Bytes::from_static(b"\0\0\0\0\x09\x0a"), false)?;
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", if symbol == "BUSY" { "14" } else { "0" }.parse().expect("a value"));
    stream.send_trailers(trailers)
}

fn quotes(pause: u64) -> (String, Arc<AtomicU64>) {
    let log = Arc::new(AtomicU64::new(0));
    let noted = Arc::clone(&log);
    let url = server(move |stream| {
        stream.set_nonblocking(true).expect("a socket");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let noted = Arc::clone(&noted);
        runtime.block_on(async move {
            let stream = tokio::net::TcpStream::from_std(stream).expect("a socket");
            let Ok(mut connection) = h2::server::handshake(stream).await else { return };
            while let Some(Ok((request, respond))) = connection.accept().await {
                tokio::spawn(answer(request, respond, Arc::clone(&noted), pause));
            }
        });
    });
    (url, log)
}

fn calls(url: &str, steps: &str) -> Run {
    run(url, &scenario(steps), "--users 2 --steady 300ms --http 2 --timeout 2s")
}

fn mean(run: &Run, what: &str) -> f64 {
    run.number(&format!("/steady/all/{what}_ms/mean"))
}

#[test]
fn one_answer_a_stream_of_answers_and_many_questions() {
    let (url, log) = quotes(2);
    let steps = "\n    - grpc: /shop.Quotes/Get\n      json: { symbol: 'S${session}' }\n      \
                 check: { json: { /symbol: 'S${session}' } }\n      extract: { symbol: { json: /symbol } }\n    \
                 - grpc: /shop.Quotes/Watch\n      json: { symbol: '${symbol}', count: 4 }\n      \
                 check: { json: { /number: 3 } }\n    \
                 - grpc: /shop.Quotes/Add\n      json: [{ count: 2 }, { count: 5 }]\n      check: { contains: sum 7 }";
    let run = calls(&url, steps);
    assert_eq!(run.code, 0, "{}{}", run.errors, run.output);
    let ok = run.total("ask", "ok");
    assert!(ok > 2, "{}", run.summary);
    assert_eq!((6 * ok, 6 * ok), (log.load(Ordering::Relaxed), count(&run, "events")));
    assert_eq!((count(&run, "connects"), count(&run, "count")), (2, 3 * ok));
    assert!(mean(&run, "response") >= 12.0 && mean(&run, "gap") > 0.0, "{}", run.summary);
}

#[test]
fn a_stream_is_left_after_enough() {
    let (url, _) = quotes(1);
    let steps =
        "[{ grpc: /shop.Quotes/Watch, json: { count: 1000 }, events: { count: 3, where: { json: { /number: 2 } } } }]";
    let all = calls(&url, &steps.replace("count: 3, ", ""));
    assert!(all.code == 0 && count(&all, "connects") == 2, "{}{}", all.errors, all.output);
}

#[test]
fn statuses_and_what_is_missing() {
    let (url, _) = quotes(0);
    let get = |symbol: &str, more: &str| {
        calls(&url, &format!("[{{ grpc: /shop.Quotes/Get, json: {{ symbol: {symbol} }}{more} }}]"))
    };
    let gone = get("GONE", "");
    assert!(gone.error("grpc") > 0 && gone.output.contains("NOT_FOUND: no such symbol"), "{}", gone.output);
    assert_eq!(get("GONE", ", check: { grpc_status: NOT_FOUND }").code, 0);
    let busy = get("BUSY", "");
    assert!(busy.error("grpc") > 0 && busy.output.contains("UNAVAILABLE"), "{}", busy.output);
    let none = calls(&url, "[{ grpc: /shop.Quotes/Watch, json: { count: 0, symbol: x } }]");
    assert!(none.code == 0 || none.error("event") > 0, "{}", none.output);
    let cut = get("CUT", "");
    assert!(cut.error("protocol") > 0 && cut.total("ask", "ok") == 0, "{}", cut.output);
    let few = calls(&url, "[{ grpc: /shop.Quotes/Watch, json: { count: 2 }, events: { count: 3 } }]");
    assert!(few.error("event") > 0 && few.output.contains("2 of 3 events"), "{}", few.output);
}

#[test]
fn mistakes_have_a_place_and_a_remedy() {
    for (steps, part) in [
        ("[{ grpc: /shop.Quotes/Gett }]", "6:17: grpc: no method `/shop.Quotes/Gett` in `protos`; did you mean"),
        ("[{ grpc: /shop.Quotes/Get, json: { symbl: x } }]", "no shop.Query"),
        ("[{ grpc: /shop.Quotes/Get, form: { a: b } }]", "`form` does not belong to `grpc`"),
        ("[{ grpc: /shop.Quotes/Get, check: { grpc_status: NOTFOUND } }]", "did you mean `NOT_FOUND`?"),
        ("[{ get: /, check: { grpc_status: OK } }]", "`grpc_status` belongs to a `grpc` step"),
    ] {
        let found = run("http://127.0.0.1:1", &scenario(steps), "--users 1 --steady 1s --http 2");
        assert!(found.code == 2 && found.errors.contains(part), "{steps}: {}", found.errors);
    }
    let one = run("http://127.0.0.1:1", &scenario("[{ grpc: /shop.Quotes/Get }]"), "--users 1 --steady 1s");
    assert!(one.code == 2 && one.errors.contains("add --http 2"), "{}", one.errors);
    let text = scenario("[{ get: / }]").replace("shop.proto", "shpo.proto");
    let gone = run("http://127.0.0.1:1", &text, "--users 1 --steady 1s");
    assert!(gone.code == 2 && gone.errors.contains("2:9: protos: "), "{}", gone.errors);
}
