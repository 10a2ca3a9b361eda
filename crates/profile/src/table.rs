//! The table that maps functions of the kernel to components: `components.toml`, parsed for lookups
//! by name.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use crate::Component;

const TABLE: &str = include_str!("components.toml");

/// The table as it is written in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    caller: Vec<String>,
    idle: Vec<String>,
    receive: Vec<String>,
    other: Vec<String>,
    bell: Vec<String>,
    taps: BTreeMap<TapKind, Vec<String>>,
    inside: BTreeMap<Component, Vec<String>>,
    outside: BTreeMap<Component, Vec<String>>,
    drivers: BTreeMap<String, Vec<String>>,
}

/// The work of a function that no tap has called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// The caller determines the work.
    Caller,
    /// Waiting for work.
    Idle,
    /// Not on a packet's path.
    Other,
    /// A component's work.
    Of(Component),
    /// A driver's work, by its number in [`Table::driver`].
    Driver(u16),
}

/// A kind of tap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TapKind {
    /// A packet socket.
    Packet,
    /// An AF_XDP socket.
    Xsk,
    /// A program at XDP or tcx.
    #[default]
    Hook,
}

impl TapKind {
    /// Returns whether a capture by this tap also works in the functions of another tap: AF_XDP has a program
    /// at XDP.
    #[must_use]
    pub fn includes(self, other: Self) -> bool {
        self == other || (self == Self::Xsk && other == Self::Hook)
    }
}

/// The classification of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Its work if no tap has called it; `None` if the table does not name it.
    pub outside: Option<Outside>,
    /// Its work inside a tap.
    pub inside: Option<Component>,
    /// The kind of tap, if it is a tap.
    pub tap: Option<TapKind>,
    /// Whether the functions that it calls handle received packets.
    pub is_receive: bool,
    /// Whether it wakes readers of a tap in an interrupt of its own.
    pub is_bell: bool,
}

/// Names, whole or as prefixes, with their values.
#[derive(Debug)]
struct Names<T> {
    whole: HashMap<String, T>,
    /// Longest first.
    beginnings: Vec<(String, T)>,
}

impl<T: Copy> Names<T> {
    fn new<'a>(lists: impl IntoIterator<Item = (T, &'a Vec<String>)>) -> Self {
        let mut names = Self {
            whole: HashMap::new(),
            beginnings: Vec::new(),
        };
        for (value, list) in lists {
            for name in list {
                match name.strip_suffix('*') {
                    Some(beginning) => names.beginnings.push((beginning.to_owned(), value)),
                    None => {
                        names.whole.insert(name.clone(), value);
                    }
                }
            }
        }
        names
            .beginnings
            .sort_by_key(|(beginning, _)| std::cmp::Reverse(beginning.len()));
        names
    }

    fn get(&self, name: &str) -> Option<T> {
        let whole = self.whole.get(name).copied();
        whole.or_else(|| {
            let fits = |(beginning, _): &&(String, T)| name.starts_with(beginning.as_str());
            self.beginnings.iter().find(fits).map(|&(_, value)| value)
        })
    }
}

/// The table.
#[derive(Debug)]
pub struct Table {
    outside: Names<Outside>,
    inside: Names<Component>,
    taps: Names<TapKind>,
    receivers: Names<()>,
    bells: Names<()>,
    drivers: Vec<String>,
}

impl Table {
    /// Returns ringtap's own table.
    ///
    /// # Panics
    /// Never: the table is part of the program, and a test reads it.
    #[must_use]
    pub fn built_in() -> Self {
        match toml::from_str(TABLE) {
            Ok(written) => Self::new(written),
            Err(error) => unreachable!("components.toml: {error}"),
        }
    }

    fn new(written: Written) -> Self {
        let mut outside = vec![
            (Outside::Caller, &written.caller),
            (Outside::Idle, &written.idle),
            (Outside::Other, &written.other),
        ];
        let of_components = written.outside.iter();
        outside.extend(of_components.map(|(component, list)| (Outside::Of(*component), list)));
        let of_drivers = (0..).map(Outside::Driver).zip(written.drivers.values());
        outside.extend(of_drivers);
        Self {
            outside: Names::new(outside),
            inside: Names::new(written.inside.iter().map(|(inside, list)| (*inside, list))),
            taps: Names::new(written.taps.iter().map(|(tap, list)| (*tap, list))),
            receivers: Names::new([((), &written.receive)]),
            bells: Names::new([((), &written.bell)]),
            drivers: written.drivers.into_keys().collect(),
        }
    }

    /// Returns the classification of a function by its name.
    #[must_use]
    pub fn class(&self, symbol: &str) -> Class {
        let name = symbol.split_once('.').map_or(symbol, |(name, _)| name);
        Class {
            outside: self.outside.get(name),
            inside: self.inside.get(name),
            tap: self.taps.get(name),
            is_receive: self.receivers.get(name).is_some(),
            is_bell: self.bells.get(name).is_some(),
        }
    }

    /// Returns the number of a driver by its own name; `None` if the table does not have it.
    #[must_use]
    pub fn driver(&self, name: &str) -> Option<u16> {
        let place = self.drivers.iter().position(|driver| driver == name)?;
        u16::try_from(place).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_decides() {
        let table = Table::built_in();
        let outside = |name| table.class(name).outside;
        let of = |component| Some(Outside::Of(component));
        assert_eq!(outside("ip_rcv_core.isra.0"), of(Component::Stack));
        assert_eq!(outside("napi_complete_done"), of(Component::Driver));
        assert_eq!(outside("napi_gro_receive"), of(Component::Stack));
        assert_eq!(
            outside("veth_poll"),
            Some(Outside::Driver(table.driver("veth").expect("known")))
        );
        assert_eq!(outside("__memcpy"), Some(Outside::Caller));
        assert_eq!(outside("a_function_that_nobody_knows"), None);
        assert_eq!(table.class("skb_copy_bits").inside, Some(Component::Copy));
        assert!(table.class("tpacket_rcv").tap == Some(TapKind::Packet));
    }

    #[test]
    fn common_drivers_are_known() {
        let table = Table::built_in();
        let drivers = [
            "veth",
            "virtio_net",
            "ixgbe",
            "i40e",
            "ice",
            "mlx5_core",
            "ena",
            "igb",
            "e1000e",
            "r8169",
            "bnxt_en",
            "igc",
            "vmxnet3",
            "hv_netvsc",
        ];
        for driver in drivers {
            assert!(table.driver(driver).is_some(), "{driver}");
        }
    }
}
