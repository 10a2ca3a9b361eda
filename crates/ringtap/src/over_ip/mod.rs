//! PCAP over IP: captures read from a server (`-r tcp:HOST:PORT`) and served to clients
//! (`-w tcp-listen:ADDRESS:PORT`).
//!
//! The server side is [`Server`]. Addresses are checked when the command line is parsed.

mod blocks;
mod server;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser};

pub(crate) use server::Server;

/// The start of a server's name after `-r`.
const READ: &str = "tcp:";
/// The start of an address after `-w` on which clients are served.
const WRITE: &str = "tcp-listen:";
/// How long a server may take to accept a connection, for each of its addresses.
const PATIENCE: Duration = Duration::from_secs(10);

/// An invalid address on the command line.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum AddressError {
    /// It is no name and port of a server.
    #[error(
        "expected tcp:HOST:PORT, such as tcp:127.0.0.1:57012 or tcp:[::1]:57012; a file is ./{name}"
    )]
    Server { name: String },
    /// It is no address and port to listen on.
    #[error(
        "expected tcp-listen:PORT (on 127.0.0.1) or tcp-listen:ADDRESS:PORT, such as tcp-listen:[::]:57012; \
         a file is ./{name}"
    )]
    Listen { name: String },
}

/// Returns the parser of files to read, one of which may be a server.
pub(crate) fn readable() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match (is_server(&path), server_of(&path)) {
        (true, None) => Err(AddressError::Server { name: shown(&path) }),
        _ => Ok(path),
    })
}

/// Returns the parser of files to write, which may be an address to listen on.
pub(crate) fn writable() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match (is_listener(&path), address_of(&path)) {
        (true, None) => Err(AddressError::Listen { name: shown(&path) }),
        _ => Ok(path),
    })
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Returns whether the name stands for a server to read from.
pub(crate) fn is_server(path: &Path) -> bool {
    begins(path.as_os_str(), READ)
}

/// Returns whether the name stands for an address to listen on.
pub(crate) fn is_listener(path: &Path) -> bool {
    begins(path.as_os_str(), WRITE)
}

fn begins(name: &OsStr, with: &str) -> bool {
    name.as_encoded_bytes().starts_with(with.as_bytes())
}

/// Returns name and port of a server.
fn server_of(path: &Path) -> Option<(&str, u16)> {
    let (host, port) = path.to_str()?.strip_prefix(READ)?.rsplit_once(':')?;
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let host = match bare {
        Some(bare) => bare,
        // Without brackets it is unclear where an IPv6 address ends.
        None if host.contains(':') => return None,
        None => host,
    };
    let port = port.parse().ok().filter(|&port| port != 0)?;
    (!host.is_empty()).then_some((host, port))
}

/// Returns the address to listen on. A port alone is one of the loopback interface.
fn address_of(path: &Path) -> Option<SocketAddr> {
    let text = path.to_str()?.strip_prefix(WRITE)?;
    let loopback = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let port = text.parse().ok().map(loopback);
    port.or_else(|| text.parse().ok())
}

/// Connects to the server with this name, and returns the connection.
///
/// # Errors
/// The name is unknown, or no address of it accepts the connection.
pub(crate) fn connect(path: &Path) -> io::Result<File> {
    let server = server_of(path).ok_or(io::ErrorKind::InvalidInput)?;
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for address in server.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(OwnedFd::from(stream).into()),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Listens on the address with this name. `None` if the name is that of a file. Ports below 1024 need a
/// privilege.
///
/// # Errors
/// The address is not one of this host, or is in use.
pub(crate) fn listen(path: &Path) -> io::Result<Option<TcpListener>> {
    let Some(address) = address_of(path) else {
        return Ok(None);
    };
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(Some(listener))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_a_name_and_a_port() {
        let of = |text: &'static str| server_of(Path::new(text));
        assert_eq!(of("tcp:localhost:57012"), Some(("localhost", 57012)));
        assert_eq!(of("tcp:[::1]:1"), Some(("::1", 1)));
        for wrong in [
            "tcp:",
            "tcp:host",
            "tcp::1",
            "tcp:h:0",
            "tcp:h:65536",
            "tcp:::1:5",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_port_alone_is_on_the_loopback_interface() {
        let of = |text: &str| address_of(Path::new(text)).map(|address| address.to_string());
        assert_eq!(of("tcp-listen:57012").as_deref(), Some("127.0.0.1:57012"));
        assert_eq!(of("tcp-listen:0.0.0.0:7").as_deref(), Some("0.0.0.0:7"));
        assert_eq!(of("tcp-listen:[::]:7").as_deref(), Some("[::]:7"));
        for wrong in [
            "tcp-listen:",
            "tcp-listen:host:7",
            "tcp-listen:70000",
            "tcp-listen::7",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
