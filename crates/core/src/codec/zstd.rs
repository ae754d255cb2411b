//! *zstd*: with a dictionary trained from the namespace's values, or without one.
//!
//! A payload is the content of the one compressed block of a zstd frame. Everything around it is the same for all
//! payloads, so it is taken off and put back: magic number, frame header, content size, dictionary id, block
//! header. That is 5 to 13 bytes, of 60 that such a value takes.
//!
//! A dictionary as it is stored: a byte of flags, then what zstd trained. With the flag `REFERENCES` the values
//! were compressed with the texts of their keys taken out (`references.rs`).

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, OnceLock};

use zstd_safe::{CCtx, CDict, DCtx, DDict};

use super::{Codec, CodecError, CodecKind, Options, Owner, Sample, references};

/// The longest value: one block, however the level divides it. In bytes.
pub const MAX_LEN: usize = 64 * 1024;

/// The level where none is given: 10 µs for 256 bytes, and within 2 % of what the dearest gains.
pub const DEFAULT_LEVEL: i64 = 12;

/// The largest dictionary where none is given, in bytes. The server keeps it compressed, to about a fifth.
pub const DEFAULT_DICTIONARY: i64 = 256 * 1024;

/// Sizes that are trained, in bytes: a small namespace is better off with a small one.
const TRAINED_SIZES: [usize; 3] = [16 * 1024, 64 * 1024, 128 * 1024];

/// Values longer than this would fill a dictionary by a few, in bytes.
const LONGEST_FILLING: usize = 8 * 1024;

/// Flag of a dictionary: keys' texts were taken out of the values.
const REFERENCES: u8 = 1;

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Frame header: no sizes, no checksum, no dictionary id; a window of 128 KiB.
const HEADER: [u8; 2] = [0, 7 << 3];
/// Block header: the last one, compressed. The size goes above these three bits.
const LAST_COMPRESSED: u32 = 1 | 2 << 1;

/// The kind.
#[derive(Debug)]
pub struct Zstd;

impl CodecKind for Zstd {
    fn name(&self) -> &'static str {
        "zstd"
    }

    fn options(&self) -> &'static [(&'static str, i64, i64)] {
        &[("level", 1, 19), ("dictionary", 0, 1 << 20)]
    }

    fn learns(&self, options: &Options) -> bool {
        options.get("dictionary") != Some(0)
    }

    fn open(&self, options: &Options, dictionary: Option<&[u8]>) -> Result<Arc<dyn Codec>, CodecError> {
        Ok(Arc::new(ZstdCodec::open(level(options), dictionary)?))
    }

    /// zstd's training finds what many values share. Whole values behind that help those that are like few others,
    /// which training leaves out: records of the same place, visits of the same client.
    fn train(&self, samples: &[Sample<'_>], options: &Options) -> Vec<Vec<u8>> {
        let most = usize::try_from(options.get("dictionary").unwrap_or(DEFAULT_DICTIONARY)).unwrap_or_default();
        let fitting = || samples.iter().filter(|sample| sample.value.len() <= MAX_LEN);
        let replaced: Vec<Vec<u8>> = fitting().map(replace).collect();
        let has_references =
            replaced.iter().zip(fitting()).any(|(replaced, sample)| replaced.len() < sample.value.len());
        let (values, flags): (Vec<&[u8]>, u8) = if has_references {
            (replaced.iter().map(Vec::as_slice).collect(), REFERENCES)
        } else {
            (fitting().map(|sample| sample.value).collect(), 0)
        };
        let sizes =
            TRAINED_SIZES.into_iter().filter(|size| *size < most).chain((most < TRAINED_SIZES[2]).then_some(most));
        let trained: Vec<Vec<u8>> =
            sizes.filter(|size| *size > 0).filter_map(|size| train(&values, size, flags)).collect();
        let filled: Vec<Vec<u8>> = trained
            .iter()
            .flat_map(|trained| [2, 4].map(|times| (trained, trained.len() * times)))
            .filter(|(trained, to)| *to <= most.max(trained.len() * 2) && most > trained.len())
            .map(|(trained, to)| fill(trained, &values, to.min(most)))
            .collect();
        trained.into_iter().chain(filled).collect()
    }
}

