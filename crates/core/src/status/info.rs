//! A status as the lines of `INFO keyfold`, and read back from them.
//!
//! ```text
//! # Keyfold
//! keyfold_version:0.1.0
//! keyfold_server:redis://127.0.0.1:6379
//! keyfold_layout_epoch:3
//! keyfold_layout_hash:5d1c9b0a3f6e2477
//! keyfold_layout_changes:0
//! keyfold_layout_in_doubt:0
//! keyfold_layout_losses:found=0,put_back=0,connections_closed=0
//! keyfold_namespaces:1
//! keyfold_requests:731
//! keyfold_latency:commands=730,total_us=40210
//! keyfold_latency_buckets:32=12,64=704,128=13,inf=1
//! keyfold_namespace_0:keys=user:{id:int}:logins,names=~hY3p,reads=7,writes=5,spills=0,conflicts=0,hits=6,misses=1,swept=0,expired=0,evicted=0,evicted_new=0,moving=1
//! keyfold_placement_0:bucket = { span = 64 }
//! keyfold_former_0:placement = "plain"
//! keyfold_contents_0:keys=6400,buckets=100,stored_bytes=98000,plain_bytes=460000
//! keyfold_codecs_0:codec=zstd,slot=0,value_bytes=1280,stored_bytes=310,undecodable=0
//! keyfold_sweep:fields=90210,expired=311,orphans=0,noted=12,lag_ms=0,walk_ms=2100
//! keyfold_large_bucket_0:name=~hY3p:7,fields=200000,keys=user:{id:int}:logins
//! ```
//! The server is the one behind, as it was named at the start, without a password: tools that are given this keyfold's own
//! port say so by it. The hash is of all that the layout says; changes are how often this keyfold took up another layout.
//! Hits and misses are keys that were read and there, or not, by requests whose keys are all of the namespace.
//!
//! Losses are of the layout on the server, changed past keyfold: how often this keyfold found that, how often it put the
//! layout back, and how many connections of keyfolds that didn't answer it had closed for it.
//!
//! Latencies are those of [`super::LatencyStatus`], where operators are let in: how many commands took no longer than so
//! many microseconds, and longer than the bound before. Contents are there once this keyfold's sweep has found them. Where
//! keys lay before is said while they are moved.
//!
//! The line of codecs stands there only where values are compressed, or were. Its bytes are of the values written since
//! the proxy started, its slot the one that they are written by. Then comes the sweep: what this keyfold has looked at
//! and found, buckets that are noted as due, for how long the first of them has been, and how long the last walk took;
//! and buckets that are larger than any should be.
//!
//! Behind Sentinels two or three lines say whom they name: who is asked, which others these told of, and who was found last
//! to be the primary, by whose word, in which epoch of theirs, and how often that became another.
//!
//! ```text
//! keyfold_sentinels:10.0.0.1:26379,10.0.0.2:26379/main
//! keyfold_sentinels_found:10.0.0.3:26379
//! keyfold_primary:address=10.0.0.1:6379,named_by=10.0.0.2:26379,epoch=0,changes=0
//! ```
//! Where replicas of a cluster are read from, one line each says how many reads they were sent and how many of these
//! went to the primary as well, how long ago the primary had, at most, what the replica has, and why it isn't read from.
//!
//! ```text
//! keyfold_read_from:replica
//! keyfold_replica_0:address=10.0.0.4:6379,of=10.0.0.1:6379,reads=12,returned=3,lag_ms=210,round_trip_us=80
//! ```
//! Where a cache is kept within its memory five lines say how that goes: by which policy, whether it is this keyfold that
//! removes keys, what servers count of their memory and up to where they may go; which keys left beside those of namespaces,
//! and how many servers evicted by themselves; writes that were refused; and of a sample of the keys that left how long ago
//! they had been asked for: how many no longer than so many seconds, and longer than the bound before.
//!
//! ```text
//! keyfold_cache:policy=tinylfu,evicts=1,used_bytes=99000000,max_bytes=100663296,unlimited=0,keys=730000,counters_bytes=1474560,looked_at=90000
//! keyfold_cache_evicted:plain=0,by_server=0,by_server_ms_ago=none
//! keyfold_cache_full:full=0,waited=0,refused=0,refused_ms_ago=none
//! keyfold_evicted_ages:total_ms=730211
//! keyfold_evicted_age_buckets:64=3,128=7
//! ```
//! Templates, paths and errors may hold any character: those that control terminals or end lines are shown as `\n` or
//! `\u{1b}`.

