//! Databases in MaxMind's format, made byte by byte.

/// Returns a text in MaxMind's format; lengths from 29 on have a byte of their own.
///
/// # Panics
/// The text is longer than 255 bytes.
#[must_use]
pub fn text(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).expect("a short value");
    let mut bytes = match length {
        ..29 => vec![2 << 5 | length],
        _ => vec![2 << 5 | 29, length - 29],
    };
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// Returns a number of a type of the format.
///
/// # Panics
/// Never: a number has 4 bytes.
#[must_use]
pub fn number(kind: u8, number: u32) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let begin = bytes.iter().position(|&byte| byte != 0).unwrap_or(4);
    let length = u8::try_from(4 - begin).expect("a short value");
    // Types from 8 on have a byte of their own.
    let mut value = match kind {
        ..=7 => vec![kind << 5 | length],
        _ => vec![length, kind - 7],
    };
    value.extend_from_slice(&bytes[begin..]);
    value
}

/// Returns a map.
///
/// # Panics
/// There are more than 255 entries.
#[must_use]
pub fn map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = vec![7 << 5 | u8::try_from(entries.len()).expect("a short value")];
    for (key, value) in entries {
        bytes.extend(text(key));
        bytes.extend_from_slice(value);
    }
    bytes
}

/// Returns a database of IPv4 in which only 192.0.2.0/24 has data.
#[must_use]
pub fn database(kind: &str, data: &[u8]) -> Vec<u8> {
    const UINT16: u8 = 5;
    const UINT32: u8 = 6;
    const UINT64: u8 = 9;
    const NODES: u32 = 24;
    const NETWORK: u32 = 0xc000_0200;
    let mut bytes = Vec::new();
    for node in 0..NODES {
        let next = if node + 1 == NODES {
            NODES + 16
        } else {
            node + 1
        };
        let is_one = NETWORK >> (31 - node) & 1 == 1;
        let records = if is_one { [NODES, next] } else { [next, NODES] };
        for record in records {
            bytes.extend_from_slice(&record.to_be_bytes()[1..]);
        }
    }
    bytes.extend_from_slice(&[0; 16]);
    bytes.extend_from_slice(data);
    bytes.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
    // An array of one language.
    let languages = [vec![1, 4], text("en")].concat();
    bytes.extend(map(&[
        ("node_count", number(UINT32, NODES)),
        ("record_size", number(UINT16, 24)),
        ("ip_version", number(UINT16, 4)),
        ("database_type", text(kind)),
        ("languages", languages),
        ("binary_format_major_version", number(UINT16, 2)),
        ("binary_format_minor_version", number(UINT16, 0)),
        ("build_epoch", number(UINT64, 1_700_000_000)),
        ("description", map(&[("en", text("test"))])),
    ]));
    bytes
}

/// Returns a database in which 192.0.2.0/24 is of an autonomous system and a country.
#[must_use]
pub fn places(system: u32, name: &str, country: &str) -> Vec<u8> {
    let data = map(&[
        ("autonomous_system_number", number(6, system)),
        ("autonomous_system_organization", text(name)),
        ("country", map(&[("iso_code", text(country))])),
    ]);
    database("Test-Enterprise", &data)
}
