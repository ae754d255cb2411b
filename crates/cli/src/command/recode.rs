//! `keyfold recode`: stores values again by the codec in use, while clients go on, and frees the slots of others.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use keyfold_core::layout::{Layout, NamespaceIndex};
use keyfold_report::number::{count, plural, size};
use keyfold_report::paper::Paper;
use keyfold_server::interrupt::Interrupt;
use keyfold_server::layout::activate::activate;
use keyfold_server::layout::stored::{self, Stored};
use keyfold_server::layout::unneeded;
use keyfold_server::pace::Pace;
use keyfold_server::priority::while_giving_way;
use keyfold_server::{Nodes, Server};
use serde_json::json;

use crate::config::fold::check_names;
use crate::config::target;
use crate::flags::recode::RecodeFlags;
use crate::layout::writer;
use crate::moving::carry_out::{connect_anew, used_memory};
use crate::moving::drive::{self, Driven};
use crate::scan;

/// Some values can't be decoded, and stay as they are.
const LEFT: u8 = 3;

pub(crate) fn run(flags: &RecodeFlags, out: &mut Paper) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::listen()?;
    let mut nodes = Nodes::connect(&target::resolve(&flags.upstream))?;
    scan::warn(&nodes);
    writer::enter(nodes.home())?;
    let before = stored::read(nodes.home())?.context("the server has no layout, and no value has a codec")?;
    let namespaces = meant(&before.layout, &flags.namespace)?;
    let used_before = used_memory(&mut nodes)?;
    let mut pace = Pace::new(flags.pace.max_ops);
    let driven = while_giving_way(|| drive::recode(&mut nodes, &before.layout, &namespaces, &mut pace, &interrupt))?;
    connect_anew(&mut nodes)?;
    let freed = if driven.is_proof() { free(nodes.home(), &before, &namespaces)? } else { Freed::default() };
    let used_after = used_memory(&mut nodes)?;
    if flags.json {
        let report = json!({
            "seen": driven.seen,
            "recoded": driven.moved,
            "left": driven.left.left_count,
            "not_freed_because": driven.unproven,
            "freed_slots": freed.slots,
            "removed_dictionaries": freed.dictionaries,
            "memory": { "before_bytes": used_before, "after_bytes": used_after },
            "seconds": driven.took.as_secs_f64(),
        });
        out.whole(format_args!("{report:#}"))?;
    } else {
        report(&driven, &freed, (used_before, used_after), (&before.layout, flags.list), out)?;
    }
    Ok(if driven.is_proof() { ExitCode::SUCCESS } else { ExitCode::from(LEFT) })
}

fn meant(layout: &Layout, named: &[String]) -> anyhow::Result<Vec<NamespaceIndex>> {
    check_names(named, layout.namespaces().iter().map(|namespace| &namespace.keys), "the server's layout")?;
    let mut namespaces = Vec::new();
    for (index, namespace) in layout.iter() {
        let is_meant = named.is_empty() || named.iter().any(|name| namespace.keys.are_called(name));
        if !is_meant || !namespace.placement.holds_frames() {
            continue;
        }
        if namespace.is_moving() {
            bail!("keys of {} are being moved; finish that with `keyfold fold` first", namespace.keys);
        }
        // Without it all values would be stored as they are, and what they have been written by be freed.
        if let Some((_, why)) = namespace.codecs.unusable().find(|(slot, _)| Some(*slot) == namespace.codecs.written())
        {
            bail!(
                "values of {} can't be written by their codec: {why}, or have `keyfold train` make another. Nothing was \
                 changed",
                namespace.keys
            );
        }
        namespaces.push(index);
    }
    anyhow::ensure!(!namespaces.is_empty(), "no namespace has values that a codec could have written");
    Ok(namespaces)
}

#[derive(Default)]
struct Freed {
    slots: usize,
    dictionaries: usize,
}

/// Takes the slots away that no value names any more, and then their dictionaries.
fn free(server: &mut Server, before: &Stored, namespaces: &[NamespaceIndex]) -> anyhow::Result<Freed> {
    let freed = |index: &NamespaceIndex| {
        let mut codecs = before.layout.namespace(*index).codecs.clone();
        codecs.free_unwritten();
        (*index, codecs)
    };
    let slots =
        |layout: &Layout| layout.namespaces().iter().map(|namespace| namespace.codecs.iter().count()).sum::<usize>();
    let mut layout = before.layout.with_codecs(namespaces.iter().map(freed).collect());
    if layout != before.layout {
        layout = activate(server, Some(before), &layout)?;
    }
    let dictionaries = unneeded::remove_dictionaries(server, &layout)?;
    Ok(Freed { slots: slots(&before.layout) - slots(&layout), dictionaries })
}

fn report(
    driven: &Driven,
    freed: &Freed,
    (before, after): (u64, u64),
    (layout, list): (&Layout, usize),
    out: &mut Paper,
) -> anyhow::Result<()> {
    writeln!(
        out,
        "looked at {} in {:.1} s and stored {} again; memory: {} before, {} now",
        plural(driven.seen, "value"),
        driven.took.as_secs_f64(),
        count(driven.moved),
        size(before),
        size(after)
    )?;
    if freed.slots > 0 {
        writeln!(
            out,
            "freed {}, removed {}",
            plural(freed.slots as u64, "codec"),
            if freed.dictionaries == 1 {
                "1 dictionary".to_owned()
            } else {
                format!("{} dictionaries", freed.dictionaries)
            }
        )?;
    }
    if let Some(why) = &driven.unproven {
        writeln!(
            out,
            "\nall values that were found are stored again, but a failover could bring some back as they were: {why}. All \
             codec slots stay; run the same command again to free them"
        )?;
    }
    if driven.left.left_count > 0 {
        writeln!(
            out,
            "\n{} can't be decoded and stay as they are, and so do all slots. Put back what is missing where that is the \
             reason; else write these keys anew, or remove them. Then run the same command again:",
            plural(driven.left.left_count, "value")
        )?;
        for stays in driven.stays.iter().take(list) {
            writeln!(out, "  {}", stays.line(layout))?;
        }
    }
    Ok(())
}
