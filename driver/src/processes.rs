//! One run by several processes of this host: each bears its share on CPUs of its own, all in step, and their results
//! are merged into those that one driver would have written.

use crate::cli::{RunOptions, Tell};
use crate::measure::earlier;
use crate::measure::writer::Progress;
use crate::merge::{merge, MergeOptions};
use crate::run::{check, judge, Ended};
use crate::share::Share;
use crate::sys::process::{allowed_cpus, catch_signals, keep_to, stop_requested};
use crate::Failure;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// From the moment when all are ready until they start.
const LEAD: Duration = Duration::from_millis(300);
const STEP: Duration = Duration::from_millis(50);
const BEAT: Duration = Duration::from_secs(2);
/// Seconds without a sign of life of this process after which the others end.
const SWITCH: &str = "20s";

/// Runs as many processes as the options ask for. `given`: the words of the command line, from `run` on.
pub fn run(mut options: RunOptions, given: &[OsString]) -> Result<Ended, Failure> {
    let count = options.processes;
    options.share = share(0, count); // of what is needed at once each process has a part
    check(&options)?;
    let out = &options.out;
    std::fs::create_dir_all(out)
        .map_err(|e| Failure::Usage(format!("--out {}: cannot be made: {e}", out.display())))?;
    if !options.replace {
        earlier::refuse(out).map_err(Failure::Usage)?;
    }
    catch_signals().map_err(|e| Failure::Run(format!("cannot catch signals: {e}")))?;
    let cannot_write = |e: io::Error| Failure::Run(format!("cannot write to {}: {e}", out.display()));
    if options.replace {
        earlier::remove_parts(out).map_err(cannot_write)?;
    }
    let mut all = Processes::begin(&options, given)?;
    if !all.until_ready()? {
        return Ok(Ended::Early);
    }
    if options.replace {
        earlier::remove(out).map_err(cannot_write)?;
    }
    let started = all.start();
    let interrupted = all.until_the_end(options.progress)?;
    let parts: Vec<PathBuf> = (0..count).map(|at| directory(&options, at)).collect();
    if interrupted && parts.iter().any(|part| !part.join("summary.json").exists()) {
        return Ok(Ended::Early); // before the start
    }
    let notes = all.members.iter().map(|member| member.notes.clone()).collect();
    merge(&MergeOptions { parts, out: out.clone(), replace: false, start: Some(started), notes: Some(notes) })?;
    let told = (options.verdict == Tell::Exit).then_some(options.progress);
    Ok(match (interrupted, judge(out, &options.bounds, told)?, options.verdict) {
        (true, _, _) => Ended::Early,
        (false, false, Tell::Exit) => Ended::Failed,
        _ => Ended::Passed,
    })
}

fn share(at: u64, count: u64) -> Share {
    Share::parse(&format!("{at}-{}/{count}", at + 1)).unwrap_or_default()
}

fn directory(options: &RunOptions, at: u64) -> PathBuf {
    options.out.join("drivers").join((at + 1).to_string())
}

struct Member {
    child: Child,
    notes: Map<String, Value>,
    errors: Option<JoinHandle<String>>,
    open: bool,
    /// Lines of progress by second.
    seconds: BTreeMap<u64, Value>,
}

/// What a process wrote: a line, or nothing more.
type Said = (usize, Option<String>);

struct Processes {
    members: Vec<Member>,
    said: Receiver<Said>,
    beaten: Instant,
}

impl Drop for Processes {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

impl Processes {
    fn begin(options: &RunOptions, given: &[OsString]) -> Result<Self, Failure> {
        let cannot = |error: io::Error| Failure::Run(format!("cannot start another process: {error}"));
        let program = std::env::current_exe().map_err(cannot)?;
        let cpus = allowed_cpus();
        let count = options.processes as usize;
        let (tell, said) = channel();
        let mut all = Processes { members: Vec::new(), said, beaten: Instant::now() };
        for at in 0..count {
            let own: Vec<usize> = cpus.iter().skip(at).step_by(count).copied().collect();
            let words = arguments(options, given, at as u64);
            let mut child = Command::new(&program)
                .args(words)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .map_err(cannot)?;
            if cpus.len() >= count {
                keep_to(child.id(), &own).map_err(cannot)?;
            }
            follow(&mut child, at, tell.clone());
            let errors = child.stderr.take().map(|stream| std::thread::spawn(move || text(stream)));
            let shared = if cpus.len() >= count { own.len() } else { cpus.len() };
            let notes = json!({"via": "local", "share": share(at as u64, count as u64).to_string(), "cpus": shared});
            let notes = notes.as_object().cloned().unwrap_or_default();
            all.members.push(Member { child, notes, errors, open: true, seconds: BTreeMap::new() });
        }
        Ok(all)
    }

    fn tell(&mut self, line: &str) {
        for member in &mut self.members {
            if let Some(input) = &mut member.child.stdin {
                let _ = input.write_all(line.as_bytes()); // it may have ended
            }
        }
    }

    /// What comes next within a step.
    fn next(&mut self) -> Option<Said> {
        if self.beaten.elapsed() > BEAT {
            self.beaten = Instant::now();
            self.tell("\n");
        }
        self.said.recv_timeout(STEP).ok()
    }

