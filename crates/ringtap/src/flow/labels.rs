//! Names for the rows of the tables: of hosts, by what their clients asked for, and of flows.
//!
//! The number of names is limited: when there are too many, the first ones stay until the tables are
//! printed.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use ringtap_flow::FlowRecord;
use ringtap_inspect::{Fields, NameSource};

/// The most names of each kind.
const MOST: usize = 16_384;
/// The longest name that is printed, in characters.
const LONGEST: usize = 60;

/// Names by key.
#[derive(Debug)]
pub(super) struct Labels<K> {
    names: HashMap<K, Box<str>>,
}

impl<K: Hash + Eq> Labels<K> {
    pub(super) fn new() -> Self {
        Self {
            names: HashMap::new(),
        }
    }

    /// Gives a key a name, unless it has one.
    pub(super) fn add(&mut self, key: K, name: &str) {
        // An address says nothing about an address.
        let is_address = name.parse::<IpAddr>().is_ok();
        if self.names.len() < MOST && !is_address && !self.names.contains_key(&key) {
            let name: String = name.chars().take(LONGEST).collect();
            self.names.insert(key, name.into());
        }
    }

    /// Returns what is printed behind a row: a space and the name, if the key has one.
    pub(super) fn behind(&self, key: &K) -> String {
        let name = self.names.get(key);
        name.map(|name| format!("  {name}")).unwrap_or_default()
    }

    pub(super) fn clear(&mut self) {
        self.names.clear();
    }
}

/// Returns a record's name, and the host that has it.
pub(super) fn name<'r>(record: &FlowRecord, fields: &Fields<'r>) -> Option<(IpAddr, &'r str)> {
    let name = fields.name?.as_str();
    match fields.name_source? {
        NameSource::Sni | NameSource::Dns | NameSource::Http | NameSource::Quic => {
            Some((record.responder(), name))
        }
        NameSource::Dhcp => Some((record.key.source, name)),
        // These are asked for, and answered by all hosts or one.
        _ => None,
    }
}
