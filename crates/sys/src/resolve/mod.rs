//! Resolves the names of a filter: hosts, networks, services, protocols, Ethernet addresses.
//!
//! Takes names and returns numbers; it does not parse filter expressions, and the caller handles numbers that
//! stand for names. The C library resolves hosts (DNS, `/etc/hosts` and other sources of nsswitch.conf(5)).
//! The other names come from files such as services(5), read again each time. If a minimal system lacks
//! `services` or `protocols`, a built-in table is used.
//!
//! Source: services(5), protocols(5), networks(5), ethers(5), getaddrinfo(3).

mod builtin;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use ringtap_packet::names;

use crate::{Error, Result};

/// The largest database that is read, in bytes; the rest is ignored.
const DATABASE_MAX: u64 = 16 << 20;

/// The system's names, from the files of a folder (`/etc`) and from the C library.
#[derive(Clone, Debug)]
pub struct SystemNames {
    folder: PathBuf,
}

/// A service: a port of a transport protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The port.
    pub port: u16,
    /// The transport protocol's name in lower case: `tcp`, `udp`, `sctp`, `dccp`.
    pub protocol: String,
}

impl Default for SystemNames {
    fn default() -> Self {
        Self::new()
    }
}

impl SystemNames {
    /// Uses the names of this system.
    #[must_use]
    pub fn new() -> Self {
        Self::in_folder(Path::new("/etc"))
    }

    /// Uses the files of another folder than `/etc`; hosts are still resolved by the C library.
    #[must_use]
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// Returns all addresses of a host, IPv4 and IPv6, in the order of the C library, each once.
    ///
    /// # Errors
    /// The name is unknown, or no server answers; the error holds the C library's reason.
    pub fn host(&self, name: &str) -> Result<Vec<IpAddr>> {
        let found = (name, 0)
            .to_socket_addrs()
            .map_err(|e| Error::new("getaddrinfo", name, e))?;
        let mut addresses = Vec::new();
        for address in found.map(|socket| socket.ip()) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        Ok(addresses)
    }

    /// Returns the number of a network, as networks(5) and getnetbyname(3) do: `127.0.0.0` is
    /// 0x7f00_0000, and a shorter form is aligned right (`127` is 0x7f). Returns `None` if the name
    /// is unknown.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn network(&self, name: &str) -> Result<Option<u32>> {
        let Some(text) = self.read("networks")? else {
            return Ok(None);
        };
        Ok(names::lines(&text)
            .filter(|line| is_called(*line, name))
            .find_map(|line| names::network_number(line.second()?)))
    }

    /// Returns the ports of a service, by its name or an alias, one for each transport protocol;
    /// empty if the name is unknown.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn service(&self, name: &str) -> Result<Vec<Service>> {
        let text = self.read("services")?;
        let text = text.as_deref().unwrap_or(builtin::SERVICES.as_bytes());
        let mut services: Vec<Service> = Vec::new();
        for line in names::lines(text).filter(|line| is_called(*line, name)) {
            let Some((port, protocol)) = line.second().and_then(names::service) else {
                continue;
            };
            let service = Service {
                port,
                protocol: protocol.to_ascii_lowercase(),
            };
            // As getservbyname(3): the first line for a name and a protocol wins.
            if services
                .iter()
                .all(|known| known.protocol != service.protocol)
            {
                services.push(service);
            }
        }
        Ok(services)
    }

    /// Returns the number of a protocol above IP, by its name or an alias; `None` if it is unknown.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn protocol(&self, name: &str) -> Result<Option<u8>> {
        let text = self.read("protocols")?;
        let text = text.as_deref().unwrap_or(builtin::PROTOCOLS.as_bytes());
        Ok(names::lines(text)
            .filter(|line| is_called(*line, name))
            .find_map(|line| names::number(line.second()?)))
    }

    /// Returns the Ethernet address of a host by ethers(5); `None` if it is unknown.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn ether(&self, name: &str) -> Result<Option<[u8; 6]>> {
        let Some(text) = self.read("ethers")? else {
            return Ok(None);
        };
        Ok(names::lines(&text)
            .filter(|line| line.second() == Some(name))
            .find_map(|line| names::ethernet_address(line.first()?)))
    }

    /// Returns a database's text; `None` if the system has none.
    fn read(&self, file: &str) -> Result<Option<Vec<u8>>> {
        let path = self.folder.join(file);
        let mut text = Vec::new();
        let read =
            File::open(&path).and_then(|file| file.take(DATABASE_MAX).read_to_end(&mut text));
        match read {
            Ok(_) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::new("read", path.display().to_string(), error)),
        }
    }
}

