//! What libpcap 1.11 brought and changed, and which of it ringtap has: differences to the one version
//! that are intended, because the other is followed.
//!
//! ringtap speaks the language of 1.10, which distributions have, and what 1.11 adds to it. Where 1.11
//! refuses what 1.10 takes, or means something else by it, ringtap stays with 1.10.

/// The version that brought what is named here.
const CHANGED: (u32, u32) = (1, 11);

/// IPv4 over whatever has an address family or a system code, which 1.11 tests otherwise: NULL, ARCNET,
/// ENC, PFLOG, ARCNET_LINUX.
const OTHER_FAMILIES: [u32; 5] = [0, 7, 109, 117, 129];
/// MTP2_WITH_PHDR, MTP2, ERF.
const SIGNALLING: [u32; 3] = [139, 140, 197];
const SLIP: u32 = 8;
const SUNATM: u32 = 123;
const PPI: u32 = 192;
/// Link types whose language is that of 1.11 throughout: BACNET_MS_TP, on which 1.10 takes every protocol
/// to be there; DSA_TAG_BRCM and DSA_TAG_DSA, on which it knows none.
const NEWER: [u32; 3] = [165, 281, 284];

/// How 1.11 refuses what 1.10 takes.
const STRICTER: &[(&str, &str)] = &[
    ("not a live capture", "metadata of the kernel in a file"),
    ("greater than maximum", "numbers larger than their field"),
    ("direction value", "numbers larger than their field"),
    ("DECnet", "DECnet addresses"),
    (
        "'decnet' is not a valid qualifier for 'net'",
        "DECnet networks",
    ),
    // Its manual page has them.
    (
        "is not a valid qualifier for '",
        "prefixes behind a direction",
    ),
    ("more than one hyphen", "ranges of ports"),
    ("is not a valid port", "ranges of ports"),
    ("supported only on SUNATM", "ATM inside a tunnel"),
];

/// Words that mean something else in 1.11.
const CHANGED_WORDS: &[(&str, &str)] = &[
    ("decnet", "DECnet addresses"),
    ("multicast", "class D ends at 239"),
    ("byte", "operators of bytes"),
    ("portrange", "ranges of ports"),
];

/// Whether the installed libpcap is 1.11 or later.
#[must_use]
pub fn is_newer(version: (u32, u32)) -> bool {
    version >= CHANGED
}

/// Whether ringtap follows 1.11 with this expression, where 1.10 refuses it or means another thing.
#[must_use]
pub fn brought(expression: &str, dlt: u32) -> bool {
    /// Abbreviations of types of IS-IS packets: 1.11 ignores the reserved bits of the type's byte, and
    /// finds it on Cisco HDLC.
    const ISIS: [&str; 7] = ["l1", "l2", "iih", "lsp", "snp", "csnp", "psnp"];
    const FRAMES: [&str; 4] = ["type", "subtype", "dir", "direction"];
    let words: Vec<&str> = words(expression).collect();
    let has = |word: &str| words.contains(&word);
    let isis = ISIS.into_iter().any(has) || has("isis") && has("proto");
    let frames = dlt == PPI && FRAMES.into_iter().any(has);
    isis || frames || NEWER.contains(&dlt) || is_unknown(dlt)
}

/// Whether a link type has its name as of 1.11 (some of them as of a late 1.10).
#[must_use]
pub fn is_name_newer(dlt: u32) -> bool {
    /// USER0 to USER15.
    const PRIVATE: std::ops::RangeInclusive<u32> = 147..=162;
    const I2C_LINUX: u32 = 209;
    is_unknown(dlt) || PRIVATE.contains(&dlt) || dlt == I2C_LINUX
}

/// Whether 1.10 does not know a link type, and 1.11 does.
fn is_unknown(dlt: u32) -> bool {
    const REDBACK_SMARTEDGE: u32 = 32;
    matches!(dlt, 2..=5 | REDBACK_SMARTEDGE | 290..=304)
}

/// Why ringtap has another meaning than 1.11, where it stays with 1.10; `refusal` is how 1.11 refuses.
#[must_use]
pub fn kept(expression: &str, dlt: u32, refusal: Option<&str>) -> Option<&'static str> {
    if let Some(message) = refusal {
        let found = STRICTER.iter().find(|(part, _)| message.contains(part));
        return found.map(|&(_, what)| what);
    }
    let words: Vec<&str> = words(expression).collect();
    let has = |word: &str| words.contains(&word);
    if let Some(&(_, what)) = CHANGED_WORDS.iter().find(|(word, _)| has(word)) {
        return Some(what);
    }
    match dlt {
        dlt if OTHER_FAMILIES.contains(&dlt) => Some("address families and system codes"),
        dlt if SIGNALLING.contains(&dlt) => Some("fields of signalling"),
        SLIP if has("outbound") => Some("the direction of SLIP"),
        SUNATM if expression.contains("!=") => Some("fields of ATM"),
        _ => None,
    }
}

fn words(expression: &str) -> impl Iterator<Item = &str> {
    let ends = |c: char| !c.is_ascii_alphanumeric() && c != '-';
    expression.split(ends).filter(|word| !word.is_empty())
}