use std::borrow::Cow;
use std::fmt::{self, Write};

use super::{
    AgeBucket, AgesStatus, CacheStatus, CodecStatus, LargeBucketStatus, LatencyBucket, LatencyStatus, LayoutStatus,
    NamespaceStatus, Status, SweepStatus,
};
use crate::stats::{Contents, PrimaryStatus, ReplicaStatus, ReplicasStatus, SentinelStatus};

/// Lines of large buckets that are looked for: as many as are ever named, and some.
const MOST_LARGE: u64 = 64;

impl Status {
    /// The section `# Keyfold`.
    pub(crate) fn to_info(&self) -> String {
        let mut text = String::new();
        // Writing to a string can't fail.
        let _ = write_section(self, &mut text);
        text
    }

    /// What a keyfold said in its section of INFO; none where there is none, as of a server. Lines and fields that are not
    /// known are passed over, and what an earlier keyfold doesn't say is none, nothing or 0.
    pub fn read_info(text: &str) -> Option<Self> {
        let lines = Lines(text);
        let version = lines.value("keyfold_version")?.to_owned();
        let namespaces = (0..lines.number("keyfold_namespaces")).map_while(|index| lines.namespace(index));
        Some(Self {
            version,
            server: lines.value("keyfold_server").map(str::to_owned),
            requests: lines.value("keyfold_requests").and_then(|number| number.parse().ok()),
            latency: lines.latency(),
            layout: lines.layout(),
            namespaces: namespaces.collect(),
            sentinels: lines.sentinels(),
            replicas: lines.replicas(),
            cache: lines.cache(),
            sweep: lines.sweep(),
            large_buckets: (0..MOST_LARGE).filter_map(|index| lines.large_bucket(index)).collect(),
        })
    }
}

/// On one line, and harmless to a terminal.
fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

fn write_section(status: &Status, text: &mut String) -> fmt::Result {
    let LayoutStatus { epoch, in_doubt, hash, found_lost, put_back, connections_closed, changes } = &status.layout;
    let server =
        status.server.as_ref().map_or_else(String::new, |server| format!("keyfold_server:{}\r\n", plain(server)));
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
    text.extend(status.requests.iter().map(|requests| format!("keyfold_requests:{requests}\r\n")));
    status.latency.iter().try_for_each(|latency| write_latency(latency, text))?;
    text.extend(status.sentinels.iter().map(SentinelStatus::lines));
    text.extend(status.replicas.iter().map(ReplicasStatus::lines));
    text.extend(status.cache.iter().map(CacheStatus::lines));
    for (index, namespace) in status.namespaces.iter().enumerate() {
        write_namespace(index, namespace, text)?;
    }
    let SweepStatus { fields, expired, orphans, noted, lag_ms, walk_ms } = status.sweep;
    write!(
        text,
        "keyfold_sweep:fields={fields},expired={expired},orphans={orphans},noted={noted},lag_ms={lag_ms},walk_ms={walk_ms}\r\n"
    )?;
    for (index, LargeBucketStatus { name, fields, keys }) in status.large_buckets.iter().enumerate() {
        write!(text, "keyfold_large_bucket_{index}:name={name},fields={fields},keys={}\r\n", plain(keys))?;
    }
    Ok(())
}

