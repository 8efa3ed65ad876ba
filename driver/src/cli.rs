//! The command line.

use crate::arrivals::Model;
use crate::measure::writer::Progress;
use crate::nearest::hint;
use crate::units::parse_duration;
use std::path::PathBuf;

pub const HELP: &str = "\
leadline-load: sessions over HTTP/1.1, measured from the moment each request was due

  leadline-load run SCENARIO.yaml --url URL --out DIR [options]
  leadline-load check SCENARIO.yaml [--var KEY=VALUE ...]
  leadline-load --version

options of run:
  --url URL            server and context root, e.g. http://127.0.0.1:9080/brokerage
  --out DIR            where summary.json, seconds.csv, response.hlog and service.hlog go
  --arrivals MODEL     closed (default), constant or poisson
  --users N            closed: virtual users (default 1)
  --rate R             constant, poisson: arrivals a second
  --ramp-up TIME       users or rate rise evenly (default 0s)
  --steady TIME        (default 10s)
  --ramp-down TIME     nothing new starts; what is in flight ends (default 0s)
  --seed N             same seed, same plan of every session (default 1)
  --max-sessions N     hard cap on sessions; open arrivals above it are dropped and counted (default 1000)
  --timeout TIME       of each request (default 10s)
  --var KEY=VALUE      a parameter of the scenario; may be repeated
  --tick TIME          wake only at multiples of this: cheaper, less exact (default 0us: exact)
  --priority WORD      auto (default: the loop runs ahead of other processes where permitted) or normal
  --progress FORM      json, text or none on standard output, one line a second (default none)

example:
  leadline-load run brokerage-classic.yaml --url http://127.0.0.1:9080/brokerage --users 40 --steady 30s --out out

exit codes: 0 done, 1 could not run, 2 bad command line or scenario, 130 interrupted (results are written)
";

const OPTIONS: [&str; 15] = [
    "--url",
    "--out",
    "--arrivals",
    "--users",
    "--rate",
    "--ramp-up",
    "--steady",
    "--ramp-down",
    "--seed",
    "--max-sessions",
    "--timeout",
    "--var",
    "--tick",
    "--priority",
    "--progress",
];

#[derive(Debug, PartialEq)]
pub enum Command {
    Help,
    Version,
    Check { scenario: PathBuf, variables: Vec<(String, String)> },
    Run(Box<RunOptions>),
}

#[derive(Debug, PartialEq)]
pub struct RunOptions {
    pub scenario: PathBuf,
    pub url: String,
    pub out: PathBuf,
    pub model: Model,
    pub users: Option<u64>,
    pub rate: Option<f64>,
    pub ramp_up: u64,
    pub steady: u64,
    pub ramp_down: u64,
    pub seed: u64,
    pub max_sessions: usize,
    pub timeout: u64,
    pub variables: Vec<(String, String)>,
    pub tick: u64,
    /// Do not run ahead of other processes.
    pub normal_priority: bool,
    pub progress: Progress,
}

/// Reads the arguments after the program's name; the error is ready to print.
pub fn parse(arguments: &[String]) -> Result<Command, String> {
    let Some(command) = arguments.first() else { return Ok(Command::Help) };
    match command.as_str() {
        "--help" | "-h" | "help" => Ok(Command::Help),
        "--version" | "-V" => Ok(Command::Version),
        "run" | "check" if arguments[1..].iter().any(|a| a == "--help" || a == "-h") => Ok(Command::Help),
        "run" => parse_run(&arguments[1..]),
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
        other => Err(format!("unknown command `{other}`{}", hint(other, &["run", "check", "--version", "--help"]))),
    }
}

