//! Hashes of an application's own, out of which `keyfold fold` moves keys.

use clap::{Args, ValueEnum};
use keyfold_core::placement::handmade::Packing;

/// Whose convention the hashes follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Convention {
    /// The Ruby gem me-redis, with integers_to_base62
    MeRedis,
    /// Any that --keys and --field describe
    Buckets,
}

#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Keys in an application's own hashes")]
pub(crate) struct SourceFlags {
    /// Move keys out of hashes that an application folded them into itself, instead of plain keys
    #[arg(long, value_name = "CONVENTION")]
    pub(crate) from: Option<Convention>,

    /// me-redis: its crumbs with their short forms, such as user=u,order=o
    #[arg(long, value_name = "CRUMB=SHORT,...", value_delimiter = ',', value_parser = crumb, requires = "from")]
    pub(crate) crumbs: Vec<(String, String)>,

    /// me-redis: its hash_max_ziplist_entries [default: 512]
    #[arg(long, value_name = "N", requires = "from")]
    pub(crate) entries: Option<u64>,

    /// buckets: the names of the hashes, such as 'mediabucket:{id/1000}'
    #[arg(long, value_name = "PATTERN", requires = "from")]
    pub(crate) keys: Option<String>,

    /// buckets: their fields, such as '{id%1000}' [default: the part that --keys divides, whole]
    #[arg(long, value_name = "PATTERN", requires = "from")]
    pub(crate) field: Option<String>,

    /// How values lie in the hashes: raw or zlib [default: raw]
    #[arg(long, value_name = "FORM", value_parser = packing, requires = "from")]
    pub(crate) value: Option<Packing>,
}

fn crumb(text: &str) -> Result<(String, String), String> {
    let (crumb, short) = text.split_once('=').ok_or("a crumb is written as user=u")?;
    Ok((crumb.to_owned(), short.to_owned()))
}

fn packing(text: &str) -> Result<Packing, String> {
    Packing::named(text).ok_or_else(|| "there are raw and zlib".to_owned())
}
