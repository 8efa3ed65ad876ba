//! The command line. Each option is defined here once: its name, its form, its default and what `--help` says of it.

use crate::arrivals::profile::Profile;
use crate::arrivals::windows::Windows;
use crate::arrivals::{Bursts, Model};
use crate::control::StartAt;
use crate::measure::progress::Progress;
use crate::measure::verdict::Bounds;
use crate::merge::MergeOptions;
use crate::nearest::hint;
use crate::share::Share;
use crate::sys::process::allowed_cpus;
use crate::transport::TransportOptions;
use crate::units::parse_duration;
use crate::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

const EXIT_CODES: &str = "\
example:
  leadline-load run brokerage-classic.yaml --url http://127.0.0.1:9080/brokerage --users 40 --steady 30s --out out

exit codes:
  0    the run passed
  1    it failed (summary.json and the summary as text say why), or could not be done (there is no summary.json)
  2    bad command line or scenario
  130  ended early by SIGINT, SIGTERM or SIGHUP; the results so far are written";

/// Sessions over HTTP, measured from the moment each request was due.
#[derive(Debug, Parser)]
#[command(name = "leadline-load", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Drive a scenario and write the results.
    Run(Box<RunOptions>),
    /// Read a scenario and report every mistake in it.
    Check {
        scenario: PathBuf,
        /// A parameter of the scenario; may be repeated.
        #[arg(long = "var", value_name = "KEY=VALUE", value_parser = assignment)]
        variables: Vec<(String, String)>,
    },
    /// Write the results of drivers that ran in step (--share) as one driver would have written them.
    Merge(MergeOptions),
    /// Add the verdict to a summary.json that has none (merged, or of another generator) and print it as text.
    Judge {
        directory: PathBuf,
        #[command(flatten)]
        bounds: Bounds,
    },
    /// Print the JSON schema of a scenario.
    Schema,
    /// Print CPUs and limits of this host, then its clock for each line of standard input.
    Host,
    /// Have a JVM of this host write what it compiled, by address, to /tmp/perf-PID.map.
    Perfmap { pid: u32 },
}

/// What of the results counts as their moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stamps {
    Kernel,
    Loop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Priority {
    Auto,
    Normal,
}

/// Where the verdict goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tell {
    Exit,
    File,
}

#[derive(Debug, Args)]
#[command(args_override_self = true, after_help = EXIT_CODES)]
pub struct RunOptions {
    /// A YAML file (docs/reference/load.md).
    pub scenario: PathBuf,
    #[command(flatten)]
    pub transport: TransportOptions,
    /// Where summary.json, seconds.csv and the histogram logs go; results of an earlier run there are refused.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Remove the results of an earlier run from --out instead.
    #[arg(long)]
    pub replace: bool,
    /// Read the scenario and all that the options name, as a run does; start and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// How work arrives.
    #[arg(long = "arrivals", value_name = "MODEL", default_value = "closed")]
    pub model: Model,
    /// closed: virtual users (default: those of the scenario's populations, or 1).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub users: Option<u64>,
    /// constant, poisson: arrivals a second.
    #[arg(long, value_name = "R", value_parser = rate)]
    pub rate: Option<f64>,
    /// Instead of --users or --rate: TIME:VALUE,... joined by straight lines, two at one time are a step, e.g.
    /// 0s:10,30s:100,30s:50,60s:50.
    #[arg(long, value_name = "POINTS", value_parser = profile)]
    pub profile: Option<(Profile, String)>,
    /// constant, poisson: arrivals only while on, e.g. 2s/3s; random:2s/3s draws the lengths.
    #[arg(long, value_name = "ON/OFF", value_parser = bursts)]
    pub bursts: Option<(Bursts, String)>,
    /// With --users or --rate: load only in these stretches of the run; in between users and arrivals stand still, and
    /// keep their sessions, e.g. 0s-4s,12s-16s.
    #[arg(long, value_name = "FROM-UNTIL,...", value_parser = windows)]
    pub windows: Option<(Windows, String)>,
    /// replay: recorded times, seconds since the start, one a line.
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
    /// replay: play X times as fast.
    #[arg(long, value_name = "X", default_value = "1", value_parser = speed)]
    pub speed: f64,
    /// Users or rate rise evenly; with --profile or --replay only not measured.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    pub ramp_up: u64,
    /// What is measured (default 10s; with --profile or --replay up to its last time).
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub steady: Option<u64>,
    /// Nothing new starts; what is in flight ends.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    pub ramp_down: u64,
    /// Same seed, same plan of every session.
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Hard cap on sessions; open arrivals above it are dropped and counted.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub max_sessions: u64,
    /// Of each request.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub timeout: u64,
    #[command(flatten)]
    pub bounds: Bounds,
    /// exit: the summary as text, on standard output (with --progress json: standard error), and exit code 1 when the
    /// run failed; file: only in summary.json.
    #[arg(long, value_name = "WORD", default_value = "exit")]
    pub verdict: Tell,
    /// Write transactions.csv: every transaction with when it was due, when it ended and how.
    #[arg(long)]
    pub transactions: bool,
    /// A parameter of the scenario; may be repeated.
    #[arg(long = "var", value_name = "KEY=VALUE", value_parser = assignment)]
    pub variables: Vec<(String, String)>,
    /// Plan starts at multiples of this (0us: none): several share a wake-up, which is cheaper.
    #[arg(long, value_name = "TIME", default_value = "0us", value_parser = parse_duration)]
    pub grid: u64,
    /// Stay awake this long, at most, before something is due.
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = parse_duration)]
    pub lead: u64,
    /// A response that nothing waits for may stay unread in the socket buffer this long.
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = parse_duration)]
    pub gather: u64,
    /// kernel: a response counts from the kernel's receive timestamp; loop: from the moment it was read.
    #[arg(long, value_name = "WORD", default_value = "kernel")]
    pub stamps: Stamps,
    /// While it runs, no CPU of this host enters an idle state that takes longer than this to leave (root; 0us: they
    /// never halt): cheaper and more exact, but the servers' CPUs change as well.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub cpu_latency: Option<u64>,
    /// auto: the loop runs ahead of other processes where permitted.
    #[arg(long, value_name = "WORD", default_value = "auto")]
    pub priority: Priority,
    /// So many processes of this host bear the load in step, each on CPUs of its own; cpus: one for each CPU. Their
    /// results are merged (OUT/drivers has those of each).
    #[arg(long, value_name = "N", default_value = "1", value_parser = processes)]
    pub processes: u64,
    /// One of several drivers in step: of every N numbers (sessions, users, arrivals, identities, rows and sequences of
    /// feeds) those from A until B; all other options as for one driver.
    #[arg(long, value_name = "A-B/N", default_value = "0-1/1", value_parser = Share::parse)]
    pub share: Share,
    /// Unix time in nanoseconds, or stdin: a line `start NANOSECONDS` there (default: at once).
    #[arg(long, value_name = "TIME", value_parser = StartAt::parse)]
    pub start_at: Option<StartAt>,
    /// End at once when standard input is closed or has no line for so long; a line `stop` ends the run in order.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub dead_man_switch: Option<u64>,
    /// One line a second on standard output.
    #[arg(long, value_name = "FORM", default_value = "none")]
    pub progress: Progress,
}

