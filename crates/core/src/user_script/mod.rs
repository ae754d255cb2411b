//! Users' scripts (EVAL, EVALSHA) and functions (FCALL) whose keys are folded. The server runs them, behind a few lines of keyfold's own that give
//! them another `redis`: its `call` and `pcall` find declared keys where they lie.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `bodies` | the scripts that clients have made known |
//! | `functions` | the functions that a server has |
//! | `text` | what is put before one |
//! | `one_command` | a command as a script of its own, for transactions |
//! | `lexer` | the words of a Lua program |
//! | `prelude.lua` | what is put before: where the declared keys lie, and `redis.call` |
//! | `elsewhere.lua` | what stands in for a bucket where a value is a codec's, a string of its own, or may lie in two places |
//! | `library.lua`, `caught.lua` | what is put before a library of functions besides |
//! | `state.lua`, `stale.lua` | which functions the server has, and whether keyfold knows them |
//! | `numerals.lua`, `integers.lua` | numbers to other bases, and back |
//! | `unpacked.lua`, `packed.lua` | packed sets and hashes, read and made |
//! | `members.lua` | commands on members and fields of those |
//! | `in_parts.lua` | the same of large ones, which lie in parts |
//! | `events.lua` | what commands do to folded keys, published where the server publishes such |
//! | `ordinary.lua` | commands on a field, by the scripts that carry out commands on fields |
//! | `rest.lua` | what those decline: other frames, spilled values, several keys; and what the server does on a scratch key |
//!
//! A command in a script goes one of three ways, from cheap to general: *by the script on a field* that carries out the same
//! command elsewhere ([`crate::exchange`]); *by reading and writing* the frame, for values that need more; *on a scratch key*,
//! where the server itself carries it out on the value and what it made of it is written back. So all errors are the server's
//! words, and commands of any release work.

mod bodies;
mod functions;
mod lexer;
mod one_command;
mod text;

pub use bodies::{Scripts, Sha, UserScript};
pub(crate) use functions::{Asked, Asking, Functions, Listed};
pub(crate) use one_command::{one_command, reply_of_one_command};
