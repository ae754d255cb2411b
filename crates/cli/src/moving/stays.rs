//! What stays in its old place, and why.

use keyfold_core::layout::{Layout, Located};
use keyfold_core::mover::{Left, Moved};
use keyfold_report::number::{count, plural};

use crate::records::key_name;
use crate::records::place::Stored;

/// A key that does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stays {
    pub(crate) database: u32,
    pub(crate) key: Vec<u8>,
    pub(crate) why: Left,
}

impl Stays {
    /// Which key it is.
    pub(crate) fn name(&self) -> String {
        key_name(self.database, &self.key)
    }

    /// Why, and what to do, by the layout in which it is being moved.
    pub(crate) fn why(&self, layout: &Layout) -> String {
        match &self.why {
            Left::OtherType(kind) => format!("it is a {kind}; rename or remove it"),
            Left::InBoth => format!(
                "it was written in its old place too, past keyfold or before the move began; clients see the value in the new place. \
                 `{}` on the server itself, not through keyfold, removes the other one",
                removal_of_old(&self.key, layout)
            ),
            Left::Damaged(why) => format!("{why}; see keyfold verify"),
            Left::NotAHash => {
                "it is called as the hashes are that keys are moved out of, and is none; rename it".to_owned()
            }
            Left::NoKey { field } => format!(
                "its field \"{}\" is the place of no key; write what it holds elsewhere, or remove it",
                field.escape_ascii()
            ),
        }
    }

    /// Both.
    pub(crate) fn line(&self, layout: &Layout) -> String {
        format!("{}: {}", self.name(), self.why(layout))
    }
}

/// The command that removes what lies in a key's old place.
fn removal_of_old(key: &[u8], layout: &Layout) -> String {
    let old = match layout.locate(key) {
        Located::Moving(moving) => moving.old,
        Located::Placed(_) | Located::Plain | Located::Reserved => None,
    };
    Stored::of(old.as_ref(), key).removal()
}

/// How many stay in their old places, and who reaches them there.
pub(crate) fn describe(left: &Moved) -> String {
    let reached = left.left_count - left.without_key;
    let reached = (reached > 0).then(|| match reached {
        1 => "1 key stays in its old place, where clients of keyfold still reach it".to_owned(),
        _ => format!("{} keys stay in old places, where clients of keyfold still reach them", count(reached)),
    });
    let without_key = (left.without_key > 0).then(|| {
        let fields = plural(left.without_key, "field");
        format!("{fields} of handmade hashes belong to no key, and clients of keyfold don't reach what is there")
    });
    reached.into_iter().chain(without_key).collect::<Vec<_>>().join("; ")
}
