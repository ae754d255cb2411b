//! `keyfold export`: every logical key as a line.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use keyfold_core::layout::Layout;
use keyfold_report::number::plural;
use keyfold_server::Nodes;
use keyfold_server::interrupt::Interrupt;
use keyfold_server::layout::stored;
use keyfold_server::pace::Pace;
use keyfold_server::priority;

use crate::config::export::Export;
use crate::layout::evidence::layout_in_force;
use crate::records::Record;
use crate::records::dump::Writer;
use crate::records::finding::Tally;
use crate::records::inquiry::{Payloads, Wants};
use crate::records::once::{Once, is_moving};
use crate::records::walk::{Manner, Sight, walk_all};
use crate::scan;

/// Values are missing that can't be read whole.
const LEFT_OUT: u8 = 3;
/// Findings that are named.
const LISTED: usize = 20;

pub(crate) fn run(config: &Export) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::listen()?;
    priority::give_way();
    let mut nodes = Nodes::connect(&config.target)?;
    scan::warn(&nodes);
    let before = layout_in_force(&mut nodes)?;
    let layout = before.clone().unwrap_or_default();
    let mut writer = Writer::create(config.out.as_deref())?;
    let mut written = Written { records: 0, findings: Tally::new(LISTED) };
    let around = write_all(config, &mut nodes, &layout, before.is_some(), &interrupt, &mut writer, &mut written)?;
    let place = config.out.as_ref().map_or_else(|| "standard output".to_owned(), |out| out.display().to_string());
    if !around {
        bail!(
            "interrupted after {}; {}",
            plural(written.records, "key"),
            match config.out {
                Some(_) => format!("{place} is as it was"),
                None => "the dump is not whole".to_owned(),
            }
        );
    }
    if stored::read(nodes.again()?.home())?.map(|stored| stored.layout) != before {
        bail!("the server's layout changed meanwhile, and keys may have been missed; run the export again");
    }
    writer.finish()?;
    written.report(&place)
}

struct Written {
    records: u64,
    findings: Tally,
}

fn write_all(
    config: &Export,
    nodes: &mut Nodes,
    layout: &Layout,
    folded: bool,
    interrupt: &Interrupt,
    writer: &mut Writer,
    written: &mut Written,
) -> anyhow::Result<bool> {
    let manner = Manner {
        layout,
        folded,
        draws: None,
        wants: Wants { payloads: Payloads::All, ..Wants::default() },
        forgetful: config.flags.allow_repeats,
        listpack_limits: (None, None),
        reads: &|_, _| true,
        stopped: &|| interrupt.wanted(),
        has_enough: &|| false,
    };
    let mut pace = Pace::new(config.flags.pace.max_ops);
    // A key that is moved from where the walk hasn't been to where it has is come by in another walk; one that goes the other
    // way twice.
    let is_any_moving = layout.moving().next().is_some();
    let mut once = Once::of(layout);
    let mut write = |record: &Record, written: &mut Written| -> anyhow::Result<()> {
        if config.flags.allow_repeats || once.is_first(record)? {
            written.records += 1;
            writer.write(record)?;
        }
        Ok(())
    };
    let around = walk_all(nodes, &config.databases, "exported", &manner, &mut pace, &mut |sight| {
        match sight {
            Sight::Record(record, _) => write(record, written)?,
            Sight::Finding(finding) => written.findings.add(finding),
            Sight::Bucket(..) | Sight::Expired(_) | Sight::Drawn { .. } => {}
        }
        Ok(())
    })?;
    if !around || !is_any_moving {
        return Ok(around);
    }
    let what = "looked through for keys that were moved meanwhile";
    walk_all(nodes, &config.databases, what, &manner, &mut pace, &mut |sight| match sight {
        Sight::Record(record, _) if is_moving(layout, &record.key) => write(record, written),
        _ => Ok(()),
    })
}

impl Written {
    /// Says what came of it, on stderr: standard output may be the dump.
    fn report(&self, place: &str) -> anyhow::Result<ExitCode> {
        let mut err = anstream::stderr();
        writeln!(err, "{} written to {place}", plural(self.records, "key"))?;
        let left_out = self.findings.left_out();
        if left_out == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        writeln!(err, "{} left out:\n{}", plural(left_out, "value"), self.findings)?;
        writeln!(err, "keyfold verify looks closer")?;
        Ok(ExitCode::from(LEFT_OUT))
    }
}
