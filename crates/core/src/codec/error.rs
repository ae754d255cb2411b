//! Why a stored value can't be decoded, or a codec not be opened.

/// What went wrong. None of it is written anywhere: the stored value stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The layout has no such slot.
    #[error("its codec, slot {slot}, is not in the layout")]
    UnknownSlot {
        /// The slot that the value names.
        slot: u8,
    },
    /// The slot is there and can't be used.
    #[error("its codec, slot {slot}, can't be used: {reason}")]
    Unusable {
        /// The slot that the value names.
        slot: u8,
        /// What is missing.
        reason: String,
    },
    /// The payload is not what the codec wrote.
    #[error("its stored value is damaged (codec slot {slot}): {reason}")]
    Damaged {
        /// The slot that the value names.
        slot: u8,
        /// What is wrong with it.
        reason: String,
    },
    /// A codec says why; whoever asked knows the slot.
    #[error("{0}")]
    Payload(String),
}

impl CodecError {
    /// The error of a payload.
    pub fn payload(reason: impl Into<String>) -> Self {
        Self::Payload(reason.into())
    }
}
