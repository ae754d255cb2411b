//! Layouts that are lost, halved, rolled back or unreadable, with keyfolds running and without.

mod alone;
mod cluster;
mod codecs;
mod served;
mod stage;
mod unwritable;