/// Reads the arguments after the program's name. None: what was asked for is printed.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Option<Command>, Failure> {
    let words = std::iter::once(OsString::from("leadline-load")).chain(arguments);
    match CommandLine::try_parse_from(words) {
        Ok(line) => match line.command {
            Command::Run(options) => Ok(Some(Command::Run(Box::new(complete(*options).map_err(Failure::Usage)?)))),
            command => Ok(Some(command)),
        },
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let _ = error.print();
            Ok(None)
        }
        Err(error) => Err(Failure::Usage(one_line(&error))),
    }
}

/// The message without the usage; what help there is stands in the same line.
fn one_line(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let known = CommandLine::command();
        let known: Vec<&str> = known.get_subcommands().map(clap::Command::get_name).collect();
        return format!("no command: one of {}; --help tells more", known.join(", "));
    }
    let text = error.render().to_string();
    let message = text.split("\n\nUsage:").next().unwrap_or(&text).split("\n\nFor more").next().unwrap_or(&text);
    if let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
    {
        let known = CommandLine::command();
        let known: Vec<&str> = known.get_subcommands().map(clap::Command::get_name).collect();
        return format!("unknown command `{word}`{}", hint(word, &known));
    }
    let lines = message.trim_start_matches("error: ").lines().map(str::trim).filter(|line| !line.is_empty());
    lines.fold(String::new(), |text, line| match (text.is_empty(), text.ends_with(':')) {
        (true, _) => line.to_string(),
        (_, true) => format!("{text} {line}"),
        _ if line.starts_with('[') => format!("{text} {line}"),
        _ => format!("{text}; {line}"),
    })
}

fn complete(mut run: RunOptions) -> Result<RunOptions, String> {
    const LONGEST: u64 = 366 * 24 * 3600 * 1_000_000_000;
    run.transport.check()?;
    if run.out.as_os_str().is_empty() {
        return Err("--out is empty: the directory for the results".into());
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
    if run.processes > 1 {
        if !run.share.is_whole() || run.start_at.is_some() || run.dead_man_switch.is_some() {
            let own = "--share, --start-at and --dead-man-switch";
            return Err(format!("--processes starts drivers in step by itself: leave out {own}, or --processes"));
        }
        run.share = Share::equal(0, run.processes); // what one of them needs at once
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
    if let Some((windows, _)) = &run.windows {
        if run.replay.is_some() || run.profile.is_some() || run.bursts.is_some() {
            return Err("--windows stands with --users or --rate, not with --profile, --bursts or --replay".into());
        }
        if windows.end() <= run.ramp_up {
            return Err("--windows end before the steady phase begins".into());
        }
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
        _ => {}
    }
    Ok(())
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_string(), value.to_string())),
        _ => Err("write --var name=value".into()),
    }
}

