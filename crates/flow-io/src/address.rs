//! The addresses of collectors: `udp:HOST:PORT`.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use crate::OutputError;

/// The address of a collector that receives records: `udp:HOST:PORT`, `tcp:HOST:PORT`, or
/// `clickhouse:http://HOST:PORT/TABLE` (or `https`), or `kafka:BROKER:PORT,…/TOPIC`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorAddress(pub(crate) Address);

/// The address that a [`Collector`](crate::Collector) listens on: `udp:HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress(pub(crate) Address);

/// `TRANSPORT:HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address(String);

impl FromStr for CollectorAddress {
    type Err = OutputError;

    fn from_str(text: &str) -> Result<Self, OutputError> {
        let database = Address(text.to_owned());
        match Address::parse(text) {
            Some((address, 1..)) => Ok(Self(address)),
            _ if database.clickhouse().or(database.kafka()).is_some() => Ok(Self(database)),
            _ => Err(OutputError::CollectorAddress),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = OutputError;

    fn from_str(text: &str) -> Result<Self, OutputError> {
        match Address::parse(text) {
            Some((address, _)) if !address.is_tcp() => Ok(Self(address)),
            _ => Err(OutputError::ListenAddress),
        }
    }
}

impl fmt::Display for CollectorAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.0)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.0)
    }
}

impl Address {
    /// Returns the address and its port. An IPv6 address keeps its brackets, so that its last group is not
    /// taken for a port.
    fn parse(text: &str) -> Option<(Self, u16)> {
        let (transport, host) = text.split_once(':')?;
        let (name, port) = host.rsplit_once(':')?;
        let ambiguous = name.contains(':') && !(name.starts_with('[') && name.ends_with(']'));
        let is_valid = matches!(transport, "udp" | "tcp") && !name.is_empty() && !ambiguous;
        let port = port.parse().ok()?;
        is_valid.then(|| (Self(text.to_owned()), port))
    }

    pub(crate) fn is_tcp(&self) -> bool {
        self.0.starts_with("tcp:")
    }

    /// Returns the server's URL and the table of `clickhouse:URL/TABLE`.
    pub(crate) fn clickhouse(&self) -> Option<(&str, &str)> {
        let url = self.0.strip_prefix("clickhouse:")?;
        let host = url
            .strip_prefix("http://")
            .or_else(|| url.strip_prefix("https://"))?;
        let (host, table) = host.split_once('/')?;
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte);
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let is_name = |part: &str| !part.is_empty() && part.bytes().all(is_word);
        let is_valid = !host.is_empty()
            && host.bytes().all(is_host)
            && table.split('.').count() <= 2
            && table.split('.').all(is_name);
        is_valid.then(|| (&url[..url.len() - table.len()], table))
    }

    /// Returns the brokers and the topic of `kafka:BROKER:PORT,…/TOPIC`.
    pub(crate) fn kafka(&self) -> Option<(&str, &str)> {
        let (brokers, topic) = self.0.strip_prefix("kafka:")?.split_once('/')?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_host = |byte: u8| is_name(byte) || b":[]".contains(&byte);
        let is_broker = |broker: &str| {
            let port = broker
                .rsplit_once(':')
                .map(|(host, port)| (host, port.parse::<u16>()));
            let is_whole = matches!(port, Some((host, Ok(1..))) if !host.is_empty());
            is_whole && broker.bytes().all(is_host)
        };
        let is_topic = (1..=249).contains(&topic.len()) && topic.bytes().all(is_name);
        (is_topic && brokers.split(',').all(is_broker)).then_some((brokers, topic))
    }

    /// Returns the first address of the host.
    pub(crate) fn resolve(&self) -> Result<SocketAddr, OutputError> {
        let host = self.0.split_once(':').map_or("", |(_, host)| host);
        let none = || io::Error::new(io::ErrorKind::NotFound, "it has no address");
        let found = host.to_socket_addrs();
        found
            .and_then(|mut found| found.next().ok_or_else(none))
            .map_err(self.failed("find the address"))
    }

    /// Returns the error of a socket operation.
    pub(crate) fn failed(&self, what: &'static str) -> impl Fn(io::Error) -> OutputError + use<'_> {
        move |source| OutputError::Socket {
            address: self.0.clone(),
            what,
            source,
        }
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
            "clickhouse:http://127.0.0.1:8123/flows",
            "clickhouse:https://db.example:8443/net.flows",
            "kafka:127.0.0.1:9092/flows",
            "kafka:one.example:9092,[2001:db8::1]:9092/net.flows",
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
            "clickhouse:127.0.0.1:8123/flows",
            "kafka:127.0.0.1/flows",
            "kafka:127.0.0.1:9092/",
            "kafka:127.0.0.1:9092,/flows",
            "kafka:127.0.0.1:9092/flows/more",
            "clickhouse:http://127.0.0.1:8123/",
            "clickhouse:http://127.0.0.1:8123/a.b.c",
            "clickhouse:http://127.0.0.1:8123/flows;DROP",
            "clickhouse:http://user:secret@host/flows",
        ] {
            assert!(bad.parse::<CollectorAddress>().is_err(), "{bad}");
        }
        assert!("udp:127.0.0.1:0".parse::<ListenAddress>().is_ok());
        assert!("tcp:127.0.0.1:2055".parse::<ListenAddress>().is_err());
    }
}
