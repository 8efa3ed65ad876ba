//! Servers that do as a test says, and runs of the real binary against them.

pub mod h2;
pub mod tls;

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// Serves each connection on a thread of its own until the test's process ends; its address.
pub fn server(handle: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let handle = Arc::new(handle);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let handle = Arc::clone(&handle);
            std::thread::spawn(move || handle(stream));
        }
    });
    format!("http://{address}")
}

/// Reads one request: its first line, its headers, its body. None at the end of the connection.
pub struct Request {
    pub line: String,
    pub headers: Vec<String>,
    pub body: String,
}

impl Request {
    pub fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or("")
    }
}

pub fn read_request<R: Read>(reader: &mut BufReader<R>) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_string();
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let length = lines.iter().find_map(|l| l.strip_prefix("Content-Length: ")?.parse::<usize>().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let line = lines.remove(0);
    Some(Request { line, headers: lines, body: String::from_utf8_lossy(&body).into_owned() })
}

/// Answers every request with what `answer` makes of it; an empty answer closes the connection.
pub fn answering(answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> String {
    server(move |stream| {
        let mut writer = stream.try_clone().expect("a second handle");
        let mut reader = BufReader::new(stream);
        while let Some(request) = read_request(&mut reader) {
            let bytes = answer(&request);
            if bytes.is_empty() || writer.write_all(&bytes).is_err() {
                return;
            }
        }
    })
}

pub fn page(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len()).into_bytes()
}

/// Makes closing the stream send a reset.
pub fn reset_on_close(stream: &TcpStream) {
    use std::os::fd::AsRawFd;
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: `linger` lives through the call and its size is given.
    let result = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of_val(&linger) as u32,
        )
    };
    assert_eq!(result, 0);
}

pub const GET: &str =
    "scenario: one\nmix: { get: 1 }\ntransactions:\n  get: [{ get: /, check: { lacks: nonsense } }]\n";
pub const POST: &str = "scenario: one\nmix: { post: 1 }\ntransactions:\n  post: [{ post: /, form: { a: b } }]\n";

pub struct Run {
    pub directory: PathBuf,
    pub code: i32,
    pub errors: String,
    pub output: String,
    pub summary: Value,
}

impl Run {
    pub fn error(&self, kind: &str) -> u64 {
        self.summary["errors"][kind].as_u64().unwrap_or(0)
    }

    pub fn total(&self, name: &str, what: &str) -> u64 {
        self.summary["total"][name][what].as_u64().expect("a count")
    }

    pub fn number(&self, pointer: &str) -> f64 {
        self.summary.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer} in {}", self.summary))
    }
}

/// Requests' counts of a summary.
pub fn count(run: &Run, key: &str) -> u64 {
    run.number(&format!("/requests/{key}")) as u64
}

/// The run ended well: more than a few requests, none of them with an error.
pub fn all_well(run: &Run) {
    assert_eq!(run.code, 0, "{}{}", run.errors, run.output);
    assert!(run.summary["errors"].as_object().expect("kinds").is_empty(), "{}", run.summary);
    assert!(count(run, "count") > 20, "{}", run.summary);
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn scratch() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("leadline-load-test-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a scratch directory");
    path
}

/// Starts the binary on `scenario`; `options` are words after the URL.
pub fn start(url: &str, scenario: &str, options: &str) -> (Child, PathBuf) {
    let directory = scratch();
    let file = directory.join("scenario.yaml");
    std::fs::write(&file, scenario).expect("a scenario file");
    let child = Command::new(env!("CARGO_BIN_EXE_leadline-load"))
        .arg("run")
        .arg(&file)
        .args(["--url", url, "--out"])
        .arg(directory.join("out"))
        .args(options.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    (child, directory)
}

pub fn finish(child: Child, directory: PathBuf) -> Run {
    let output = child.wait_with_output().expect("the binary ends");
    let summary = std::fs::read_to_string(directory.join("out/summary.json"))
        .ok()
        .map_or(Value::Null, |text| serde_json::from_str(&text).expect("a JSON summary"));
    let run = Run {
        directory,
        code: output.status.code().unwrap_or(-1),
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
        summary,
    };
    assert!(!run.errors.contains("panicked"), "{}", run.errors);
    if run.summary.is_object() {
        check_sums(&run.summary);
        check_verdict(&run);
    }
    run
}

pub fn run(url: &str, scenario: &str, options: &str) -> Run {
    let (child, directory) = start(url, scenario, options);
    finish(child, directory)
}

/// The exit code, and the first line of what is printed, are those of the verdict.
fn check_verdict(run: &Run) {
    let (passed, completed) = (run.summary["verdict"]["passed"] == true, run.summary["completed"] == true);
    let code = if !completed { 130 } else { i32::from(!passed) };
    assert_eq!(run.code, code, "{}", run.summary);
    let text =
        run.output.lines().chain(run.errors.lines()).find(|line| !line.starts_with('{') && !line.contains(" s  "));
    let word = if passed { "passed: " } else { "failed: " };
    assert!(text.is_some_and(|line| line.starts_with(word)), "{}{}", run.output, run.errors);
    let problem = run.summary["verdict"]["problems"][0].as_str().unwrap_or("");
    assert!(text.is_some_and(|line| line.contains(problem)), "{}", run.output);
}

/// The run failed: nothing succeeded.
pub fn nothing_succeeded(run: &Run) {
    assert_eq!(run.code, 1, "{}", run.errors);
    assert!(run.output.starts_with("failed: no transaction succeeded: all "), "{}", run.output);
}

/// Every failed transaction has exactly one kind.
fn check_sums(summary: &Value) {
    let sum = |value: &Value, key: Option<&str>| -> u64 {
        let parts = value.as_object().expect("a mapping").values();
        parts.map(|v| key.map_or(v, |k| &v[k]).as_u64().expect("a count")).sum()
    };
    assert_eq!(sum(&summary["errors"], None), sum(&summary["total"], Some("failed")), "{summary}");
}
