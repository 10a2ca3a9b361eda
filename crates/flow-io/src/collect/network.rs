//! The networks whose datagrams are accepted, in CIDR notation.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network in CIDR notation: an address, and the number of its leading bits that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// An invalid network.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// The text is neither an address nor an address with a prefix.
    #[error("expected an address or a network, such as 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32")]
    Form,
    /// The prefix is longer than the address.
    #[error("the prefix is longer than an address: expected 0 to {longest}")]
    Prefix {
        /// The number of bits in the address.
        longest: u8,
    },
    /// The address has bits after the prefix.
    #[error("the address has bits after the prefix; the network is {network}")]
    HostBits {
        /// The address without these bits.
        network: Network,
    },
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let split = text.split_once('/');
        let (address, prefix) = split.map_or((text, None), |(start, end)| (start, Some(end)));
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Form)?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => longest,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                let prefix = digits.parse().map_err(|_| NetworkError::Form)?;
                if prefix > longest {
                    return Err(NetworkError::Prefix { longest });
                }
                prefix
            }
            Some(_) => return Err(NetworkError::Form),
        };
        let network = Self {
            address: masked(address, prefix),
            prefix,
        };
        if network.address != address {
            return Err(NetworkError::HostBits { network });
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Network {
    /// Returns whether the network contains the address. An IPv4-mapped IPv6 address counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.prefix) == self.address
    }
}

/// Returns the address without the bits after the prefix.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    let prefix = u32::from(prefix);
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
            Ipv4Addr::from_bits(v4.to_bits() & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_their_addresses() {
        for (network, inside, outside) in [
            ("192.0.2.0/24", "192.0.2.255", "192.0.3.0"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("0.0.0.0/0", "203.0.113.9", "2001:db8::1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("::/0", "2001:db8::1", "192.0.2.1"),
            ("192.0.2.0/24", "::ffff:192.0.2.9", "::192.0.2.9"),
        ] {
            let parsed: Network = network.parse().unwrap();
            assert!(
                parsed.contains(inside.parse().unwrap()),
                "{network} {inside}"
            );
            assert!(
                !parsed.contains(outside.parse().unwrap()),
                "{network} {outside}"
            );
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        let error = |text: &str| text.parse::<Network>().unwrap_err();
        for text in [
            "",
            "192.0.2",
            "host",
            "192.0.2.0/",
            "192.0.2.0/+8",
            "192.0.2.0/24/1",
        ] {
            assert_eq!(error(text), NetworkError::Form, "{text}");
        }
        assert_eq!(error("192.0.2.0/33"), NetworkError::Prefix { longest: 32 });
        assert_eq!(
            error("2001:db8::/129"),
            NetworkError::Prefix { longest: 128 }
        );
        assert_eq!(
            error("192.0.2.7/24").to_string(),
            "the address has bits after the prefix; the network is 192.0.2.0/24"
        );
    }
}
