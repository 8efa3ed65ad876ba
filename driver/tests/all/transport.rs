//! How requests get there: TLS, HTTP/2, addresses, targets, Unix sockets, against other implementations.

use crate::support;
use crate::support::h2::{h2_server, plain, Answered};
use crate::support::tls::{config, mutual, tls_server, trusted};
use crate::support::{answering, count, page, read_request, run, server, GET};
use std::collections::{HashMap, HashSet};
use std::io::{BufReader, Write};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const COUNTED: &str = "--users 2 --steady 300ms --timeout 5s";

fn all_well(run: &support::Run) {
    assert_eq!(run.code, 0, "{}", run.errors);
    let failed: u64 = run.summary["errors"].as_object().expect("kinds").values().filter_map(|v| v.as_u64()).sum();
    assert_eq!(failed, 0, "{}", run.summary);
    let names = run.summary["total"].as_object().expect("names");
    assert!(names.values().all(|counts| counts["ok"].as_u64() > Some(1)), "{}", run.summary);
}

#[test]
fn tls_with_names_and_resumption() {
    let names = Arc::new(Mutex::new(HashSet::new()));
    let seen = Arc::clone(&names);
    let url = tls_server(move |stream| {
        let mut reader = BufReader::new(stream);
        for _ in 0..5 {
            if read_request(&mut reader).is_none() {
                return;
            }
            let stream = reader.get_mut();
            seen.lock().expect("a lock").insert(stream.conn.server_name().map(str::to_string));
            if stream.write_all(&page("200 OK", "", "fine")).is_err() {
                return;
            }
        }
        reader.get_mut().conn.send_close_notify();
        let _ = reader.get_mut().flush();
    });
    let named = run(&url.replace("127.0.0.1", "localhost"), GET, &format!("{COUNTED} {}", trusted()));
    all_well(&named);
    let handshakes = count(&named, "tls_handshakes");
    assert_eq!(handshakes, count(&named, "connects"));
    assert_eq!(count(&named, "tls_resumed"), handshakes - 2, "all but the first one of each user: {}", named.summary);
    assert_eq!(*names.lock().expect("a lock"), HashSet::from([Some("localhost".to_string())]));
    let strangers = run(
        &url,
        &GET.replace("mix:", "arrivals: { session_length: 2 }\nmix:"),
        &format!("--arrivals constant --rate 40 --steady 300ms {}", trusted()),
    );
    all_well(&strangers);
    assert_eq!(count(&strangers, "tls_resumed"), 0, "every session is another user: {}", strangers.summary);
    all_well(&run(&url, GET, &format!("{COUNTED} --insecure")));
    let unknown = run(&url, GET, "--steady 200ms"); // code 2 where the system trusts nobody
    assert!(unknown.code == 2 || unknown.error("connect") > 0 && unknown.total("get", "ok") == 0, "{}", unknown.errors);
}

#[test]
fn tls_checks_who_the_server_is() {
    let url = tls_server(|stream| {
        let mut reader = BufReader::new(stream);
        while read_request(&mut reader).is_some() && reader.get_mut().write_all(&page("200 OK", "", "")).is_ok() {}
    });
    // Another authority than the server's, and a name that the certificate does not bear.
    let other = rcgen::generate_simple_self_signed(["localhost".to_string()]).expect("a certificate");
    let file = std::env::temp_dir().join(format!("leadline-load-test-{}-other.pem", std::process::id()));
    std::fs::write(&file, other.cert.pem()).expect("a file");
    let stranger = format!("--steady 200ms --ca {}", file.display());
    for (url, options) in [(url.clone(), stranger), (url.replace("127.0.0.1", "127.0.0.2"), trusted())] {
        let port = url.rsplit(':').next().expect("a port").to_string();
        let url = if url.contains("127.0.0.2") { relay(&port) } else { url };
        let run = run(&url, GET, &format!("--steady 200ms {}", options.trim_start_matches("--steady 200ms")));
        assert!(run.error("connect") > 0 && run.total("get", "ok") == 0, "{}", run.summary);
        let text = run.summary["error_samples"]["connect"][0].to_string();
        assert!(text.contains("certificate"), "{text}");
    }
    std::fs::remove_file(file).expect("the file is there");
}

