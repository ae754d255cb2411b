//! `keyfold verify`: whether everything lies where it should, and is what a dump says.

mod counted;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use keyfold_core::dialect::Dialect;
use keyfold_core::layout::Layout;
use keyfold_report::number::{count, plural};
use keyfold_report::paper::Paper;
use keyfold_server::interrupt::Interrupt;
use keyfold_server::layout::stored;
use keyfold_server::pace::Pace;
use keyfold_server::priority;
use keyfold_server::{Nodes, Server, ServerTime, listpack};
use serde_json::json;

use self::counted::Counted;
use crate::config::verify::Verify;
use crate::layout::evidence::layout_in_force;
use crate::print::layout::open_moves;
use crate::records::Record;
use crate::records::compare::{Close, Differences, Sums, same_expiry};
use crate::records::content::living;
use crate::records::digest;
use crate::records::dump::{NO_END, Reader};
use crate::records::finding::Tally;
use crate::records::fingerprints::Fingerprints;
use crate::records::inquiry::{Payloads, Wants};
use crate::records::once::Once;
use crate::records::walk::{Manner, Sight, Visit, walk_all};
use crate::scan;

const FINDINGS: u8 = 3;
const DIFFERENT: u8 = 4;
/// So often both sides are read again where parts differ: each time goes over 400,000 records.
const MOST_LOOKS: usize = 16;

/// What a verification goes by.
struct Subject<'a> {
    config: &'a Verify,
    layout: Layout,
    folded: bool,
    listpack_limits: (Option<u64>, Option<u64>),
    interrupt: Interrupt,
    time: ServerTime,
}

/// What it found.
struct Verdict {
    counted: Counted,
    findings: Tally,
    /// None without a dump.
    compared: Option<Compared>,
}

struct Compared {
    dump_records: u64,
    /// Records of the dump that had expired before it was read.
    expired: u64,
    /// The dump ends with the line by which it is known to be whole.
    is_whole: bool,
    differences: Differences,
}

pub(crate) fn run(config: &Verify, out: &mut Paper) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::listen()?;
    priority::give_way();
    let mut nodes = Nodes::connect(&config.target)?;
    scan::warn(&nodes);
    let before = layout_in_force(&mut nodes)?;
    let folded = before.is_some();
    let layout = before.clone().unwrap_or_default();
    let listpack_limits = if config.flags.skip_encodings { (None, None) } else { listpack::limits(nodes.first()) };
    let time = ServerTime::ask(nodes.first())?;
    let subject = Subject { config, layout, folded, listpack_limits, interrupt, time };
    let verdict = subject.verify(&mut nodes)?;
    if stored::read(nodes.again()?.home())?.map(|stored| stored.layout) != before {
        bail!("the server's layout changed meanwhile; verify again");
    }
    verdict.print(&subject, &mut nodes, out)?;
    Ok(verdict.code())
}

