//! INFO: the server's own text with a section of keyfold's behind it.

use std::fmt::Write;

use crate::exchange::Env;
use crate::resp::{Answer, Protocol, Reply};

/// The section `# Keyfold`.
///
/// ```text
/// # Keyfold
/// keyfold_version:0.1.0
/// keyfold_layout_epoch:3
/// keyfold_namespaces:1
/// keyfold_namespace_1:keys=user:{id:int}:logins,reads=7,writes=5,spills=0,conflicts=0
/// keyfold_codecs_1:codec=zstd,slot=0,value_bytes=1280,stored_bytes=310,undecodable=0
/// ```
/// The last line stands there only where values are compressed, or were. Its bytes are of the values written since
/// the proxy started, its slot the one that they are written by.
pub(crate) fn section(env: &Env<'_>) -> String {
    let namespaces = env.layout.namespaces();
    let mut text = format!(
        "# Keyfold\r\nkeyfold_version:{}\r\nkeyfold_layout_epoch:{}\r\nkeyfold_namespaces:{}\r\n",
        env!("CARGO_PKG_VERSION"),
        env.layout.epoch(),
        namespaces.len()
    );
    for (index, namespace) in env.layout.iter() {
        let counts = env.stats.namespace(index).counts();
        // Writing to a string can't fail.
        let _ = write!(
            text,
            "keyfold_namespace_{}:keys={},reads={},writes={},spills={},conflicts={}\r\n",
            namespace.id, namespace.template, counts.reads, counts.writes, counts.spills, counts.conflicts
        );
        if namespace.codec.is_none() && namespace.codecs.is_empty() {
            continue;
        }
        let slot = namespace.codecs.written().map_or("none".to_owned(), |slot| slot.number.to_string());
        let _ = write!(
            text,
            "keyfold_codecs_{}:codec={},slot={slot},value_bytes={},stored_bytes={},undecodable={}\r\n",
            namespace.id, namespace.codec.name, counts.value_bytes, counts.stored_bytes, counts.undecodable
        );
    }
    text
}

/// Whether INFO with these arguments shows the section.
pub(crate) fn wants_section(args: &[&[u8]]) -> bool {
    let all: [&[u8]; 4] = [b"all", b"everything", b"default", b"keyfold"];
    args.len() == 1 || args[1..].iter().any(|arg| all.iter().any(|name| arg.eq_ignore_ascii_case(name)))
}

/// The server's reply with the section behind it; other replies (errors) as they are.
pub(crate) fn append_section(reply: &[u8], env: &Env<'_>, protocol: Protocol, out: &mut Vec<u8>) {
    let Ok(Reply::Bulk(text)) = Reply::parse(reply) else {
        out.extend_from_slice(reply);
        return;
    };
    let gap: &[u8] = if text.is_empty() { b"" } else { b"\r\n" };
    let text = [text, gap, section(env).as_bytes()].concat();
    Answer::new(out, protocol).verbatim(&text);
}
