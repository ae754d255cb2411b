//! `keyfold train`: looks at a namespace's values, and has them written by a codec that was made for them.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::{Context, bail};
use keyfold_core::codec::CodecRule;
use keyfold_core::layout::{Layout, NamespaceIndex};
use keyfold_report::paper::Paper;
use keyfold_server::Nodes;
use keyfold_server::interrupt::Interrupt;
use keyfold_server::layout::activate::activate;
use keyfold_server::layout::{dictionaries, stored};
use keyfold_server::pace::Pace;
use serde_json::json;

use crate::codec::samples::gather_of_all;
use crate::codec::settle::{self, Settled};
use crate::config::fold::check_names;
use crate::config::train::Train;
use crate::layout::writer;
use crate::scan;

pub(crate) fn run(config: &Train, out: &mut Paper) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;
    let mut nodes = Nodes::connect(&config.target)?;
    scan::warn(&nodes);
    writer::enter(nodes.home())?;
    let before = stored::read(nodes.home())?.context(
        "the server has no layout yet; bring one with `keyfold fold` or `keyfold layout push`, and train its codecs then",
    )?;
    let (wanted, namespaces) = meant(&before.layout, &config.flags.namespace, config.codec.as_ref())?;
    let mut pace = Pace::new(config.flags.pace.max_ops);
    let now = Some(&before.layout);
    let samples = gather_of_all(&mut nodes, now, &wanted, &namespaces, &mut pace, &interrupt)?;
    let settled = settle::by_samples(now, &wanted, samples, config.flags.force)?;
    let server = nodes.home();
    if !config.flags.json {
        for choice in &settled.choices {
            writeln!(out, "{}\n", choice.show(out.room()))?;
        }
    }
    let changes = settled.layout != before.layout;
    let is_changed = changes && !config.flags.dry_run;
    if is_changed {
        dictionaries::write(server, &settled.layout)?;
        activate(server, Some(&before), &settled.layout)?;
        // Whoever removes dictionaries that no layout named may have met these in between.
        dictionaries::write(server, &settled.layout)?;
    }
    if config.flags.json {
        let choices: Vec<_> = settled.choices.iter().map(crate::codec::choice::Choice::json).collect();
        let epoch = if is_changed { settled.layout.epoch() } else { before.layout.epoch() };
        return Ok(
            out.whole(format_args!("{:#}", json!({ "namespaces": choices, "changed": is_changed, "epoch": epoch.0 })))?
        );
    }
    report(&settled, changes, config.flags.dry_run, out)
}

/// The namespaces to train, and the layout that names their codecs.
fn meant(
    layout: &Layout,
    named: &[String],
    codec: Option<&CodecRule>,
) -> anyhow::Result<(Layout, BTreeSet<NamespaceIndex>)> {
    check_names(named, layout.namespaces().iter().map(|namespace| &namespace.keys), "the server's layout")?;
    let mut wanted = layout.clone();
    let mut namespaces = BTreeSet::new();
    for (index, namespace) in layout.iter() {
        let is_named = named.iter().any(|name| namespace.keys.are_called(name));
        if !named.is_empty() && !is_named {
            continue;
        }
        let holds_frames = namespace.placement.holds_frames();
        if is_named && !holds_frames {
            bail!(
                "keys of {} are kept as they are, without frames; give the namespace a bucket or a codec in a layout \
                 file, and bring it with `keyfold fold`",
                namespace.keys
            );
        }
        if let Some(codec) = codec {
            wanted = wanted.with_codec_rule(index, codec.clone());
        }
        if holds_frames && !wanted.namespace(index).codec.is_none() {
            namespaces.insert(index);
        } else if is_named {
            bail!("{} has no codec in the layout; say which with --codec", namespace.keys);
        }
    }
    anyhow::ensure!(
        !namespaces.is_empty(),
        "no namespace of the server's layout has a codec; name one with --namespace and --codec"
    );
    Ok((wanted, namespaces))
}

fn report(settled: &Settled, changes: bool, dry_run: bool, out: &mut Paper) -> anyhow::Result<()> {
    match (changes, dry_run) {
        (false, _) => writeln!(out, "nothing was changed")?,
        (true, true) => writeln!(out, "nothing was changed: this was a dry run")?,
        (true, false) => writeln!(
            out,
            "change number {} of the layout is in force: values are written by these codecs from now on. Those written \
             before stay readable as they are; `keyfold recode` stores them again",
            settled.layout.epoch()
        )?,
    }
    Ok(())
}
