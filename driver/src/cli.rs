//! The command line.

use crate::arrivals::profile::Profile;
use crate::arrivals::{Bursts, Model};
use crate::leash::StartAt;
use crate::measure::writer::Progress;
use crate::nearest::{hint, meant};
use crate::share::Share;
use crate::transport::TransportOptions;
use crate::units::parse_duration;
use std::path::PathBuf;

pub const HELP: &str = "\
leadline-load: sessions over HTTP, measured from the moment each request was due

  leadline-load run SCENARIO.yaml --url URL --out DIR [options]
  leadline-load check SCENARIO.yaml [--var KEY=VALUE ...]
                              or with all options of run, of which nothing is started or written
  leadline-load schema        prints the JSON schema of a scenario
  leadline-load host          tells of this host, then its clock for every line read
  leadline-load --version

options of run:
  --url URL[=WEIGHT]   server and context root, e.g. http://127.0.0.1:9080/brokerage, https://... or
                       unix:/path/of/socket:/root; repeated: each session keeps to one of them, chosen by weight
  --out DIR            where summary.json, seconds.csv, response.hlog and service.hlog go; a directory that holds the
                       results of an earlier run is refused
  --replace            remove the results of an earlier run from --out instead
  --arrivals MODEL     closed (default), constant, poisson or replay
  --users N            closed: virtual users (default 1)
  --rate R             constant, poisson: arrivals a second
  --profile POINTS     instead of --users or --rate: TIME:VALUE,... joined by straight lines, two at one time are a
                       step, e.g. 0s:10,30s:100,30s:50,60s:50
  --bursts ON/OFF      constant, poisson: arrivals only while on, e.g. 2s/3s; random:2s/3s draws the lengths
  --replay FILE        replay: recorded times, seconds since the start, one a line
  --speed X            replay: play X times as fast (default 1)
  --ramp-up TIME       users or rate rise evenly; with --profile or --replay only not measured (default 0s)
  --steady TIME        (default 10s; with --profile or --replay up to its last time)
  --ramp-down TIME     nothing new starts; what is in flight ends (default 0s)
  --seed N             same seed, same plan of every session (default 1)
  --max-sessions N     hard cap on sessions; open arrivals above it are dropped and counted (default 1000)
  --timeout TIME       of each request (default 10s)
  --http WORD          auto (default: HTTP/1.1, over TLS what the server prefers), 1.1 or 2
  --ca FILE            https: trust the certificates in this PEM file (the server's own, or authorities), not the system's
  --insecure           https: trust every certificate
  --source-address A   addresses to connect from, A,B or FIRST-LAST; sessions take turns
  --requests-per-connection N
                       close a connection after N requests; 1 is a connection for each (default: keep)
  --connections WORD   session (default: each has its own, as users of browsers) or shared (a request takes an idle one
                       from a pool, as behind a proxy; HTTP/1.1, or with --http 2 a stream of one)
  --max-connections N  shared: at most so many to each server from each address; further requests wait (default:
                       as many as sessions)
  --var KEY=VALUE      a parameter of the scenario; may be repeated
  --grid TIME          plan starts at multiples of this: several share a wake-up, which is cheaper (default 0us: none)
  --lead TIME          stay awake this long, at most, before something is due (default 100us)
  --gather TIME        an answer that nothing waits for may lie in the kernel, which stamps it, this long (default 5ms)
  --stamps WORD        kernel (default: an answer counts from its stamp) or loop (from the moment it was read)
  --cpu-latency TIME   while it runs, no CPU of this host enters an idle state that takes longer than this to leave
                       (root; 0us: they never halt): cheaper and more exact, but the servers' CPUs change as well
  --priority WORD      auto (default: the loop runs ahead of other processes where permitted) or normal
  --share A-B/N        one of several drivers in step: of every N numbers (sessions, users, arrivals, identities, rows
                       and sequences of feeds) those from A until B; all other options as for one driver (default 0-1/1)
  --start-at TIME      unix time in nanoseconds, or stdin: a line `start NANOSECONDS` there (default: at once)
  --leash TIME         end at once when standard input ends or brings no line for so long; a line `stop` ends in order
  --progress FORM      json, text or none on standard output, one line a second (default none)

example:
  leadline-load run brokerage-classic.yaml --url http://127.0.0.1:9080/brokerage --users 40 --steady 30s --out out

exit codes: 0 done, 1 could not run, 2 bad command line or scenario, 130 interrupted (results are written)
";

/// Options without a value.
const FLAGS: [&str; 2] = ["--insecure", "--replace"];

const OPTIONS: [&str; 34] = [
    "--url",
    "--http",
    "--ca",
    "--insecure",
    "--source-address",
    "--requests-per-connection",
    "--connections",
    "--max-connections",
    "--out",
    "--replace",
    "--arrivals",
    "--users",
    "--rate",
    "--profile",
    "--bursts",
    "--replay",
    "--speed",
    "--ramp-up",
    "--steady",
    "--ramp-down",
    "--seed",
    "--max-sessions",
    "--timeout",
    "--var",
    "--grid",
    "--lead",
    "--gather",
    "--stamps",
    "--cpu-latency",
    "--priority",
    "--share",
    "--start-at",
    "--leash",
    "--progress",
];

#[derive(Debug, PartialEq)]
pub enum Command {
    Help,
    Version,
    Schema,
    Host,
    Check { scenario: PathBuf, variables: Vec<(String, String)> },
    CheckRun(Box<RunOptions>),
    Run(Box<RunOptions>),
}

#[derive(Debug, PartialEq)]
pub struct RunOptions {
    pub scenario: PathBuf,
    pub transport: TransportOptions,
    pub out: PathBuf,
    /// Results of an earlier run in `out` are removed.
    pub replace: bool,
    pub model: Model,
    pub users: Option<u64>,
    pub rate: Option<f64>,
    /// The profile and its text.
    pub profile: Option<(Profile, String)>,
    pub bursts: Option<(Bursts, String)>,
    pub replay: Option<PathBuf>,
    pub speed: f64,
    pub ramp_up: u64,
    /// None with a recording: until its last time.
    pub steady: Option<u64>,
    pub ramp_down: u64,
    pub seed: u64,
    pub max_sessions: usize,
    pub timeout: u64,
    pub variables: Vec<(String, String)>,
    pub grid: u64,
    pub lead: u64,
    pub gather: u64,
    pub unstamped: bool,
    /// Do not run ahead of other processes.
    /// Longest time to leave an idle state, nanoseconds.
    pub cpu_latency: Option<u64>,
    pub normal_priority: bool,
    /// Of a load that several drivers bear.
    pub share: Share,
    pub start_at: StartAt,
    /// Longest silence of standard input, nanoseconds.
    pub leash: Option<u64>,
    pub progress: Progress,
}

/// Reads the arguments after the program's name; the error is ready to print.
pub fn parse(arguments: &[String]) -> Result<Command, String> {
    let Some(command) = arguments.first() else { return Ok(Command::Help) };
    match command.as_str() {
        "--help" | "-h" | "help" => Ok(Command::Help),
        "--version" | "-V" => Ok(Command::Version),
        "run" | "check" if arguments[1..].iter().any(|a| a == "--help" || a == "-h") => Ok(Command::Help),
        "schema" => Ok(Command::Schema),
        "host" => Ok(Command::Host),
        "run" => parse_run(&arguments[1..]).map(|run| Command::Run(Box::new(run))),
        "check" if arguments[1..].iter().any(|a| a == "--url" || a.starts_with("--url=")) => {
            parse_run(&arguments[1..]).map(|run| Command::CheckRun(Box::new(run)))
        }
        "check" => {
            let (scenario, options) = split(&arguments[1..])?;
            let mut variables = Vec::new();
            for (name, value) in options {
                match name {
                    "--var" => variables.push(assignment(&value)?),
                    other => return Err(format!("unknown option `{other}` of check{}", hint(other, &["--var"]))),
                }
            }
            Ok(Command::Check { scenario, variables })
        }
        other => Err(format!(
            "unknown command `{other}`{}",
            hint(other, &["run", "check", "schema", "host", "--version", "--help"])
        )),
    }
}

fn parse_run(arguments: &[String]) -> Result<RunOptions, String> {
    let (scenario, options) = split(arguments)?;
    let mut run = RunOptions {
        scenario,
        transport: TransportOptions::default(),
        out: PathBuf::new(),
        replace: false,
        model: Model::Closed,
        users: None,
        rate: None,
        profile: None,
        bursts: None,
        replay: None,
        speed: 1.0,
        ramp_up: 0,
        steady: None,
        ramp_down: 0,
        seed: 1,
        max_sessions: 1000,
        timeout: 10_000_000_000,
        variables: Vec::new(),
        grid: 0,
        lead: 100_000,
        gather: 5_000_000,
        unstamped: false,
        cpu_latency: None,
        normal_priority: false,
        share: Share::WHOLE,
        start_at: StartAt::Now,
        leash: None,
        progress: Progress::None,
    };
    for (name, value) in options {
        let time = || parse_duration(&value).map_err(|e| format!("{name}: {e}"));
        match name {
            name if run.transport.take(name, &value)? => {}
            "--out" => run.out = PathBuf::from(value),
            "--replace" => run.replace = true,
            "--arrivals" => run.model = word(name, &value, &Model::WORDS)?,
            "--users" => run.users = Some(count(name, &value)?),
            "--rate" => run.rate = Some(rate(&value)?),
            "--profile" => {
                let profile = Profile::parse(&value).map_err(|e| format!("--profile {value}: {e}"))?;
                run.profile = Some((profile, value));
            }
            "--bursts" => {
                let bursts = Bursts::parse(&value).map_err(|e| format!("--bursts {e}"))?;
                run.bursts = Some((bursts, value));
            }
            "--replay" => run.replay = Some(PathBuf::from(value)),
            "--speed" => {
                run.speed = match value.parse::<f64>() {
                    Ok(speed) if (1e-3..=1e3).contains(&speed) => speed,
                    _ => return Err(format!("--speed {value}: not a number from 0.001 to 1000")),
                }
            }
            "--ramp-up" => run.ramp_up = time()?,
            "--steady" => run.steady = Some(time()?),
            "--ramp-down" => run.ramp_down = time()?,
            "--seed" => run.seed = value.parse().map_err(|_| format!("--seed {value}: not a whole number"))?,
            "--max-sessions" => run.max_sessions = count(name, &value)? as usize,
            "--timeout" => run.timeout = time()?,
            "--var" => run.variables.push(assignment(&value)?),
            "--grid" => run.grid = time()?,
            "--share" => run.share = Share::parse(&value).map_err(|e| format!("--share {e}"))?,
            "--start-at" => run.start_at = StartAt::parse(&value).map_err(|e| format!("--start-at {e}"))?,
            "--leash" => run.leash = Some(time()?),
            "--lead" => run.lead = time()?,
            "--gather" => run.gather = time()?,
            "--stamps" => run.unstamped = word(name, &value, &[("kernel", false), ("loop", true)])?,
            "--cpu-latency" => run.cpu_latency = Some(time()?),
            "--priority" => run.normal_priority = word(name, &value, &[("auto", false), ("normal", true)])?,
            _ => {
                let words = [("json", Progress::Json), ("text", Progress::Text), ("none", Progress::None)];
                run.progress = word(name, &value, &words)?;
            }
        }
    }
    complete(run)
}

fn complete(mut run: RunOptions) -> Result<RunOptions, String> {
    const LONGEST: u64 = 366 * 24 * 3600 * 1_000_000_000;
    if run.transport.urls.is_empty() {
        return Err("--url is missing: the server's address, e.g. --url http://127.0.0.1:9080/brokerage".into());
    }
    run.transport.check()?;
    if run.out.as_os_str().is_empty() {
        return Err("--out is missing: the directory for the results".into());
    }
    if run.steady == Some(0) {
        return Err("--steady must be longer than 0s".into());
    }
    if let (None, Some((profile, _))) = (run.steady, &run.profile) {
        run.steady = Some(profile.end().saturating_sub(run.ramp_up));
        if run.steady == Some(0) {
            return Err("--profile ends before the steady phase begins: give --steady too".into());
        }
    }
    if run.replay.is_none() {
        run.steady.get_or_insert(10_000_000_000);
    }
    if [run.ramp_up, run.steady.unwrap_or(1), run.ramp_down].iter().any(|t| *t > LONGEST) {
        return Err("a phase cannot be longer than a year".into());
    }
    if run.lead > 1_000_000 || run.gather > 10_000_000 {
        return Err("--lead is at most 1ms, --gather at most 10ms".into());
    }
    if run.grid > 1_000_000_000 {
        return Err("--grid is at most 1s".into());
    }
    if run.cpu_latency.is_some_and(|ns| ns > 1_000_000_000 || ns % 1000 != 0) {
        return Err("--cpu-latency is at most 1s, in whole microseconds".into());
    }
    if run.timeout == 0 {
        return Err("--timeout must be longer than 0s".into());
    }
    check_arrivals(&mut run)?;
    Ok(run)
}

/// Each model has its own options.
fn check_arrivals(run: &mut RunOptions) -> Result<(), String> {
    let given = [
        ("--users", run.users.is_some(), "closed"),
        ("--rate", run.rate.is_some(), "constant or poisson"),
        ("--profile", run.profile.is_some(), "closed, constant or poisson"),
        ("--bursts", run.bursts.is_some(), "constant or poisson"),
        ("--replay", run.replay.is_some(), "replay"),
        ("--speed", run.speed != 1.0, "replay"),
    ];
    let model = run.model.as_str();
    if let Some((option, _, models)) = given.iter().find(|(_, given, models)| *given && !models.contains(model)) {
        let instead = match run.model {
            Model::Closed => "--users",
            Model::Replay => "--replay",
            _ => "--rate",
        };
        return Err(format!("{option} belongs to --arrivals {models}; {model} arrivals have {instead}"));
    }
    match (run.model, &run.profile) {
        (Model::Replay, _) if run.replay.is_none() => return Err("--replay is missing: a file of times".into()),
        (Model::Constant | Model::Poisson, None) if run.rate.is_none() => {
            return Err(format!("--rate or --profile is missing: --arrivals {model} needs it"));
        }
        (_, Some(_)) if run.users.is_some() || run.rate.is_some() => {
            return Err("--profile stands instead of --users or --rate".into());
        }
        (Model::Closed, Some((profile, _))) => run.users = Some(profile.peak().ceil() as u64),
        (Model::Closed, None) => {
            run.users.get_or_insert(1);
        }
        _ => {}
    }
    match run.users {
        Some(users) if users > run.max_sessions as u64 => {
            Err(format!("--users {users} is above --max-sessions {}", run.max_sessions))
        }
        _ => Ok(()),
    }
}

type Options<'a> = Vec<(&'a str, String)>;

