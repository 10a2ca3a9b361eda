//! A database in MaxMind's format: autonomous systems, countries, or both.

use std::net::IpAddr;
use std::path::PathBuf;

use maxminddb::{PathElement, Reader};
use ringtap_flow::schema::Place;

use super::PlaceError;

/// Where the values are, in GeoLite2 and GeoIP2 databases and those that follow them.
const AS_NUMBER: &[PathElement<'_>] = &[PathElement::Key("autonomous_system_number")];
const AS_NAME: &[PathElement<'_>] = &[PathElement::Key("autonomous_system_organization")];
const COUNTRY: &[PathElement<'_>] = &[PathElement::Key("country"), PathElement::Key("iso_code")];
/// The country in which a network is registered, where the other one is not known.
const REGISTERED: &[PathElement<'_>] = &[
    PathElement::Key("registered_country"),
    PathElement::Key("iso_code"),
];

#[derive(Debug)]
pub(super) struct Database {
    reader: Reader<Vec<u8>>,
    has_systems: bool,
    has_countries: bool,
}

impl Database {
    pub(super) fn new(path: PathBuf, bytes: Vec<u8>) -> Result<Self, PlaceError> {
        let reader = match Reader::from_source(bytes) {
            Ok(reader) => reader,
            Err(reason) => return Err(PlaceError::Mmdb { path, reason }),
        };
        if let Err(reason) = reader.verify() {
            return Err(PlaceError::Mmdb { path, reason });
        }
        let kind = reader.metadata().database_type.clone();
        // An ISP database has systems, one of cities or enterprises countries.
        let has_any = |words: &[&str]| words.iter().any(|word| kind.contains(word));
        let has_systems = has_any(&["ASN", "ISP", "Enterprise"]);
        let has_countries = has_any(&["Country", "City", "Enterprise"]);
        if !has_systems && !has_countries {
            return Err(PlaceError::NoPlaces { path, kind });
        }
        Ok(Self {
            reader,
            has_systems,
            has_countries,
        })
    }

    /// Fills in what the database knows of an address and the place does not have.
    pub(super) fn look_up<'a>(&'a self, address: IpAddr, place: &mut Place<'a>) {
        let Ok(found) = self.reader.lookup(address) else {
            return;
        };
        if !found.has_data() {
            return;
        }
        let text = |path| found.decode_path::<&'a str>(path).ok().flatten();
        if self.has_systems {
            let number = || found.decode_path(AS_NUMBER).ok().flatten();
            place.as_number = place.as_number.or_else(number);
            place.as_name = place.as_name.or_else(|| text(AS_NAME));
        }
        if self.has_countries {
            let country = || text(COUNTRY).or_else(|| text(REGISTERED));
            place.country = place.country.or_else(country);
        }
    }
}