fn write_latency(latency: &LatencyStatus, text: &mut String) -> fmt::Result {
    let LatencyStatus { commands, total_us, buckets } = latency;
    let bucket = |LatencyBucket { within_us, commands }: &LatencyBucket| match within_us {
        Some(bound) => format!("{bound}={commands}"),
        None => format!("inf={commands}"),
    };
    let buckets: Vec<_> = buckets.iter().map(bucket).collect();
    write!(
        text,
        "keyfold_latency:commands={commands},total_us={total_us}\r\nkeyfold_latency_buckets:{}\r\n",
        buckets.join(",")
    )
}

fn write_namespace(index: usize, namespace: &NamespaceStatus, text: &mut String) -> fmt::Result {
    let NamespaceStatus { keys, placement, reads, writes, spills, conflicts, hits, misses, swept, expired, .. } =
        namespace;
    let NamespaceStatus { evicted, evicted_new, .. } = namespace;
    let names = namespace.names.as_deref().unwrap_or("none");
    write!(
        text,
        "keyfold_namespace_{index}:keys={},names={names},reads={reads},writes={writes},spills={spills},\
         conflicts={conflicts},hits={hits},misses={misses},swept={swept},expired={expired},evicted={evicted},\
         evicted_new={evicted_new},moving={}\r\n\
         keyfold_placement_{index}:{}\r\n",
        plain(keys),
        u8::from(namespace.moving),
        plain(placement)
    )?;
    if let Some(former) = &namespace.former {
        write!(text, "keyfold_former_{index}:{}\r\n", plain(former))?;
    }
    if let Some(Contents { keys, buckets, stored_bytes, plain_bytes }) = namespace.contents {
        write!(
            text,
            "keyfold_contents_{index}:keys={keys},buckets={buckets},stored_bytes={stored_bytes},plain_bytes={plain_bytes}\r\n"
        )?;
    }
    let Some(CodecStatus { name, slot, value_bytes, stored_bytes }) = &namespace.codec else { return Ok(()) };
    let slot = slot.map_or("none".to_owned(), |slot| slot.to_string());
    write!(
        text,
        "keyfold_codecs_{index}:codec={name},slot={slot},value_bytes={value_bytes},stored_bytes={stored_bytes},\
         undecodable={}\r\n",
        namespace.undecodable
    )
}

/// The lines of INFO.
struct Lines<'t>(&'t str);

/// `name=value,name=value`.
#[derive(Clone, Copy)]
struct Fields<'t>(&'t str);