/// The dictionary with whole values behind it, picked evenly, up to so many bytes.
fn fill(trained: &[u8], values: &[&[u8]], to: usize) -> Vec<u8> {
    let mut filled = trained.to_vec();
    let all: usize = values.iter().map(|value| value.len()).sum();
    let step = all.div_ceil(to - trained.len()).max(1);
    for value in values.iter().step_by(step).filter(|value| value.len() <= LONGEST_FILLING) {
        if filled.len() + value.len() <= to {
            filled.extend_from_slice(value);
        }
    }
    filled
}

fn replace(sample: &Sample<'_>) -> Vec<u8> {
    let mut replaced = Vec::new();
    references::replace(sample.value, &sample.owner, &mut replaced);
    replaced
}

fn level(options: &Options) -> i32 {
    i32::try_from(options.get("level").unwrap_or(DEFAULT_LEVEL)).unwrap_or(i32::MAX)
}

/// None where zstd says that the samples are too few or too much alike.
fn train(samples: &[&[u8]], size: usize, flags: u8) -> Option<Vec<u8>> {
    let sizes: Vec<usize> = samples.iter().map(|sample| sample.len()).collect();
    let mut trained = Vec::with_capacity(size);
    zstd_safe::train_from_buffer(&mut trained, &samples.concat(), &sizes).ok()?;
    Some([&[flags], trained.as_slice()].concat())
}

/// The level for values that clients wait for: a fifth of the time, and 3 to 20 % more bytes. Levels 1 and 2 take up to a fourth
/// less for 250 bytes, but for 60 they take as long and make 3 to 20 % more of them.
const QUICK_LEVEL: i32 = 3;

/// From this level on zstd may split a value of several kinds into several blocks, where a payload is one.
const SPLITTING_LEVEL: i32 = 13;

struct ZstdCodec {
    level: i32,
    dictionary: Option<Dictionary>,
    references: bool,
}

/// One dictionary, prepared once for each direction.
struct Dictionary {
    compress: CDict<'static>,
    /// For [`QUICK_LEVEL`], prepared when it is first needed; none where that failed.
    quick: OnceLock<Option<CDict<'static>>>,
    decompress: DDict<'static>,
    trained: Vec<u8>,
}

impl Dictionary {
    fn quick(&self) -> &CDict<'static> {
        let prepare = || CDict::try_create(&self.trained, QUICK_LEVEL);
        self.quick.get_or_init(prepare).as_ref().unwrap_or(&self.compress)
    }
}

impl fmt::Debug for ZstdCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, dictionary, references } = self;
        write!(f, "zstd level {level}, dictionary: {}, references: {references}", dictionary.is_some())
    }
}

impl ZstdCodec {
    fn open(level: i32, dictionary: Option<&[u8]>) -> Result<Self, CodecError> {
        let Some(stored) = dictionary else { return Ok(Self { level, dictionary: None, references: false }) };
        let (&flags, trained) = stored.split_first().ok_or_else(|| CodecError::payload("the dictionary is empty"))?;
        if flags & !REFERENCES != 0 {
            return Err(CodecError::payload(format!(
                "the dictionary has flags 0x{flags:02x}, which a newer keyfold wrote"
            )));
        }
        let failed = || CodecError::payload("zstd can't use the dictionary");
        let compress = CDict::try_create(trained, level).ok_or_else(failed)?;
        let decompress = DDict::try_create(trained).ok_or_else(failed)?;
        let dictionary = Dictionary { compress, quick: OnceLock::new(), decompress, trained: trained.to_vec() };
        Ok(Self { level, dictionary: Some(dictionary), references: flags & REFERENCES != 0 })
    }

    fn encode_at(&self, level: i32, value: &[u8], owner: &Owner<'_>, out: &mut Vec<u8>) -> bool {
        if !self.references {
            return self.compress(level, value, out);
        }
        let mut replaced = Vec::with_capacity(value.len());
        references::replace(value, owner, &mut replaced);
        replaced.len() <= SCRATCH && self.compress(level, &replaced, out)
    }

    fn compress(&self, level: i32, value: &[u8], out: &mut Vec<u8>) -> bool {
        let is_one = self.compress_at(level, value, out);
        is_one || level >= SPLITTING_LEVEL && self.compress_at(QUICK_LEVEL, value, out)
    }

