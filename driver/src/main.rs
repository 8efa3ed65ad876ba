use leadline_load::cli::{parse, Command, HELP};
use leadline_load::{run, scenario, sys, Failure};
use std::process::exit;

fn main() {
    let arguments: Vec<String> = std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    let result = parse(&arguments).map_err(Failure::Usage).and_then(execute);
    match result {
        Ok(code) => exit(code),
        Err(failure) => {
            for line in failure.message().lines() {
                eprintln!("leadline-load: {line}");
            }
            exit(failure.exit_code());
        }
    }
}

fn execute(command: Command) -> Result<i32, Failure> {
    match command {
        Command::Help => print!("{HELP}"),
        Command::Version => println!("leadline-load {}", env!("CARGO_PKG_VERSION")),
        Command::Schema => print!("{}", scenario::SCHEMA),
        Command::Host => sys::host::answer(std::io::stdin().lock(), std::io::stdout().lock())
            .map_err(|e| Failure::Run(format!("standard output: {e}")))?,
        Command::Check { scenario, variables } => {
            let read = scenario::read::load(&scenario, &variables).map_err(Failure::Usage)?;
            println!("{}: scenario {}, {} transactions", scenario.display(), read.name, read.transactions.len());
        }
        Command::CheckRun(options) => {
            let read = run::check(&options)?;
            println!(
                "{}: scenario {}, {} transactions",
                options.scenario.display(),
                read.name,
                read.transactions.len()
            );
        }
        Command::Run(options) => {
            if !run::run(&options)? {
                return Ok(130);
            }
        }
    }
    Ok(0)
}
