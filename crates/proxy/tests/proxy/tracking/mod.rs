//! Client-side caching: is a client that keeps what it read told whenever that is not so any more?
//!
//! | module | what it asks |
//! | --- | --- |
//! | `words` | are CLIENT TRACKING, its errors and its messages the server's? |
//! | `nodes` | and before a cluster, whatever becomes of slots and nodes? |
//! | `told` | is who has read a key told, however it lies and whoever changes it? |
//! | `caches` | random clients with caches, and random writers: does every cache agree with the server in the end? |

mod caches;
mod nodes;
mod told;
mod words;

pub(crate) use told::{Told, keys_of};
