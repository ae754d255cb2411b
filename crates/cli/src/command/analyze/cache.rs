//! `keyfold analyze --trace` and `--watch`: what caches find of requests, instead of what keys take.

use std::io::Write;

use anyhow::Context;
use keyfold_report::page::Page;
use keyfold_report::paper::Paper;
use keyfold_server::interrupt::Interrupt;

use crate::config::analyze::Analyze;
use crate::config::trace::Trace;
use crate::trace;

pub(super) fn run(analyze: &Analyze, requests: &Trace, interrupt: &Interrupt, out: &mut Paper) -> anyhow::Result<()> {
    let forecast = trace::forecast(requests, interrupt)?;
    if let Some(path) = &analyze.flags.html {
        let mut page = Page::new("What a cache would find");
        page.preformatted(&trace::text(&forecast, keyfold_report::room::Room::ENDLESS));
        page.plots(&trace::plots(&forecast));
        std::fs::write(path, page.finish()).with_context(|| format!("can't write {}", path.display()))?;
    }
    if analyze.flags.json {
        out.whole(format_args!("{:#}", trace::json(&forecast)))?;
    } else {
        writeln!(out, "{}", trace::text(&forecast, out.room()))?;
        if let Some(path) = &analyze.flags.html {
            writeln!(out, "\nreport: {}", path.display())?;
        }
    }
    Ok(out.flush()?)
}
