//! What people read: numbers, tables, charts in a terminal, progress, pages and drawings.
//!
//! | room | what it holds |
//! | --- | --- |
//! | `number.rs` | numbers as people read them |
//! | `room.rs` | how wide what is printed may be |
//! | `visible.rs` | text that harms no terminal |
//! | `paper.rs` | what is printed on, with its room |
//! | `table.rs` | tables of text, as wide as there is room |
//! | `terminal.rs` | bars of unicode blocks, as wide as the terminal allows |
//! | `progress.rs` | how far a long piece of work is |
//! | `font.rs` | the letters of drawings |
//! | `plot.rs` | plots, as SVG and as PNG |
//! | `page` | one HTML page that stands by itself, with tables, bars and charts |
#![forbid(unsafe_code)]

mod font;
pub mod number;
pub mod page;
pub mod paper;
pub mod plot;
pub mod progress;
pub mod room;
pub mod table;
pub mod terminal;
pub mod visible;
