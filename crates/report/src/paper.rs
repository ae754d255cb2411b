//! What is printed on: standard output, with the room that it has. Lines that are written are broken where they are too
//! long, and nothing in them moves a cursor, whatever the names in them hold; what programs read is put there as it is.

use std::fmt::Display;
use std::io::{self, Write};

use crate::room::Room;
use crate::visible::visible_but_styles;

/// Somewhere to print, so wide.
pub struct Paper {
    out: Box<dyn Write>,
    room: Room,
    /// The line that has not come to its end.
    line: Vec<u8>,
}

impl Paper {
    /// On `out`, within `room`.
    pub fn new(out: impl Write + 'static, room: Room) -> Self {
        Self { out: Box::new(out), room, line: Vec::new() }
    }

    /// How wide it is.
    pub fn room(&self) -> Room {
        self.room
    }

    /// Prints lines as they are, however long: JSON and files.
    ///
    /// # Errors
    /// What is printed on doesn't take it.
    pub fn whole(&mut self, text: impl Display) -> io::Result<()> {
        self.put_line()?;
        writeln!(self.out, "{text}")
    }

    fn put_line(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        match std::str::from_utf8(&line) {
            Ok(text) => self.out.write_all(self.room.wrap(&visible_but_styles(text)).as_bytes()),
            Err(_) => self.out.write_all(&line),
        }
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if self.line.pop_if(|last| *last == b'\n').is_some() {
                self.put_line()?;
                self.out.write_all(b"\n")?;
            }
        }
        Ok(bytes.len())
    }

    /// A question may wait for its answer in the same line.
    fn flush(&mut self) -> io::Result<()> {
        self.put_line()?;
        self.out.flush()
    }
}

impl Drop for Paper {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Sheet(Arc<Mutex<Vec<u8>>>);

    impl Write for Sheet {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_broken_wherever_writes_end() {
        let sheet = Sheet::default();
        let mut paper = Paper::new(sheet.clone(), Room::columns(20));
        for piece in ["one two ", "three four", " five\n\nsix\x1b[2J", "\n"] {
            paper.write_all(piece.as_bytes()).unwrap();
        }
        paper.whole("{\"a\": \"one two three four\"}").unwrap();
        write!(paper, "sure? ").unwrap();
        drop(paper);
        let printed = String::from_utf8(sheet.0.lock().unwrap().clone()).unwrap();
        assert_eq!(printed, "one two three four\n  five\n\nsix\\u{1b}[2J\n{\"a\": \"one two three four\"}\nsure? ");
    }
}