impl Subject<'_> {
    fn verify(&self, nodes: &mut Nodes) -> anyhow::Result<Verdict> {
        let mut counted = Counted::new(&self.layout);
        let mut findings = Tally::new(self.config.flags.list);
        let Some(path) = &self.config.flags.against else {
            self.walk(nodes, true, &mut |sight| {
                counted.add(&sight);
                if let Sight::Finding(finding) = sight {
                    findings.add(finding);
                }
                Ok(())
            })?;
            return Ok(Verdict { counted, findings, compared: None });
        };
        let dump = self.sum_up(path)?;
        let mut sums = Sums::new();
        self.walk(nodes, true, &mut |sight| {
            counted.add(&sight);
            match sight {
                Sight::Finding(finding) => findings.add(finding),
                Sight::Record(record, _) => {
                    // Within the tolerance, the dump's expiry stands for the server's.
                    let known = dump.expiries.find(digest::key(record.database, &record.key))?;
                    let close = same_expiry(known, record.expires_at_ms, self.config.flags.ttl_tolerance_ms);
                    let expires_at_ms = if known.is_some() && close { known } else { record.expires_at_ms };
                    if let Some(living) = living(&record.content, dump.now_ms) {
                        sums.add(record, living, expires_at_ms);
                    }
                }
                Sight::Bucket(..) | Sight::Expired(_) | Sight::Drawn { .. } => {}
            }
            Ok(())
        })?;
        let mut differences = Differences { complete: true, ..Differences::default() };
        let mut differing = dump.sums.differing(&sums);
        if differing.len() > MOST_LOOKS {
            // Who verifies once more looks at others.
            let at = usize::try_from(self.time.now_ms()).unwrap_or(0) % differing.len();
            differing.rotate_left(at);
        }
        let mut differing = differing.into_iter();
        // What has expired since, or was written meanwhile, makes parts differ of which nothing does any more.
        for parts in differing.by_ref().take(MOST_LOOKS) {
            differences = self.look_closely(nodes, path, parts, &dump)?;
            if differences.count() > 0 {
                break;
            }
        }
        differences.complete = differing.next().is_none();
        let (dump_records, expired, is_whole) = (dump.sums.records(), dump.expired, dump.is_whole);
        let compared = Compared { dump_records, expired, is_whole, differences };
        Ok(Verdict { counted, findings, compared: Some(compared) })
    }

    /// The dump's side, in bounded memory.
    fn sum_up(&self, path: &Path) -> anyhow::Result<Dump> {
        let now_ms = self.time.now_ms();
        let mut dump =
            Dump { read: 0, sums: Sums::new(), expiries: Fingerprints::new(), expired: 0, now_ms, is_whole: false };
        let is_whole = self.read(path, &mut |record| {
            dump.read += 1;
            let living = living(&record.content, now_ms);
            let Some(living) = living.filter(|_| record.expires_at_ms.is_none_or(|at| at >= now_ms)) else {
                dump.expired += 1;
                return Ok(());
            };
            dump.sums.add(&record, living, record.expires_at_ms);
            if let Some(at) = record.expires_at_ms.filter(|_| self.config.flags.ttl_tolerance_ms > 0) {
                dump.expiries.insert(digest::key(record.database, &record.key), at)?;
            }
            Ok(())
        })?;
        dump.is_whole = is_whole;
        Ok(dump)
    }

    /// Another time round, for parts that differ. What had expired when the dump was summed up was left out before.
    fn look_closely(
        &self,
        nodes: &mut Nodes,
        path: &Path,
        parts: Vec<bool>,
        dump: &Dump,
    ) -> anyhow::Result<Differences> {
        let mut close = Close::new(parts, self.config.flags.ttl_tolerance_ms, self.config.flags.list);
        // Of what expires from now on, it is known that it may have.
        let since_ms = self.time.now_ms();
        let mut read = 0;
        let is_whole = self.read(path, &mut |record| {
            read += 1;
            let living = living(&record.content, since_ms);
            if let Some(living) = living.filter(|_| record.expires_at_ms.is_none_or(|at| at >= dump.now_ms)) {
                close.expect(record, living);
            }
            Ok(())
        })?;
        if (read, is_whole) != (dump.read, dump.is_whole) {
            bail!("{} was changed while it was read; verify again", path.display());
        }
        self.walk(nodes, false, &mut |sight| {
            if let Sight::Record(record, _) = sight
                && let Some(living) = living(&record.content, since_ms)
            {
                close.meet(record, living, self.time.now_ms());
            }
            Ok(())
        })?;
        Ok(close.finish(self.time.now_ms()))
    }

    /// Reads a dump; whether it is whole.
    fn read(&self, path: &Path, take: &mut dyn FnMut(Record) -> anyhow::Result<()>) -> anyhow::Result<bool> {
        let mut reader = Reader::open(path)?.by_hand(self.config.flags.without_end);
        while let Some((_, record)) = reader.next()? {
            if self.interrupt.wanted() {
                bail!("interrupted");
            }
            if self.config.databases.contains(record.database) {
                take(record)?;
            }
        }
        Ok(reader.is_whole())
    }

    /// Shows what there is, each key once.
    fn walk(&self, nodes: &mut Nodes, findings: bool, visit: Visit<'_>) -> anyhow::Result<()> {
        let payloads = match self.config.flags.against {
            None => Payloads::None,
            Some(_) => Payloads::Beside { fields_expire: nodes.servers().iter().any(have_field_expiry) },
        };
        let manner = Manner {
            layout: &self.layout,
            folded: self.folded,
            draws: None,
            wants: Wants {
                payloads,
                owners: findings,
                encodings: findings && !self.config.flags.skip_encodings,
                ..Wants::default()
            },
            forgetful: false,
            listpack_limits: self.listpack_limits,
            reads: &|_, _| true,
            stopped: &|| self.interrupt.wanted(),
            has_enough: &|| false,
        };
        let mut pace = Pace::new(self.config.flags.pace.max_ops);
        let mut once = Once::of(&self.layout);
        let around =
            walk_all(nodes, &self.config.databases, "verified", &manner, &mut pace, &mut |sight| match sight {
                Sight::Record(record, _) if !once.is_first(record)? => Ok(()),
                _ => visit(sight),
            })?;
        anyhow::ensure!(around, "interrupted");
        Ok(())
    }
}

