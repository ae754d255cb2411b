//! What is wrong in a layout's text.

use crate::placement::PlacementError;
use crate::placement::handmade::HandmadeError;
use crate::placement::text_table::TextTableError;
use crate::template::TemplateError;

/// What is wrong in a layout's text, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct LayoutError {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: Problem,
}

impl LayoutError {
    /// An error at a byte of `text`.
    pub(super) fn at(text: &str, offset: usize, problem: Problem) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { line, column, problem }
    }
}

/// What is wrong in a layout's text, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Not TOML, or not of a layout's fields and types.
    #[error("{0}")]
    Toml(String),
    /// The template.
    #[error("`keys`: {0}")]
    Keys(#[source] TemplateError),
    /// The placement.
    #[error("`bucket`: {0}")]
    Bucket(#[source] PlacementError),
    /// `bucket` with no rule, several, or `of` without `span`.
    #[error(
        "`bucket` takes one rule: {{ span = 128 }}, {{ span = 128, of = \"id\" }}, {{ count = 16384 }} or {{ by = \"id\" }}"
    )]
    OneRule,
    /// Both `bucket` and `placement`.
    #[error("`placement` says that there are no buckets, and `bucket` how they are; leave one of them out")]
    BucketAndPlacement,
    /// `text_table` that is none, or has nothing to pack.
    #[error("`text_table`: {0}")]
    TextTable(#[source] TextTableError),
    /// Both `bucket` or `placement`, and `handmade`.
    #[error("`handmade` says where keys lay, and so does what is beside it; restore the layout as keyfold wrote it")]
    BucketAndHandmade,
    /// The rule of handmade hashes.
    #[error("`handmade`: {0}")]
    Handmade(#[source] HandmadeError),
    /// Values packed in a way that there is not.
    #[error("`handmade`: `value = {given:?}`: there are \"raw\" and \"zlib\"")]
    UnknownPacking {
        /// The way given.
        given: String,
    },
    /// `placement` is something else.
    #[error("`placement = {given:?}`: there are \"plain\" and \"zipped\"; for buckets write `bucket` instead")]
    UnknownPlacement {
        /// The placement given.
        given: String,
    },
    /// A codec that there is not.
    #[error("`codec = {given:?}`: there are {known}, and \"auto\" to have the best of them chosen by measurement")]
    UnknownCodec {
        /// The codec given.
        given: String,
        /// The names that there are.
        known: String,
    },
    /// An option of a codec that there is not, or out of its bounds.
    #[error("`codec`: {codec} can't have `{given}`; it has {known}")]
    CodecOption {
        /// The codec.
        codec: String,
        /// The option with its value.
        given: String,
        /// What there is.
        known: String,
    },
    /// Neither a name nor a table.
    #[error("`codec` is a name, \"zstd\", or a table of a name and whole numbers, {{ name = \"zstd\", level = 12 }}")]
    CodecForm,
    /// A codec where values are no frames.
    #[error("`codec`: a key that stays plain can't be compressed; leave `placement` out, or give it a bucket")]
    CodecOfPlain,
    /// Slots in a file.
    #[error("`slot`: slots are given by `keyfold train` and kept in the server; leave them out")]
    SlotInFile,
    /// A slot in the server that keyfold never gave.
    #[error("`slot`: {number} is not one that keyfold gave")]
    BadSlot {
        /// Its number.
        number: u8,
    },
    /// A limit that isn't a length.
    #[error("`{field} = {given}`: a limit is 1 to 536870912 bytes")]
    Limit {
        /// `value_limit` or `field_limit`.
        field: &'static str,
        /// The limit given.
        given: i64,
    },
    /// An id that isn't one.
    #[error("`id = {given}`: an id is 0 to {max}; leave it out to have one given")]
    BadId {
        /// The id given.
        given: i64,
        /// The largest that may be written there.
        max: u32,
    },
    /// An id twice.
    #[error("`id = {id}` is already the id of `{other}`; leave it out to have one given")]
    SameId {
        /// The id.
        id: u32,
        /// The template of the other namespace.
        other: String,
    },
    /// Every key of the template is reserved.
    #[error("`keys`: all keys of `{keys}` begin with `~` or `keyfold:`, which are keyfold's own; choose another name")]
    Reserved {
        /// The template.
        keys: String,
    },
    /// Two templates for the same keys.
    #[error("`keys`: `{keys}` matches exactly the keys of `{other}` (line {line}); leave one of them out")]
    SameKeys {
        /// The later template.
        keys: String,
        /// The earlier template.
        other: String,
        /// The earlier template's line.
        line: usize,
    },
    /// Two templates of which neither is the more specific.
    #[error(
        "`keys`: `{keys}` and `{other}` (line {line}) both match `{}`, and neither is the more specific; \
         narrow one of them", .example.escape_ascii()
    )]
    Crossing {
        /// The later template.
        keys: String,
        /// The earlier template.
        other: String,
        /// The earlier template's line.
        line: usize,
        /// A key that both match.
        example: Vec<u8>,
    },
    /// A stored form that this version can't read.
    #[error(
        "`version = {given}`: this keyfold reads layouts of version 1; use the keyfold that wrote it, or a newer one"
    )]
    Version {
        /// The version given.
        given: i64,
    },
    /// A file that says where keys lay before.
    #[error("`from`: only the server's own layout has it, while keys are moved; leave it out")]
    FromInFile,
    /// A stored namespace without an id, or with one not given yet.
    #[error("`id`: a stored namespace has an id below `next_id`; restore the layout as keyfold wrote it")]
    StoredId,
}
