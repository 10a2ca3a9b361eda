//! The changes of the filter language from libpcap 1.10.3 to 1.11, and which of them ringtap follows.
//! A difference to one version is intended if ringtap follows another.
//!
//! ringtap speaks the language of libpcap 1.10.3 and understands what 1.11 adds to it. Where a later
//! version rejects an expression that 1.10.3 accepts, or gives it another meaning, ringtap stays with
//! 1.10.3.

/// A version of libpcap: major, minor and patch, such as `(1, 10, 5)`.
pub type Version = (u32, u32, u32);

/// Returns the first version in a text such as `libpcap version 1.10.5 (with TPACKET_V3)`.
#[must_use]
pub fn parse(text: &str) -> Option<Version> {
    let mut numbers = text
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|part| part.parse().ok());
    Some((numbers.next()?, numbers.next()?, numbers.next()?))
}

/// The version that brought most of the changes.
const CHANGED: Version = (1, 11, 0);
/// The version that parses ranges of ports by new rules.
const PORT_RANGES: Version = (1, 10, 5);

/// Link types with an address family or a system code, for which 1.11 tests IPv4 differently: NULL,
/// ARCNET, ENC, PFLOG, ARCNET_LINUX.
const OTHER_FAMILIES: [u32; 5] = [0, 7, 109, 117, 129];
/// MTP2_WITH_PHDR, MTP2, ERF.
const SIGNALLING: [u32; 3] = [139, 140, 197];
const SLIP: u32 = 8;
const SUNATM: u32 = 123;
const PPI: u32 = 192;
/// Link types on which ringtap follows 1.11 entirely: BACNET_MS_TP, on which tests of any protocol
/// match in 1.10; DSA_TAG_BRCM and DSA_TAG_DSA, on which 1.10 knows no protocol.
const NEWER: [u32; 3] = [165, 281, 284];

/// Parts of the messages with which later versions reject what 1.10.3 accepts, the reason, and the first
/// version that does.
const STRICTER: &[(&str, &str, Version)] = &[
    (
        "not a live capture",
        "metadata of the kernel in a file",
        CHANGED,
    ),
    (
        "greater than maximum",
        "numbers larger than their field",
        CHANGED,
    ),
    (
        "direction value",
        "numbers larger than their field",
        CHANGED,
    ),
    ("DECnet", "DECnet addresses", CHANGED),
    (
        "'decnet' is not a valid qualifier for 'net'",
        "DECnet networks",
        CHANGED,
    ),
    // Its manual page has them.
    (
        "is not a valid qualifier for '",
        "prefixes behind a direction",
        CHANGED,
    ),
    ("more than one hyphen", "ranges of ports", PORT_RANGES),
    ("is not a valid port", "ranges of ports", PORT_RANGES),
    ("supported only on SUNATM", "ATM inside a tunnel", CHANGED),
];

/// Words with another meaning in later versions, the reason, and the first version that has it.
const CHANGED_WORDS: &[(&str, &str, Version)] = &[
    ("decnet", "DECnet addresses", CHANGED),
    ("multicast", "class D ends at 239", CHANGED),
    ("byte", "operators of bytes", CHANGED),
    ("portrange", "ranges of ports", PORT_RANGES),
];

/// Returns whether the installed libpcap is 1.11 or later.
#[must_use]
pub fn is_newer(version: Version) -> bool {
    version >= CHANGED
}

/// Returns whether ringtap follows 1.11 with this expression, which 1.10 rejects or gives another meaning.
#[must_use]
pub fn brought(expression: &str, dlt: u32) -> bool {
    /// Abbreviations of types of IS-IS packets: 1.11 ignores the reserved bits of the type's byte,
    /// and also supports them on Cisco HDLC.
    const ISIS: [&str; 7] = ["l1", "l2", "iih", "lsp", "snp", "csnp", "psnp"];
    const FRAMES: [&str; 4] = ["type", "subtype", "dir", "direction"];
    let words: Vec<&str> = words(expression).collect();
    let has = |word: &str| words.contains(&word);
    let isis = ISIS.into_iter().any(has) || has("isis") && has("proto");
    let frames = dlt == PPI && FRAMES.into_iter().any(has);
    isis || frames || NEWER.contains(&dlt) || is_unknown(dlt)
}

/// Returns whether a link type has had its name since 1.11 (some since a late 1.10).
#[must_use]
pub fn is_name_newer(dlt: u32) -> bool {
    /// USER0 to USER15.
    const PRIVATE: std::ops::RangeInclusive<u32> = 147..=162;
    const I2C_LINUX: u32 = 209;
    is_unknown(dlt) || PRIVATE.contains(&dlt) || dlt == I2C_LINUX
}

/// Returns whether 1.11 knows a link type that 1.10 does not.
fn is_unknown(dlt: u32) -> bool {
    const REDBACK_SMARTEDGE: u32 = 32;
    matches!(dlt, 2..=5 | REDBACK_SMARTEDGE | 290..=304)
}

/// Returns why ringtap gives `expression` another meaning than libpcap of this version, if it stays with
/// 1.10.3. `refusal` is libpcap's message if it rejects the expression.
#[must_use]
pub fn kept(
    version: Version,
    expression: &str,
    dlt: u32,
    refusal: Option<&str>,
) -> Option<&'static str> {
    if let Some(message) = refusal {
        let rejects =
            |&&(part, _, since): &&(&str, _, _)| version >= since && message.contains(part);
        return STRICTER.iter().find(rejects).map(|&(_, what, _)| what);
    }
    let words: Vec<&str> = words(expression).collect();
    let has = |word: &str| words.contains(&word);
    let means = |&&(word, _, since): &&(&str, _, _)| version >= since && has(word);
    if let Some(&(_, what, _)) = CHANGED_WORDS.iter().find(means) {
        return Some(what);
    }
    match dlt {
        _ if !is_newer(version) => None,
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