    fn compress_at(&self, level: i32, value: &[u8], out: &mut Vec<u8>) -> bool {
        with_contexts(|Contexts { compress, scratch, .. }| {
            scratch.clear();
            scratch.reserve(zstd_safe::compress_bound(value.len()));
            let written = match &self.dictionary {
                Some(dictionary) => {
                    let prepared = if level == self.level { &dictionary.compress } else { dictionary.quick() };
                    compress.compress_using_cdict(scratch, value, prepared)
                }
                None => compress.compress(scratch, value, level),
            };
            let payload = written.ok().and_then(|_| only_block(scratch));
            out.extend_from_slice(payload.unwrap_or_default());
            payload.is_some()
        })
    }

    /// Appends the value before references were put back.
    fn decompress(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        with_contexts(|Contexts { decompress, scratch, frame, .. }| {
            frame.clear();
            frame.extend_from_slice(&MAGIC);
            frame.extend_from_slice(&HEADER);
            let len = u32::try_from(payload.len()).ok().filter(|len| *len <= 128 * 1024);
            let len = len.ok_or_else(|| CodecError::payload("it is longer than a block"))?;
            frame.extend_from_slice(&(LAST_COMPRESSED | len << 3).to_le_bytes()[..3]);
            frame.extend_from_slice(payload);
            scratch.clear();
            scratch.reserve(SCRATCH);
            let read = match &self.dictionary {
                Some(dictionary) => decompress.decompress_using_ddict(scratch, frame, &dictionary.decompress),
                None => decompress.decompress(scratch, frame),
            };
            read.map_err(|code| CodecError::payload(zstd_safe::get_error_name(code)))?;
            out.extend_from_slice(scratch);
            Ok(())
        })
    }
}

impl Codec for ZstdCodec {
    fn encode(&self, value: &[u8], owner: &Owner<'_>, out: &mut Vec<u8>) -> bool {
        self.encode_at(self.level, value, owner, out)
    }

    fn encode_quickly(&self, value: &[u8], owner: &Owner<'_>, out: &mut Vec<u8>) -> bool {
        self.encode_at(self.level.min(QUICK_LEVEL), value, owner, out)
    }

    fn decode(&self, payload: &[u8], owner: &Owner<'_>, out: &mut Vec<u8>) -> Result<(), CodecError> {
        if !self.references {
            return self.decompress(payload, out);
        }
        let mut replaced = Vec::new();
        self.decompress(payload, &mut replaced)?;
        references::restore(&replaced, owner, MAX_LEN, out)
    }

    fn max_len(&self) -> usize {
        MAX_LEN
    }
}

/// What one block may come to: a value may grow a little by its references' escapes. In bytes.
const SCRATCH: usize = 128 * 1024;

/// The content of a frame's only block; none where it has several, or one that isn't compressed.
fn only_block(frame: &[u8]) -> Option<&[u8]> {
    let rest = frame.strip_prefix(&MAGIC)?;
    let (&descriptor, rest) = rest.split_first()?;
    let is_single = descriptor & 0x20 != 0;
    let dictionary_id = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content_size = match (descriptor >> 6, is_single) {
        (0, false) => 0,
        (0, true) => 1,
        (flag, _) => 1 << flag,
    };
    let rest = rest.get(usize::from(!is_single) + dictionary_id + content_size..)?;
    let (header, payload) = rest.split_first_chunk::<3>()?;
    let header = u32::from_le_bytes([header[0], header[1], header[2], 0]);
    let has_checksum = descriptor & 4 != 0;
    let is_only = header & 7 == LAST_COMPRESSED && header >> 3 == u32::try_from(payload.len()).ok()?;
    (is_only && !has_checksum).then_some(payload)
}

/// What zstd needs while it works, once for each thread.
pub(super) struct Contexts {
    pub(super) compress: CCtx<'static>,
    pub(super) decompress: DCtx<'static>,
    pub(super) scratch: Vec<u8>,
    frame: Vec<u8>,
}

thread_local! {
    static CONTEXTS: RefCell<Contexts> = RefCell::new(Contexts {
        compress: CCtx::create(),
        decompress: DCtx::create(),
        scratch: Vec::new(),
        frame: Vec::new(),
    });
}

pub(super) fn with_contexts<R>(work: impl FnOnce(&mut Contexts) -> R) -> R {
    CONTEXTS.with_borrow_mut(work)
}