impl<'t> Lines<'t> {
    fn value(&self, name: &str) -> Option<&'t str> {
        self.0
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(|value| value.trim_end_matches('\r'))
    }

    fn number(&self, name: &str) -> u64 {
        self.value(name).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    fn fields(&self, name: &str) -> Option<Fields<'t>> {
        self.value(name).map(Fields)
    }

    fn layout(&self) -> LayoutStatus {
        let losses = self.fields("keyfold_layout_losses").unwrap_or(Fields(""));
        LayoutStatus {
            epoch: self.number("keyfold_layout_epoch"),
            hash: self.value("keyfold_layout_hash").unwrap_or_default().to_owned(),
            in_doubt: self.number("keyfold_layout_in_doubt") != 0,
            found_lost: losses.number("found"),
            put_back: losses.number("put_back"),
            connections_closed: losses.number("connections_closed"),
            changes: self.number("keyfold_layout_changes"),
        }
    }

    fn latency(&self) -> Option<LatencyStatus> {
        let fields = self.fields("keyfold_latency")?;
        let bucket = |text: &str| {
            let (bound, commands) = text.split_once('=')?;
            let within_us = if bound == "inf" { None } else { Some(bound.parse().ok()?) };
            Some(LatencyBucket { within_us, commands: commands.parse().ok()? })
        };
        let buckets = self.value("keyfold_latency_buckets").unwrap_or_default().split(',').filter_map(bucket);
        let (commands, total_us) = (fields.number("commands"), fields.number("total_us"));
        Some(LatencyStatus { commands, total_us, buckets: buckets.collect() })
    }

    fn namespace(&self, index: u64) -> Option<NamespaceStatus> {
        let line = self.value(&format!("keyfold_namespace_{index}"))?.strip_prefix("keys=")?;
        // A template may hold what looks like a field; those of the line come behind it.
        let (keys, rest) = line.split_at(line.rfind(",names=")?);
        let fields = Fields(rest);
        let text = |name: &str| self.value(&format!("{name}_{index}")).map(str::to_owned);
        let codecs = self.fields(&format!("keyfold_codecs_{index}"));
        Some(NamespaceStatus {
            keys: keys.to_owned(),
            names: fields.text("names").filter(|names| *names != "none").map(str::to_owned),
            placement: text("keyfold_placement").unwrap_or_default(),
            moving: fields.number("moving") != 0,
            former: text("keyfold_former"),
            reads: fields.number("reads"),
            hits: fields.number("hits"),
            misses: fields.number("misses"),
            writes: fields.number("writes"),
            spills: fields.number("spills"),
            conflicts: fields.number("conflicts"),
            undecodable: codecs.map_or(0, |codecs| codecs.number("undecodable")),
            swept: fields.number("swept"),
            expired: fields.number("expired"),
            evicted: fields.number("evicted"),
            evicted_new: fields.number("evicted_new"),
            contents: self.fields(&format!("keyfold_contents_{index}")).map(|contents| Contents {
                keys: contents.number("keys"),
                buckets: contents.number("buckets"),
                stored_bytes: contents.number("stored_bytes"),
                plain_bytes: contents.number("plain_bytes"),
            }),
            codec: codecs.map(|codecs| CodecStatus {
                name: codecs.text("codec").unwrap_or_default().to_owned(),
                slot: codecs.known("slot"),
                value_bytes: codecs.number("value_bytes"),
                stored_bytes: codecs.number("stored_bytes"),
            }),
        })
    }

    fn sentinels(&self) -> Option<SentinelStatus> {
        let asked = self.value("keyfold_sentinels")?.to_owned();
        let found = self.value("keyfold_sentinels_found").unwrap_or_default();
        let primary = self.fields("keyfold_primary").unwrap_or(Fields(""));
        let address = primary.text("address").filter(|address| *address != "none");
        Some(SentinelStatus {
            asked,
            found: found.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect(),
            primary: address.map(|address| PrimaryStatus {
                address: address.to_owned(),
                named_by: primary.text("named_by").unwrap_or_default().to_owned(),
                epoch: primary.number("epoch"),
            }),
            changes: primary.number("changes"),
        })
    }

    fn replicas(&self) -> Option<ReplicasStatus> {
        let read_from = self.value("keyfold_read_from")?.to_owned();
        let replica = |index: u64| {
            let fields = self.fields(&format!("keyfold_replica_{index}"))?;
            Some(ReplicaStatus {
                address: fields.text("address").unwrap_or_default().to_owned(),
                of: fields.text("of").unwrap_or_default().to_owned(),
                reads: fields.number("reads"),
                returned: fields.number("returned"),
                lag_ms: fields.known("lag_ms"),
                round_trip_us: fields.known("round_trip_us"),
                unfit: fields.text("unfit").map(str::to_owned),
            })
        };
        Some(ReplicasStatus { read_from, replicas: (0..).map_while(replica).collect() })
    }

    fn cache(&self) -> Option<CacheStatus> {
        let fields = self.fields("keyfold_cache")?;
        let part = |name: &str| self.fields(name).unwrap_or(Fields(""));
        let (evicted, full) = (part("keyfold_cache_evicted"), part("keyfold_cache_full"));
        let bucket = |text: &str| {
            let (bound, keys) = text.split_once('=')?;
            let within_s = if bound == "inf" { None } else { Some(bound.parse().ok()?) };
            Some(AgeBucket { within_s, keys: keys.parse().ok()? })
        };
        let buckets = self.value("keyfold_evicted_age_buckets").unwrap_or_default().split(',').filter_map(bucket);
        Some(CacheStatus {
            policy: fields.text("policy").unwrap_or_default().to_owned(),
            evicts: fields.number("evicts") != 0,
            used_bytes: fields.number("used_bytes"),
            max_bytes: fields.number("max_bytes"),
            unlimited: fields.number("unlimited"),
            keys: fields.number("keys"),
            counters_bytes: fields.number("counters_bytes"),
            looked_at: fields.number("looked_at"),
            plain_evicted: evicted.number("plain"),
            evicted_by_server: evicted.number("by_server"),
            evicted_by_server_ms_ago: evicted.known("by_server_ms_ago"),
            full: full.number("full") != 0,
            waited: full.number("waited"),
            refused: full.number("refused"),
            refused_ms_ago: full.known("refused_ms_ago"),
            evicted_ages: AgesStatus::of_buckets(buckets.collect(), part("keyfold_evicted_ages").number("total_ms")),
        })
    }

    fn sweep(&self) -> SweepStatus {
        let fields = self.fields("keyfold_sweep").unwrap_or(Fields(""));
        SweepStatus {
            fields: fields.number("fields"),
            expired: fields.number("expired"),
            orphans: fields.number("orphans"),
            noted: fields.known("noted").unwrap_or(0),
            lag_ms: fields.number("lag_ms"),
            walk_ms: fields.number("walk_ms"),
        }
    }

    fn large_bucket(&self, index: u64) -> Option<LargeBucketStatus> {
        let line = self.value(&format!("keyfold_large_bucket_{index}"))?;
        let (rest, keys) = line.strip_prefix("name=")?.rsplit_once(",keys=")?;
        let (name, fields) = rest.rsplit_once(",fields=")?;
        Some(LargeBucketStatus { name: name.to_owned(), fields: fields.parse().ok()?, keys: keys.to_owned() })
    }
}

