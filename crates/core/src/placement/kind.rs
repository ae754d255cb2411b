//! The kinds of places, and what to know of each to read and to write there.

use super::handmade::Packing;
use crate::collection::CollectionKind;

/// What kind of place it is. Whoever reads or writes there asks by the methods, and names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceKind {
    /// A field of a bucket.
    Bucket,
    /// The same, where the value is a whole set or hash.
    Packed(CollectionKind),
    /// A key of its own, with a zipped name.
    Zipped,
    /// A key of its own, with a zipped name, whose value is a frame.
    Framed,
    /// A field of a hash that an application folded keys into itself, and how its value lies there.
    Handmade(Packing),
}

impl PlaceKind {
    /// Whether it is a field of a hash, keyfold's or not.
    #[inline]
    pub fn is_field(self) -> bool {
        match self {
            Self::Bucket | Self::Packed(_) | Self::Handmade(_) => true,
            Self::Zipped | Self::Framed => false,
        }
    }

    /// Whether it is a field of keyfold's own bucket, which holds a frame: the value may be spilled.
    #[inline]
    pub fn is_bucket(self) -> bool {
        matches!(self, Self::Bucket | Self::Packed(_))
    }

    /// Whether what lies there is a string, in whatever form.
    #[inline]
    pub fn is_string(self) -> bool {
        self.collection().is_none()
    }

    /// Which collections lie there, where it isn't strings.
    #[inline]
    pub fn collection(self) -> Option<CollectionKind> {
        match self {
            Self::Packed(kind) => Some(kind),
            Self::Bucket | Self::Zipped | Self::Framed | Self::Handmade(_) => None,
        }
    }

    /// Whether it is a key of its own, whose value lies there as it is.
    #[inline]
    pub fn is_raw(self) -> bool {
        self == Self::Zipped
    }

    /// Whether it is a key of its own, whose value is a frame.
    #[inline]
    pub fn is_framed(self) -> bool {
        self == Self::Framed
    }

    /// How the value lies in a hash that an application made itself, where it does.
    #[inline]
    pub fn packing(self) -> Option<Packing> {
        match self {
            Self::Handmade(packing) => Some(packing),
            Self::Bucket | Self::Packed(_) | Self::Zipped | Self::Framed => None,
        }
    }
}
