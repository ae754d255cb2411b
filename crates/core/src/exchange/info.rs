//! The section of INFO that is keyfold's own.

use crate::exchange::Env;
use crate::resp::word::is_word;
use crate::status::Status;

/// The section `# Keyfold`: all that this keyfold says of itself.
pub(crate) fn section(env: &Env<'_>) -> String {
    Status::new(env.layout, env.stats, env.now_ms).to_info()
}

/// Whether INFO with these arguments shows the section.
pub(crate) fn wants_section(args: &[&[u8]]) -> bool {
    let all = ["all", "everything", "default", "keyfold"];
    args.len() == 1 || args[1..].iter().any(|arg| all.iter().any(|name| is_word(arg, name)))
}
