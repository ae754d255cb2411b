//! Keys by number, over different templates: one script runs on each pool.

/// The layout that the conformance list and the differential driver are run with: buckets so small that
/// keys share them, and a limit that longer values go over.
pub const LAYOUT: &str = r#"[[namespace]]
keys = "user:{id:int}:logins"
bucket = { span = 8 }
value_limit = 64

[[namespace]]
keys = "sess:{id:uuid}"
bucket = { count = 2 }
value_limit = 64

[[namespace]]
keys = "h:{x:hex}"
bucket = { count = 2 }
value_limit = 64
cluster = true

[[namespace]]
keys = "post:{id:int}:{part}"
bucket = { by = "id" }
text_table = "AQFwATEEYm9keQFi"
value_limit = 64

[[namespace]]
keys = "cnt:{name}"
bucket = { count = 2 }
text_table = "AQFuAjpuATEBMgEzATQCbjUCbjE"
value_limit = 64

[[namespace]]
keys = ["flag:{id:int}", "memo:{name}"]
bucket = { count = 2 }
value_limit = 64

[[namespace]]
keys = "page:{path}"
value_limit = 64
cluster = true
"#;

/// The same keys with a codec each, and limits that some coded values go over too. None of them needs training; where
/// they have been trained, what they learnt must not show either.
pub const CODED_LAYOUT: &str = r#"[[namespace]]
keys = "user:{id:int}:logins"
bucket = { span = 8 }
value_limit = 64
codec = "zstd"

[[namespace]]
keys = "sess:{id:uuid}"
bucket = { count = 2 }
value_limit = 20
codec = "uuid"

[[namespace]]
keys = "h:{x:hex}"
bucket = { count = 2 }
value_limit = 16
codec = "hex"

[[namespace]]
keys = "post:{id:int}:{part}"
bucket = { by = "id" }
value_limit = 20
codec = { name = "zstd", level = 3 }

[[namespace]]
keys = "cnt:{name}"
bucket = { count = 2 }
value_limit = 12
codec = { name = "zstd", level = 19 }

[[namespace]]
keys = ["flag:{id:int}", "memo:{name}"]
bucket = { count = 2 }
value_limit = 12
codec = "zstd"

[[namespace]]
keys = "page:{path}"
codec = "zstd"
"#;

/// Keys by number, all of one template or mixed.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    /// For messages and to choose it.
    pub name: &'static str,
    /// The key of a number. Different numbers have different keys.
    pub key: fn(usize) -> Vec<u8>,
    /// A pattern of KEYS and SCAN that all its keys match.
    pub all: &'static str,
    /// One that some of them match.
    pub some: &'static str,
}

/// Every pool.
pub const POOLS: &[Pool] = &[
    Pool { name: "plain", key: plain, all: "plain:*", some: "plain:[0-3]" },
    Pool { name: "span", key: logins, all: "user:*:logins", some: "user:1*" },
    Pool { name: "uuid", key: session, all: "sess:*", some: "sess:*[02468ace]" },
    Pool { name: "hex", key: hex, all: "h:*", some: "h:??" },
    Pool { name: "by", key: post, all: "post:*", some: "post:1:*" },
    Pool { name: "text", key: counter, all: "cnt:*", some: "*:n[^13]*" },
    Pool { name: "shared", key: shared, all: "*", some: "flag:*" },
    Pool { name: "zipped", key: page, all: "page:/*", some: "*[1-4]" },
    Pool { name: "almost", key: almost, all: "*", some: "*:*" },
    Pool { name: "mixed", key: mixed, all: "*", some: "*:1*" },
    Pool { name: "half plain", key: half_plain, all: "*", some: "user:*" },
];

fn text(key: String) -> Vec<u8> {
    key.into_bytes()
}

/// No template's key.
pub(crate) fn plain(number: usize) -> Vec<u8> {
    text(format!("plain:{number}"))
}

/// Dense ids, and far ones.
pub(crate) fn logins(number: usize) -> Vec<u8> {
    let id = match number {
        6 => 1_000_000,
        7 => u64::MAX,
        _ => number as u64 * 3,
    };
    text(format!("user:{id}:logins"))
}

/// Spread uuids of version 4; number 0 is the nil uuid.
pub(crate) fn session(number: usize) -> Vec<u8> {
    let bits = (number as u128).wrapping_mul(0x9E37_79B9_7F4A_4C15_8BCD_1234_5678_9ABD);
    let hex = format!("{bits:032x}");
    text(format!("sess:{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}

/// Hex text of one byte and more.
pub(crate) fn hex(number: usize) -> Vec<u8> {
    let bytes = "00ff7f10".repeat(1 + number / 8);
    text(format!("h:{number:02x}{}", &bytes[..number / 2 * 2]))
}

/// Four parts of each post, one of them binary.
pub(crate) fn post(number: usize) -> Vec<u8> {
    let id = number / 4;
    match number % 4 {
        0 => text(format!("post:{id}:title")),
        1 => text(format!("post:{id}:body:1")),
        2 => [format!("post:{id}:").as_bytes(), b"\x00\xff \r\n"].concat(),
        _ => text(format!("post:{id}:7")),
    }
}

/// Names, a number among them.
pub(crate) fn counter(number: usize) -> Vec<u8> {
    if number == 5 { text("cnt:12345".to_owned()) } else { text(format!("cnt:n{number}")) }
}

/// Paths.
pub(crate) fn page(number: usize) -> Vec<u8> {
    text(format!("page:/shop/item?id={number}"))
}

/// Two families that share buckets.
pub(crate) fn shared(number: usize) -> Vec<u8> {
    text(if number.is_multiple_of(2) { format!("flag:{number}") } else { format!("memo:n{number}") })
}

/// Keys that nearly match a template, and must stay keys of their own.
pub(crate) fn almost(number: usize) -> Vec<u8> {
    const KEYS: [&str; 8] = [
        "user:007:logins",
        "sess:00000000-0000-4000-8000-00000000000A",
        "h:abc",
        "post:01:title",
        "cnt",
        "user:-0:logins",
        "h:AB",
        "page",
    ];
    KEYS.get(number).map_or_else(|| text(format!("user:{number}:login")), |key| key.as_bytes().to_vec())
}

/// One template after the other, plain keys among them.
pub(crate) fn mixed(number: usize) -> Vec<u8> {
    const KEYS: [fn(usize) -> Vec<u8>; 8] = [logins, counter, plain, session, post, page, hex, shared];
    KEYS[number % KEYS.len()](number)
}

/// Folded keys and plain ones by turns.
pub(crate) fn half_plain(number: usize) -> Vec<u8> {
    if number.is_multiple_of(2) { logins(number) } else { plain(number) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_have_different_keys() {
        for pool in POOLS {
            let keys: HashSet<_> = (0..20).map(pool.key).collect();
            assert_eq!(keys.len(), 20, "{}", pool.name);
        }
    }
}