/// Returns whether a line defines the name or has it as an alias.
fn is_called(line: names::Line<'_>, name: &str) -> bool {
    line.names().any(|one| one == name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A folder of databases, removed after the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str, files: &[(&str, &[u8])]) -> Self {
            let name = format!("ringtap-names-{}-{test}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir(&folder).expect("a folder of one's own");
            for (file, text) in files {
                fs::write(folder.join(file), text).expect("a file of one's own");
            }
            Self(folder)
        }

        fn names(&self) -> SystemNames {
            SystemNames::in_folder(&self.0)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("a folder of one's own");
        }
    }

    fn service(port: u16, protocol: &str) -> Service {
        Service {
            port,
            protocol: protocol.to_owned(),
        }
    }

    #[test]
    fn services_by_name_and_alias() {
        let text = b"# comment\n\nhttp 80/tcp www web # the web\nhttp 81/tcp\n\
            domain 53/tcp\ndomain\t53/udp\n";
        let folder = Folder::new("services", &[("services", text)]);
        let names = folder.names();
        assert_eq!(names.service("www").expect("read"), [service(80, "tcp")]);
        assert_eq!(names.service("http").expect("read"), [service(80, "tcp")]);
        let both = [service(53, "tcp"), service(53, "udp")];
        assert_eq!(names.service("domain").expect("read"), both);
        for name in ["the", "comment", "#", "80/tcp", "80", "HTTP", "https", ""] {
            assert_eq!(names.service(name).expect("read"), [], "{name}");
        }
    }

    #[test]
    fn odd_lines_are_passed_over() {
        let text = b"a\nb 80\nb /tcp\nb 80/\nb 65536/tcp\nb -1/tcp\nb x/tcp\n\
            \xff\xfe 1/tcp b\nb 7/tcp\r\nc 0x10/tcp\nd 9/udp";
        let folder = Folder::new("odd", &[("services", text)]);
        let names = folder.names();
        assert_eq!(names.service("a").expect("read"), []);
        assert_eq!(names.service("b").expect("read"), [service(1, "tcp")]);
        assert_eq!(names.service("c").expect("read"), []);
        assert_eq!(names.service("d").expect("read"), [service(9, "udp")]);
    }

    #[test]
    fn tables_answer_where_files_are_missing() {
        let folder = Folder::new("missing", &[]);
        let names = folder.names();
        let both = [service(53, "tcp"), service(53, "udp")];
        assert_eq!(names.service("domain").expect("built in"), both);
        assert_eq!(
            names.service("https").expect("built in")[0],
            service(443, "tcp")
        );
        assert_eq!(names.protocol("tcp").expect("built in"), Some(6));
        assert_eq!(names.protocol("OSPF").expect("built in"), Some(89));
        assert_eq!(names.protocol("nonsense").expect("built in"), None);
        assert_eq!(names.network("loopback").expect("no file"), None);
        assert_eq!(names.ether("router").expect("no file"), None);
    }

    #[test]
    fn built_in_tables_hold_no_odd_line() {
        let mut lines = 0;
        for line in names::lines(builtin::SERVICES.as_bytes()) {
            assert!(line.second().and_then(names::service).is_some(), "{line:?}");
            lines += 1;
        }
        for line in names::lines(builtin::PROTOCOLS.as_bytes()) {
            assert!(
                line.second().and_then(names::number::<u8>).is_some(),
                "{line:?}"
            );
            lines += 1;
        }
        assert!(lines > 100, "{lines}");
    }

    #[test]
    fn protocols_networks_and_ethers() {
        let folder = Folder::new(
            "rest",
            &[
                ("protocols", b"ip 0 IP\nmptcp 262 MPTCP\nmine 250 MINE"),
                (
                    "networks",
                    b"loopback 127.0.0.0\nshort 127\nbad 1.2.3.4.5\nodd 300.1\nnet 10.1 alias",
                ),
                (
                    "ethers",
                    b"08:00:20:00:61:CA pal\n8:0:2b:1:2:3 short\n08:00:20 bad\n",
                ),
            ],
        );
        let names = folder.names();
        assert_eq!(names.protocol("MINE").expect("read"), Some(250));
        assert_eq!(names.protocol("mptcp").expect("read"), None);
        assert_eq!(names.network("loopback").expect("read"), Some(0x7f00_0000));
        assert_eq!(names.network("short").expect("read"), Some(0x7f));
        assert_eq!(names.network("alias").expect("read"), Some(0x0a01));
        assert_eq!(names.network("bad").expect("read"), None);
        assert_eq!(names.network("odd").expect("read"), None);
        assert_eq!(
            names.ether("pal").expect("read"),
            Some([8, 0, 0x20, 0, 0x61, 0xca])
        );
        assert_eq!(
            names.ether("short").expect("read"),
            Some([8, 0, 0x2b, 1, 2, 3])
        );
        assert_eq!(names.ether("bad").expect("read"), None);
    }

    #[test]
    fn an_unreadable_database_is_an_error() {
        let folder = Folder::new("unreadable", &[]);
        fs::create_dir(folder.0.join("services")).expect("a folder in place of the file");
        let error = folder
            .names()
            .service("http")
            .expect_err("a folder cannot be read");
        assert!(error.to_string().contains("services"), "{error}");
    }

    #[test]
    fn hosts_are_all_their_addresses() {
        let names = SystemNames::new();
        let addresses = names
            .host("127.0.0.1")
            .expect("a number is its own address");
        assert_eq!(
            addresses,
            ["127.0.0.1".parse::<IpAddr>().expect("an address")]
        );
        let error = names
            .host("no\0host")
            .expect_err("no name holds a zero byte");
        assert_eq!(error.call, "getaddrinfo");
    }
}
