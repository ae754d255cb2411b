//! Layouts that are lost, halved, rolled back or unreadable, with no keyfold running.

mod alone;
mod codecs;
mod stage;
