//! The section of INFO that is keyfold's own.

use std::fmt::Write;

use crate::exchange::Env;
use crate::resp::word::is_word;
use crate::stats::{LayoutCounts, Swept};

/// The section `# Keyfold`.
///
/// ```text
/// # Keyfold
/// keyfold_version:0.1.0
/// keyfold_server:redis://127.0.0.1:6379
/// keyfold_layout_epoch:3
/// keyfold_layout_in_doubt:0
/// keyfold_layout_losses:found=0,put_back=0,connections_closed=0
/// keyfold_namespaces:1
/// keyfold_namespace_0:keys=user:{id:int}:logins,names=~hY3p,reads=7,writes=5,spills=0,conflicts=0
/// keyfold_codecs_0:codec=zstd,slot=0,value_bytes=1280,stored_bytes=310,undecodable=0
/// ```
/// The server is the one behind, as it was named at the start, without a password: tools that are given this keyfold's own
/// port say so by it. Losses are of the layout on the server, changed past keyfold: how often this keyfold found that, how often it put the
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
    let namespaces = env.layout.namespaces();
    let LayoutCounts { found_lost, put_back, connections_closed } = env.stats.layouts().counts();
    let mut text = format!(
        "# Keyfold\r\nkeyfold_version:{}\r\n{}keyfold_layout_epoch:{}\r\nkeyfold_layout_in_doubt:{}\r\n\
         keyfold_layout_losses:found={found_lost},put_back={put_back},connections_closed={connections_closed}\r\n\
         keyfold_namespaces:{}\r\n",
        env!("CARGO_PKG_VERSION"),
        env.stats.server().map_or_else(String::new, |server| format!("keyfold_server:{}\r\n", on_one_line(server))),
        env.layout.epoch(),
        u8::from(env.layout.is_in_doubt()),
        namespaces.len()
    );
    text.extend(env.stats.primary().lines());
    text.extend(env.stats.replicas().lines());
    for (index, namespace) in env.layout.iter() {
        let counts = env.stats.namespace(index).counts();
        // Writing to a string can't fail.
        let _ = write!(
            text,
            "keyfold_namespace_{}:keys={},names={},reads={},writes={},spills={},conflicts={}\r\n",
            index.0,
            namespace.keys,
            namespace.names().as_deref().unwrap_or("none"),
            counts.reads,
            counts.writes,
            counts.spills,
            counts.conflicts
        );
        if namespace.codec.is_none() && namespace.codecs.is_empty() {
            continue;
        }
        let slot = namespace.codecs.written().map_or("none".to_owned(), |slot| slot.number.to_string());
        let _ = write!(
            text,
            "keyfold_codecs_{}:codec={},slot={slot},value_bytes={},stored_bytes={},undecodable={}\r\n",
            index.0, namespace.codec.name, counts.value_bytes, counts.stored_bytes, counts.undecodable
        );
    }
    write_sweep(env, &mut text);
    text
}

/// A path may hold any byte; a line of INFO ends at the first break.
fn on_one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

fn write_sweep(env: &Env<'_>, text: &mut String) {
    let sweep = env.stats.sweep();
    let Swept { fields, expired, orphans } = sweep.total();
    let (noted, lag_ms) = (sweep.expiring.noted(), sweep.expiring.lag_ms(env.now_ms));
    // Writing to a string can't fail.
    let _ = write!(
        text,
        "keyfold_sweep:fields={fields},expired={expired},orphans={orphans},noted={noted},lag_ms={lag_ms},walk_ms={}\r\n",
        sweep.walk_ms()
    );
    for (index, bucket) in sweep.large_buckets.all().iter().enumerate() {
        let _ = write!(
            text,
            "keyfold_large_bucket_{index}:name={},fields={},keys={}\r\n",
            bucket.name.escape_ascii(),
            bucket.fields,
            env.layout.namespace(bucket.namespace).keys
        );
    }
}

/// Whether INFO with these arguments shows the section.
pub(crate) fn wants_section(args: &[&[u8]]) -> bool {
    let all = ["all", "everything", "default", "keyfold"];
    args.len() == 1 || args[1..].iter().any(|arg| all.iter().any(|name| is_word(arg, name)))
}
