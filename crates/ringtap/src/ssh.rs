//! The connection of an ssh session, which a capture in this session leaves out.
//!
//! sshd describes it in the environment variable `SSH_CONNECTION` (ssh(1)): the addresses and ports of both ends, as
//! the server's socket has them. The packets of other ssh connections are captured.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::process::parent_id;
use std::str::FromStr;

use ringtap_filter::process::Asked;

/// The environment variable of sshd.
const VARIABLE: &str = "SSH_CONNECTION";
/// The value that stands for the session that the command runs in.
const THIS: &str = "this";
/// Words of the filter language after which a filter looks behind a header in front of IP.
const MOVES: [&str; 5] = ["vlan", "mpls", "pppoes", "geneve", "vxlan"];

/// The session whose connection is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Session {
    /// The one that the command runs in.
    This,
    /// The one with this connection.
    Other(Connection),
}

/// A TCP connection: the addresses and ports of client and server, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    client: (IpAddr, u16),
    server: (IpAddr, u16),
}

/// A text that describes no connection.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("expected four words: the client's address and port, the server's address and port")]
    Words,
    #[error("{0:?} is not an IP address")]
    Address(String),
    #[error("{0:?} is not a port")]
    Port(String),
    #[error("one address is of IPv4, the other of IPv6")]
    Families,
}

/// The connection of the session cannot be found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SshError {
    #[error(
        "--exclude-ssh: not in an ssh session: {VARIABLE} is set neither here nor in a parent process; \
         give its value as --exclude-ssh=\"${VARIABLE}\""
    )]
    NoSession,
    #[error("--exclude-ssh: invalid {VARIABLE}: {0}")]
    Variable(ConnectionError),
}

impl FromStr for Session {
    type Err = ConnectionError;

    fn from_str(text: &str) -> Result<Self, ConnectionError> {
        match text {
            THIS => Ok(Self::This),
            text => text.parse().map(Self::Other),
        }
    }
}

impl Session {
    /// Returns the connection.
    ///
    /// # Errors
    /// The command does not run in an ssh session, or the environment variable is invalid.
    pub(crate) fn connection(&self) -> Result<Connection, SshError> {
        match self {
            Self::Other(connection) => Ok(*connection),
            Self::This => {
                let text = env::var(VARIABLE).ok().or_else(inherited);
                let text = text.ok_or(SshError::NoSession)?;
                text.parse().map_err(SshError::Variable)
            }
        }
    }
}

/// Returns the variable of the nearest parent process that has it: sudo(8) removes it.
fn inherited() -> Option<String> {
    let mut seen = HashSet::new();
    let mut id = parent_id();
    // A process may end while it is looked at, and its number may be used again.
    while id > 1 && seen.insert(id) {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        let found = environment.split(|byte| *byte == 0).find_map(|entry| {
            let entry = str::from_utf8(entry).ok()?;
            entry.strip_prefix(VARIABLE)?.strip_prefix('=')
        });
        if let Some(found) = found {
            return Some(found.to_owned());
        }
        id = parent_of(id)?;
    }
    None
}

/// Returns the parent of a process: the second field behind the name, which is in parentheses (proc_pid_stat(5)).
fn parent_of(id: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(1)?.parse().ok()
}

impl FromStr for Connection {
    type Err = ConnectionError;

    fn from_str(text: &str) -> Result<Self, ConnectionError> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let [client, client_port, server, server_port] = words[..] else {
            return Err(ConnectionError::Words);
        };
        let (client, server) = (address(client)?, address(server)?);
        if client.is_ipv4() != server.is_ipv4() {
            return Err(ConnectionError::Families);
        }
        Ok(Self {
            client: (client, port(client_port)?),
            server: (server, port(server_port)?),
        })
    }
}