/// The scenario's path and the options with their values (`--name value` or `--name=value`).
fn split(arguments: &[String]) -> Result<(PathBuf, Options<'_>), String> {
    let (mut scenario, mut options) = (None, Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if !argument.starts_with('-') {
            if scenario.replace(PathBuf::from(argument)).is_some() {
                return Err(format!("one scenario at a time: `{argument}` is a second one"));
            }
            continue;
        }
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (argument.as_str(), None),
        };
        if !OPTIONS.contains(&name) {
            return Err(format!("unknown option `{name}`{}", hint(name, &OPTIONS)));
        }
        let value = match value {
            Some(_) if FLAGS.contains(&name) => return Err(format!("{name} takes no value")),
            Some(value) => value,
            None if FLAGS.contains(&name) => String::new(),
            None => rest.next().cloned().ok_or_else(|| format!("{name} needs a value"))?,
        };
        options.push((name, value));
    }
    let scenario = scenario.ok_or("no scenario given: a YAML file, see docs/load.md")?;
    Ok((scenario, options))
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_string(), value.to_string())),
        _ => Err(format!("--var {text}: write --var name=value")),
    }
}

fn word<T: Copy>(option: &str, text: &str, words: &[(&str, T)]) -> Result<T, String> {
    let valid: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    words
        .iter()
        .find(|(word, _)| *word == text)
        .map(|(_, value)| *value)
        .ok_or_else(|| format!("{option} {text}: not one of {}{}", valid.join(", "), meant(text, &valid)))
}

