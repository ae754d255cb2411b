//! The terminal: taken, drawn on, and given back as it was, whatever ends the watching: a key, SIGINT, SIGTERM, SIGHUP, a
//! terminal that has gone, a panic.

use std::io::{self, IsTerminal};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::Said;
use super::draw::{Chosen, Page, draw};
use super::view::{View, Watch};

/// How often it is looked whether something was said, or a signal came.
const TICK: Duration = Duration::from_millis(100);

/// Lines of a page key.
const PAGE_LINES: usize = 10;

/// Gives the terminal back when it goes, at a panic too: `ratatui::init` sees to that by a hook.
struct Taken;

impl Drop for Taken {
    fn drop(&mut self) {
        // Where the terminal has gone there is nothing to give back.
        let _ = ratatui::try_restore();
    }
}

/// How long the end may take once it is wanted.
const END_WITHIN: Duration = Duration::from_millis(500);

/// Sees to the end where the terminal has gone: whoever waits for its next key waits for ever then.
fn follow(ended: Arc<AtomicBool>) -> anyhow::Result<()> {
    let watcher = move || {
        while !ended.load(Ordering::Relaxed) && io::stdout().is_terminal() {
            thread::sleep(TICK);
        }
        ended.store(true, Ordering::Relaxed);
        thread::sleep(END_WITHIN);
        let _ = ratatui::try_restore();
        process::exit(0);
    };
    thread::Builder::new().name("keyfold-top-end".to_owned()).spawn(watcher).context("can't start a thread")?;
    Ok(())
}

/// Shows it until whoever watches has seen enough.
pub(super) fn run(mut watch: Watch, said: &Receiver<Said>) -> anyhow::Result<()> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ended)).context("can't follow signals")?;
    }
    follow(Arc::clone(&ended))?;
    let mut terminal = ratatui::try_init().context("the terminal can't be drawn on; --once prints text")?;
    let _taken = Taken;
    let mut chosen = Chosen::default();
    let (mut view, mut is_due) = (View::of(&watch), true);
    while !ended.load(Ordering::Relaxed) {
        let mut has_news = false;
        for (index, look) in said.try_iter() {
            watch.take(index, look);
            has_news = true;
        }
        if has_news && !chosen.is_held {
            view = View::of(&watch);
            is_due = true;
        }
        if is_due {
            let mut most = 0;
            terminal.draw(|frame| most = draw(frame, &view, chosen)).map_err(gone)?;
            chosen.scrolled = chosen.scrolled.min(most);
            is_due = false;
        }
        if !event::poll(TICK).map_err(gone)? {
            continue;
        }
        match event::read().map_err(gone)? {
            Event::Key(key) if key.kind != KeyEventKind::Release => match press(key, chosen) {
                Some(next) => {
                    if chosen.is_held && !next.is_held {
                        view = View::of(&watch);
                    }
                    chosen = next;
                }
                None => return Ok(()),
            },
            _ => {}
        }
        is_due = true;
    }
    Ok(())
}

/// A terminal that has gone is no failure: whoever watched has.
fn gone(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::NotConnected => io::ErrorKind::BrokenPipe.into(),
        // EIO, which a terminal gives whose other end is closed.
        _ if error.raw_os_error() == Some(5) => io::ErrorKind::BrokenPipe.into(),
        _ => error,
    }
}

/// What is chosen after a key; none is to quit.
pub(super) fn press(key: KeyEvent, mut chosen: Chosen) -> Option<Chosen> {
    let page = |chosen: Chosen, page| {
        let page = if chosen.page == page { Page::All } else { page };
        Chosen { page, scrolled: 0, ..chosen }
    };
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return if matches!(key.code, KeyCode::Char('c' | 'd')) { None } else { Some(chosen) };
    }
    match key.code {
        KeyCode::Esc if chosen.page != Page::All => chosen = page(chosen, chosen.page),
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => return None,
        KeyCode::Char('p' | ' ') => chosen.is_held = !chosen.is_held,
        KeyCode::Char('w') => chosen = page(chosen, Page::Warnings),
        KeyCode::Char('h' | '?') => chosen = page(chosen, Page::Help),
        KeyCode::Char('r') => chosen.sort.ascending = !chosen.sort.ascending,
        KeyCode::Left | KeyCode::Char('<') => chosen.sort = chosen.sort.moved(false),
        KeyCode::Right | KeyCode::Char('>') => chosen.sort = chosen.sort.moved(true),
        KeyCode::Up => chosen.scrolled = chosen.scrolled.saturating_sub(1),
        KeyCode::Down => chosen.scrolled += 1,
        KeyCode::PageUp => chosen.scrolled = chosen.scrolled.saturating_sub(PAGE_LINES),
        KeyCode::PageDown => chosen.scrolled += PAGE_LINES,
        KeyCode::Home => chosen.scrolled = 0,
        _ => {}
    }
    Some(chosen)
}
