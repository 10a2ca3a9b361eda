//! Databases made byte by byte, good ones and hostile ones.

use std::io::{Seek as _, SeekFrom, Write as _};

use ringtap_flow::{FlowKey, FlowRecord, MacAddresses};

use super::*;

/// Returns a text in MaxMind's format; lengths from 29 on have a byte of their own.
fn text(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    let mut bytes = match length {
        ..29 => vec![2 << 5 | length],
        _ => vec![2 << 5 | 29, length - 29],
    };
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

fn number(kind: u8, number: u32) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let begin = bytes.iter().position(|&byte| byte != 0).unwrap_or(4);
    let length = u8::try_from(4 - begin).unwrap();
    // Types from 8 on have a byte of their own.
    let mut value = match kind {
        ..=7 => vec![kind << 5 | length],
        _ => vec![length, kind - 7],
    };
    value.extend_from_slice(&bytes[begin..]);
    value
}

fn map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = vec![7 << 5 | u8::try_from(entries.len()).unwrap()];
    for (key, value) in entries {
        bytes.extend(text(key));
        bytes.extend_from_slice(value);
    }
    bytes
}

/// A database of IPv4 in which only 192.0.2.0/24 has data.
fn database(kind: &str, data: &[u8]) -> Vec<u8> {
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
    const UINT16: u8 = 5;
    const UINT32: u8 = 6;
    const UINT64: u8 = 9;
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

fn file(bytes: &[u8]) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

fn places(databases: &[Vec<u8>], vendors: Option<&str>) -> Result<Places, PlaceError> {
    let mut files = PlaceFiles::default();
    for bytes in databases {
        files.add_mmdb(Path::new("test.mmdb"), file(bytes))?;
    }
    if let Some(text) = vendors {
        files.set_oui(Path::new("oui.txt"), file(text.as_bytes()))?;
    }
    Places::new(files)
}

fn asn() -> Vec<u8> {
    database(
        "GeoLite2-ASN",
        &map(&[
            ("autonomous_system_number", number(6, 64_500)),
            ("autonomous_system_organization", text("Example, \"Inc\"")),
        ]),
    )
}

fn country() -> Vec<u8> {
    database(
        "GeoLite2-Country",
        &map(&[("country", map(&[("iso_code", text("NZ"))]))]),
    )
}

#[test]
fn ends_have_system_country_and_vendor() {
    let vendors = "00-00-0C   (hex)\t\tCisco Systems, Inc\n";
    let places = places(&[asn(), country()], Some(vendors)).expect("databases");
    let record = FlowRecord {
        key: FlowKey {
            source: [192, 0, 2, 200].into(),
            destination: [198, 51, 100, 1].into(),
            ..FlowKey::default()
        },
        macs: Some(MacAddresses {
            source: [0, 0, 0x0c, 1, 2, 3],
            destination: [9; 6],
        }),
        ..FlowRecord::default()
    };
    let row = places.row(&record);
    let expected = Place {
        as_number: Some(64_500),
        as_name: Some("Example, \"Inc\""),
        country: Some("NZ"),
        vendor: Some("Cisco Systems, Inc"),
    };
    assert_eq!(row.source, expected);
    assert_eq!(row.destination, Place::default());
    // IPv6 is not in a database of IPv4.
    let record = FlowRecord {
        key: FlowKey {
            source: [0x20; 16].into(),
            destination: [0x20; 16].into(),
            ..FlowKey::default()
        },
        ..FlowRecord::default()
    };
    assert_eq!(places.row(&record).source, Place::default());
}

#[test]
fn files_of_no_use_are_rejected() {
    let no_database = places(&[b"GIF89a".to_vec()], None);
    assert!(matches!(no_database, Err(PlaceError::Mmdb { .. })));
    let other = places(&[database("GeoIP2-Domain", &map(&[]))], None);
    assert!(matches!(other, Err(PlaceError::NoPlaces { .. })));
    let mut files = PlaceFiles::default();
    let missing = files.add_mmdb(Path::new("x"), Err(io::ErrorKind::NotFound.into()));
    assert!(matches!(missing, Err(PlaceError::Read { .. })));
}

/// A damaged database is rejected, or finds nothing, or something else.
#[test]
fn damage_does_no_harm() {
    let good = asn();
    let record = FlowRecord {
        key: FlowKey {
            source: [192, 0, 2, 200].into(),
            ..FlowKey::default()
        },
        ..FlowRecord::default()
    };
    let look = |bytes: Vec<u8>| {
        if let Ok(places) = places(&[bytes], None) {
            let _ = places.row(&record);
        }
    };
    for length in 0..good.len() {
        look(good[..length].to_vec());
    }
    for at in 0..good.len() {
        for byte in [0, 0x7f, 0xff, good[at] ^ 0x20, good[at].wrapping_add(1)] {
            let mut bytes = good.clone();
            bytes[at] = byte;
            look(bytes);
        }
    }
}