fn count(option: &str, text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(number) if (1..=10_000_000).contains(&number) => Ok(number),
        _ => Err(format!("{option} {text}: not a whole number from 1 to 10000000")),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1e8 => Ok(rate),
        _ => Err(format!("--rate {text}: not a number of arrivals a second above 0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn reads_a_whole_line() {
        let line = "run s.yaml --url http://h/ --arrivals poisson --rate=12.5 --ramp-up 1s --steady 500ms --grid 1ms \
                    --var think=0ms --var a=b=c --progress json --max-sessions 5 --seed 9 --out d";
        let Ok(Command::Run(run)) = parsed(line) else { panic!("not a run: {:?}", parsed(line)) };
        assert_eq!((run.model, run.rate, run.users), (Model::Poisson, Some(12.5), None));
        assert_eq!((run.steady, run.grid, run.seed), (Some(500_000_000), 1_000_000, 9));
        assert_eq!(run.variables[1], ("a".to_string(), "b=c".to_string()));
        assert_eq!(run.progress, Progress::Json);
    }

    #[test]
    fn a_profile_gives_users_and_length() {
        let line = "run s.yaml --url http://h/ --out d --profile 0s:1,20s:7.5,30s:2 --ramp-up 5s";
        let Ok(Command::Run(run)) = parsed(line) else { panic!("not a run: {:?}", parsed(line)) };
        assert_eq!((run.users, run.steady), (Some(8), Some(25_000_000_000)));
    }

    #[test]
    fn every_mistake_has_its_message() {
        for (line, part) in [
            ("rnu s.yaml", "did you mean `run`"),
            ("run --url http://h", "no scenario"),
            ("run s.yaml --out d", "--url is missing"),
            ("run s.yaml --url http://h", "--out is missing"),
            ("run s.yaml --uesrs 3", "did you mean `--users`"),
            ("run s.yaml --url http://h --out d --users 0", "not a whole number"),
            ("run s.yaml --url http://h --out d --users 2000", "above --max-sessions"),
            ("run s.yaml --url http://h --out d --rate 3", "belongs to"),
            ("run s.yaml --url http://h --out d --max-connections 3", "belongs to --connections shared"),
            ("run s.yaml --url http://h --out d --arrivals poisson", "--rate or --profile is missing"),
            ("run s.yaml --url http://h --out d --arrivals poison --rate 1", "did you mean `poisson`"),
            ("run s.yaml --url http://h --out d --arrivals constant --rate 1 --users 2", "belongs to"),
            ("run s.yaml --url http://h --out d --steady 0s", "longer than 0s"),
            ("run s.yaml --url http://h --out d --arrivals poisson --rate 1 --profile 0s:1,5s:2", "instead of"),
            ("run s.yaml --url http://h --out d --profile 0s:1,5s", "write TIME:VALUE"),
            ("run s.yaml --url http://h --out d --profile 0s:1,5s:2 --ramp-up 5s", "before the steady phase"),
            ("run s.yaml --url http://h --out d --bursts 1s/1s", "--bursts belongs to"),
            ("run s.yaml --url http://h --out d --arrivals poisson --rate 1 --bursts 1s", "write ON/OFF"),
            ("run s.yaml --url http://h --out d --arrivals replay", "--replay is missing"),
            ("run s.yaml --url http://h --out d --speed 2", "--speed belongs to"),
            ("run s.yaml --url http://h --out d --grid 2s", "--grid is at most 1s"),
            ("run s.yaml --url", "needs a value"),
            ("run s.yaml t.yaml", "a second one"),
            ("run s.yaml --var think", "name=value"),
            ("check s.yaml --url x", "unknown option"),
        ] {
            let error = parsed(line).expect_err(line);
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
