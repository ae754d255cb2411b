//! Small keys folded into small hashes, without I/O: the core of keyfold.
//!
//! A plain small key costs a Redis or Valkey server 50 to 140 bytes before its value. A *layout* says which families of
//! keys lie in listpack-encoded hashes instead, and this crate makes every command work on them as if they did not.
//!
//! ```text
//!            ┌───────────────────────────── keyfold-core ─────────────────────────────┐
//! GET n:5 ──▶│ session: what it needs ─▶ layout: key → place ─▶ exchange: a conversation │──▶ HGET ~…0 5 ──▶ server
//! "hello" ◀──│      answer  ◀───────────── stored value ◀───────────── exchange          │◀── "hello" ◀─────
//!            └────────────────────────────────────────────────────────────────────────┘
//!              time, fresh numbers and bytes come in as arguments; bytes go out
//! ```
//!
//! Nothing here opens a socket, reads a clock or draws a random number. The proxy, the tools and the tests all drive this
//! one translation; whoever writes a binding starts at [`drive`].
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`access`] | who may use the proxy, and for what |
//! | [`admin`] | what keyfold keeps for itself in a server |
//! | [`base62`] | numbers as physical names write them |
//! | [`byte_size`] | sizes as people write them |
//! | [`cache`] | who is asked for, where a cache is kept |
//! | [`change`] | how the layout in force is replaced at a moment when nobody serves |
//! | [`clients`] | the clients of one proxy, as CLIENT, MONITOR and INFO show them |
//! | [`cluster`] | who has a cluster's slots, and where commands go while they move |
//! | [`codec`] | values in fewer bytes than they have |
//! | [`collection`] | sets and hashes as a client means them, and as one stored value |
//! | [`command`] | what the servers say of each command: arity, flags, where its keys are |
//! | [`dialect`] | by whose rules commands are read: the server's behind, and what later servers have besides |
//! | [`drive`] | what drives conversations: requests and answers in order, replies to whose they are |
//! | [`eviction`] | which keys leave a cache when memory is full |
//! | [`exchange`] | one logical command's conversation with the server |
//! | [`frame`] | stored values: raw, or a tag byte and what it says |
//! | [`glob`] | patterns as KEYS, SCAN and PSUBSCRIBE read them |
//! | [`layout`] | the versioned set of namespaces; from keys to places and back |
//! | `members` | what each set and hash command does to decoded collections |
//! | [`memory`] | what keys will take in a server, before they are there |
//! | [`mover`] | the walk that brings keys from their old places to their new ones |
//! | `named` | enums whose every variant has a name |
//! | [`notify`] | keyspace notifications of folded keys, as a plain server publishes them |
//! | [`number`] | numbers in arguments and values, as strictly as the server reads them |
//! | [`payload`] | a value as DUMP gives it, and RESTORE takes it |
//! | [`placement`] | the rules that give keys their places |
//! | [`record`] | how a key, its value and its expiry lie in a server |
//! | `redaction` | what of a request is shown to nobody |
//! | [`resp`] | the wire: requests of clients, replies of servers, answers |
//! | [`sentinel`] | who of a group of servers is the primary, as Sentinels tell it |
//! | [`server_info`] | which server it is, and of which release; how INFO is read |
//! | [`session`] | one client's connection, and the way of each of its requests |
//! | [`slot`] | the slots of a cluster, and a short tag for each |
//! | [`slowlog`] | which requests of clients were slow |
//! | [`stats`] | what is counted of commands and of each namespace, and what the sweep knows and has done |
//! | [`status`] | what a keyfold says of itself, for INFO, `/status` and metrics |
//! | [`string`] | what each string command does to decoded values |
//! | [`sweep`] | removing what has expired, and spilled values that nothing points to |
//! | [`template`] | the shapes of families of keys |
//! | [`tracking`] | client-side caching: who is told of which keys when they change |
//! | [`user_script`] | users' scripts, known by their hashes, and what is put before those whose keys are folded |
//! | [`walk`] | the walk over a server's names |
//!
//! # A client without a proxy
//!
//! `examples/blocking_client.rs`, whole: it opens a folded server and carries out commands there, over a socket of the
//! standard library.
//!
#![doc = concat!("```no_run\n", include_str!("../examples/blocking_client.rs"), "```")]
#![warn(clippy::unwrap_used)]

pub mod access;
pub mod admin;
pub mod base62;
pub mod byte_size;
pub mod cache;
pub mod change;
pub mod clients;
pub mod cluster;
pub mod codec;
pub mod collection;
pub mod command;
pub mod dialect;
pub mod drive;
pub mod eviction;
pub mod exchange;
pub mod frame;
pub mod glob;
pub mod layout;
mod members;
pub mod memory;
pub mod mover;
mod named;
pub mod notify;
pub mod number;
pub mod payload;
pub mod placement;
pub mod record;
mod redaction;
pub mod resp;
pub mod sentinel;
pub mod server_info;
pub mod session;
pub mod slot;
pub mod slowlog;
pub mod stats;
pub mod status;
pub mod string;
pub mod sweep;
pub mod template;
pub mod tracking;
pub mod user_script;
pub mod walk;
