//! One run: scenario and options in, a directory of results out.

use crate::arrivals::profile::Profile;
use crate::arrivals::{replay, Model, Phases};
use crate::cli::{Priority, RunOptions, Stamps, Tell};
use crate::control;
use crate::engine::{rise, Engine, Settings};
use crate::measure::progress::Progress;
use crate::measure::report;
use crate::measure::rows::Own;
use crate::measure::summary::{summary, Inputs};
use crate::measure::verdict::{self, Bounds};
use crate::measure::whole::{self, Steady};
use crate::measure::writer::{self, Files, Outlet};
use crate::measure::{document, earlier};
use crate::scenario::{read, Populations, Scenario};
use crate::sys::idle::{self, CpuLatency};
use crate::sys::process::{catch_signals, raise_file_limit, raise_priority_of_thread, Cpu, Scheduling};
use crate::transport::{Http, Transport};
use crate::units::seconds;
use crate::Failure;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

/// Files besides connections that the process holds open.
const OTHER_FILES: u64 = 32;
/// Slices that may wait for the writer before the loop waits for it.
const SLICES: usize = 64;

/// Reads the scenario and all that the options name, as a run does; starts and writes nothing.
pub fn check(options: &RunOptions) -> Result<Scenario, Failure> {
    let scenario = read::load(&options.scenario, &options.variables).map_err(Failure::Usage)?;
    let settings = settings(options, &scenario.populations).map_err(Failure::Usage)?;
    time_to_act(&scenario, &settings)?;
    enough_files(&scenario, &settings)?;
    Ok(scenario)
}

/// How a run ended whose results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// At its planned end, and what it measured passed or not.
    Passed,
    Failed,
    /// By a signal or a line that said so.
    Early,
}

/// Runs it.
pub fn run(options: &RunOptions) -> Result<Ended, Failure> {
    let scenario = read::load(&options.scenario, &options.variables).map_err(Failure::Usage)?;
    let settings = settings(options, &scenario.populations).map_err(Failure::Usage)?;
    time_to_act(&scenario, &settings)?;
    std::fs::create_dir_all(&options.out)
        .map_err(|e| Failure::Usage(format!("--out {}: cannot be made: {e}", options.out.display())))?;
    if !options.replace {
        earlier::refuse(&options.out).map_err(Failure::Usage)?;
    }
    catch_signals().map_err(|e| Failure::Run(format!("cannot catch signals: {e}")))?;
    enough_files(&scenario, &settings)?;
    drive(options, &scenario, &settings)
}

/// Users who pause for longer than there is load say nothing of a steady state.
fn time_to_act(scenario: &Scenario, settings: &Settings) -> Result<(), Failure> {
    let load = settings.phases.ramp_up + settings.phases.steady;
    let longest = scenario.populations.iter().map(|population| population.pause.mean).max().unwrap_or(0);
    if settings.model == Model::Closed && longest > load {
        return Err(Failure::Usage(format!(
            "a user pauses for {}s between transactions, but ramp-up and steady phase take {}s: shorten `pause` of the \
             scenario, or lengthen --steady",
            seconds(longest),
            seconds(load)
        )));
    }
    Ok(())
}

fn enough_files(scenario: &Scenario, settings: &Settings) -> Result<(), Failure> {
    let transport = &settings.transport;
    if scenario.has_calls() && (transport.http == Http::One || transport.http == Http::Auto && transport.tls.is_none())
    {
        return Err(Failure::Usage("gRPC goes over HTTP/2: add --http 2".into()));
    }
    if scenario.has_sockets() && settings.transport.shared.is_some() {
        return Err(Failure::Usage("a WebSocket belongs to one session: leave out --connections shared".into()));
    }
    let limit = raise_file_limit();
    let needed = needs(settings) * u64::from(scenario.connections());
    let needed = needed.min(settings.transport.most_shared().unwrap_or(u64::MAX));
    if needed + OTHER_FILES > limit {
        return Err(Failure::Usage(format!(
            "the sessions need {needed} open files, but the limit is {limit}: raise `ulimit -n` or lower --users or \
             --max-sessions"
        )));
    }
    Ok(())
}

/// Sessions that may be there at once.
fn needs(settings: &Settings) -> u64 {
    match settings.model {
        Model::Closed => settings.share.count(settings.users),
        _ => settings.max_sessions as u64,
    }
}

fn settings(options: &RunOptions, populations: &Populations) -> Result<Settings, String> {
    let users = match options.model {
        Model::Closed => options.users.or(populations.users()).unwrap_or(1),
        _ => 0,
    };
    if users > options.max_sessions {
        let whose = if options.users.is_some() { "--users" } else { "the scenario's populations:" };
        return Err(format!("{whose} {users} is above --max-sessions {}", options.max_sessions));
    }
    let recorded = match &options.replay {
        Some(path) => replay::read(path, options.speed)?,
        None => Vec::new(),
    };
    let last = recorded.last().copied().unwrap_or(0);
    let steady = options.steady.unwrap_or_else(|| last.saturating_sub(options.ramp_up) + 1);
    let phases = Phases { ramp_up: options.ramp_up, steady, ramp_down: options.ramp_down };
    let windows = options.windows.as_ref().map(|(windows, _)| windows.clone());
    let given = options.profile.as_ref().map(|(profile, _)| profile.clone());
    let own = options.share.count(users);
    // Rounded up: the caps of all drivers together are never below the one asked for.
    let max_sessions = options.share.count_up(options.max_sessions).max(own) as usize;
    let most = options.transport.most_connections.map_or(max_sessions, |all| options.share.count_up(all) as usize);
    let names: Vec<&str> = populations.iter().map(|one| one.name.as_str()).filter(|name| !name.is_empty()).collect();
    let unstamped = options.stamps == Stamps::Loop;
    Ok(Settings {
        transport: Transport::new(&options.transport, most, &names)?,
        model: options.model,
        users,
        profile: match (options.rate, given) {
            (Some(rate), None) => Some(Profile::ramp(rate, rise(&phases, windows.as_ref()))),
            (_, given) => given,
        },
        bursts: options.bursts.as_ref().map(|(bursts, _)| *bursts),
        windows,
        recorded,
        phases,
        seed: options.seed,
        max_sessions,
        share: options.share,
        timeout: options.timeout,
        grid: options.grid,
        lead: options.lead,
        gather: if unstamped { 0 } else { options.gather },
        unstamped,
        records: options.transactions,
    })
}

