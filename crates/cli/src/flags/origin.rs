//! What is looked at by commands that take a server or a dump of one.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};
use keyfold_proxy::address::ServerAddress;

use super::upstream::{UpstreamFlags, WayFlags, parse_server};
use crate::origin::{ClusterMode, DumpPlace};

/// What names a dump, if it is there or not.
const DUMPS_END_IN: [&str; 3] = [".rdb", ".rdb.gz", ".rdb.zst"];

/// A server or a dump, named by an argument; a server also by an option.
#[derive(Clone, Debug)]
pub(crate) struct OriginFlags {
    /// None where a server is to be looked at.
    pub(crate) dump: Option<DumpPlace>,
    pub(crate) upstream: UpstreamFlags,
    pub(crate) cluster: ClusterMode,
}

/// What the argument names.
#[derive(Clone, Debug)]
enum Named {
    Dump(DumpPlace),
    Server(ServerAddress),
}

const HELP: &str = "The server: redis://[user:password@]host:port[/db], or host:port alone; rediss://… for TLS, \
                    unix:///path[?db=n], or sentinel://[user:password@]host:port,host:port/NAME[/db] for the primary \
                    that Sentinels name [default: redis://127.0.0.1:6379]. Or a dump: the path of an RDB file, also packed by \
                    gzip or zstd, or - for standard input";

/// How that is typed.
#[derive(Args)]
struct Typed {
    #[arg(value_name = "URL|DUMP", help = HELP, value_parser = parse_named)]
    url: Option<Named>,

    /// The same as the argument URL
    #[arg(long, value_name = "URL", env = "KEYFOLD_UPSTREAM", hide_env_values = true, value_parser = parse_server)]
    upstream: Option<ServerAddress>,

    #[command(flatten)]
    way: WayFlags,

    /// Of a dump: whether a node of a cluster wrote it, which older servers' dumps don't tell
    #[arg(
        long,
        value_name = "auto|yes|no",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        help_heading = "Dumps"
    )]
    cluster: ClusterMode,
}

impl Args for OriginFlags {
    fn augment_args(command: Command) -> Command {
        Typed::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Typed::augment_args_for_update(command)
    }
}

impl FromArgMatches for OriginFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let Typed { url, upstream, way, cluster } = Typed::from_arg_matches(matches)?;
        // The environment's gives way, which a conflict of clap's own would not let it.
        if url.is_some() && matches.value_source("upstream") == Some(ValueSource::CommandLine) {
            let said = "it is named twice what to look at: write one argument, or --upstream";
            return Err(Error::raw(ErrorKind::ArgumentConflict, said));
        }
        let (dump, address) = match url {
            Some(Named::Dump(dump)) => (Some(dump), None),
            Some(Named::Server(address)) => (None, Some(address)),
            None => (None, upstream),
        };
        Ok(Self { dump, upstream: UpstreamFlags { address, way }, cluster })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// A file that is there is a dump, whatever it is called: nobody's server has the name of a file by chance, and one that has
/// is written with its scheme.
fn parse_named(text: &str) -> Result<Named, String> {
    if text == "-" {
        return Ok(Named::Dump(DumpPlace::Stdin));
    }
    let path = Path::new(text);
    match path.metadata() {
        Ok(found) if found.is_dir() => return Err(format!("{text} is a directory: name the dump in it")),
        Ok(found) if !found.file_type().is_socket() => return Ok(Named::Dump(DumpPlace::File(PathBuf::from(text)))),
        Ok(_) => {}
        Err(error) if DUMPS_END_IN.iter().any(|end| text.ends_with(end)) && !text.contains("://") => {
            return Err(format!("can't read the dump {text}: {error}"));
        }
        Err(_) => {}
    }
    parse_server(text).map(Named::Server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_dumps_and_all_else_is_servers() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("localhost");
        std::fs::write(&file, b"REDIS0011").unwrap();
        let named = |text: &str| parse_named(text).map(|named| matches!(named, Named::Dump(_)));
        assert_eq!(named(file.to_str().unwrap()), Ok(true));
        assert_eq!(named("-"), Ok(true));
        for server in
            ["localhost", "redis://localhost", "127.0.0.1:6379", "localhost/3", "/run/no/such.sock", "a.rdb.example"]
        {
            assert_eq!(named(server), Ok(false), "{server}");
        }
        assert!(named("no/such/dump.rdb").unwrap_err().contains("can't read the dump"));
        assert!(named(dir.path().to_str().unwrap()).unwrap_err().contains("directory"));
    }
}
