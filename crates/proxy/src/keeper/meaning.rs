//! What a register means to this process.

use keyfold_core::change::{Found, Register, Standing};
use keyfold_core::layout::{Layout, Revision};
use keyfold_core::placement::Secrets;

use crate::folding::Folding;

/// What a register means to this process.
#[derive(Debug, Default)]
pub(super) struct Meaning {
    pub(super) register: Register,
    /// The layout that is served, which it is compared with; none before the first look.
    pub(super) served: Option<Revision>,
    pub(super) found: Found,
    /// The layout that is in force, where that is another than is served.
    pub(super) layout: Option<Layout>,
    /// What is to be put in force, where something was lost.
    pub(super) put_back: Option<Layout>,
    /// The newest layout that this takes account of.
    pub(super) base: Revision,
    /// One half of the register is gone.
    pub(super) is_half: bool,
    /// What the operator should know of it.
    pub(super) trouble: Option<String>,
}

impl Meaning {
    /// `must_follow`: the register can't have been changed rightly since the last look, as nobody asked this process to
    /// stop, or had its connections closed.
    pub(super) fn of(register: &Register, served: &Folding, secrets: &Secrets, must_follow: bool) -> Self {
        let knows = served.layout.revision();
        let mut meaning = Self { register: register.clone(), served: Some(knows), base: knows, ..Self::default() };
        if served.is_in_force(register.layout.as_deref(), register.copy.as_deref()) {
            meaning.found = Found::InForce(knows);
            meaning.is_half = register.layout != register.copy;
            return meaning;
        }
        match register.standing(secrets) {
            Standing::InForce(layout) | Standing::Half(layout) if must_follow || layout.epoch() <= knows.epoch => {
                meaning.base = knows.max(layout.revision());
                meaning.lost(served.layout.united(&layout));
            }
            Standing::InForce(layout) => meaning.newer(layout, false),
            Standing::Half(layout) => meaning.newer(layout, true),
            Standing::Parted(united) if united.epoch() > knows.epoch => meaning.lost(Ok(united)),
            Standing::Parted(united) => meaning.lost(served.layout.united(&united)),
            Standing::Lost(_) => meaning.lost(Ok(served.layout.put_back())),
            Standing::Unclear(why) | Standing::OtherVersion(why) => meaning.unreadable(&why),
        }
        meaning
    }

    fn newer(&mut self, layout: Layout, is_half: bool) {
        self.found = Found::InForce(layout.revision());
        self.is_half = is_half;
        self.layout = Some(layout);
    }

    fn lost(&mut self, put_back: Result<Layout, String>) {
        match put_back {
            Ok(layout) => {
                self.found = Found::Lost;
                self.put_back = Some(layout);
            }
            Err(why) => self.unreadable(&why),
        }
    }

    fn unreadable(&mut self, why: &str) {
        self.found = Found::Unreadable;
        self.trouble = Some(format!(
            "the layout on the server is not one that this keyfold can serve ({why}); `keyfold layout recover` says what \
             is there"
        ));
    }
}

#[cfg(test)]
mod tests {
    use keyfold_core::layout::{Attempt, LayoutFile, NamespaceIndex};

    use super::*;

    const FILE: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 8 }\n";

    fn settled() -> Layout {
        Layout::parse_file(FILE).unwrap().with_attempt(Attempt(1))
    }

    /// The next one, in which keys move to other buckets, and the one after it.
    fn moved() -> (Layout, Layout) {
        let file = LayoutFile::parse(&FILE.replace('8', "9")).unwrap();
        let moving = settled().plan_fold(&file).unwrap().layout.with_attempt(Attempt(2));
        let after = moving.settled(&[NamespaceIndex(0)]).with_attempt(Attempt(3));
        (moving, after)
    }

    fn meaning(register: &Register, served: &Layout, must_follow: bool) -> Meaning {
        Meaning::of(register, &Folding::new(served.clone(), false), &Secrets::default(), must_follow)
    }

    fn register(layout: &Layout) -> Register {
        Register::of(layout.to_stored().as_bytes())
    }

    #[test]
    fn the_own_layout_is_in_force_by_one_half_too() {
        let own = settled();
        let whole = register(&own);
        assert_eq!(meaning(&whole, &own, true).found, Found::InForce(own.revision()));
        for half in [Register { copy: None, ..whole.clone() }, Register { layout: None, ..whole }] {
            let meaning = meaning(&half, &own, true);
            assert!(meaning.found == Found::InForce(own.revision()) && meaning.is_half);
        }
        let nothing = Register::default();
        assert_eq!(meaning(&nothing, &Layout::default(), true).found, Found::InForce(Revision::default()));
        // One without namespaces that was in force knows better than nothing.
        let unfolded = Layout::default().with_attempt(Attempt(9));
        assert_eq!(meaning(&nothing, &unfolded, true).found, Found::Lost);
    }

    #[test]
    fn what_is_gone_or_older_is_put_back_by_a_newer_epoch() {
        let (moving, after) = moved();
        for lost in [Register::default(), register(&moving), Register::of(b"?")] {
            let meaning = meaning(&lost, &after, false);
            assert_eq!((meaning.found, meaning.base), (Found::Lost, after.revision()));
            let back = meaning.put_back.unwrap();
            assert!(back.epoch() > after.epoch() && back.is_in_doubt());
            assert_eq!(back.namespaces()[0].stem, after.namespaces()[0].stem);
        }
    }

    #[test]
    fn a_newer_one_is_served_unless_nobody_can_have_put_it_there_rightly() {
        let (moving, after) = moved();
        let found = meaning(&register(&moving), &settled(), false);
        assert_eq!((found.found, found.layout), (Found::InForce(moving.revision()), Some(moving.clone())));
        let past_keyfold = meaning(&register(&moving), &settled(), true);
        assert_eq!((past_keyfold.found, past_keyfold.base), (Found::Lost, moving.revision()));
        // Two places are united; three are too many to look in.
        let set_back_twice = meaning(&register(&settled()), &moving.settled(&[NamespaceIndex(0)]), false);
        assert_eq!(set_back_twice.found, Found::Lost);
        let third = LayoutFile::parse(&FILE.replace('8', "10")).unwrap();
        let third = after.plan_fold(&third).unwrap().layout;
        assert_eq!(meaning(&register(&settled()), &third, false).found, Found::Unreadable);
    }

    #[test]
    fn what_cannot_be_read_is_left_alone() {
        let newer = settled().to_stored().replace("version = 2", "version = 3");
        let meaning = meaning(&Register::of(newer.as_bytes()), &settled(), true);
        assert_eq!(meaning.found, Found::Unreadable);
        assert!(meaning.put_back.is_none() && meaning.trouble.unwrap().contains("keyfold layout recover"));
    }
}