fn drive(options: &RunOptions, scenario: &Scenario, settings: &Settings) -> Result<Ended, Failure> {
    let start_at = options.start_at.unwrap_or(control::StartAt::Now);
    let told = matches!(start_at, control::StartAt::Told);
    let moments = (told || options.dead_man_switch.is_some())
        .then(|| control::listen(options.dead_man_switch.map(Duration::from_nanos)));
    let (full, filled) = mpsc::sync_channel(SLICES);
    let (emptied, empty) = mpsc::channel();
    let names: Vec<String> = scenario.transactions.iter().map(|t| t.name.clone()).collect();
    let engine = Engine::new(scenario, settings, Outlet { full, empty })
        .map_err(|e| Failure::Run(format!("cannot set up the loop: {e}")))?;
    let latency = options.cpu_latency.map(|ns| CpuLatency::request((ns / 1000) as i32)).transpose();
    let latency = latency.map_err(|e| Failure::Run(format!("--cpu-latency: cannot use {}: {e}", idle::FILE)))?;
    let allowed = latency.as_ref().map(CpuLatency::microseconds);
    if told {
        println!("{{\"ready\":true}}");
    }
    let Some((started, start)) = control::wait(start_at, moments.as_ref()).map_err(Failure::Run)? else {
        return Ok(Ended::Early);
    };
    let cannot_write = |e: std::io::Error| Failure::Run(format!("cannot write to {}: {e}", options.out.display()));
    if options.replace {
        earlier::remove(&options.out).map_err(cannot_write)?;
        earlier::remove_parts(&options.out).map_err(cannot_write)?;
    }
    let mut scheduling = Scheduling::Normal;
    let files = Files {
        directory: &options.out,
        names: &names,
        started,
        progress: options.progress,
        phases: settings.phases,
        records: settings.records,
    };
    let (result, totals) = std::thread::scope(|scope| {
        let files = &files;
        let writer = scope.spawn(move || writer::run(files, &filled, &emptied));
        if options.priority == Priority::Auto {
            scheduling = raise_priority_of_thread(); // after the writer began: it keeps its own
        }
        let result = engine.run(start);
        (result, writer.join())
    });
    drop(latency);
    let totals = totals.map_err(|_| Failure::Run("the writing thread failed".into()))?.map_err(cannot_write)?;
    let result = result.map_err(|e| Failure::Run(format!("the loop failed: {e}")))?;
    let inputs = Inputs {
        scenario,
        url: &options.transport.url(),
        seed: options.seed,
        share: options.share,
        model: options.model,
        users: (settings.model == Model::Closed).then_some(settings.users),
        rate: options.rate,
        profile: options.profile.as_ref().map(|(_, text)| text.as_str()),
        bursts: options.bursts.as_ref().map(|(_, text)| text.as_str()),
        replay: options.replay.as_deref(),
        windows: options.windows.as_ref().map(|(_, text)| text.as_str()),
        loaded: settings.loaded(),
        silence: settings.loaded_from(result.last_ok),
        phases: settings.phases,
        timeout: settings.timeout,
        grid: options.grid,
        started_unix_ns: started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos(),
        variables: &options.variables,
        scheduling,
        cpu_latency: allowed,
    };
    let steady = Steady {
        start: Duration::from_nanos(settings.phases.ramp_up),
        length: Duration::from_nanos(totals.steady_ns),
        transactions: &totals.steady,
        own: Own { lag: &totals.lag, timer: &totals.timer, reading: &totals.reading },
    };
    whole::write(&options.out, started, &names, &steady).map_err(cannot_write)?;
    let mut value = summary(&inputs, &result, &totals, Cpu::of_process());
    verdict::judge(&mut value, &options.bounds);
    document::write(&options.out, &value).map_err(cannot_write)?;
    if options.verdict == Tell::Exit {
        tell(&report::text(&value, &options.out), options.progress);
    }
    Ok(match (result.interrupted, options.verdict) {
        (true, _) => Ended::Early,
        (false, Tell::Exit) if !verdict::passed(&value) => Ended::Failed,
        _ => Ended::Passed,
    })
}

/// Where people look, unless a program reads there. Nobody may be left to read it.
fn tell(text: &str, progress: Progress) {
    let _ = match progress {
        Progress::Json => std::io::stderr().write_all(text.as_bytes()),
        _ => std::io::stdout().write_all(text.as_bytes()),
    };
}

/// Judges the summary in `directory`, adds the verdict and prints it beside such progress; whether the run passed.
pub fn judge(directory: &Path, bounds: &Bounds, told: Option<Progress>) -> Result<bool, Failure> {
    let mut value = document::read(directory).map_err(Failure::Run)?;
    verdict::judge(&mut value, bounds);
    document::write(directory, &value)
        .map_err(|e| Failure::Run(format!("{}: summary.json cannot be written: {e}", directory.display())))?;
    if let Some(progress) = told {
        tell(&report::text(&value, directory), progress);
    }
    Ok(verdict::passed(&value))
}
