//! What a name of the server is asked: it says itself what lies under it.

use std::mem;

use anyhow::Context;
use keyfold_core::layout::Physical;
use keyfold_core::resp::Reply;
use keyfold_core::walk::{BucketWalk, KeyWalk};

use super::RecordWalk;
use crate::records::digest;
use crate::records::finding::FindingKind;
use crate::records::inquiry::{Field, Fields, Inquiry, Own};
use crate::records::place::{self, Spot};

/// Keys of their own in one question.
const STRINGS_AT_ONCE: usize = 32;

impl RecordWalk<'_> {
    pub(super) fn take_names(&mut self, mut walk: KeyWalk, reply: Reply<'_>) -> anyhow::Result<()> {
        let names = walk.take(reply)?;
        self.names = Some(walk).filter(|walk| !walk.is_over());
        let mut strings = Vec::new();
        for name in names {
            if self.manner.forgetful || self.is_new(name)? {
                self.progress.advance(1);
                strings.extend(self.take_name(name.to_vec())?);
            }
        }
        while !strings.is_empty() {
            let rest = strings.split_off(strings.len().min(STRINGS_AT_ONCE));
            self.waiting.push_back(Inquiry::Strings(mem::replace(&mut strings, rest)));
        }
        Ok(())
    }

    fn is_new(&mut self, name: &[u8]) -> anyhow::Result<bool> {
        let is_new = self.seen.insert(digest::name(name), 0);
        is_new.context("can't keep the names that were seen in a temporary file; TMPDIR says where these lie")
    }

    /// What a name of the server is to be asked; a key of its own, where it is one.
    fn take_name(&mut self, name: Vec<u8>) -> anyhow::Result<Option<Own>> {
        let layout = self.manner.layout;
        let ask = match layout.read_physical(&name) {
            Physical::Administration => return Ok(None),
            Physical::Plain if place::is_allowed(layout, &name, Spot::Plain) => return Ok(Some(plain(name))),
            Physical::Plain => {
                let Some(place) = place::place_of(layout, &name) else { return Ok(Some(plain(name))) };
                let field = place.kind.is_field().then(|| place.field.to_vec());
                Inquiry::Twin { key: name, physical: place.physical.to_vec(), field }
            }
            Physical::Bucket(namespace) => {
                Inquiry::Bucket { walk: BucketWalk::new(namespace, &name), before: Fields::new() }
            }
            Physical::Zipped { namespace, key }
                if place::is_allowed(layout, &key, Spot::Zipped { physical: &name }) =>
            {
                return Ok(Some(Own { physical: name, key, namespace: Some(namespace) }));
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
            Physical::Unknown if !self.manner.folded => return Ok(Some(plain(name))),
            Physical::Zipped { .. } | Physical::Unknown => {
                self.find(FindingKind::UnknownName, name, None, None, String::new())?;
                return Ok(None);
            }
        };
        self.waiting.push_back(ask);
        Ok(None)
    }
}

fn plain(name: Vec<u8>) -> Own {
    Own { key: name.clone(), physical: name, namespace: None }
}
