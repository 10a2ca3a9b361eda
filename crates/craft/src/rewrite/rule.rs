//! Rules as the command line gives them: `FIELD[.src|.dst]=[OLD->]NEW`.

use std::net::IpAddr;
use std::str::FromStr;

/// What a packet's fields become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub(super) side: Side,
    pub(super) change: Change,
}

/// Which of two fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Destination,
    Both,
}

impl Side {
    /// Whether the first (source) or second (destination) of two is meant.
    pub(super) fn includes(self, index: usize) -> bool {
        match self {
            Self::Source => index == 0,
            Self::Destination => index == 1,
            Self::Both => true,
        }
    }
}

/// A field's old value, where only that one is to change, and its new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Mac(Option<[u8; 6]>, [u8; 6]),
    Ip(Option<Net>, Net),
    Port(Option<u16>, u16),
    /// Identifiers; a new one of none takes the outermost tag away.
    Vlan(Option<u16>, Option<u16>),
}

/// Addresses that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Net {
    pub(super) address: IpAddr,
    pub(super) prefix: u8,
}

/// A rule that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It has not the form of a rule.
    #[error("expected FIELD=NEW or FIELD=OLD->NEW, such as ip.dst=10.0.0.0/8->192.168.0.0/8")]
    Form,
    /// There is no such field.
    #[error(
        "there is no field {0:?}; there are eth, ip, port (each also with .src and .dst) and vlan"
    )]
    Field(String),
    /// A value that the field cannot have.
    #[error("{value:?} is no {what}")]
    Value {
        /// As given.
        value: String,
        /// What it should be.
        what: &'static str,
    },
    /// Networks that do not fit together.
    #[error("old and new addresses must be of one family and have prefixes of one length")]
    Nets,
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (field, values) = text.split_once('=').ok_or(RuleError::Form)?;
        let (field, side) = match field.split_once('.') {
            None => (field, Side::Both),
            Some((field, "src")) => (field, Side::Source),
            Some((field, "dst")) => (field, Side::Destination),
            Some(_) => return Err(RuleError::Field(field.to_owned())),
        };
        let (old, new) = match values.split_once("->") {
            Some((old, new)) => (Some(old), new),
            None => (None, values),
        };
        // Without a side, an old value says which of both is meant.
        if side == Side::Both && old.is_none() && field != "vlan" {
            return Err(RuleError::Form);
        }
        let change = match field {
            "eth" => Change::Mac(old.map(mac).transpose()?, mac(new)?),
            "ip" => nets(old.map(net).transpose()?, net(new)?)?,
            "port" => Change::Port(old.map(port).transpose()?, port(new)?),
            "vlan" if side == Side::Both => {
                let new = match new {
                    "none" => None,
                    id => Some(vlan(id)?),
                };
                Change::Vlan(old.map(vlan).transpose()?, new)
            }
            _ => return Err(RuleError::Field(field.to_owned())),
        };
        Ok(Self { side, change })
    }
}

fn wrong(value: &str, what: &'static str) -> RuleError {
    let value = value.to_owned();
    RuleError::Value { value, what }
}

/// Six bytes in hexadecimal, with colons or hyphens between them.
pub(super) fn mac(text: &str) -> Result<[u8; 6], RuleError> {
    let bad = || wrong(text, "MAC address");
    let mut mac = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut mac {
        let part = parts
            .next()
            .filter(|part| matches!(part.len(), 1 | 2) && !part.starts_with('+'));
        *byte = part
            .and_then(|part| u8::from_str_radix(part, 16).ok())
            .ok_or_else(bad)?;
    }
    if parts.next().is_some() {
        return Err(bad());
    }
    Ok(mac)
}

/// A MAC address of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(
    /// Its bytes, the first on the wire first.
    pub [u8; 6],
);

impl FromStr for Mac {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        mac(text).map(Self)
    }
}

fn net(text: &str) -> Result<Net, RuleError> {
    let bad = || wrong(text, "address or network");
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| bad())?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let prefix = match prefix {
        Some(prefix) => prefix.parse().ok().filter(|&prefix| prefix <= bits),
        None => Some(bits),
    };
    let prefix = prefix.ok_or_else(bad)?;
    Ok(Net { address, prefix })
}

fn nets(old: Option<Net>, new: Net) -> Result<Change, RuleError> {
    let fits =
        |old: &Net| old.address.is_ipv4() == new.address.is_ipv4() && old.prefix == new.prefix;
    if old.as_ref().is_some_and(|old| !fits(old)) {
        return Err(RuleError::Nets);
    }
    Ok(Change::Ip(old, new))
}

fn port(text: &str) -> Result<u16, RuleError> {
    text.parse().map_err(|_| wrong(text, "port"))
}

fn vlan(text: &str) -> Result<u16, RuleError> {
    let id = text.parse().ok().filter(|&id: &u16| id < 4096);
    id.ok_or_else(|| wrong(text, "VLAN identifier (0 to 4095, or none)"))
}

impl Net {
    /// Whether an address, 4 or 16 bytes, begins as these do.
    pub(super) fn contains(&self, address: &[u8]) -> bool {
        self.with_octets(|own| {
            own.len() == address.len() && joined(own, self.prefix, address)[..own.len()] == *address
        })
    }

    /// An address that begins as these do and ends as the given one; nothing for one of the other
    /// family. The bytes beyond its length are zero.
    pub(super) fn mapped(&self, address: &[u8]) -> Option<[u8; 16]> {
        self.with_octets(|own| {
            (own.len() == address.len()).then(|| joined(own, self.prefix, address))
        })
    }

    fn with_octets<T>(&self, work: impl FnOnce(&[u8]) -> T) -> T {
        match self.address {
            IpAddr::V4(address) => work(&address.octets()),
            IpAddr::V6(address) => work(&address.octets()),
        }
    }
}

/// The first bits of one, the others of the other.
fn joined(first: &[u8], prefix: u8, last: &[u8]) -> [u8; 16] {
    let mut joined = [0; 16];
    let pairs = first.iter().zip(last);
    for (index, (byte, (first, last))) in joined.iter_mut().zip(pairs).enumerate() {
        let bits = usize::from(prefix).saturating_sub(index * 8).min(8);
        let mask = if bits == 0 { 0 } else { 0xff_u8 << (8 - bits) };
        *byte = first & mask | last & !mask;
    }
    joined
}
