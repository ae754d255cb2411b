//! The core of keyfold: folding without I/O.
//!
//! Bytes in, bytes out. Nothing here opens a socket, reads a clock or draws a random number; time and
//! nonces are arguments. The proxy, the tools and the tests all drive this one translation.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`access`] | who may use the proxy, and for what |
//! | [`command`] | what the servers say of each command: arity, flags, where its keys are |
//! | [`resp`] | the wire: requests of clients, replies of servers, answers |
//! | [`string`] | what each string command does to decoded values |
pub mod access;
pub mod command;
pub mod exchange;
pub mod resp;
pub mod session;
pub mod string;