/// Parses an address. The interface of a link-local one is no part of its packets, and an IPv4 address in the form of
/// IPv6 is IPv4 in them.
fn address(text: &str) -> Result<IpAddr, ConnectionError> {
    let parsed = match text.split_once('%') {
        Some((address, _)) => address.parse().map(|address: Ipv6Addr| address.into()),
        None => text.parse(),
    };
    let parsed: Result<IpAddr, _> = parsed;
    match parsed {
        Ok(address) => Ok(address.to_canonical()),
        Err(_) => Err(ConnectionError::Address(text.to_owned())),
    }
}

fn port(text: &str) -> Result<u16, ConnectionError> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|port| is_number && *port > 0);
    port.ok_or_else(|| ConnectionError::Port(text.to_owned()))
}

impl Connection {
    /// Returns the filter for the packets that an expression matches, without those of the connection. An invalid
    /// expression is returned as it is, so that the compiler's report shows what the user wrote.
    pub(crate) fn left_out_of(&self, expression: &str, extensions: bool) -> String {
        let left_out = format!("not ({})", self.expression());
        if expression.trim().is_empty() {
            return left_out;
        }
        // An expression that is valid alone cannot end the parentheses around it.
        if Asked::of(expression, extensions).is_err() {
            return expression.to_owned();
        }
        let mut text = format!("{left_out} and ({expression})");
        if MOVES.iter().any(|word| expression.contains(word)) {
            text += " and ";
            text += &left_out;
        }
        text
    }

    /// Returns the filter for the packets of the connection, in both directions.
    fn expression(&self) -> String {
        let way = |from: (IpAddr, u16), to: (IpAddr, u16)| {
            format!(
                "(src host {} and src port {} and dst host {} and dst port {})",
                from.0, from.1, to.0, to.1
            )
        };
        format!(
            "tcp and ({} or {})",
            way(self.client, self.server),
            way(self.server, self.client)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Connection, ConnectionError> {
        text.parse()
    }

    #[test]
    fn connections_are_parsed() {
        for (text, client, server) in [
            ("192.0.2.1 50000 192.0.2.2 22", "192.0.2.1", "192.0.2.2"),
            (
                "::ffff:192.0.2.1 50000 ::ffff:192.0.2.2 22",
                "192.0.2.1",
                "192.0.2.2",
            ),
            (
                "2001:db8::1 50000 2001:db8::2 22",
                "2001:db8::1",
                "2001:db8::2",
            ),
            ("fe80::1%eth0 50000 fe80::2%eth0 22", "fe80::1", "fe80::2"),
        ] {
            let expected = Connection {
                client: (client.parse().unwrap(), 50_000),
                server: (server.parse().unwrap(), 22),
            };
            assert_eq!(parsed(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "this",
            "192.0.2.1 50000 192.0.2.2",
            "192.0.2.1 50000 192.0.2.2 22 0",
            "UNKNOWN 65535 UNKNOWN 65535",
            "192.0.2.1 0 192.0.2.2 22",
            "192.0.2.1 +22 192.0.2.2 22",
            "192.0.2.1 65536 192.0.2.2 22",
            "192.0.2.1%eth0 50000 192.0.2.2 22",
            "192.0.2.1 50000 2001:db8::2 22",
            "example.org 50000 192.0.2.2 22",
            "192.0.2.1)or(tcp 50000 192.0.2.2 22",
        ] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_filter_leaves_out_one_connection() {
        let connection = parsed("fe80::1%a) 50000 fe80::2 22").unwrap();
        let alone = "not (tcp and ((src host fe80::1 and src port 50000 and dst host fe80::2 and dst port 22) or \
                     (src host fe80::2 and src port 22 and dst host fe80::1 and dst port 50000)))";
        assert_eq!(connection.left_out_of(" ", false), alone);
        assert_eq!(
            connection.left_out_of("tcp or udp", false),
            format!("{alone} and (tcp or udp)")
        );
        assert_eq!(
            connection.left_out_of("vlan and tcp", false),
            format!("{alone} and (vlan and tcp) and {alone}")
        );
        for invalid in ["tcp) or (udp", "tcp prt 80"] {
            assert_eq!(connection.left_out_of(invalid, false), invalid);
        }
    }
}