#[test]
fn tls_trusts_what_an_authority_signed() {
    let authority_key = rcgen::KeyPair::generate().expect("a key");
    let mut wanted = rcgen::CertificateParams::new(Vec::new()).expect("no names");
    wanted.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = wanted.self_signed(&authority_key).expect("an authority");
    let key = rcgen::KeyPair::generate().expect("a key");
    let names = rcgen::CertificateParams::new(vec!["127.0.0.1".to_string()]).expect("a name");
    let certificate = names.signed_by(&key, &authority, &authority_key).expect("a certificate");
    let config = support::tls::config_of(&[], certificate.der().clone(), key.serialize_der());
    let url = support::tls::tls_server_of(config, |stream| {
        let mut reader = BufReader::new(stream);
        while read_request(&mut reader).is_some() && reader.get_mut().write_all(&page("200 OK", "", "")).is_ok() {}
    });
    let file = std::env::temp_dir().join(format!("leadline-load-test-{}-authority.pem", std::process::id()));
    std::fs::write(&file, authority.pem()).expect("a file");
    all_well(&run(&url, GET, &format!("{COUNTED} --ca {}", file.display())));
    std::fs::remove_file(file).expect("the file is there");
}

#[test]
fn clients_show_their_certificate() {
    let authority_key = rcgen::KeyPair::generate().expect("a key");
    let mut wanted = rcgen::CertificateParams::new(Vec::new()).expect("no names");
    wanted.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = wanted.self_signed(&authority_key).expect("an authority");
    let (key, other) = (rcgen::KeyPair::generate().expect("a key"), rcgen::KeyPair::generate().expect("a key"));
    let names = rcgen::CertificateParams::new(vec!["client".to_string()]).expect("a name");
    let certificate = names.signed_by(&key, &authority, &authority_key).expect("a certificate").pem();
    let both = certificate.clone() + &key.serialize_pem();
    let files = [("crt", certificate), ("key", key.serialize_pem()), ("both", both), ("other", other.serialize_pem())];
    let [crt, key, both, other] = files.map(|(name, text)| {
        let file = std::env::temp_dir().join(format!("leadline-load-test-{}-client-{name}.pem", std::process::id()));
        std::fs::write(&file, text).expect("a file");
        file.display().to_string()
    });
    let one = support::tls::tls_server_of(mutual(&["http/1.1"], authority.der().clone()), |stream| {
        let mut reader = BufReader::new(stream);
        while read_request(&mut reader).is_some() && reader.get_mut().write_all(&page("200 OK", "", "")).is_ok() {}
    });
    let two = Some(mutual(&["h2"], authority.der().clone()));
    let two = h2_server(two, h2::server::Builder::new(), 0, |_| plain("fine"));
    for (url, more) in [(&one, ""), (&two, ""), (&two, "--connections shared --http 2")] {
        for shown in [format!("--client-certificate {crt} --client-key {key}"), format!("--client-certificate {both}")]
        {
            all_well(&run(url, GET, &format!("{COUNTED} {} {more} {shown}", trusted())));
        }
        let stranger = run(url, GET, &format!("--steady 200ms {} {more}", trusted()));
        assert!(stranger.error("connect") > 0 && stranger.total("get", "ok") == 0, "{}", stranger.summary);
        let text = stranger.summary["error_samples"]["connect"][0].to_string();
        assert!(text.contains("TLS handshake: refused by the server with the alert CertificateRequired"), "{text}");
    }
    for (shown, part) in [
        (format!("--client-certificate {crt}"), "no private key in it"),
        (format!("--client-certificate {key}"), "no certificate in it"),
        (format!("--client-certificate {crt} --client-key {other}"), "the key is not that of the first certificate"),
        (format!("--client-certificate {crt} --client-key /nowhere/key"), "--client-key /nowhere/key: No such file"),
        (format!("--client-certificate /nowhere/crt --client-key {key}"), "--client-certificate /nowhere/crt: "),
    ] {
        let refused = run(&one, GET, &format!("--steady 200ms {} {shown}", trusted()));
        assert!(refused.code == 2 && refused.errors.contains(part), "{}", refused.errors);
    }
    for file in [crt, key, both, other] {
        std::fs::remove_file(file).expect("the file is there");
    }
}

