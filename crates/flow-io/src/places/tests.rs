//! Databases made byte by byte, good ones and hostile ones.

use std::io::{Seek as _, SeekFrom, Write as _};

use ringtap_flow::{FlowKey, FlowRecord, MacAddresses};
use ringtap_testkit::mmdb::{database, map, number, text};

use super::*;

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
