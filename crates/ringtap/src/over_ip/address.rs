//! Addresses of servers after `-r`, and addresses to listen on after `-w`.
//!
//! `tcp:HOST:PORT` and `tcp-listen:[ADDRESS:]PORT` are without encryption. `tls:` and `tls-listen:` have the files of TLS
//! behind the port: `tls:HOST:PORT,ca=FILE,cert=FILE,key=FILE`.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};

use crate::tls::{ClientFiles, Files};

/// The starts of a server's name after `-r`.
const READ: [&str; 2] = ["tcp:", "tls:"];
/// The starts of an address after `-w` on which clients are served.
const WRITE: [&str; 2] = ["tcp-listen:", "tls-listen:"];

/// An invalid address on the command line.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum AddressError {
    /// It is no name and port of a server.
    #[error(
        "expected tcp:HOST:PORT or tls:HOST:PORT,ca=FILE[,cert=FILE,key=FILE], such as tcp:127.0.0.1:57012 or \
         tcp:[::1]:57012; a file is ./{name}"
    )]
    Server { name: String },
    /// It is no address and port to listen on.
    #[error(
        "expected tcp-listen:PORT (on 127.0.0.1), tcp-listen:ADDRESS:PORT, such as tcp-listen:[::]:57012, or \
         tls-listen:[ADDRESS:]PORT,cert=FILE,key=FILE[,client-ca=FILE]; a file is ./{name}"
    )]
    Listen { name: String },
}

/// Returns the parser of files to read, one of which may be a server.
pub(crate) fn readable() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match (is_server(&path), Remote::of(&path)) {
        (true, None) => Err(AddressError::Server { name: shown(&path) }),
        _ => Ok(path),
    })
}

/// Returns the parser of files to write, which may be an address to listen on.
pub(crate) fn writable() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match (is_listener(&path), Local::of(&path)) {
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

fn begins(name: &OsStr, with: [&str; 2]) -> bool {
    let name = name.as_encoded_bytes();
    with.iter().any(|with| name.starts_with(with.as_bytes()))
}

/// Returns the files that reading from a server needs.
pub(crate) fn files(path: &Path) -> Vec<PathBuf> {
    let tls = Remote::of(path).and_then(|remote| remote.tls);
    let Some(ClientFiles { authorities, own }) = tls else {
        return Vec::new();
    };
    let own = own.map(|(chain, key)| [chain, key]);
    own.into_iter().flatten().chain([authorities]).collect()
}

/// A server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Remote {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: Option<ClientFiles>,
}

impl Remote {
    /// Returns the server with this name. `None` if it is none.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let given = Given::of(path, READ)?;
        let (host, port) = given.place.rsplit_once(':')?;
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
        let tls = match given.tls {
            None => None,
            Some(files) => {
                let [authorities, chain, key] = named(&files, ["ca", "cert", "key"])?;
                let own = match (chain, key) {
                    (Some(chain), Some(key)) => Some((chain, key)),
                    (None, None) => None,
                    _ => return None,
                };
                let authorities = authorities?;
                Some(ClientFiles { authorities, own })
            }
        };
        let host = host.to_owned();
        (!host.is_empty()).then_some(Self { host, port, tls })
    }
}

/// An address to listen on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Local {
    pub(super) address: SocketAddr,
    pub(super) tls: Option<Files>,
}

impl Local {
    /// Returns the address with this name. A port alone is one of the loopback interface. `None` if it is none.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let given = Given::of(path, WRITE)?;
        let loopback = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let port = given.place.parse().ok().map(loopback);
        let address = port.or_else(|| given.place.parse().ok())?;
        let tls = match given.tls {
            None => None,
            Some(files) => {
                let [chain, key, authorities] = named(&files, ["cert", "key", "client-ca"])?;
                Some(Files {
                    chain: chain?,
                    key: key?,
                    authorities,
                })
            }
        };
        Some(Self { address, tls })
    }
}

/// The parts of an address.
struct Given<'a> {
    place: &'a str,
    /// Names and values behind the place, with TLS.
    tls: Option<Vec<(&'a str, &'a str)>>,
}

impl<'a> Given<'a> {
    fn of(path: &'a Path, [plain, secure]: [&str; 2]) -> Option<Self> {
        let text = path.to_str()?;
        if let Some(place) = text.strip_prefix(plain) {
            return Some(Self { place, tls: None });
        }
        let mut parts = text.strip_prefix(secure)?.split(',');
        let place = parts.next()?;
        let files: Option<Vec<(&str, &str)>> = parts.map(|part| part.split_once('=')).collect();
        let tls = Some(files?);
        Some(Self { place, tls })
    }
}

/// Returns the files with these names. `None` if there are others, or one twice.
fn named<const N: usize>(files: &[(&str, &str)], names: [&str; N]) -> Option<[Option<PathBuf>; N]> {
    let mut found = [const { None }; N];
    for (name, value) in files {
        let at = names.iter().position(|known| known == name)?;
        if value.is_empty() || found[at].replace(PathBuf::from(value)).is_some() {
            return None;
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_a_name_and_a_port() {
        let of = |text: &str| {
            let remote = Remote::of(Path::new(text))?;
            Some((remote.host, remote.port))
        };
        assert_eq!(
            of("tcp:localhost:57012"),
            Some(("localhost".to_owned(), 57012))
        );
        assert_eq!(of("tcp:[::1]:1"), Some(("::1".to_owned(), 1)));
        for wrong in [
            "tcp:",
            "tcp:host",
            "tcp::1",
            "tcp:h:0",
            "tcp:h:65536",
            "tcp:::1:5",
            "tcp:h:5,ca=x",
            "tls:h:5",
            "tls:h:5,ca=",
            "tls:h:5,ca=x,ca=y",
            "tls:h:5,ca=x,cert=y",
            "tls:h:5,ca=x,colour=y",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_port_alone_is_on_the_loopback_interface() {
        let of = |text: &str| Local::of(Path::new(text)).map(|local| local.address.to_string());
        assert_eq!(of("tcp-listen:57012").as_deref(), Some("127.0.0.1:57012"));
        assert_eq!(of("tcp-listen:0.0.0.0:7").as_deref(), Some("0.0.0.0:7"));
        assert_eq!(of("tcp-listen:[::]:7").as_deref(), Some("[::]:7"));
        for wrong in [
            "tcp-listen:",
            "tcp-listen:host:7",
            "tcp-listen:70000",
            "tcp-listen::7",
            "tls-listen:7",
            "tls-listen:7,cert=x",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn files_of_tls_are_behind_the_port() {
        let local = Local::of(Path::new("tls-listen:7,key=k,cert=c,client-ca=a"));
        let files = Files {
            chain: "c".into(),
            key: "k".into(),
            authorities: Some("a".into()),
        };
        assert_eq!(local.and_then(|local| local.tls), Some(files));
        let remote = Path::new("tls:[::1]:7,ca=a,cert=c,key=k");
        assert_eq!(files_of(remote), ["c", "k", "a"]);
        assert_eq!(files_of(Path::new("tls:h:7,ca=a")), ["a"]);
        assert!(files_of(Path::new("tcp:h:7")).is_empty());
    }

    fn files_of(path: &Path) -> Vec<String> {
        super::files(path).iter().map(|path| shown(path)).collect()
    }
}