fn parse_run(arguments: &[String]) -> Result<Command, String> {
    let (scenario, options) = split(arguments)?;
    let mut run = RunOptions {
        scenario,
        url: String::new(),
        out: PathBuf::new(),
        model: Model::Closed,
        users: None,
        rate: None,
        ramp_up: 0,
        steady: 10_000_000_000,
        ramp_down: 0,
        seed: 1,
        max_sessions: 1000,
        timeout: 10_000_000_000,
        variables: Vec::new(),
        tick: 0,
        normal_priority: false,
        progress: Progress::None,
    };
    for (name, value) in options {
        let time = || parse_duration(&value).map_err(|e| format!("{name}: {e}"));
        match name {
            "--url" => run.url = value,
            "--out" => run.out = PathBuf::from(value),
            "--arrivals" => run.model = word(name, &value, &Model::WORDS)?,
            "--users" => run.users = Some(count(name, &value)?),
            "--rate" => run.rate = Some(rate(&value)?),
            "--ramp-up" => run.ramp_up = time()?,
            "--steady" => run.steady = time()?,
            "--ramp-down" => run.ramp_down = time()?,
            "--seed" => run.seed = value.parse().map_err(|_| format!("--seed {value}: not a whole number"))?,
            "--max-sessions" => run.max_sessions = count(name, &value)? as usize,
            "--timeout" => run.timeout = time()?,
            "--var" => run.variables.push(assignment(&value)?),
            "--tick" => run.tick = time()?,
            "--priority" => run.normal_priority = word(name, &value, &[("auto", false), ("normal", true)])?,
            _ => {
                let words = [("json", Progress::Json), ("text", Progress::Text), ("none", Progress::None)];
                run.progress = word(name, &value, &words)?;
            }
        }
    }
    complete(run)
}

fn complete(mut run: RunOptions) -> Result<Command, String> {
    const LONGEST: u64 = 366 * 24 * 3600 * 1_000_000_000;
    if run.url.is_empty() {
        return Err("--url is missing: the server's address, e.g. --url http://127.0.0.1:9080/brokerage".into());
    }
    if run.out.as_os_str().is_empty() {
        return Err("--out is missing: the directory for the results".into());
    }
    if run.steady == 0 {
        return Err("--steady must be longer than 0s".into());
    }
    if [run.ramp_up, run.steady, run.ramp_down].iter().any(|t| *t > LONGEST) {
        return Err("a phase cannot be longer than a year".into());
    }
    if run.timeout == 0 {
        return Err("--timeout must be longer than 0s".into());
    }
    match run.model {
        Model::Closed => {
            if run.rate.is_some() {
                return Err("--rate belongs to --arrivals constant or poisson; closed arrivals have --users".into());
            }
            let users = *run.users.get_or_insert(1);
            if users > run.max_sessions as u64 {
                return Err(format!("--users {users} is above --max-sessions {}", run.max_sessions));
            }
        }
        model => {
            if run.users.is_some() {
                return Err(format!("--users belongs to --arrivals closed; {} arrivals have --rate", model.as_str()));
            }
            if run.rate.is_none() {
                return Err(format!("--rate is missing: --arrivals {} needs it", model.as_str()));
            }
        }
    }
    Ok(Command::Run(Box::new(run)))
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
            Some(value) => value,
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
        .ok_or_else(|| format!("{option} {text}: not one of {}{}", valid.join(", "), hint(text, &valid)))
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
        let line = "run s.yaml --url http://h/ --arrivals poisson --rate=12.5 --ramp-up 1s --steady 500ms --tick 1ms \
                    --var think=0ms --var a=b=c --progress json --max-sessions 5 --seed 9 --out d";
        let Ok(Command::Run(run)) = parsed(line) else { panic!("not a run: {:?}", parsed(line)) };
        assert_eq!((run.model, run.rate, run.users), (Model::Poisson, Some(12.5), None));
        assert_eq!((run.steady, run.tick, run.seed), (500_000_000, 1_000_000, 9));
        assert_eq!(run.variables[1], ("a".to_string(), "b=c".to_string()));
        assert_eq!(run.progress, Progress::Json);
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
            ("run s.yaml --url http://h --out d --arrivals poisson", "--rate is missing"),
            ("run s.yaml --url http://h --out d --arrivals poison --rate 1", "did you mean `poisson`"),
            ("run s.yaml --url http://h --out d --arrivals constant --rate 1 --users 2", "belongs to"),
            ("run s.yaml --url http://h --out d --steady 0s", "longer than 0s"),
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
