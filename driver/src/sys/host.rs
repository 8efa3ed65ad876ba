//! `leadline-load host`: what another host needs to know of this one before drivers run on both, and its clock.

use std::io::{self, BufRead, Write};
use std::time::SystemTime;

/// Prints one JSON line about this host, then the unix time in nanoseconds for every line read, until the input ends.
pub fn answer(input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let told = serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "cpus": cpus,
        "open_files": super::process::raise_file_limit(),
        "name": std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim(),
    });
    writeln!(output, "{told}")?;
    output.flush()?;
    for line in input.lines() {
        line?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        writeln!(output, "{}", now.as_nanos())?;
        output.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_of_itself_and_its_clock() {
        let mut output = Vec::new();
        answer("\n\n".as_bytes(), &mut output).expect("written");
        let text = String::from_utf8(output).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        let told: serde_json::Value = serde_json::from_str(lines[0]).expect("JSON");
        assert!(told["cpus"].as_u64() >= Some(1) && told["open_files"].as_u64() >= Some(1));
        let times: Vec<u128> = lines[1..].iter().map(|line| line.parse().expect("a time")).collect();
        assert!(times.len() == 2 && times[0] <= times[1]);
    }
}
