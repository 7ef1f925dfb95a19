//! What a tool says while it works goes to the container's log, as without us, and its end is kept: why it failed belongs into
//! the report. Nothing here fails, and a tool is never kept from speaking: it would be killed by its own words.

use std::{
    io::{self, PipeReader, Read, Write},
    process::Command,
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::Duration,
};

/// How much of the end is kept; a stack trace may follow the words that matter.
const KEPT: usize = 16 << 10;
/// How many letters are told of it.
const LONGEST: usize = 500;
/// A tool that has ended says nothing more, but a process that it left behind may hold its standard error.
const PATIENCE: Duration = Duration::from_secs(1);
/// How the line begins that says why: etcdutl's own, and one of Go.
const BEGINNINGS: [&str; 2] = ["Error: ", "panic: "];

/// The end of what a tool says.
pub(super) struct Words(Receiver<Vec<u8>>);

/// Listens to the standard error of what is about to be started.
pub(super) fn listen(command: &mut Command) -> Result<Words, String> {
    let (reader, writer) = io::pipe().map_err(|error| format!("cannot make a pipe: {error}"))?;
    command.stderr(writer);
    let (tell, told) = mpsc::channel();
    thread::spawn(move || pass_on(reader, &tell));
    Ok(Words(told))
}

impl Words {
    /// Why it failed, in its own words, once it has ended.
    pub(super) fn last(self) -> Option<String> {
        self.0
            .recv_timeout(PATIENCE)
            .ok()
            .and_then(|end| pick(&end))
    }
}

fn pass_on(mut reader: PipeReader, tell: &Sender<Vec<u8>>) {
    let (mut piece, mut end) = ([0; 4096], Vec::new());
    loop {
        let said = match reader.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => piece.get(..length).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        // Nothing can be reported when standard error is closed.
        drop(io::stderr().lock().write_all(said));
        end.extend_from_slice(said);
        end.drain(..end.len().saturating_sub(KEPT));
    }
    // The receiver is gone when the tool was given up.
    drop(tell.send(end));
}

/// The line that says why, or else the last one.
fn pick(said: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(said);
    let lines = || {
        text.lines()
            .rev()
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
    let says_why = |line: &&str| BEGINNINGS.iter().any(|begin| line.starts_with(begin));
    let line = lines().find(says_why).or_else(|| lines().next())?;
    Some(line.chars().take(LONGEST).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_says_why_is_told_and_is_not_endless() {
        let told = |text: &str| pick(text.as_bytes());
        assert_eq!(told(""), None);
        assert_eq!(told(" \n\n"), None);
        assert_eq!(told("a\nlast\n"), Some("last".into()));
        let text = "info\tError: not this\nError: no space\nUsage:\n  etcdutl\n";
        assert_eq!(told(text), Some("Error: no space".into()));
        let text = "info\npanic: broken\n\ngoroutine 1 [running]:\nmain.main()\n";
        assert_eq!(told(text), Some("panic: broken".into()));
        assert_eq!(told(&"ä".repeat(5000)).unwrap().chars().count(), LONGEST);
        assert!(pick(b"\xff\xfe").is_some());
    }

    #[test]
    fn what_a_process_says_last_is_heard_however_much_it_says() {
        let mut command = Command::new("sh");
        command.args(["-c", "seq 1 100000 >&2; echo Error: the end >&2; exit 3"]);
        let words = listen(&mut command).unwrap();
        let status = command.spawn().unwrap().wait().unwrap();
        drop(command);
        assert_eq!(status.code(), Some(3));
        assert_eq!(words.last(), Some("Error: the end".into()));
    }
}
