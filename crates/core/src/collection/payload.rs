//! A collection as DUMP gives it, and RESTORE takes it: made without a server.
//!
//! It is the plainest of the forms that servers read, which each of them has always had: a length, and texts. Fields that expire
//! have a form of their own in each server that knows such. (`rdb.c` of Redis 7.4 and of Valkey 9.0.)

use crc::{CRC_64_REDIS, Crc, Table};

use super::{Collection, Field, Hash};

static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

const SET: u8 = 2;
const HASH: u8 = 4;
/// Valkey: each field with its expiry.
const HASH_2: u8 = 22;
/// Redis: the earliest expiry, and each field with by how much its own is later.
const HASH_METADATA: u8 = 24;

/// The version of payloads that every server reads.
const VERSION: u16 = 9;
/// That of Redis 7.4, and that of Valkey 9.0.
const REDIS_VERSION: u16 = 12;
const VALKEY_VERSION: u16 = 80;

/// Whose form payloads have of hashes whose fields expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldExpiryForm {
    /// That of Redis from 7.4 on.
    Redis,
    /// That of Valkey from 9.0 on.
    Valkey,
}

impl Collection {
    /// What RESTORE takes for it; none where fields expire and the server has no such fields.
    pub fn payload(&self, form: Option<FieldExpiryForm>) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let version = match self {
            Self::Set(set) => {
                out.push(SET);
                write_length(set.len(), &mut out);
                set.iter().for_each(|member| write_text(member, &mut out));
                VERSION
            }
            Self::Hash(hash) if hash.iter().all(|(_, field)| field.expires_at_ms.is_none()) => {
                out.push(HASH);
                write_length(hash.len(), &mut out);
                for (name, field) in hash.iter() {
                    write_text(name, &mut out);
                    write_text(&field.value, &mut out);
                }
                VERSION
            }
            Self::Hash(hash) => match form? {
                FieldExpiryForm::Valkey => {
                    write_for_valkey(hash, &mut out);
                    VALKEY_VERSION
                }
                FieldExpiryForm::Redis => {
                    write_for_redis(hash, &mut out);
                    REDIS_VERSION
                }
            },
        };
        out.extend_from_slice(&version.to_le_bytes());
        let sum = CRC.checksum(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        Some(out)
    }
}

fn write_for_valkey(hash: &Hash, out: &mut Vec<u8>) {
    out.push(HASH_2);
    write_length(hash.len(), out);
    for (name, Field { value, expires_at_ms }) in hash.iter() {
        write_text(name, out);
        write_text(value, out);
        out.extend_from_slice(&expires_at_ms.unwrap_or(-1).to_le_bytes());
    }
}

fn write_for_redis(hash: &Hash, out: &mut Vec<u8>) {
    let first = hash.iter().filter_map(|(_, field)| field.expires_at_ms).min().unwrap_or_default();
    out.push(HASH_METADATA);
    out.extend_from_slice(&first.to_le_bytes());
    write_length(hash.len(), out);
    for (name, Field { value, expires_at_ms }) in hash.iter() {
        let later = expires_at_ms.map_or(0, |at| at.abs_diff(first).saturating_add(1));
        write_length(usize::try_from(later).unwrap_or(usize::MAX), out);
        write_text(name, out);
        write_text(value, out);
    }
}

fn write_text(text: &[u8], out: &mut Vec<u8>) {
    write_length(text.len(), out);
    out.extend_from_slice(text);
}

/// A length in six, fourteen, 32 or 64 bits.
#[expect(clippy::cast_possible_truncation, reason = "each within its bounds")]
fn write_length(len: usize, out: &mut Vec<u8>) {
    match len {
        0..0x40 => out.push(len as u8),
        0x40..0x4000 => out.extend_from_slice(&(0x4000 | len as u16).to_be_bytes()),
        _ => match u32::try_from(len) {
            Ok(len) => {
                out.push(0x80);
                out.extend_from_slice(&len.to_be_bytes());
            }
            Err(_) => {
                out.push(0x81);
                out.extend_from_slice(&(len as u64).to_be_bytes());
            }
        },
    }
}
