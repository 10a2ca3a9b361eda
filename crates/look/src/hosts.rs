//! The hosts that are listed, with what is known of each, in a table of a fixed size.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::RandomState;

use crate::places::HostPlace;
use crate::steps::HostSteps;

/// Hosts that are looked at to find the one that makes room.
const LOOKS: usize = 16;
/// Names that are kept of a host.
const NAMES: usize = 8;

/// A name and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostName {
    pub(crate) name: String,
    pub(crate) source: &'static str,
}

/// A mean of times.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mean {
    sum_ns: u64,
    count: u64,
}

impl Mean {
    pub(crate) fn add(&mut self, time_ns: Option<u64>) {
        if let Some(time_ns) = time_ns {
            self.sum_ns = self.sum_ns.saturating_add(time_ns);
            self.count += 1;
        }
    }

    pub(crate) fn join(&mut self, other: Self) {
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.count += other.count;
    }

    pub(crate) fn get(&self) -> Option<u64> {
        self.sum_ns.checked_div(self.count)
    }
}

/// A host.
#[derive(Clone, Debug)]
pub(crate) struct ListedHost {
    pub(crate) address: IpAddr,
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    /// Packets and bytes.
    pub(crate) sent: (u64, u64),
    pub(crate) received: (u64, u64),
    pub(crate) flows: u64,
    pub(crate) retransmissions: u64,
    pub(crate) resets: u64,
    pub(crate) rtt: Mean,
    pub(crate) alerts: u64,
    pub(crate) names: Vec<HostName>,
    pub(crate) place: HostPlace,
    pub(crate) steps: HostSteps,
    /// Flows of this host with a DNS question, and with an answer that is an error.
    pub(crate) dns: (u64, u64),
}

impl ListedHost {
    fn new(address: IpAddr, time_ns: u64) -> Self {
        Self {
            address,
            mac: None,
            first_ns: time_ns,
            last_ns: time_ns,
            sent: (0, 0),
            received: (0, 0),
            flows: 0,
            retransmissions: 0,
            resets: 0,
            rtt: Mean::default(),
            alerts: 0,
            names: Vec::new(),
            place: HostPlace::default(),
            steps: HostSteps::new(),
            dns: (0, 0),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.sent.1.saturating_add(self.received.1)
    }

    /// Keeps a name of the host; the newest is first.
    pub(crate) fn name(&mut self, name: &str, source: &'static str) {
        if self.names.first().is_some_and(|first| first.name == name) {
            return;
        }
        self.names.retain(|known| known.name != name);
        self.names.truncate(NAMES - 1);
        let name = name.to_owned();
        self.names.insert(0, HostName { name, source });
    }
}

/// The table.
#[derive(Debug)]
pub(crate) struct HostTable {
    slots: Vec<ListedHost>,
    index: HashMap<IpAddr, u32, RandomState>,
    capacity: usize,
    hand: usize,
}

impl HostTable {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            slots: Vec::new(),
            index: HashMap::default(),
            capacity: capacity.max(1),
            hand: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn get(&self, address: IpAddr) -> Option<&ListedHost> {
        let at = *self.index.get(&address)?;
        self.slots.get(at as usize)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ListedHost> {
        self.slots.iter()
    }

    /// Returns the host, and whether it was not listed.
    pub(crate) fn entry(&mut self, address: IpAddr, time_ns: u64) -> (&mut ListedHost, bool) {
        if let Some(&at) = self.index.get(&address) {
            return (&mut self.slots[at as usize], false);
        }
        let host = ListedHost::new(address, time_ns);
        let at = if self.slots.len() < self.capacity {
            self.slots.push(host);
            self.slots.len() - 1
        } else {
            let at = self.victim();
            self.index.remove(&self.slots[at].address);
            self.slots[at] = host;
            at
        };
        self.index
            .insert(address, u32::try_from(at).unwrap_or(u32::MAX));
        (&mut self.slots[at], true)
    }

    /// Returns the host with the fewest bytes among the next ones.
    fn victim(&mut self) -> usize {
        let looks = (0..LOOKS).map(|look| (self.hand + look) % self.slots.len());
        let victim = looks.min_by_key(|&at| (self.slots[at].bytes(), self.slots[at].last_ns));
        self.hand = (self.hand + LOOKS) % self.slots.len();
        victim.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_hosts_leaves_those_with_traffic() {
        let mut table = HostTable::new(64);
        let address = |number: u32| IpAddr::from(number.to_be_bytes());
        table.entry(address(1), 1).0.sent = (9, 9000);
        for number in 2..5000 {
            table.entry(address(number), 2).0.sent = (1, 60);
        }
        assert_eq!(table.len(), 64);
        assert_eq!(table.get(address(1)).map(ListedHost::bytes), Some(9000));
        let host = table.entry(address(1), 3).0;
        for number in 0..20 {
            host.name(&format!("n{number}"), "dns");
        }
        host.name("n19", "dns");
        assert_eq!((host.names.len(), &*host.names[0].name), (NAMES, "n19"));
    }
}