fn processes(text: &str) -> Result<u64, String> {
    match (text, text.parse()) {
        ("cpus", _) => Ok(allowed_cpus().len().clamp(1, 128) as u64),
        (_, Ok(count @ 1..=128)) => Ok(count),
        _ => Err("not a number from 1 to 128, nor cpus".into()),
    }
}

fn profile(text: &str) -> Result<(Profile, String), String> {
    Ok((Profile::parse(text)?, text.to_string()))
}

fn bursts(text: &str) -> Result<(Bursts, String), String> {
    Ok((Bursts::parse(text)?, text.to_string()))
}

fn windows(text: &str) -> Result<(Windows, String), String> {
    Ok((Windows::parse(text)?, text.to_string()))
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (1e-3..=1e3).contains(&speed) => Ok(speed),
        _ => Err("not a number from 0.001 to 1000".into()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1e8 => Ok(rate),
        _ => Err("not a number of arrivals a second above 0".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        match parse(line.split_whitespace().map(OsString::from)) {
            Ok(Some(command)) => Ok(command),
            Ok(None) => Err("help".into()),
            Err(failure) => Err(failure.message().to_string()),
        }
    }

    #[test]
    fn options_are_consistent() {
        CommandLine::command().debug_assert();
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
            ("run --url http://h --out d", "not provided: <SCENARIO>"),
            ("", "no command: one of run, check, merge, judge, schema, host"),
            ("run s.yaml --out d", "not provided: --url <URL[=WEIGHT]>"),
            ("run s.yaml --url http://h", "not provided: --out <DIR>"),
            ("run s.yaml --uesrs 3", "unexpected argument '--uesrs' found; tip: a similar argument exists: '--users'"),
            (
                "run s.yaml --url http://h --out d --limit-errors 2",
                "'2' for '--limit-errors <SHARE>': `2` is not a share",
            ),
            (
                "run s.yaml --url http://h --out d --fail p98>1s",
                "'p98>1s' for '--fail <CONDITION>': `p98` is not measured; did you mean `p9",
            ),
            ("run s.yaml --url http://h --out d --steady 5 parsecs", "unexpected argument 'parsecs'"),
            ("run s.yaml --url http://h --out d --users 0", "0 is not in 1..=10000000"),
            ("run s.yaml --url http://h --out d --rate 3", "belongs to"),
            ("run s.yaml --url http://h --out d --max-connections 3", "belongs to --connections shared"),
            ("run s.yaml --url http://h --out d --arrivals poisson", "--rate or --profile is missing"),
            (
                "run s.yaml --url http://h --out d --arrivals poison --rate 1",
                "possible values: closed, constant, poisson, replay]; tip: a similar value exists: 'poisson'",
            ),
            ("run s.yaml --url http://h --out d --arrivals constant --rate 1 --users 2", "belongs to"),
            ("run s.yaml --url http://h --out d --steady 0s", "longer than 0s"),
            ("run s.yaml --url http://h --out d --arrivals poisson --rate 1 --profile 0s:1,5s:2", "instead of"),
            ("run s.yaml --url http://h --out d --profile 0s:1,5s", "write TIME:VALUE"),
            ("run s.yaml --url http://h --out d --profile 0s:1,5s:2 --ramp-up 5s", "before the steady phase"),
            ("run s.yaml --url http://h --out d --bursts 1s/1s", "--bursts belongs to"),
            ("run s.yaml --url http://h --out d --windows 1s", "write FROM-UNTIL"),
            ("run s.yaml --url http://h --out d --windows 1s-2s --ramp-up 2s", "before the steady phase"),
            ("run s.yaml --url http://h --out d --profile 0s:1,5s:1 --windows 1s-2s", "not with --profile"),
            ("run s.yaml --url http://h --out d --arrivals poisson --rate 1 --bursts 1s", "write ON/OFF"),
            ("run s.yaml --url http://h --out d --arrivals replay", "--replay is missing"),
            ("run s.yaml --url http://h --out d --speed 2", "--speed belongs to"),
            ("run s.yaml --url http://h --out d --grid 2s", "--grid is at most 1s"),
            ("run s.yaml --url", "a value is required for '--url <URL[=WEIGHT]>'"),
            ("run s.yaml t.yaml", "unexpected argument 't.yaml'"),
            ("run s.yaml --var think", "name=value"),
            ("merge a b", "not provided: --out <DIR>"),
            ("merge --out d a --notes {}", "--notes <JSON>': not a JSON list of objects"),
            ("merge --out d", "not provided: <PART>..."),
            ("check s.yaml --url x", "unexpected argument '--url'"),
        ] {
            let error = parsed(line).expect_err(line);
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
