//! One run by several processes of this host: each bears its share on CPUs of its own, all in step, and their results
//! are merged into those that one driver would have written.

use crate::cli::{RunOptions, Tell};
use crate::measure::earlier;
use crate::measure::progress::{Line, Progress};
use crate::merge::{merge, MergeOptions};
use crate::run::{check, judge, Ended};
use crate::share::Share;
use crate::sys::process::{allowed_cpus, catch_signals, keep_to, stop_requested};
use crate::Failure;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::{Duration, SystemTime};

/// From the moment when all are ready until they start.
const LEAD: Duration = Duration::from_millis(300);
const STEP: Duration = Duration::from_millis(50);

/// Runs as many processes as the options ask for. `given`: the words of the command line, from `run` on.
pub fn run(options: &RunOptions, given: &[OsString]) -> Result<Ended, Failure> {
    check(options)?;
    let out = &options.out;
    let parts: Vec<PathBuf> = (1..=options.processes).map(|number| out.join(format!("drivers/{number}"))).collect();
    let cannot_write = |e: io::Error| Failure::Run(format!("cannot write to {}: {e}", out.display()));
    if options.replace {
        earlier::remove_parts(out).map_err(cannot_write)?;
    } else {
        [out].into_iter().chain(&parts).try_for_each(|path| earlier::refuse(path)).map_err(Failure::Usage)?;
    }
    catch_signals().map_err(|e| Failure::Run(format!("cannot catch signals: {e}")))?;
    let mut all = Processes::begin(&parts, given)
        .map_err(|e| Failure::Run(format!("cannot start {} processes: {e}", parts.len())))?;
    if !all.ready()? {
        return Ok(Ended::Early);
    }
    if options.replace {
        earlier::remove(out).map_err(cannot_write)?;
    }
    let start = all.start();
    all.follow(options.progress)?;
    if stop_requested() && !parts.iter().all(|part| part.join("summary.json").exists()) {
        return Ok(Ended::Early); // before the start
    }
    let notes = all.members.iter().map(|member| member.notes.clone()).collect();
    merge(&MergeOptions { parts, out: out.clone(), replace: false, start: Some(start), notes: Some(notes) })?;
    let told = (options.verdict == Tell::Exit).then_some(options.progress);
    Ok(match (stop_requested(), judge(out, &options.bounds, told)?, options.verdict) {
        (true, _, _) => Ended::Early,
        (false, false, Tell::Exit) => Ended::Failed,
        _ => Ended::Passed,
    })
}

struct Member {
    child: Child,
    /// What `drivers` in summary.json says of it beside its results.
    notes: Map<String, Value>,
    /// That the others have not told of yet, by second.
    lines: BTreeMap<u64, Line>,
}

/// What a process wrote: a line, or nothing more.
type Said = (usize, Option<String>);

struct Processes {
    members: Vec<Member>,
    said: Receiver<Said>,
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
    /// One for each directory of results.
    fn begin(parts: &[PathBuf], given: &[OsString]) -> io::Result<Self> {
        let (tell, said) = channel();
        let (mut all, count) = (Processes { members: Vec::new(), said }, parts.len());
        let (program, cpus) = (std::env::current_exe()?, allowed_cpus());
        for (at, part) in parts.iter().enumerate() {
            let share = Share::equal(at as u64, count as u64);
            let own: Vec<usize> = match cpus.len() < count {
                true => cpus.clone(),
                false => cpus.iter().skip(at).step_by(count).copied().collect(),
            };
            let mut child = Command::new(&program)
                .args(words(given, share, part))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            let output = child.stdout.take();
            let notes = [("via", json!("local")), ("share", json!(share.to_string())), ("cpus", json!(own.len()))];
            let notes = notes.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
            all.members.push(Member { child, notes, lines: BTreeMap::new() });
            keep_to(all.members[at].child.id(), &own)?;
            if let Some(output) = output {
                listen(output, at, tell.clone());
            }
        }
        Ok(all)
    }

    fn tell(&self, line: &str) {
        for mut input in self.members.iter().filter_map(|member| member.child.stdin.as_ref()) {
            let _ = input.write_all(line.as_bytes()); // it may have ended
        }
    }

    /// Waits until all are; false where a signal ended one of them, or this process.
    fn ready(&mut self) -> Result<bool, Failure> {
        let mut waiting = self.members.len();
        while waiting > 0 && !stop_requested() {
            match self.said.recv_timeout(STEP) {
                Ok((_, Some(_))) => waiting -= 1, // the one line before the start
                Ok((at, None)) => return self.end(at).map(|()| false),
                Err(_) => {}
            }
        }
        Ok(waiting == 0)
    }

    /// Unix nanoseconds of the common start.
    fn start(&self) -> u64 {
        let start = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + LEAD;
        self.tell(&format!("start {}\n", start.as_nanos()));
        start.as_nanos() as u64
    }

    /// Tells of their seconds until all have ended. A signal to this process ends them in order.
    fn follow(&mut self, progress: Progress) -> Result<(), Failure> {
        let (mut running, mut stopped) = (self.members.len(), false);
        while running > 0 {
            if stop_requested() && !stopped {
                stopped = true;
                self.tell("stop\n");
            }
            match self.said.recv_timeout(STEP) {
                Ok((at, Some(text))) => {
                    if let Ok(line) = serde_json::from_str::<Line>(&text) {
                        self.members[at].lines.insert(line.t, line);
                        self.report(progress);
                    }
                }
                Ok((at, None)) => {
                    self.end(at)?;
                    running -= 1;
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// The seconds that all have told of.
    fn report(&mut self, progress: Progress) {
        while self.members.iter().all(|member| !member.lines.is_empty()) {
            let mut parts = self.members.iter_mut().filter_map(|member| member.lines.pop_first());
            let Some((_, mut sum)) = parts.next() else { return };
            parts.for_each(|(_, line)| sum.add(&line));
            let _ = sum.tell(progress); // nobody may be left to read it
        }
    }

    /// One has closed its output; standard error has what it could not do.
    fn end(&mut self, at: usize) -> Result<(), Failure> {
        let of = self.members.len();
        let ended = self.members[at].child.wait();
        let status = ended.map_err(|e| Failure::Run(format!("process {} of {of}: {e}", at + 1)))?;
        match status.code() {
            Some(0 | 130) => Ok(()),
            _ => Err(Failure::Run(format!("process {} of {of} ended: {status}", at + 1))),
        }
    }
}

/// The command line of one process: the last value of an option counts. It ends with this one, which closes its input
/// then, and needs no other sign of life.
fn words(given: &[OsString], share: Share, part: &Path) -> Vec<OsString> {
    let share = share.to_string();
    let own = ["--processes", "1", "--share", &share, "--start-at", "stdin", "--dead-man-switch", "87840h"];
    let own = own.into_iter().chain(["--progress", "json", "--verdict", "file", "--out"]).map(OsString::from);
    let end = given.iter().position(|word| word == "--").unwrap_or(given.len());
    let mut words = given.to_vec();
    words.splice(end..end, own.chain([part.into()]));
    words
}

fn listen(output: ChildStdout, at: usize, tell: Sender<Said>) {
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = tell.send((at, Some(line)));
        }
        let _ = tell.send((at, None));
    });
}
