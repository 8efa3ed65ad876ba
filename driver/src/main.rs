use leadline_load::cli::{parse, Command};
use leadline_load::measure::progress::Progress;
use leadline_load::merge::merge;
use leadline_load::run::{check, judge, run, Ended};
use leadline_load::textfile::shown;
use leadline_load::{processes, scenario, sys, Failure};
use std::io::Write;
use std::process::exit;

fn main() {
    let result = parse(std::env::args_os().skip(1)).and_then(|command| command.map_or(Ok(0), execute));
    match result {
        Ok(code) => exit(code),
        Err(failure) => {
            for line in shown(failure.message()) {
                let _ = writeln!(std::io::stderr(), "leadline-load: {line}"); // nobody may be left to read it
            }
            exit(failure.exit_code());
        }
    }
}

fn execute(command: Command) -> Result<i32, Failure> {
    match command {
        Command::Schema => print(scenario::SCHEMA),
        Command::Host => sys::host::answer(std::io::stdin().lock(), std::io::stdout().lock())
            .map_err(|e| Failure::Run(format!("standard output: {e}")))?,
        Command::Perfmap { pid } => {
            sys::perfmap::write(pid).map_err(|e| Failure::Run(format!("process {pid}: {e}")))?;
        }
        Command::Check { scenario, variables } => {
            let read = scenario::read::load(&scenario, &variables).map_err(Failure::Usage)?;
            let (path, name, count) = (scenario.display(), &read.name, read.transactions.len());
            print(&format!("{path}: scenario {name}, {count} transactions\n"));
        }
        Command::Merge(options) => {
            merge(&options)?;
            print(&format!("{}: results of {} drivers merged\n", options.out.display(), options.parts.len()));
        }
        Command::Judge { directory, bounds } => {
            return Ok(i32::from(!judge(&directory, &bounds, Some(Progress::None))?));
        }
        Command::Run(options) if options.dry_run => {
            let read = check(&options)?;
            let (path, name, count) = (options.scenario.display(), &read.name, read.transactions.len());
            print(&format!("{path}: scenario {name}, {count} transactions\n"));
        }
        Command::Run(options) => {
            let ended = match options.processes {
                1 => run(&options),
                _ => processes::run(&options, &std::env::args_os().skip(1).collect::<Vec<_>>()),
            };
            return Ok(match ended? {
                Ended::Passed => 0,
                Ended::Failed => 1,
                Ended::Early => 130,
            });
        }
    }
    Ok(0)
}

/// To standard output, which may be closed.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
