//! Resolution of the names in expressions: hosts, networks, services, protocols.
//!
//! The crate does no input or output: the caller passes a [`Resolver`]. [`Tables`] is a resolver
//! over the text of the system's databases.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use ringtap_packet::names::{self, Line};

/// The kind of thing that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NameKind {
    /// A host's name.
    #[error("host")]
    Host,
    /// A network's name.
    #[error("network")]
    Network,
    /// A service's name, which stands for a port.
    #[error("port")]
    Port,
    /// A service's name in a range of ports.
    #[error("port range")]
    Portrange,
    /// The name of a protocol over IP.
    #[error("IP protocol")]
    IpProtocol,
    /// The name of a protocol over a link layer.
    #[error("link-layer protocol")]
    EtherProtocol,
    /// The name of a protocol over OSI.
    #[error("OSI protocol")]
    IsoProtocol,
    /// The type of an IS-IS packet, which has no names.
    #[error("IS-IS packet type")]
    IsisType,
    /// The type of an LLC frame.
    #[error("LLC type")]
    LlcType,
    /// A host's name that stands for a hardware address.
    #[error("hardware address of host")]
    Ether,
    /// The name of a type of 802.11 frames.
    #[error("type of 802.11 frames")]
    FrameType,
    /// The name of a subtype of 802.11 frames.
    #[error("subtype of 802.11 frames")]
    FrameSubtype,
    /// The name of the direction of an 802.11 frame.
    #[error("direction of 802.11 frames")]
    FrameDirection,
    /// The name of a reason why pf logged a packet.
    #[error("reason of pf")]
    PfReason,
    /// The name of an action of pf.
    #[error("action of pf")]
    PfAction,
}

/// A transport protocol that has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// A lookup that failed (as opposed to a name that does not exist).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ResolveError(pub String);

/// Looks up names. An unknown name gives an empty answer, not an error.
pub trait Resolver {
    /// Returns the addresses of a host, in the order in which they are tested.
    ///
    /// # Errors
    /// The lookup failed.
    fn host(&self, name: &str) -> Result<Vec<IpAddr>, ResolveError>;

    /// Returns the number of a network, as in `/etc/networks`. Like inet_network(3), it is aligned
    /// right if trailing parts are missing: `127` is 0.0.0.127 and means 127.0.0.0/8.
    ///
    /// # Errors
    /// The lookup failed.
    fn network(&self, name: &str) -> Result<Option<Ipv4Addr>, ResolveError>;

    /// Returns the port of a service.
    ///
    /// # Errors
    /// The lookup failed.
    fn port(&self, name: &str, transport: Transport) -> Result<Option<u16>, ResolveError>;

    /// Returns the number of a protocol over IP.
    ///
    /// # Errors
    /// The lookup failed.
    fn protocol(&self, name: &str) -> Result<Option<u8>, ResolveError>;

    /// Returns the hardware address of a host, as in `/etc/ethers`.
    ///
    /// # Errors
    /// The lookup failed.
    fn ether(&self, name: &str) -> Result<Option<[u8; 6]>, ResolveError>;
}

/// A resolver over tables in memory, filled from text in the formats of `/etc/hosts`,
/// `/etc/networks`, `/etc/services`, `/etc/protocols` and `/etc/ethers`. Empty tables know no
/// names.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    hosts: BTreeMap<String, Vec<IpAddr>>,
    networks: BTreeMap<String, Ipv4Addr>,
    ports: BTreeMap<(String, Transport), u16>,
    protocols: BTreeMap<String, u8>,
    ethers: BTreeMap<String, [u8; 6]>,
}

impl Tables {
    /// Returns tables without any name.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns tables of all the files. `read` is called with each file's name (`hosts`,
    /// `networks`, `services`, `protocols`, `ethers`) and returns that file's text.
    #[must_use]
    pub fn of_files(read: impl Fn(&str) -> String) -> Self {
        let mut tables = Self::new();
        tables.add_hosts(&read("hosts"));
        tables.add_networks(&read("networks"));
        tables.add_services(&read("services"));
        tables.add_protocols(&read("protocols"));
        tables.add_ethers(&read("ethers"));
        tables
    }

    /// Adds the lines of a hosts(5) file; invalid lines are skipped.
    pub fn add_hosts(&mut self, text: &str) {
        for line in names::lines(text.as_bytes()) {
            let Some(Ok(address)) = line.first().map(str::parse::<IpAddr>) else {
                continue;
            };
            for name in texts(line.fields().skip(1)) {
                let known = self.hosts.entry(name.to_ascii_lowercase()).or_default();
                if !known.contains(&address) {
                    known.push(address);
                }
            }
        }
    }

    /// Adds the lines of a networks(5) file.
    pub fn add_networks(&mut self, text: &str) {
        for line in names::lines(text.as_bytes()) {
            if let Some(number) = line.second().and_then(names::network_number) {
                add(
                    &mut self.networks,
                    line,
                    |name| name,
                    Ipv4Addr::from(number),
                );
            }
        }
    }

    /// Adds the lines of a services(5) file.
    pub fn add_services(&mut self, text: &str) {
        for line in names::lines(text.as_bytes()) {
            let (port, transport) = match line.second().and_then(names::service) {
                Some((port, "tcp")) => (port, Transport::Tcp),
                Some((port, "udp")) => (port, Transport::Udp),
                _ => continue,
            };
            add(&mut self.ports, line, |name| (name, transport), port);
        }
    }

    /// Adds the lines of a protocols(5) file.
    pub fn add_protocols(&mut self, text: &str) {
        for line in names::lines(text.as_bytes()) {
            if let Some(number) = line.second().and_then(names::number) {
                add(&mut self.protocols, line, |name| name, number);
            }
        }
    }

    /// Adds the lines of an ethers(5) file.
    pub fn add_ethers(&mut self, text: &str) {
        for line in names::lines(text.as_bytes()) {
            let address = line.first().and_then(names::ethernet_address);
            if let (Some(address), Some(name)) = (address, line.second()) {
                self.ethers.entry(name.to_owned()).or_insert(address);
            }
        }
    }
}

/// Adds a value under a name and its aliases; the first line that has a name wins.
fn add<K: Ord, V: Copy>(
    table: &mut BTreeMap<K, V>,
    line: Line<'_>,
    key: impl Fn(String) -> K,
    value: V,
) {
    for name in texts(line.names()) {
        table.entry(key(name.to_owned())).or_insert(value);
    }
}

fn texts<'a>(fields: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = &'a str> {
    fields.filter_map(|field| std::str::from_utf8(field).ok())
}

impl Resolver for Tables {
    fn host(&self, name: &str) -> Result<Vec<IpAddr>, ResolveError> {
        Ok(self
            .hosts
            .get(&name.to_ascii_lowercase())
            .cloned()
            .unwrap_or_default())
    }

    fn network(&self, name: &str) -> Result<Option<Ipv4Addr>, ResolveError> {
        Ok(self.networks.get(name).copied())
    }

    fn port(&self, name: &str, transport: Transport) -> Result<Option<u16>, ResolveError> {
        Ok(self.ports.get(&(name.to_owned(), transport)).copied())
    }

    fn protocol(&self, name: &str) -> Result<Option<u8>, ResolveError> {
        Ok(self.protocols.get(name).copied())
    }

    fn ether(&self, name: &str) -> Result<Option<[u8; 6]>, ResolveError> {
        Ok(self.ethers.get(name).copied())
    }
}
