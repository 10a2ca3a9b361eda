//! Places of hosts: autonomous systems, countries and vendors, which the caller looks up in databases.

use std::collections::HashMap;
use std::fmt::Debug;
use std::net::IpAddr;

use foldhash::fast::RandomState;
use ringtap_flow::schema::Place;

use crate::heavy::{HeavyKey, Sum};
use crate::top::Tops;

/// The maximum number of autonomous systems whose names are kept.
const NAMES: usize = 16_384;
/// The maximum length of such a name, in characters.
const NAME: usize = 64;
/// Systems, and countries, of each slice of time.
const SYSTEMS: usize = 2048;
const COUNTRIES: usize = 512;

/// A set of databases about addresses.
pub trait Atlas: Debug + Send + Sync {
    /// Returns the place of an address, and of a MAC address where that is known.
    fn place(&self, address: IpAddr, mac: Option<[u8; 6]>) -> Place<'_>;
}

/// An autonomous system, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SystemKey(pub(crate) u32);

impl HeavyKey for SystemKey {
    fn mix(&self, state: u64, mix: impl Fn(u64, u64) -> u64) -> u64 {
        mix(state, u64::from(self.0))
    }
}

/// A country, by its code of two letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Country(pub(crate) [u8; 2]);

impl Country {
    /// Returns the country of a code, unless it has other characters than letters.
    fn of(code: &str) -> Option<Self> {
        let code: [u8; 2] = code.as_bytes().try_into().ok()?;
        code.iter()
            .all(u8::is_ascii_alphabetic)
            .then_some(Self(code))
    }

    /// Returns the code.
    pub(crate) fn text(self) -> String {
        self.0.map(char::from).iter().collect()
    }
}

impl HeavyKey for Country {
    fn mix(&self, state: u64, mix: impl Fn(u64, u64) -> u64) -> u64 {
        mix(state, u64::from(u16::from_be_bytes(self.0)))
    }
}

/// The place of a host, in a few bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostPlace {
    pub(crate) system: Option<SystemKey>,
    pub(crate) country: Option<Country>,
}

/// Traffic by place.
#[derive(Debug)]
pub(crate) struct PlaceBook {
    pub(crate) systems: Tops<SystemKey>,
    pub(crate) countries: Tops<Country>,
    names: HashMap<u32, Box<str>, RandomState>,
}

impl PlaceBook {
    pub(crate) fn new() -> Self {
        Self {
            systems: Tops::new(SYSTEMS),
            countries: Tops::new(COUNTRIES),
            names: HashMap::default(),
        }
    }

    /// Looks up the place of an address.
    pub(crate) fn locate(&mut self, atlas: &dyn Atlas, address: IpAddr) -> HostPlace {
        let place = atlas.place(address, None);
        if let (Some(number), Some(name)) = (place.as_number, place.as_name)
            && self.names.len() < NAMES
        {
            self.names
                .entry(number)
                .or_insert_with(|| shown(name).into_boxed_str());
        }
        HostPlace {
            system: place.as_number.map(SystemKey),
            country: place.country.and_then(Country::of),
        }
    }

    /// Adds the traffic of a flow to the places of its ends; a place that has both counts it once.
    pub(crate) fn add(&mut self, ends: [(HostPlace, Sum); 2], whole: &Sum) {
        let [(a, of_a), (b, of_b)] = ends;
        add(
            &mut self.systems,
            (a.system, &of_a),
            (b.system, &of_b),
            whole,
        );
        add(
            &mut self.countries,
            (a.country, &of_a),
            (b.country, &of_b),
            whole,
        );
    }

    pub(crate) fn advance(&mut self, now_ns: u64) {
        self.systems.advance(now_ns);
        self.countries.advance(now_ns);
    }

    /// Returns the name of a system.
    pub(crate) fn name(&self, system: SystemKey) -> Option<&str> {
        self.names.get(&system.0).map(|name| &**name)
    }
}

fn add<K: HeavyKey>(
    tops: &mut Tops<K>,
    (a, of_a): (Option<K>, &Sum),
    (b, of_b): (Option<K>, &Sum),
    whole: &Sum,
) {
    if let Some(a) = a {
        tops.add(a, if Some(a) == b { whole } else { of_a });
    }
    if let Some(b) = b.filter(|_| a != b) {
        tops.add(b, of_b);
    }
}

/// Returns a name from a database, with its control characters removed.
pub(crate) fn shown(name: &str) -> String {
    let plain = name.chars().filter(|character| !character.is_control());
    plain.take(NAME).collect()
}

/// Returns a system with its name, such as `AS64500 Example`.
pub(crate) fn system_text(number: u32, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("AS{number} {}", shown(name)),
        None => format!("AS{number}"),
    }
}