/// Listens on 127.0.0.2 and hands everything on to `port` of 127.0.0.1.
fn relay(port: &str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.2:0").expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    let to = format!("127.0.0.1:{port}");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let other = std::net::TcpStream::connect(&to).expect("the server");
            for (mut from, mut to) in
                [(stream.try_clone().expect("a handle"), other.try_clone().expect("a handle")), (other, stream)]
            {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    url
}

const POSTS: &str = r#"
scenario: posts
headers: { X-Own: "${session}" }
mix: { post: 1, get: 1 }
transactions:
  post: [{ post: "/in?a=1", text: "BODY", check: { contains: received } }]
  get: [{ get: /large, check: { contains: the end } }]
"#;

fn h2_answer(asked: support::h2::Asked) -> Answered {
    let own = asked.headers.get("x-own").is_some() && asked.headers.get("host").is_none();
    let right = own && asked.authority.is_some_and(|authority| authority.starts_with("127.0.0.1:"));
    match (asked.method.as_str(), asked.path.as_str()) {
        _ if !right => Answered { status: 400, ..plain("") },
        ("POST", "/app/in?a=1") if asked.body.len() == 200_000 => plain("received"),
        ("GET", "/app/large") => plain(format!("{}the end", "x".repeat(300_000))),
        _ => Answered { status: 404, ..plain("") },
    }
}

#[test]
fn http2_with_and_without_tls() {
    let scenario = POSTS.replace("BODY", &"b".repeat(200_000));
    let clear = h2_server(None, h2::server::Builder::new(), 0, h2_answer);
    let known = run(&format!("{clear}/app"), &scenario, &format!("{COUNTED} --http 2"));
    all_well(&known);
    assert_eq!((count(&known, "http2_connections"), count(&known, "connects")), (2, 2));
    let secure = h2_server(Some(config(&["h2", "http/1.1"])), h2::server::Builder::new(), 0, h2_answer);
    for http in ["auto", "2"] {
        let run = run(&format!("{secure}/app"), &scenario, &format!("{COUNTED} {} --http {http}", trusted()));
        all_well(&run);
        assert_eq!((count(&run, "http2_connections"), count(&run, "tls_handshakes")), (2, 2));
    }
    let one = tls_server(|stream| {
        let mut reader = BufReader::new(stream);
        while read_request(&mut reader).is_some() && reader.get_mut().write_all(&page("200 OK", "", "")).is_ok() {}
    });
    let auto = run(&one, GET, &format!("{COUNTED} {}", trusted()));
    all_well(&auto);
    assert_eq!(count(&auto, "http2_connections"), 0);
    let two = run(&one, GET, &format!("--steady 200ms --http 2 {}", trusted()));
    assert!(two.error("connect") > 0 && two.total("get", "ok") == 0, "{}", two.summary);
}

#[test]
fn pages_are_fetched_in_streams_of_one_connection() {
    let now = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (running, seen) = (Arc::clone(&now), Arc::clone(&most));
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(5);
    let url = h2_server(None, builder, 0, move |asked| {
        if asked.path == "/" {
            running.store(0, Ordering::SeqCst);
            let links: String = (0..20).map(|i| format!("<img src=\"/{i}.png\">")).collect();
            return Answered { headers: vec![("content-type", "text/html".into())], ..plain(links) };
        }
        let at_once = running.fetch_add(1, Ordering::SeqCst) + 1;
        seen.fetch_max(at_once.min(5), Ordering::SeqCst);
        Answered { delay_ms: 5, ..plain("image") }
    });
    let scenario = GET.replace("check: { lacks: nonsense }", "embedded: true");
    let run = run(&url, &scenario, "--steady 400ms --timeout 5s --http 2");
    all_well(&run);
    assert_eq!((count(&run, "connects"), count(&run, "count") % 21), (1, 0), "{}", run.summary);
    assert_eq!(most.load(Ordering::SeqCst), 5);
    // Twenty pictures of 5 ms, five at a time, take 20 ms; one by one they would take 100.
    assert!(run.number("/steady/all/response_ms/mean") > 15.0, "{}", run.summary);
}

#[test]
fn a_server_that_takes_leave_in_good_order_costs_nothing() {
    let url = h2_server(None, h2::server::Builder::new(), 3, |_| plain("fine"));
    let run = run(&url, GET, "--users 2 --steady 300ms --timeout 5s --http 2");
    all_well(&run);
    let (requests, connects) = (count(&run, "count"), count(&run, "connects"));
    assert!(connects >= requests / 4 && connects > 2, "{connects} connections, {requests} requests");
}

#[test]
fn requests_per_connection() {
    let closes = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&closes);
    let url = answering(move |request| {
        let close = request.headers.iter().any(|line| line == "Connection: close");
        seen.fetch_add(usize::from(close), Ordering::SeqCst);
        page("200 OK", "", "") // and keeps the connection open all the same
    });
    let one = run(&url, GET, &format!("{COUNTED} --requests-per-connection 1"));
    all_well(&one);
    assert_eq!(count(&one, "connects"), count(&one, "count"));
    assert_eq!(closes.load(Ordering::SeqCst) as u64, count(&one, "count"));
    let three = run(&url, GET, &format!("{COUNTED} --requests-per-connection 3"));
    all_well(&three);
    let (requests, connects) = (count(&three, "count"), count(&three, "connects"));
    assert!((requests.div_ceil(3)..=requests.div_ceil(3) + 1).contains(&connects), "{connects} for {requests}");
    let streams = h2_server(None, h2::server::Builder::new(), 0, |_| plain("fine"));
    let two = run(&streams, GET, "--steady 300ms --timeout 5s --http 2 --requests-per-connection 4");
    all_well(&two);
    assert_eq!(count(&two, "connects"), count(&two, "count").div_ceil(4));
}

