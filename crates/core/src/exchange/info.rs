//! The section of INFO that is keyfold's own.

use std::fmt::{self, Write};

use crate::exchange::Env;
use crate::resp::word::is_word;
use crate::stats::{ReplicasStatus, SentinelStatus};
use crate::status::{CodecStatus, LargeBucketStatus, LayoutStatus, NamespaceStatus, Status, SweepStatus};

/// The section `# Keyfold`.
///
/// ```text
/// # Keyfold
/// keyfold_version:0.1.0
/// keyfold_server:redis://127.0.0.1:6379
/// keyfold_layout_epoch:3
/// keyfold_layout_hash:5d1c9b0a3f6e2477
/// keyfold_layout_changes:0
/// keyfold_layout_in_doubt:0
/// keyfold_layout_losses:found=0,put_back=0,connections_closed=0
/// keyfold_namespaces:1
/// keyfold_namespace_0:keys=user:{id:int}:logins,names=~hY3p,reads=7,writes=5,spills=0,conflicts=0,hits=6,misses=1
/// keyfold_codecs_0:codec=zstd,slot=0,value_bytes=1280,stored_bytes=310,undecodable=0
/// ```
/// The server is the one behind, as it was named at the start, without a password: tools that are given this keyfold's own
/// port say so by it. The hash is of all that the layout says; changes are how often this keyfold took up another. Hits and
/// misses are keys that were read and there, or not, by requests whose keys are all of the namespace.
///
/// Losses are of the layout on the server, changed past keyfold: how often this keyfold found that, how often it put the
/// layout back, and how many connections of keyfolds that didn't answer it had closed for it.
///
/// The line of codecs stands there only where values are compressed, or were. Its bytes are of the values written since
/// the proxy started, its slot the one that they are written by. Then comes the sweep: what this keyfold has looked at
/// and found, buckets that are noted as due, for how long the first of them has been, and how long the last walk took;
/// and buckets that are larger than any should be.
///
/// Behind Sentinels two or three lines say whom they name: who is asked, which others these told of, and who was found last to be the primary, by whose word,
/// in which epoch of theirs, and how often that became another.
///
/// ```text
/// keyfold_sentinels:10.0.0.1:26379,10.0.0.2:26379/main
/// keyfold_sentinels_found:10.0.0.3:26379
/// keyfold_primary:address=10.0.0.1:6379,named_by=10.0.0.2:26379,epoch=0,changes=0
/// ```
/// Where replicas of a cluster are read from, one line each says how many reads they were sent and how many of these
/// went to the primary as well, how long ago the primary had, at most, what the replica has, and why it isn't read from.
///
/// ```text
/// keyfold_read_from:replica
/// keyfold_replica_0:address=10.0.0.4:6379,of=10.0.0.1:6379,reads=12,returned=3,lag_ms=210,round_trip_us=80
/// ```
/// ```text
/// keyfold_sweep:fields=90210,expired=311,orphans=0,noted=12,lag_ms=0,walk_ms=2100
/// keyfold_large_bucket_0:name=~hY3p:7,fields=200000,keys=user:{id:int}:logins
/// ```
pub(crate) fn section(env: &Env<'_>) -> String {
    let status = Status::new(env.layout, env.stats, env.now_ms);
    let mut text = String::new();
    // Writing to a string can't fail.
    let _ = write_section(&status, &mut text);
    text
}

fn write_section(status: &Status, text: &mut String) -> fmt::Result {
    let LayoutStatus { epoch, in_doubt, hash, found_lost, put_back, connections_closed, changes, .. } = &status.layout;
    // A path may hold any byte; a line of INFO ends at the first break.
    let on_one_line = |server: &String| format!("keyfold_server:{}\r\n", server.replace(['\r', '\n'], " "));
    let server = status.server.as_ref().map_or_else(String::new, on_one_line);
    write!(
        text,
        "# Keyfold\r\nkeyfold_version:{}\r\n{server}keyfold_layout_epoch:{epoch}\r\nkeyfold_layout_hash:{hash}\r\n\
         keyfold_layout_changes:{changes}\r\nkeyfold_layout_in_doubt:{}\r\n\
         keyfold_layout_losses:found={found_lost},put_back={put_back},connections_closed={connections_closed}\r\n\
         keyfold_namespaces:{}\r\n",
        status.version,
        u8::from(*in_doubt),
        status.namespaces.len()
    )?;
    text.extend(status.sentinels.iter().map(SentinelStatus::lines));
    text.extend(status.replicas.iter().map(ReplicasStatus::lines));
    for (index, namespace) in status.namespaces.iter().enumerate() {
        write_namespace(index, namespace, text)?;
    }
    let SweepStatus { fields, expired, orphans, noted, lag_ms, walk_ms, .. } = status.sweep;
    write!(
        text,
        "keyfold_sweep:fields={fields},expired={expired},orphans={orphans},noted={noted},lag_ms={lag_ms},walk_ms={walk_ms}\r\n"
    )?;
    for (index, LargeBucketStatus { name, fields, keys, .. }) in status.large_buckets.iter().enumerate() {
        write!(text, "keyfold_large_bucket_{index}:name={name},fields={fields},keys={keys}\r\n")?;
    }
    Ok(())
}

fn write_namespace(index: usize, namespace: &NamespaceStatus, text: &mut String) -> fmt::Result {
    let NamespaceStatus { keys, reads, writes, spills, conflicts, hits, misses, .. } = namespace;
    let names = namespace.names.as_deref().unwrap_or("none");
    write!(
        text,
        "keyfold_namespace_{index}:keys={keys},names={names},reads={reads},writes={writes},spills={spills},\
         conflicts={conflicts},hits={hits},misses={misses}\r\n"
    )?;
    let Some(CodecStatus { name, slot, value_bytes, stored_bytes, .. }) = &namespace.codec else { return Ok(()) };
    let slot = slot.map_or("none".to_owned(), |slot| slot.to_string());
    write!(
        text,
        "keyfold_codecs_{index}:codec={name},slot={slot},value_bytes={value_bytes},stored_bytes={stored_bytes},\
         undecodable={}\r\n",
        namespace.undecodable
    )
}

/// Whether INFO with these arguments shows the section.
pub(crate) fn wants_section(args: &[&[u8]]) -> bool {
    let all = ["all", "everything", "default", "keyfold"];
    args.len() == 1 || args[1..].iter().any(|arg| all.iter().any(|name| is_word(arg, name)))
}
