//! The register, which says what layout is in force, and the copy beside it.
//!
//! ```text
//! keyfold:{home}:layout        (string)   the layout in force, in its stored form
//! keyfold:{home}:layout:copy   (string)   the same bytes, always written in the same atomic step
//! ```
//! As both are always written together, two that differ were not left so by keyfold: one of them was removed, evicted
//! or damaged, or put back to what it was before.
//!
//! | register and copy | what that means |
//! | --- | --- |
//! | equal, and can be read | the layout is in force |
//! | one can be read, the other is gone or damaged | the one that can be read is in force, and is written to both |
//! | differ, and both can be read | a layout that looks for keys where either says takes their place |
//! | one is of another version of keyfold's | nothing is in force here until that keyfold has gone on with it |
//! | neither can be read, or is there | the layout is lost: whoever served it last puts it back |

use crate::admin::{COPY_KEY, LAYOUT_KEY};
use crate::exchange::CompareAndSet;
use crate::layout::Layout;
use crate::placement::Secrets;

/// The two keys as they were at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Register {
    /// What lies under [`LAYOUT_KEY`].
    pub layout: Option<Vec<u8>>,
    /// What lies under [`COPY_KEY`].
    pub copy: Option<Vec<u8>>,
}

/// What the two keys mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// This layout is in force.
    InForce(Layout),
    /// This layout is in force, and is to be written to both keys, as [`Register::replace`] does: one of them is gone or
    /// damaged.
    Half(Layout),
    /// The two say different things, and this layout, which looks for keys where either says, is to take their place.
    Parted(Layout),
    /// The two say different things, and no one layout looks for keys in all the places that they name. Which.
    Unclear(String),
    /// A keyfold of another version wrote it, or it takes a secret that was not given; it must be left as it is. Why it
    /// can't be read.
    OtherVersion(String),
    /// There is no layout; where something else lies there, what is wrong with it.
    Lost(Option<String>),
}

/// One of the two, read.
enum Read {
    Layout(Layout),
    OtherVersion(String),
    Damaged(String),
    Nothing,
}

impl Register {
    /// The register as it is while this layout, in its stored form, is in force.
    pub fn of(text: &[u8]) -> Self {
        Self { layout: Some(text.to_vec()), copy: Some(text.to_vec()) }
    }

    /// What the two mean, with the secrets that namespaces may be keyed by.
    pub fn standing(&self, secrets: &Secrets) -> Standing {
        match (read(self.layout.as_deref(), secrets), read(self.copy.as_deref(), secrets)) {
            (Read::OtherVersion(why), _) | (_, Read::OtherVersion(why)) => Standing::OtherVersion(why),
            (Read::Layout(layout), Read::Layout(_)) if self.layout == self.copy => Standing::InForce(layout),
            (Read::Layout(layout), Read::Layout(copy)) => {
                let united = if layout.epoch() >= copy.epoch() { layout.united(&copy) } else { copy.united(&layout) };
                united.map_or_else(Standing::Unclear, Standing::Parted)
            }
            (Read::Layout(layout), _) | (_, Read::Layout(layout)) => Standing::Half(layout),
            (Read::Damaged(why), _) | (_, Read::Damaged(why)) => Standing::Lost(Some(why)),
            (Read::Nothing, Read::Nothing) => Standing::Lost(None),
        }
    }

    /// Appends the atomic step that writes a layout to both keys, if they still hold what was seen. It has one reply:
    /// 1 where it was carried out.
    pub fn replace(&self, layout: &Layout, wire: &mut Vec<u8>) {
        let mut step = CompareAndSet::default();
        self.check(&mut step);
        Self::of(layout.to_stored().as_bytes()).write(&mut step);
        step.send_with_text(wire);
    }

    pub(super) fn check(&self, step: &mut CompareAndSet) {
        step.check(&[b"GET", LAYOUT_KEY], self.layout.as_deref());
        step.check(&[b"GET", COPY_KEY], self.copy.as_deref());
    }

    pub(super) fn write(&self, step: &mut CompareAndSet) {
        for (key, half) in [(LAYOUT_KEY, &self.layout), (COPY_KEY, &self.copy)] {
            if let Some(text) = half {
                step.write(&[b"SET", key, text]);
            }
        }
    }
}

fn read(held: Option<&[u8]>, secrets: &Secrets) -> Read {
    let Some(bytes) = held else { return Read::Nothing };
    let Ok(text) = std::str::from_utf8(bytes) else { return Read::Damaged("it is no text".to_owned()) };
    match Layout::from_stored_with(text, secrets) {
        Ok(layout) => Read::Layout(layout),
        Err(error) if !error.is_damage() => Read::OtherVersion(error.to_string()),
        Err(error) => Read::Damaged(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{LayoutFile, NamespaceIndex};

    fn layout(span: u32) -> Layout {
        Layout::parse_file(&format!("[[namespace]]\nkeys = 'user:{{id:int}}'\nbucket = {{ span = {span} }}\n")).unwrap()
    }

    fn text(layout: &Layout) -> Option<Vec<u8>> {
        Some(layout.to_stored().into_bytes())
    }

    fn standing(layout: Option<Vec<u8>>, copy: Option<Vec<u8>>) -> Standing {
        Register { layout, copy }.standing(&Secrets::default())
    }

    #[test]
    fn one_of_the_two_is_enough() {
        let layout = layout(8);
        assert_eq!(standing(text(&layout), text(&layout)), Standing::InForce(layout.clone()));
        for other in [None, Some(b"\xff".to_vec()), Some(b"version = 2".to_vec())] {
            assert_eq!(standing(text(&layout), other.clone()), Standing::Half(layout.clone()));
            assert_eq!(standing(other, text(&layout)), Standing::Half(layout.clone()));
        }
    }

    #[test]
    fn what_was_rolled_back_is_put_forward_again() {
        let before = layout(8);
        let other = LayoutFile::parse("[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 9 }\n").unwrap();
        let moving = before.plan_fold(&other).unwrap();
        let after = moving.layout.settled(&[NamespaceIndex(0)]);
        for (one, other) in [(&before, &after), (&after, &before)] {
            let Standing::Parted(back) = standing(text(one), text(other)) else { panic!("they differ") };
            assert_eq!(back.namespaces()[0].stem, after.namespaces()[0].stem);
            assert_eq!(back.namespaces()[0].former.as_ref().unwrap().stem, before.namespaces()[0].stem);
            assert!(back.epoch() > after.epoch() && back.is_in_doubt());
        }
    }

    #[test]
    fn another_version_is_left_alone() {
        let layout = layout(8);
        let newer = Some(layout.to_stored().replace("version = 2", "version = 3").into_bytes());
        for other in [None, text(&layout), newer.clone()] {
            assert!(matches!(standing(newer.clone(), other.clone()), Standing::OtherVersion(_)));
            assert!(matches!(standing(other, newer.clone()), Standing::OtherVersion(_)));
        }
        let unknown = Some(layout.to_stored().replace("epoch", "more = 1\nepoch").into_bytes());
        assert!(matches!(standing(unknown.clone(), unknown), Standing::OtherVersion(_)));
    }

    #[test]
    fn nothing_and_garbage_are_a_loss() {
        assert_eq!(standing(None, None), Standing::Lost(None));
        for other in [None, Some(b"!".to_vec())] {
            assert!(matches!(standing(Some(b"?".to_vec()), other), Standing::Lost(Some(_))));
        }
    }
}
