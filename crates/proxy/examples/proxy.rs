//! A bare proxy, for trying things out: `proxy --listen 127.0.0.1:7000 --upstream redis://127.0.0.1:6379`.

use std::sync::Arc;

use anyhow::{Context, bail};
use keyfold_core::layout::Layout;
use keyfold_proxy::Config;
use tracing_subscriber::EnvFilter;

fn main() -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();

    let mut config = Config::new("redis://127.0.0.1:6379".parse()?, Layout::parse_file("")?);
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args.next().with_context(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--listen" => config.listen.push(value.parse()?),
            "--upstream" => config.upstream = value.parse()?,
            "--layout" => config.layout = Arc::new(Layout::parse_file(&std::fs::read_to_string(value)?)?),
            "--threads" => config.threads = Some(value.parse()?),
            _ => bail!("unknown flag {flag}; there are --listen, --upstream, --layout and --threads"),
        }
    }
    Ok(keyfold_proxy::serve(config)?)
}
