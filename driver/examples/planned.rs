//! Prints when things are due in a run of leadline-load, by its seed: nanoseconds since the start of the run, one a
//! line, with the name of the request that bench/driver gives it. For bench/driver.
//!
//! planned constant|poisson --rate 1000 --ramp-ms 2000 --steady-ms 8000 --seed 1
//! planned poisson ... --grid-us 1000
//! planned users --users 100 --cycle-ms 100 --ramp-ms 2000 --steady-ms 8000 --seed 1

use leadline_load::arrivals::profile::Profile;
use leadline_load::arrivals::{user_start, Model, Phases, Schedule};
use leadline_load::plan::Plan;
use leadline_load::scenario::read::parse;
use leadline_load::timer::on_grid;
use std::io::{BufWriter, Write};

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| -> u64 {
        let at = arguments.iter().position(|a| a == name).unwrap_or_else(|| panic!("{name} is missing"));
        arguments[at + 1].parse().unwrap_or_else(|_| panic!("{name}: not a whole number"))
    };
    let phases =
        Phases { ramp_up: option("--ramp-ms") * 1_000_000, steady: option("--steady-ms") * 1_000_000, ramp_down: 0 };
    let seed = option("--seed");
    let grid = if arguments.iter().any(|a| a == "--grid-us") { option("--grid-us") * 1000 } else { 0 };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let model = match arguments[0].as_str() {
        "constant" => Model::Constant,
        "poisson" => Model::Poisson,
        "users" => Model::Closed,
        other => panic!("{other}: constant, poisson or users"),
    };
    if model != Model::Closed {
        let profile = Profile::ramp(option("--rate") as f64, phases.ramp_up);
        for (number, due) in Schedule::new(model, &profile, None, &phases, seed).on(grid).enumerate() {
            writeln!(out, "/{} {due}", number + 1)?;
        }
        return out.flush();
    }
    let (users, cycle) = (option("--users"), option("--cycle-ms"));
    let text = format!(
        "scenario: users\npause: {{ kind: cycle, shape: exponential, mean: {cycle}ms }}\nmix: {{ get: 1 }}\n\
         transactions: {{ get: [{{ get: / }}] }}\n"
    );
    let scenario = parse(&text, &[]).expect("a valid scenario");
    let sessions = scenario.populations.of(1);
    for user in 0..users {
        let mut plan = Plan::new(seed, user + 1);
        let mut due = on_grid(user_start(user, users, phases.ramp_up), grid);
        for number in 1.. {
            let planned = on_grid(due, grid);
            if planned >= phases.steady_end() {
                break;
            }
            writeln!(out, "/{}/{number} {planned}", user + 1)?;
            plan.transaction(sessions);
            due += plan.pause(&sessions.pause);
        }
    }
    out.flush()
}
