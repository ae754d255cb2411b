//! `keyfold status`: the layout in force, open moves, who serves, what folding saves, and what the process still holds.
//!
//! | file | what it does |
//! | --- | --- |
//! | `keyfolds.rs` | who is connected: keyfolds, and tools that move keys |
//! | `saving.rs` | what folded keys take, and would take as plain ones, by a sample |
//! | `print.rs` | says it |

pub(crate) mod keyfolds;
mod print;
pub(crate) mod saving;

use keyfold_core::admin::move_progress::MoveProgress;
use keyfold_core::layout::Layout;
use keyfold_report::paper::Paper;
use keyfold_server::Nodes;

use crate::config::target;
use crate::flags::status::StatusFlags;
use crate::layout::evidence::layout_in_force;
use crate::moving::announce::hear;
use crate::print::layout::open_moves;
use keyfolds::Keyfolds;
use saving::Savings;

/// What there is to be known.
struct Status {
    /// The server's name and version, and where it is; of a cluster, how many primaries.
    server: String,
    address: String,
    primaries: usize,
    layout: Option<Layout>,
    open_moves: Vec<String>,
    /// How far they have come.
    progress: Option<MoveProgress>,
    keyfolds: Keyfolds,
    memory: Memory,
    savings: Savings,
}

/// Of all servers together.
struct Memory {
    used_bytes: u64,
    rss_bytes: u64,
}

pub(crate) fn run(flags: &StatusFlags, out: &mut Paper) -> anyhow::Result<()> {
    let target = target::resolve(&flags.upstream);
    let mut nodes = Nodes::connect(&target)?;
    let layout = layout_in_force(&mut nodes)?;
    let mut memory = Memory { used_bytes: 0, rss_bytes: 0 };
    for server in nodes.servers() {
        let info = server.info("memory")?;
        memory.used_bytes += info.needed::<u64>("used_memory")?;
        memory.rss_bytes += info.number("used_memory_rss");
    }
    let status = Status {
        server: nodes.first().version().to_string(),
        address: target.address.to_string(),
        primaries: if nodes.are_cluster() { nodes.servers().len() } else { 0 },
        open_moves: layout.as_ref().map(open_moves).unwrap_or_default(),
        progress: layout.as_ref().filter(|layout| layout.moving().next().is_some()).and_then(|_| hear(nodes.home())),
        keyfolds: Keyfolds::ask(&mut nodes),
        savings: Savings::of(&mut nodes, layout.as_ref(), flags.pace.max_ops)?,
        memory,
        layout,
    };
    if flags.json {
        return Ok(out.whole(format_args!("{:#}", status.json()))?);
    }
    status.print(out)
}