    /// False where a signal ended it.
    fn until_ready(&mut self) -> Result<bool, Failure> {
        let mut ready = 0;
        while ready < self.members.len() {
            if stop_requested() {
                return Ok(false);
            }
            match self.next() {
                Some((at, None)) => {
                    self.ended(at)?;
                    return Ok(false); // by a signal of its own
                }
                Some((_, Some(line))) => ready += usize::from(line.contains("\"ready\"")),
                None => {}
            }
        }
        Ok(true)
    }

    /// Unix nanoseconds of the common start.
    fn start(&mut self) -> u64 {
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + LEAD;
        let at = at.as_nanos() as u64;
        self.tell(&format!("start {at}\n"));
        at
    }

    /// Whether a signal ended it.
    fn until_the_end(&mut self, progress: Progress) -> Result<bool, Failure> {
        let (mut told, mut stopped) = (0, false);
        while self.members.iter().any(|member| member.open) {
            if stop_requested() && !stopped {
                stopped = true;
                self.tell("stop\n");
            }
            match self.next() {
                Some((at, None)) => self.ended(at)?,
                Some((at, Some(line))) => {
                    let Ok(second) = serde_json::from_str::<Value>(&line) else { continue };
                    if let Some(number) = second["t"].as_u64() {
                        self.members[at].seconds.insert(number, second);
                    }
                }
                None => {}
            }
            while self.members.iter().all(|member| member.seconds.contains_key(&(told + 1))) {
                told += 1;
                let parts: Vec<Value> =
                    self.members.iter_mut().filter_map(|member| member.seconds.remove(&told)).collect();
                let _ = report(&parts, progress); // nobody may be left to read it
            }
        }
        Ok(stopped)
    }

    /// One has closed its output: what it said where that was not in order.
    fn ended(&mut self, at: usize) -> Result<(), Failure> {
        let member = &mut self.members[at];
        member.open = false;
        let status = member.child.wait().map_err(|e| Failure::Run(format!("process {}: {e}", at + 1)))?;
        if matches!(status.code(), Some(0 | 130)) {
            return Ok(());
        }
        let said = member.errors.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let lines: Vec<&str> = said.lines().map(|line| line.trim_start_matches("leadline-load: ")).collect();
        let said = if lines.is_empty() { status.to_string() } else { lines.join("\n") };
        Err(match status.code() {
            Some(2) => Failure::Usage(said),
            _ => Failure::Run(format!("process {} of {}: {said}", at + 1, self.members.len())),
        })
    }
}

/// Of one process: the last value of an option counts.
fn arguments(options: &RunOptions, given: &[OsString], at: u64) -> Vec<OsString> {
    let own = [
        ("--processes", "1".to_string()),
        ("--share", share(at, options.processes).to_string()),
        ("--start-at", "stdin".to_string()),
        ("--dead-man-switch", SWITCH.to_string()),
        ("--progress", "json".to_string()),
        ("--verdict", "file".to_string()),
    ];
    let mut words = given.to_vec();
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let added = own.into_iter().flat_map(|(name, value)| [OsString::from(name), value.into()]);
    let out = [OsString::from("--out"), directory(options, at).into()];
    words.splice(end..end, added.chain(out));
    words
}

fn follow(child: &mut Child, at: usize, tell: Sender<Said>) {
    let Some(output) = child.stdout.take() else { return };
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = tell.send((at, Some(line)));
        }
        let _ = tell.send((at, None));
    });
}

fn text(mut stream: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One second of all: sums, and the highest of what does not add up.
fn report(parts: &[Value], progress: Progress) -> io::Result<()> {
    let values = |name: &str| parts.iter().filter_map(|part| part[name].as_f64()).collect::<Vec<f64>>();
    let sum = |name: &str| values(name).iter().sum::<f64>();
    let most = |name: &str| values(name).into_iter().fold(0.0, f64::max);
    let (second, phase) = (parts[0]["t"].as_u64().unwrap_or(0), parts[0]["phase"].as_str().unwrap_or(""));
    let mut out = io::stdout().lock();
    match progress {
        Progress::None => Ok(()),
        Progress::Json => writeln!(
            out,
            "{{\"t\":{second},\"phase\":\"{phase}\",\"tps\":{:.1},\"p50_ms\":{:.3},\"p99_ms\":{:.3},\"errors\":{},\
             \"in_flight\":{},\"sessions\":{},\"planned\":{},\"started\":{},\"dropped\":{},\"lag_p99_ms\":{:.3},\
             \"cpu_share\":{:.3}}}",
            sum("tps"),
            most("p50_ms"),
            most("p99_ms"),
            sum("errors"),
            sum("in_flight"),
            sum("sessions"),
            sum("planned"),
            sum("started"),
            sum("dropped"),
            most("lag_p99_ms"),
            most("cpu_share")
        ),
        Progress::Text => writeln!(
            out,
            "{second:>5} s  {phase:<9} {:>9.1}/s  p50 {:>8.2} ms  p99 {:>8.2} ms  errors {}  in flight {}",
            sum("tps"),
            most("p50_ms"),
            most("p99_ms"),
            sum("errors"),
            sum("in_flight")
        ),
    }?;
    out.flush()
}
