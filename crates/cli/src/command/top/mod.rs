//! `keyfold top`: what keyfolds and the server behind do, as it goes on.
//!
//! ```text
//! source ──┐ a thread each: asks, again and again
//! source ──┼──▶ looks ──▶ view ──┬─▶ draw ──▶ screen    on a terminal
//! source ──┘    two each         └─▶ text               once, as text
//! ```
//! | file | what it does |
//! | --- | --- |
//! | `source.rs` | asks a keyfold, by its clients' or its operators' address, or a server |
//! | `behind.rs` | what a server knows of keyfolds, moves and what is saved |
//! | `view.rs` | figures of two looks at each source, by keyfold and by namespace |
//! | `caches.rs` | a cache in a line |
//! | `headline.rs` | what stands above all |
//! | `columns.rs` | tables: which columns there are, which are left out first, what they are sorted by |
//! | `figures.rs` | durations and shares as they are read |
//! | `names.rs` | names that harm no terminal |
//! | `text.rs` | a view as text |
//! | `draw.rs` | a view on a screen of any size |
//! | `screen.rs` | the terminal: taken, drawn on, and given back whatever happens |

mod behind;
mod caches;
mod columns;
mod draw;
mod figures;
mod headline;
mod names;
mod screen;
mod source;
#[cfg(test)]
mod tests;
mod text;
mod view;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use anyhow::Context;

use crate::config::top::{Source, Top};
use keyfold_report::paper::Paper;
use source::{Asker, Look};
use view::{View, Watch};

/// What a source said, and which it is.
type Said = (usize, Look);

pub(crate) fn run(top: Top, out: &mut Paper) -> anyhow::Result<ExitCode> {
    let Top { sources, interval, once, max_ops } = top;
    let names: Vec<String> = sources.iter().map(name).collect();
    let (sender, said) = mpsc::channel();
    for (index, source) in sources.into_iter().enumerate() {
        let asker = Asker::new(source, max_ops);
        let sender = sender.clone();
        // It ends with its next word once nobody listens, or with the program.
        thread::Builder::new()
            .name(format!("keyfold-top-{index}"))
            .spawn(move || ask_on(index, asker, interval, &sender))
            .context("can't start a thread")?;
    }
    let mut watch = Watch::new(names, interval);
    if once || !std::io::stdout().is_terminal() {
        look_twice(&mut watch, &said);
        let view = View::of(&watch);
        write!(out, "{}", text::render(&view, out.room()))?;
        return Ok(if view.sources.iter().all(|source| source.trouble.is_some()) {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        });
    }
    screen::run(watch, &said)?;
    Ok(ExitCode::SUCCESS)
}

/// As people name it, without secrets.
fn name(source: &Source) -> String {
    match source {
        Source::Operators(operators) => operators.address().to_string(),
        Source::Server(target) => target.address.to_string(),
    }
}

/// Asks until nobody listens.
fn ask_on(index: usize, mut asker: Asker, interval: Duration, sender: &Sender<Said>) {
    while sender.send((index, asker.look())).is_ok() {
        thread::sleep(interval);
    }
}

/// Waits until each has said something twice, or once that it can't be asked.
fn look_twice(watch: &mut Watch, said: &Receiver<Said>) {
    while !watch.has_seen_all_twice() {
        let Ok((index, look)) = said.recv() else { return };
        watch.take(index, look);
    }
}
