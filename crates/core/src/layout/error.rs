//! What is wrong in a layout's text.

use crate::placement::PlacementError;
use crate::placement::handmade::HandmadeError;
use crate::placement::name::NameHash;
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
    /// Whether a stored form is damaged. What a keyfold of another version wrote is not, nor what takes a secret that
    /// was not given: these must be left as they are.
    pub fn is_damage(&self) -> bool {
        use Problem::{NoSecret, OtherSecret, UnknownField, Version};
        !matches!(self.problem, Version { .. } | UnknownField(_) | NoSecret | OtherSecret { .. })
    }

    /// Leaves out of what an unknown field could be what no file has, but the server's own layout.
    pub(super) fn leave_out_stored(&mut self) {
        let Problem::UnknownField(said) = &mut self.problem else { return };
        if let Some((unknown, expected)) = said.split_once(", expected ") {
            let mut expected = expected.to_owned();
            for name in ["names", "from", "writes", "slot"] {
                expected = expected.replace(&format!("`{name}`, "), "").replace(&format!(", `{name}`"), "");
            }
            *said = format!("{unknown}, expected {expected}");
        }
    }

    /// An error at a byte of `text`.
    pub(super) fn at(text: &str, offset: usize, problem: Problem) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { line, column, problem }
    }
}

impl Problem {
    /// Whether it may be there only because something beside it is not.
    pub(super) fn may_be_of_a_gap(&self) -> bool {
        use Problem::{CodecOfPlain, KeyedWithoutCount, OneRule, SeveralWithoutCount, TextTable, TypeWithoutBucket};
        matches!(
            self,
            OneRule | SeveralWithoutCount | KeyedWithoutCount | CodecOfPlain | TextTable(_) | TypeWithoutBucket { .. }
        )
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
    Keys(TemplateError),
    /// The placement.
    #[error("`bucket`: {0}")]
    Bucket(PlacementError),
    /// `bucket` with no rule, several, or `of` without `span`.
    #[error(
        "`bucket` takes one rule: {{ span = 128 }}, {{ span = 128, of = \"id\" }}, {{ count = 16384 }} or {{ by = \"id\" }}"
    )]
    OneRule,
    /// Keys that would share a bucket are in other slots.
    #[error(
        "`bucket`: in a cluster keys share a bucket only where they share a slot, and keys of `{keys}` that this rule \
         brings together don't; write {{ count = 1 }}, the number of buckets in each slot, or `bucket = {{ by = … }}` \
         for the one placeholder of a hash tag, as `id` in `user:{{{{{{id:int}}}}}}:{{field}}`"
    )]
    SlotsApart {
        /// The template.
        keys: String,
    },
    /// Several templates, and no rule that lets their keys share buckets.
    #[error(
        "the keys of several templates share buckets only by `bucket = {{ count = N }}`; write that, or give each \
         template a namespace of its own"
    )]
    SeveralWithoutCount,
    /// Several templates, and hashes of an application's own.
    #[error("`handmade`: keys of one template alone are moved out of hashes, and `{keys}` are several")]
    SeveralHandmade {
        /// The templates.
        keys: String,
    },
    /// What is said of a cache, and isn't so.
    #[error("`{field} = {given:?}`: {wanted}")]
    Cache {
        /// The field.
        field: &'static str,
        /// What it says.
        given: String,
        /// What it may say.
        wanted: String,
    },
    /// Both `bucket` and `placement`.
    #[error("`placement` says that there are no buckets, and `bucket` how they are; leave one of them out")]
    BucketAndPlacement,
    /// Keyed, and no secret given.
    #[error("`keyed`: which bucket a key lies in follows from a secret here; give its file with --secret-file")]
    NoSecret,
    /// Keyed by a secret that was not given.
    #[error(
        "`keyed = {fingerprint:?}`: which bucket a key lies in follows from the secret of this fingerprint, and it was \
         not given; give its file with --secret-file"
    )]
    OtherSecret {
        /// The fingerprint of the one that it takes.
        fingerprint: String,
    },
    /// Keyed by what is no fingerprint.
    #[error("`keyed = {given:?}`: it is `true`, or the fingerprint of a secret, 16 hexadecimal digits")]
    BadFingerprint {
        /// What it says.
        given: String,
    },
    /// Keyed, where no hash decides on buckets.
    #[error("`keyed`: only the buckets of {{ count = N }} follow from a hash, which a secret can decide on")]
    KeyedWithoutCount,
    /// `text_table` that is none, or has nothing to pack.
    #[error("`text_table`: {0}")]
    TextTable(TextTableError),
    /// Both `bucket` or `placement`, and `handmade`.
    #[error("`handmade` says where keys lay, and so does what is beside it; restore the layout as keyfold wrote it")]
    BucketAndHandmade,
    /// The rule of handmade hashes.
    #[error("`handmade`: {0}")]
    Handmade(HandmadeError),
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
    /// `type` is something else.
    #[error("`type = {given:?}`: keys that are folded are \"string\" (which needs no `type`), \"set\" or \"hash\"")]
    UnknownType {
        /// The type given.
        given: String,
    },
    /// Sets or hashes without buckets.
    #[error("`type = {given:?}`: a set or hash is folded as a value in a bucket; give the namespace a `bucket`")]
    TypeWithoutBucket {
        /// The type given.
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
    /// A codec for values of another type.
    #[error(
        "`codec = {codec:?}` is for another `type` than {of:?}; \"auto\" has the best of those that fit chosen by \
         measurement"
    )]
    CodecOfType {
        /// The codec.
        codec: String,
        /// The type of the namespace's keys.
        of: String,
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
    /// Two namespaces whose keys would lie under the same names. One in some million pairs does.
    #[error(
        "`keys`: the physical names of `{keys}` would be those of `{other}` (line {line}), by chance; give one of them \
         another bucket rule, such as one bucket more, or another `field_limit`"
    )]
    SameNames {
        /// The later template.
        keys: String,
        /// The earlier template.
        other: String,
        /// The earlier template's line.
        line: usize,
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
    /// A field that there is not.
    #[error("{0}")]
    UnknownField(String),
    /// A stored form of another version.
    #[error("`version = {given}`: this keyfold reads layouts of version {read}; use the keyfold that wrote it")]
    Version {
        /// The version given.
        given: i64,
        /// The version that this keyfold reads.
        read: i64,
    },
    /// A file that says where keys lay before.
    #[error("`from`: only the server's own layout has it, while keys are moved; leave it out")]
    FromInFile,
    /// Names in a file.
    #[error("`names`: what physical names begin with follows from the other fields; leave it out")]
    NamesInFile,
    /// A stored namespace without its names.
    #[error("`names` is missing; restore the layout as keyfold wrote it")]
    NoNames,
    /// Stored names that are not those of the rules beside them.
    #[error(
        "`names = {given:?}`: by the rules beside it names begin with `~{hash}` where they begin with keyfold's own \
         at all; restore the layout as keyfold wrote it"
    )]
    WrongNames {
        /// The names given.
        given: String,
        /// The hash that follows from the rules.
        hash: NameHash,
    },
    /// A writer's number, or a name used before, that is none.
    #[error("`{field}`: {given:?} is not as keyfold writes it; restore the layout as keyfold wrote it")]
    Stored {
        /// The field.
        field: &'static str,
        /// What it says.
        given: String,
    },
}
