//! A question to the person at the terminal.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use keyfold_report::paper::Paper;
use keyfold_server::interrupt::Interrupt;

/// So soon Ctrl-C is seen while a question waits for its answer.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Whether it is answered with yes. Ctrl-C is a no.
///
/// # Errors
/// Nobody is there to be asked.
pub(crate) fn ask(question: &str, interrupt: &Interrupt, out: &mut Paper) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("nothing was changed: say --yes to go on without being asked");
    }
    write!(out, "\n{question} [y/N] ")?;
    out.flush()?;
    // A read from the terminal goes on after a signal: it waits on a thread of its own.
    let (sender, answer) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        let _ = sender.send(io::stdin().lock().read_line(&mut line).map(|_| line));
    });
    loop {
        match answer.recv_timeout(LOOK_EVERY) {
            Ok(line) => return Ok(matches!(line.context("can't read the answer")?.trim(), "y" | "Y" | "yes")),
            Err(RecvTimeoutError::Timeout) if !interrupt.wanted() => {}
            Err(_) => {
                writeln!(out)?;
                return Ok(false);
            }
        }
    }
}
