//! The commands that something in keyfold is decided by, told apart once: where the table is read.

macro_rules! ids {
    ($($id:ident = $name:literal),* $(,)?) => {
        /// A command that something is decided by. A subcommand without an id of its own has its container's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each is the command that it is named for")]
        pub enum Id {
            $($id,)*
            /// Any other.
            Other,
        }

        impl Id {
            /// The id of a command by its whole lower-case name, its container's included.
            pub(super) fn of(name: &str) -> Self {
                match (name, name.split_once('|')) {
                    $(($name, _) => Self::$id,)*
                    (_, Some((container, _))) => Self::of(container),
                    _ => Self::Other,
                }
            }
        }
    };
}

ids! {
    // Whole values, and numbers in them.
    Get = "get", Set = "set", Setnx = "setnx", Setex = "setex", Psetex = "psetex", Mget = "mget", Mset = "mset",
    Msetnx = "msetnx", Msetex = "msetex", Getset = "getset", Getex = "getex", Getdel = "getdel", Append = "append",
    Setrange = "setrange", Setbit = "setbit",
    Bitfield = "bitfield", Incr = "incr", Incrby = "incrby", Decr = "decr", Decrby = "decrby",
    Incrbyfloat = "incrbyfloat",
    // Keys.
    Del = "del", Unlink = "unlink", Exists = "exists", Touch = "touch", Type = "type", Copy = "copy",
    Rename = "rename", Renamenx = "renamenx", Restore = "restore", Migrate = "migrate", Sort = "sort",
    SortRo = "sort_ro",
    // Expiries.
    Expire = "expire", Pexpire = "pexpire", Expireat = "expireat", Pexpireat = "pexpireat", Persist = "persist",
    Ttl = "ttl", Pttl = "pttl", Expiretime = "expiretime", Pexpiretime = "pexpiretime",
    // Other types.
    Linsert = "linsert", Lpushx = "lpushx", Lset = "lset", Rpushx = "rpushx", Blmpop = "blmpop", Bzmpop = "bzmpop",
    Sadd = "sadd", Srem = "srem", Srandmember = "srandmember", Hset = "hset", Hmset = "hmset", Hsetnx = "hsetnx",
    Hdel = "hdel", Hincrby = "hincrby", Hrandfield = "hrandfield", Scard = "scard", Sismember = "sismember",
    Smismember = "smismember", Smembers = "smembers", Hlen = "hlen", Hget = "hget", Hmget = "hmget",
    Hgetall = "hgetall", Hexists = "hexists", Hstrlen = "hstrlen",
    Hscan = "hscan", Sscan = "sscan", Zscan = "zscan", XgroupSetid = "xgroup|setid", Xsetid = "xsetid", Xread = "xread", Xreadgroup = "xreadgroup",
    // The keyspace.
    Scan = "scan", Keys = "keys", Dbsize = "dbsize", Randomkey = "randomkey", Flushall = "flushall",
    Flushdb = "flushdb", Swapdb = "swapdb",
    // The connection.
    Hello = "hello", Auth = "auth", Client = "client", ClientHelp = "client|help", Select = "select", Ping = "ping",
    Quit = "quit", Reset = "reset", Monitor = "monitor",
    // Transactions.
    Multi = "multi", Exec = "exec", Discard = "discard", Watch = "watch", Unwatch = "unwatch",
    // Publishing.
    Subscribe = "subscribe", Psubscribe = "psubscribe", Ssubscribe = "ssubscribe", Unsubscribe = "unsubscribe",
    Punsubscribe = "punsubscribe", Sunsubscribe = "sunsubscribe",
    // Programs.
    Eval = "eval", EvalRo = "eval_ro", Evalsha = "evalsha", EvalshaRo = "evalsha_ro", Fcall = "fcall",
    FcallRo = "fcall_ro", ScriptLoad = "script|load", ScriptExists = "script|exists",
    ScriptFlush = "script|flush", ScriptKill = "script|kill", ScriptDebug = "script|debug", FunctionKill = "function|kill",
    // The server.
    CommandInfo = "command|info", CommandDocs = "command|docs", CommandGetkeys = "command|getkeys",
    CommandGetkeysandflags = "command|getkeysandflags",
    SlowlogGet = "slowlog|get", SlowlogLen = "slowlog|len", SlowlogReset = "slowlog|reset",
    LatencyHistogram = "latency|histogram",
    Acl = "acl", AclCat = "acl|cat", AclGenpass = "acl|genpass", AclHelp = "acl|help", Info = "info",
    Debug = "debug", Save = "save", Shutdown = "shutdown", Wait = "wait", Waitaof = "waitaof", Sync = "sync",
    Psync = "psync", Replconf = "replconf", Cluster = "cluster",
    ClusterHelp = "cluster|help", ClusterSyncslots = "cluster|syncslots", Readonly = "readonly", Readwrite = "readwrite",
    Asking = "asking", Clusterscan = "clusterscan",
}

impl Id {
    /// Whether it is SUBSCRIBE, UNSUBSCRIBE or one of their kin.
    pub(crate) fn subscribes(self) -> bool {
        matches!(
            self,
            Self::Subscribe
                | Self::Psubscribe
                | Self::Ssubscribe
                | Self::Unsubscribe
                | Self::Punsubscribe
                | Self::Sunsubscribe
        )
    }
}
