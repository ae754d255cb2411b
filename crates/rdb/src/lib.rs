//! Dumps of Redis and Valkey (RDB files), read as a stream: one key after the other, in memory that doesn't grow with the file.
//!
//! ```text
//! bytes ──▶ input ──▶ text ──▶ value ──▶ dump ──▶ Record: a key, its type, how it was stored, how much there is of it
//!           checksum  lengths  types     what                └──▶ usage: what a server takes for it
//!                     LZF      packed    lies between keys
//! ```
//! | module | what it holds |
//! | --- | --- |
//! | `dump` | the file: its head, what lies between keys, its checksum |
//! | `value` | what each type of value looks like |
//! | `packed` | lists, hashes and sets that are one string: listpack, ziplist, intset |
//! | `part` | one member, field, value or score |
//! | `text` | lengths, and strings in their encodings |
//! | `input` | bytes, counted and summed up |
//! | `payload` | a value as DUMP gives it: for any server, or taken apart |
//! | `usage` | what a server takes for a value |
//! | `error` | why a dump can't be read on |
//!
//! Read is what Redis 6.2 to 8.0 and Valkey to 9.1 write. What is not known ends the reading with an error: where a value's end isn't
//! known, nothing behind it can be read. A long string is kept up to [`KEPT_BYTES`]; a packed list, hash or set is read whole.
//!
//! Source of the format: `rdb.h`, `rdb.c`, `listpack.c`, `ziplist.c`, `intset.c` of Redis 7.0 and 8.0 and Valkey 9.1.
#![forbid(unsafe_code)]

mod dump;
mod error;
mod input;
mod packed;
mod part;
mod payload;
mod text;
mod usage;
mod value;

pub use dump::{Dump, EvictsBy, Head, Key, Record};
pub use error::DumpError;
pub use input::KEPT_BYTES;
pub use part::Part;
pub use payload::{expiring_hash, portable, stream_groups};
pub use text::Text;
pub use usage::Usage;
pub use value::{Collection, Element, Form, Kind, Value};
