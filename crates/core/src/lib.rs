//! The core of keyfold: folding without I/O.
//!
//! Bytes in, bytes out. Nothing here opens a socket, reads a clock or draws a random number; time and
//! nonces are arguments. The proxy, the tools and the tests all drive this one translation.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`layout`] | the versioned set of namespaces; from keys to places and back |
//! | [`placement`] | the rules that give keys their places |
//! | [`resp`] | the wire: requests of clients, replies of servers, answers |
//! | [`string`] | what each string command does to decoded values |
//! | [`template`] | the shapes of families of keys |
pub mod layout;
pub mod placement;
pub mod resp;
pub mod string;
pub mod template;