#[test]
fn sessions_come_from_several_addresses() {
    let peers = Arc::new(Mutex::new(HashMap::new()));
    let seen = Arc::clone(&peers);
    let url = server(move |stream| {
        let address = stream.peer_addr().expect("an address").ip().to_string();
        *seen.lock().expect("a lock").entry(address).or_insert(0) += 1;
        let mut writer = stream.try_clone().expect("a second handle");
        let mut reader = BufReader::new(stream);
        while read_request(&mut reader).is_some() && writer.write_all(&page("200 OK", "", "")).is_ok() {}
    });
    let run = run(&url, GET, "--users 6 --steady 300ms --source-address 127.0.0.7,127.0.0.8-127.0.0.9");
    all_well(&run);
    let expected = ["127.0.0.7", "127.0.0.8", "127.0.0.9"].map(|address| (address.to_string(), 2));
    assert_eq!(*peers.lock().expect("a lock"), HashMap::from(expected));
}

#[test]
fn sessions_keep_to_targets_chosen_by_weight() {
    let sessions = Arc::new(Mutex::new(HashMap::<String, HashSet<usize>>::new()));
    let servers: Vec<String> = (0..2)
        .map(|number| {
            let seen = Arc::clone(&sessions);
            answering(move |request| {
                let own = request.headers.iter().find(|line| line.starts_with("X-Session")).expect("a header").clone();
                seen.lock().expect("a lock").entry(own).or_default().insert(number);
                page("200 OK", "", "")
            })
        })
        .collect();
    let scenario = GET.replace("mix:", "headers: { X-Session: \"${session}\" }\nmix:");
    let run = run(&format!("{}=3", servers[0]), &scenario, &format!("--url {} --users 20 --steady 300ms", servers[1]));
    all_well(&run);
    let sessions = sessions.lock().expect("a lock");
    assert_eq!(sessions.len(), 20);
    assert!(sessions.values().all(|servers| servers.len() == 1), "{sessions:?}");
    let first = sessions.values().filter(|servers| servers.contains(&0)).count();
    assert!((14..=16).contains(&first), "{first} of 20");
}

#[test]
fn unix_sockets() {
    let path = std::env::temp_dir().join(format!("leadline-load-test-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path).expect("a socket");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut writer = stream.try_clone().expect("a second handle");
                let mut reader = BufReader::new(stream);
                while let Some(request) = read_request(&mut reader) {
                    let right = request.path() == "/shop/" && request.headers.contains(&"Host: localhost".to_string());
                    let status = if right { "200 OK" } else { "400 Bad Request" };
                    if writer.write_all(&page(status, "", "")).is_err() {
                        return;
                    }
                }
            });
        }
    });
    all_well(&run(&format!("unix:{}:/shop", path.display()), GET, COUNTED));
    std::fs::remove_file(&path).expect("the socket is there");
    let nobody = run(&format!("unix:{}", path.display()), GET, "--steady 200ms");
    assert!(nobody.error("connect") > 0, "{}", nobody.summary);
}

#[test]
fn redirects_keep_or_change_the_method() {
    let url = answering(|request| {
        let method = request.line.split(' ').next().unwrap_or_default();
        let cookie = request.headers.iter().any(|line| line.contains("seen=yes"));
        match (method, request.path(), request.body.as_str()) {
            ("POST", "/307" | "/308" | "/302", "a=b+c") => {
                let path = request.path().to_string();
                let head = format!("Location: {path}/there\r\nSet-Cookie: seen=yes; Path=/\r\n");
                page(&format!("{} Elsewhere", &path[1..]), &head, "")
            }
            ("POST", "/307/there" | "/308/there", "a=b+c") | ("GET", "/302/there", "") if cookie => {
                page("200 OK", "", "")
            }
            _ => page("500 Wrong", "", ""),
        }
    });
    for status in ["302", "307", "308"] {
        let scenario = format!(
            "scenario: moved\nmix: {{ post: 1 }}\ntransactions:\n  post: [{{ post: /{status}, form: {{ a: b c }} }}]\n"
        );
        let run = run(&url, &scenario, "--steady 200ms --timeout 5s");
        assert!(run.total("post", "ok") > 1 && run.total("post", "failed") == 0, "{status}: {}", run.summary);
    }
}
