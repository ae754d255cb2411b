//! What a name of the server is asked: it says itself what lies under it.

use std::mem;

use keyfold_core::admin;
use keyfold_core::layout::Physical;
use keyfold_core::resp::Reply;
use keyfold_core::slot::Slot;
use keyfold_core::walk::{BucketWalk, KeyWalk};

use super::RecordWalk;
use super::nodes::Sights;
use crate::records::digest;
use crate::records::finding::FindingKind;
use crate::records::inquiry::{Field, Fields, Inquiry, Own, Seen};
use crate::records::place::{self, Spot, Stored};

/// Keys of their own in one question.
const STRINGS_AT_ONCE: usize = 32;

impl RecordWalk<'_> {
    pub(super) fn take_names(&mut self, mut walk: KeyWalk, reply: Reply<'_>) -> anyhow::Result<()> {
        let names: Vec<Vec<u8>> = walk.take(reply)?.map(<[u8]>::to_vec).collect();
        if self.has_enough {
            return Ok(());
        }
        self.names = Some(walk).filter(|walk| !walk.is_over());
        self.take_page(names.iter().map(Vec::as_slice))
    }

    /// Names that a server has.
    pub(super) fn take_page<'n>(&mut self, names: impl Iterator<Item = &'n [u8]>) -> anyhow::Result<()> {
        let mut strings = Vec::new();
        for name in names {
            if self.sights.as_mut().is_some_and(|sights| !sights.wants(name)) {
                continue;
            }
            if self.manner.forgetful || self.is_new(name)? {
                self.progress.advance(1);
                strings.extend(self.take_name(name.to_vec())?);
            }
        }
        if self.sights.is_some() {
            self.push_by_slot(strings);
            return Ok(());
        }
        while !strings.is_empty() {
            let rest = strings.split_off(strings.len().min(STRINGS_AT_ONCE));
            self.waiting.push_back(Inquiry::Strings(mem::replace(&mut strings, rest)));
        }
        Ok(())
    }

    /// A question is of one slot. Of a slot on its way each key is asked about by itself: nodes refuse those that lie in
    /// two.
    fn push_by_slot(&mut self, mut strings: Vec<Own>) {
        strings.sort_by_cached_key(|own| Slot::of(&own.physical));
        let is_apart = |sights: &Sights, own: &Own| sights.is_on_its_way(Slot::of(&own.physical));
        let Some(sights) = &self.sights else { return };
        let mut group: Vec<Own> = Vec::new();
        for own in strings {
            let slot = Slot::of(&own.physical);
            let joins = group.last().is_some_and(|last| Slot::of(&last.physical) == slot);
            if !group.is_empty() && (!joins || group.len() == STRINGS_AT_ONCE || is_apart(sights, &own)) {
                self.waiting.push_back(Inquiry::Strings(mem::take(&mut group)));
            }
            group.push(own);
        }
        if !group.is_empty() {
            self.waiting.push_back(Inquiry::Strings(group));
        }
    }

    fn is_new(&mut self, name: &[u8]) -> anyhow::Result<bool> {
        self.seen.insert(digest::name(name), 0)
    }

    /// What a name of the server is to be asked; a key of its own, where it is one.
    fn take_name(&mut self, name: Vec<u8>) -> anyhow::Result<Option<Own>> {
        let layout = self.manner.layout;
        let physical = layout.read_physical(&name);
        if !(self.manner.reads)(&name, physical.namespace()) {
            return Ok(None);
        }
        let ask = match physical {
            Physical::Administration if admin::is_own(&name) => return Ok(None),
            // An application had it before keyfold came.
            Physical::Administration if !self.manner.folded => return Ok(Some(plain(name))),
            Physical::Administration => Inquiry::Unknown { name },
            Physical::Plain if place::is_allowed(layout, &name, Spot::Plain) => {
                match place::new_place(layout, &name, Spot::Plain) {
                    None => return Ok(Some(plain(name))),
                    Some(new) => Inquiry::Both { new, old: Spot::Plain.stored(&name), seen: Seen::Name(plain(name)) },
                }
            }
            Physical::Plain => {
                let Some(place) = place::place_of(layout, &name) else { return Ok(Some(plain(name))) };
                Inquiry::Twin { place: Stored::of(Some(&place), &name), key: name }
            }
            Physical::Bucket(namespace) => {
                Inquiry::Bucket { walk: BucketWalk::new(namespace, &name), before: Fields::new() }
            }
            Physical::Zipped { namespace, key }
                if place::is_allowed(layout, &key, Spot::Zipped { physical: &name }) =>
            {
                let spot = Spot::Zipped { physical: &name };
                let both = place::new_place(layout, &key, spot).map(|new| (new, spot.stored(&key)));
                let own = Own { physical: name, key, namespace: Some(namespace) };
                match both {
                    None => return Ok(Some(own)),
                    Some((new, old)) => Inquiry::Both { new, old, seen: Seen::Name(own) },
                }
            }
            Physical::Spill { namespace, nonce, key } => {
                if !self.manner.wants.owners {
                    return Ok(None);
                }
                let place = layout.place_beside(&name, key);
                let key = key.to_vec();
                let Some(place) = place else {
                    self.find(FindingKind::StraySpill, name, None, Some(key), String::new())?;
                    return Ok(None);
                };
                let (bucket, field) = (place.physical.to_vec(), place.field.to_vec());
                Inquiry::Owner { field: Field { namespace, bucket, field, key }, nonce, name, again: false }
            }
            // The sweep removes those that nothing points to.
            Physical::Part { .. } => return Ok(None),
            Physical::Unknown if !self.manner.folded => return Ok(Some(plain(name))),
            Physical::Zipped { .. } | Physical::Unknown => Inquiry::Unknown { name },
        };
        self.waiting.push_back(ask);
        Ok(None)
    }
}

fn plain(name: Vec<u8>) -> Own {
    Own { key: name.clone(), physical: name, namespace: None }
}
