//! `keyfold probe`.

use clap::Args;
use keyfold_server::OperatorsAddress;

use super::footer::footer;

const EXAMPLES: &str = "\
Examples:
  keyfold probe http://127.0.0.1:9379
  keyfold probe --live http+unix:///run/keyfold/admin.sock

For the health checks of containers that hold no other program. Needs no token.

Exit codes: 0 it is, 1 it isn't, or doesn't answer within 5 seconds, 2 usage";

#[derive(Args, Debug)]
#[command(after_help = footer(EXAMPLES))]
pub(crate) struct ProbeFlags {
    /// The address that a keyfold's --admin names: http://host:port, or http+unix:///path
    #[arg(value_name = "URL")]
    pub(crate) address: OperatorsAddress,

    /// Ask whether it lives (/livez) instead of whether clients are to be sent to it (/readyz)
    #[arg(long)]
    pub(crate) live: bool,
}
