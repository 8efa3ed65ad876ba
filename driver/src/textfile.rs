//! Files that an option or a scenario names: regular ones of a bounded size, whatever else the name stands for.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Longest line of a message, characters, and most lines.
const LONGEST: usize = 900;
const MOST: usize = 10;

/// The file, open for reading; never waits, as for the writer of a pipe. The error says why not.
pub fn open(path: &Path, most: u64) -> Result<File, String> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(|error| error.to_string())?;
    let found = file.metadata().map_err(|error| error.to_string())?;
    let kind = found.file_type();
    if !kind.is_file() {
        let name = match kind {
            _ if kind.is_dir() => "a directory",
            _ if kind.is_fifo() => "a pipe",
            _ => "a device",
        };
        return Err(format!("it is {name}, not a file"));
    }
    if found.len() > most {
        return Err(format!("larger than {} MiB", most >> 20));
    }
    Ok(file)
}

/// All of it. Files of the kernel have no length: what they hold is counted as it comes.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    open(path, most)?.take(most + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    match bytes.len() as u64 > most {
        true => Err(format!("larger than {} MiB", most >> 20)),
        false => Ok(bytes),
    }
}

/// The lines of a message as a terminal may show them: without control characters, cut in the middle where they are
/// long. What is quoted in them may be of any length and hold any characters.
pub fn shown(message: &str) -> Vec<String> {
    let count = message.lines().count();
    let more = (count > MOST).then(|| format!("and {} more lines", count - MOST));
    message.lines().take(MOST).map(shown_line).chain(more).collect()
}

fn shown_line(line: &str) -> String {
    let line: Vec<char> = line.chars().map(|c| if hidden(c) { '?' } else { c }).collect();
    match line.len() > LONGEST {
        true => line[..LONGEST / 2]
            .iter()
            .chain(&[' ', '.', '.', '.', ' '])
            .chain(&line[line.len() - LONGEST / 3..])
            .collect(),
        false => line.into_iter().collect(),
    }
}

/// Control characters, and those that turn the direction of text or end a line.
fn hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_folders_are_no_files() {
        for (name, part) in [("/dev/zero", "a device"), ("/", "a directory"), ("/nowhere", "No such file")] {
            let error = read(Path::new(name), 1 << 20).expect_err(name);
            assert!(error.contains(part), "{error}");
        }
        assert!(read(Path::new("/proc/self/status"), 1 << 20).is_ok());
        assert_eq!(read(Path::new("/proc/self/status"), 8), Err("larger than 0 MiB".into()));
    }

    #[test]
    fn messages_are_bounded_and_hold_no_control_characters() {
        assert_eq!(shown("a\x1b[2J\u{202e}b\nc"), ["a?[2J?b", "c"]);
        let told = shown(&format!("{}\n{}", "é".repeat(100_000), "x\n".repeat(500)));
        assert_eq!((told.len(), told[10].as_str()), (11, "and 491 more lines"));
        assert_eq!(told[0].chars().count(), 450 + 5 + 300);
    }
}
