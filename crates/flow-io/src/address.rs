//! Addresses of collectors, as people write them: `udp:HOST:PORT`.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use crate::OutputError;

/// The address of a collector that records are sent to: `udp:HOST:PORT` or `tcp:HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorAddress {
    pub(crate) transport: Transport,
    host: Host,
}

/// The address that a [`Collector`](crate::Collector) listens on: `udp:HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress(Host);

/// `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Host(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    Tcp,
}

impl FromStr for CollectorAddress {
    type Err = OutputError;

    fn from_str(text: &str) -> Result<Self, OutputError> {
        let (transport, host) = match text.split_once(':') {
            Some(("udp", host)) => (Transport::Udp, host),
            Some(("tcp", host)) => (Transport::Tcp, host),
            _ => return Err(OutputError::CollectorAddress),
        };
        match Host::parse(host) {
            Some((host, 1..)) => Ok(Self { transport, host }),
            _ => Err(OutputError::CollectorAddress),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = OutputError;

    fn from_str(text: &str) -> Result<Self, OutputError> {
        let host = text.strip_prefix("udp:").and_then(Host::parse);
        let (host, _) = host.ok_or(OutputError::ListenAddress)?;
        Ok(Self(host))
    }
}

impl fmt::Display for CollectorAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.transport {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        };
        write!(f, "{transport}:{}", self.host.0)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "udp:{}", self.0.0)
    }
}

impl CollectorAddress {
    /// Its first address.
    pub(crate) fn resolve(&self) -> Result<SocketAddr, OutputError> {
        let resolved = self.host.resolve();
        resolved.map_err(|error| socket_error(self, "find the address", error))
    }
}

impl ListenAddress {
    /// Its first address.
    pub(crate) fn resolve(&self) -> Result<SocketAddr, OutputError> {
        let resolved = self.0.resolve();
        resolved.map_err(|error| socket_error(self, "find the address", error))
    }
}

impl Host {
    /// The host, and its port. An address of IPv6 has its brackets, so that its last group is not
    /// taken for a port.
    fn parse(text: &str) -> Option<(Self, u16)> {
        let (name, port) = text.rsplit_once(':')?;
        let ambiguous = name.contains(':') && !(name.starts_with('[') && name.ends_with(']'));
        let port = port.parse().ok()?;
        (!name.is_empty() && !ambiguous).then(|| (Self(text.to_owned()), port))
    }

    fn resolve(&self) -> io::Result<SocketAddr> {
        let none = || io::Error::new(io::ErrorKind::NotFound, "it has no address");
        self.0.to_socket_addrs()?.next().ok_or_else(none)
    }
}

pub(crate) fn socket_error(
    address: &impl ToString,
    what: &'static str,
    source: io::Error,
) -> OutputError {
    OutputError::Socket {
        address: address.to_string(),
        what,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_collectors() {
        for good in [
            "udp:127.0.0.1:2055",
            "tcp:collector.example:4739",
            "udp:[::1]:9995",
        ] {
            let address: CollectorAddress = good.parse().unwrap();
            assert_eq!(address.to_string(), good);
        }
        for bad in [
            "",
            "127.0.0.1:2055",
            "udp:127.0.0.1",
            "udp::2055",
            "udp:127.0.0.1:0",
            "udp:127.0.0.1:65536",
            "udp:::1:2055",
            "sctp:127.0.0.1:4739",
        ] {
            assert!(bad.parse::<CollectorAddress>().is_err(), "{bad}");
        }
        assert!("udp:127.0.0.1:0".parse::<ListenAddress>().is_ok());
        assert!("tcp:127.0.0.1:2055".parse::<ListenAddress>().is_err());
    }
}