fn have_field_expiry(server: &Server) -> bool {
    Dialect::new(&server.version().info(), false).has_field_expiry()
}

struct Dump {
    /// How many records it has.
    read: u64,
    sums: Sums,
    expiries: Fingerprints,
    expired: u64,
    /// What had expired by then is left out.
    now_ms: i64,
    is_whole: bool,
}

impl Verdict {
    fn code(&self) -> ExitCode {
        match &self.compared {
            Some(compared) if compared.differences.count() > 0 => ExitCode::from(DIFFERENT),
            Some(compared) if !compared.is_whole || !compared.differences.complete => ExitCode::from(FINDINGS),
            _ if self.findings.count() > 0 => ExitCode::from(FINDINGS),
            _ => ExitCode::SUCCESS,
        }
    }

    fn print(&self, subject: &Subject<'_>, nodes: &mut Nodes, out: &mut Paper) -> anyhow::Result<()> {
        let layout = &subject.layout;
        if subject.config.flags.json {
            let compared = self.compared.as_ref().map(|compared| {
                json!({
                    "dump_records": compared.dump_records,
                    "dump_whole": compared.is_whole,
                    "dump_expired": compared.expired,
                    "differences": compared.differences.json(),
                })
            });
            let report = json!({
                "server": nodes.first().version().to_string(),
                "nodes": if nodes.are_cluster() { nodes.addresses() } else { Vec::new() },
                "epoch": layout.epoch().0,
                "open_moves": open_moves(layout),
                "counts": self.counted.json(layout),
                "findings": self.findings.json(),
                "compared": compared,
            });
            return Ok(out.whole(format_args!("{report:#}"))?);
        }
        let addresses = nodes.addresses().join(", ");
        writeln!(out, "{addresses} ({})\n\n{}\n", nodes.first().version(), self.counted.table(layout, out.room()))?;
        if let Some(words) = self.counted.words() {
            writeln!(out, "{words}\n")?;
        }
        match self.findings.count() {
            0 if nodes.are_cluster() => {
                writeln!(out, "every key lies in its place, once, on the node that has its slot")?;
            }
            0 => writeln!(out, "every key lies in its place, once")?,
            found => writeln!(out, "{}:\n{}", plural(found, "finding"), self.findings)?,
        }
        for open in open_moves(layout) {
            writeln!(out, "{open}")?;
        }
        self.compared.as_ref().map_or(Ok(()), |compared| compared.print(out))
    }
}

impl Compared {
    fn print(&self, out: &mut Paper) -> anyhow::Result<()> {
        if self.expired > 0 {
            writeln!(out, "{} of the dump expired before now", plural(self.expired, "key"))?;
        }
        if !self.is_whole {
            writeln!(out, "{NO_END}")?;
        }
        let differences = &self.differences;
        if differences.count() == 0 && !differences.complete {
            writeln!(
                out,
                "so many keys expired or were written meanwhile that not all could be looked at again; of what was, all is \
                 equal. Verify once more when less happens"
            )?;
            return Ok(());
        }
        if differences.count() == 0 {
            writeln!(out, "the dump and the server are equal: {}", plural(self.dump_records, "key"))?;
            return Ok(());
        }
        let Differences { missing, extra, value, expiry, .. } = differences;
        let least = if differences.complete { "" } else { "at least " };
        writeln!(
            out,
            "the dump and the server differ in {least}{}: {} missing, {} extra, {} with another value, {} with another \
             expiry",
            plural(differences.count(), "key"),
            count(*missing),
            count(*extra),
            count(*value),
            count(*expiry)
        )?;
        for difference in &differences.listed {
            writeln!(out, "  {difference}")?;
        }
        let more = differences.count() - differences.listed.len() as u64;
        if more > 0 {
            writeln!(out, "  … and {} more (--list)", count(more))?;
        }
        Ok(())
    }
}
