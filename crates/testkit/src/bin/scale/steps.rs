//! The runs of a scale, in their order.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use keyfold_testkit::{Binary, Server, Subject};

use crate::beside;
use crate::clients::{Clients, Felt};
use crate::options::Options;
use crate::records;
use crate::results::{Results, Row};
use crate::tool;

/// What buckets of documents need.
const LIMITS: [&str; 4] = ["--hash-max-listpack-entries", "512", "--hash-max-listpack-value", "300"];

struct Scale<'a> {
    options: &'a Options,
    server: Server,
    clients: Clients,
    results: &'a mut Results,
}

/// Runs everything.
pub(crate) fn run(options: &Options, binary: &Binary, results: &mut Results) -> anyhow::Result<()> {
    let server = binary.start(&LIMITS)?;
    let started = Instant::now();
    records::fill(&mut server.connect()?, 0..options.keys)?;
    results.add(Row::of_server("written plain", started.elapsed(), used_bytes(&server)?))?;
    results.add_beside("the server alone, plain keys", &beside::measure(server.address(), options.keys)?)?;
    let proxy = Subject::beside(&server)?;
    let clients = Clients::new(options.rate, proxy.address());
    let mut scale = Scale { options, server, clients, results };
    let [layout, other] = [scale.layout(false)?, scale.layout(true)?];
    let (url, out) = (scale.server.url(), options.out.clone());
    let planned = text(&out.join("planned.toml"))?;

    scale.tool("analyze", &["analyze", &url])?;
    scale.tool("plan --prove", &["plan", &url, "--out", &planned, "--force", "--prove"])?;
    scale.tool("fold", &["fold", &url, "--layout", &layout, "--yes"])?;
    scale.results.add_beside("through keyfold, folded", &beside::measure(proxy.address(), options.keys)?)?;
    scale.tool("verify", &["verify", &url])?;
    scale.tool("doctor", &["doctor", &url])?;
    scale.tool("train", &["train", &url, "--force"])?;
    scale.tool("recode", &["recode", &url])?;
    let dump = text(&out.join("dump.jsonl"))?;
    scale.tool("export", &["export", &url, "--out", &dump])?;
    scale.import(binary, &layout, &dump)?;
    std::fs::remove_file(&dump).context("can't remove the dump")?;
    scale.tool("fold into other buckets", &["fold", &url, "--layout", &other, "--yes"])?;
    scale.tool("verify, other buckets", &["verify", &url])?;
    scale.tool("unfold", &["unfold", &url, "--yes"])?;
    scale.tool("verify, plain", &["verify", &url])?;
    scale.clients.check()
}

impl Scale<'_> {
    /// One run beside the load.
    fn tool(&mut self, name: &str, args: &[&str]) -> anyhow::Result<()> {
        let Self { clients, results, server, .. } = self;
        let (took, felt) = clients.beside(|| tool::run(&owned(args), &results.log_of(name)))?;
        results.add(Row::of_tool(name, took, used_bytes(server)?, &felt))
    }

    /// The dump into a server of its own, whose clients nobody is, and held against it there.
    fn import(&mut self, binary: &Binary, layout: &str, dump: &str) -> anyhow::Result<()> {
        let server = binary.start(&LIMITS)?;
        let url = server.url();
        let first = self.results.log_of("layout of the import");
        tool::run(&owned(&["fold", &url, "--layout", layout, "--yes"]), &first)?;
        let runs =
            [("import", vec!["import", &url, dump]), ("verify --against", vec!["verify", &url, "--against", dump])];
        for (name, args) in runs {
            let took = tool::run(&owned(&args), &self.results.log_of(name))?;
            self.results.add(Row::of_tool(name, took, used_bytes(&server)?, &Felt::default()))?;
        }
        Ok(())
    }

    fn layout(&self, otherwise: bool) -> anyhow::Result<String> {
        let path: PathBuf = self.options.out.join(if otherwise { "other.toml" } else { "layout.toml" });
        std::fs::write(&path, records::layout(self.options.keys, otherwise))?;
        text(&path)
    }
}

fn owned(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

fn text(path: &Path) -> anyhow::Result<String> {
    Ok(path.to_str().context("the directory of results is not UTF-8")?.to_owned())
}

fn used_bytes(server: &Server) -> anyhow::Result<u64> {
    let info = server.connect()?.call(&[b"INFO", b"memory"])?;
    let info = String::from_utf8_lossy(&info);
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).context("INFO says no used_memory")?;
    Ok(line.trim().parse()?)
}