impl<'t> Fields<'t> {
    fn text(self, name: &str) -> Option<&'t str> {
        self.0.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
    }

    /// A number, where it is one.
    fn known<N: std::str::FromStr>(self, name: &str) -> Option<N> {
        self.text(name)?.parse().ok()
    }

    /// A number; 0 where it isn't said.
    fn number(self, name: &str) -> u64 {
        self.known(name).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Cache, KeyHash};
    use crate::layout::{CachePolicy, Layout, NamespaceIndex};
    use crate::stats::{CommandEnd, CommandStats, CommandWay, Counts, Stats, Traffic};

    #[derive(Debug)]
    struct Counted(CommandStats);

    impl Traffic for Counted {
        fn requests(&self) -> u64 {
            731
        }

        fn commands(&self) -> Option<&CommandStats> {
            Some(&self.0)
        }
    }

    fn traffic(took_us: &[u64]) -> Counted {
        let stats = CommandStats::default();
        took_us.iter().for_each(|us| stats.count(None, CommandWay::PassedOn, CommandEnd::Ok, Some(*us)));
        Counted(stats)
    }

    /// A cache of which everything is known.
    fn cache() -> Cache {
        let cache = Cache::new(1 << 20);
        cache.show(Some((CachePolicy::TinyLfu, true)));
        cache.set_gauges(990, 1000, 2, 70);
        cache.set_now(100_000);
        cache.count_plain(3);
        cache.count_by_server(2);
        cache.count_looked_at(900);
        cache.count_refused();
        cache.set_full_in(|_| true);
        cache.set_now(107_000);
        (0..99).for_each(|number: u32| cache.popularity().ages().leave(KeyHash::of(&number.to_be_bytes())));
        cache
    }

    #[test]
    fn what_is_said_in_info_is_read_back() {
        let hostile =
            "[[namespace]]\nkeys = \"a,names=~x,reads=9:<script>\\\"'{id:int}:\u{202e}é\"\nbucket = { span = 64 }\n";
        let layout = format!(
            "{hostile}codec = 'hex'\n[[namespace]]\nkeys = 'page:{{path}}'\n[[namespace]]\nkeys = 'b:{{id}}'\nbucket = {{ count = 4 }}\n"
        );
        let layout = Layout::parse_file(&layout).unwrap();
        let stats = Stats::new(3);
        stats.note_server("unix:///run/a,b=c.sock".to_owned());
        stats.note_traffic(vec![std::sync::Arc::new(traffic(&[7, 40, 41, 9000, 1 << 40]))]);
        let first = stats.namespace(NamespaceIndex(0));
        first.add(Counts {
            reads: 7,
            hits: 5,
            misses: 2,
            writes: 9,
            spills: 1,
            conflicts: 3,
            undecodable: 4,
            swept: 8,
            expired: 6,
            evicted: 12,
            evicted_new: 2,
            value_bytes: 100,
            stored_bytes: 30,
        });
        first.set_contents(Some(Contents { keys: 6400, buckets: 100, stored_bytes: 98_000, plain_bytes: 460_000 }));
        stats.sweep().large_buckets.note(NamespaceIndex(0), b"~x,fields=1\r\n", 20_000, 1);
        stats.note_cache(std::sync::Arc::new(cache()));
        stats.sweep().set_walk_ms(77);
        let status = Status::new(&layout, &stats, 0);
        let read = Status::read_info(&format!("# Server\r\nredis_version:7.0.15\r\n\r\n{}", status.to_info())).unwrap();
        assert_eq!(read, status);
        assert_eq!((read.large_buckets[0].fields, read.saving()), (20_000, status.saving()));
        assert_eq!(status.latency.as_ref().map(|latency| latency.commands), Some(5));
        let cache = read.cache.unwrap();
        assert_eq!((cache.evicted_by_server_ms_ago, cache.refused_ms_ago), (Some(7000), Some(7000)));
        assert!(
            cache.evicted_ages.keys > 0 && cache.evicted_ages.median_ms.is_some_and(|ms| (4000..=8000).contains(&ms))
        );
        assert_eq!((read.namespaces[0].evicted, read.namespaces[0].evicted_new), (12, 2));
    }

    #[test]
    fn a_server_says_nothing_of_the_kind_and_an_earlier_keyfold_less() {
        assert_eq!(Status::read_info("# Server\r\nredis_version:7.0.15\r\n"), None);
        let earlier = "keyfold_version:0.0.9\r\nkeyfold_namespaces:2\r\nkeyfold_namespace_0:keys=u:{id:int},names=none,reads=3,writes=4\r\n";
        let read = Status::read_info(earlier).unwrap();
        assert_eq!((read.namespaces.len(), read.namespaces[0].writes, read.requests), (1, 4, None));
        assert_eq!(read.saving(), None);
        for garbage in [
            "keyfold_version:\r\nkeyfold_namespaces:18446744073709551615\r\n",
            "keyfold_version:1\r\nkeyfold_namespaces:1\r\nkeyfold_namespace_0:keys=",
            "keyfold_version:1\nkeyfold_latency:\nkeyfold_latency_buckets:=,x=y,1=,inf\n",
        ] {
            assert!(Status::read_info(garbage).unwrap().namespaces.is_empty());
        }
    }

    #[test]
    fn what_controls_terminals_or_ends_lines_is_shown() {
        assert_eq!(plain("user:{id}"), "user:{id}");
        assert_eq!(plain("a\r\nkeyfold_version:9\x1b[2J\u{9b}"), "a\\r\\nkeyfold_version:9\\u{1b}[2J\\u{9b}");
        let layout = Layout::parse_file(
            "[[namespace]]\nkeys = \"a\\u001b\\r\\nkeyfold_sweep:fields=9:{id:int}\"\nbucket = { span = 64 }\n",
        )
        .unwrap();
        let info = Status::new(&layout, &Stats::new(1), 0).to_info();
        assert!(
            !info.contains('\x1b')
                && info.lines().all(|line| line.starts_with("# Keyfold") || line.starts_with("keyfold_")),
            "{info}"
        );
        assert_eq!(Status::read_info(&info).unwrap().sweep.fields, 0);
    }
}
