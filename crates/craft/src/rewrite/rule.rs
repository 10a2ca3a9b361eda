//! Rules from the command line: `FIELD[.src|.dst]=[OLD->]NEW`.

use std::net::IpAddr;
use std::str::FromStr;

/// A rule that changes a packet's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub(super) side: Side,
    pub(super) change: Change,
}

/// The source field, the destination field, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Destination,
    Both,
}

impl Side {
    /// Returns whether the rule applies to the first (source) or second (destination) of two fields.
    pub(super) fn includes(self, index: usize) -> bool {
        match self {
            Self::Source => index == 0,
            Self::Destination => index == 1,
            Self::Both => true,
        }
    }
}

/// A field's new value, and the old one if only that one should change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Mac(Option<[u8; 6]>, [u8; 6]),
    Ip(Option<Net>, Net),
    Port(Option<u16>, u16),
    /// Identifiers; a new one of `None` removes the outermost tag.
    Vlan(Option<u16>, Option<u16>),
}

/// Addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Net {
    pub(super) address: IpAddr,
    pub(super) prefix: u8,
}

/// An invalid rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It does not have the form of a rule.
    #[error("expected FIELD=NEW or FIELD=OLD->NEW, such as ip.dst=10.0.0.0/8->192.168.0.0/8")]
    Form,
    /// An unknown field.
    #[error(
        "unknown field {0:?}; fields are eth, ip, port (each also with .src and .dst) and vlan"
    )]
    Field(String),
    /// An invalid value for the field.
    #[error("{value:?} is not a valid {what}")]
    Value {
        /// The given value.
        value: String,
        /// The expected kind of value.
        what: &'static str,
    },
    /// Networks that cannot be mapped to each other.
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
        // Without a side, the old value selects the field.
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

/// Parses six bytes in hexadecimal, with colons or hyphens between them.
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

/// A MAC address from the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(
    /// Its bytes, in the order on the wire.
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
    /// Returns whether an address, 4 or 16 bytes, has this prefix.
    pub(super) fn contains(&self, address: &[u8]) -> bool {
        self.with_octets(|own| {
            own.len() == address.len() && joined(own, self.prefix, address)[..own.len()] == *address
        })
    }

    /// Returns an address with this prefix and the rest of the given one; `None` for one of the
    /// other family. The bytes beyond its length are zero.
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

/// Joins the first bits of one address with the others of another.
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
