//! Packets that sockets dropped, socket by socket: UDP, UDP-Lite, raw and ping sockets.
//!
//! Source: `udp4_seq_show` of net/ipv4/udp.c, `__ip6_dgram_sock_seq_show` of net/ipv6/datagram.c.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The files of sockets that count what they drop.
const FILES: [&str; 8] = [
    "udp", "udp6", "udplite", "udplite6", "raw", "raw6", "icmp", "icmp6",
];
/// Columns: the local address, the number of the socket's file, and packets that were dropped.
const LOCAL: usize = 1;
const INODE: usize = 9;
const DROPS: usize = 12;

/// A socket, with the packets that it dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Socket {
    pub(super) protocol: &'static str,
    pub(super) local: SocketAddr,
    pub(super) inode: u64,
    pub(super) drops: u64,
}

/// Returns all such sockets of the network namespace, by the numbers of their files.
pub(super) fn read() -> HashMap<u64, Socket> {
    let mut sockets = HashMap::new();
    for protocol in FILES {
        // A kernel without IPv6 has half of them.
        let text = fs::read_to_string(format!("/proc/net/{protocol}")).unwrap_or_default();
        let parsed = text
            .lines()
            .skip(1)
            .filter_map(|line| parse(protocol, line));
        sockets.extend(parsed.map(|socket| (socket.inode, socket)));
    }
    sockets
}

fn parse(protocol: &'static str, line: &str) -> Option<Socket> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let word = |column: usize| words.get(column).copied();
    Some(Socket {
        protocol,
        local: address(word(LOCAL)?)?,
        inode: word(INODE)?.parse().ok()?,
        drops: word(DROPS)?.parse().ok()?,
    })
}

/// Parses an address and a port in hexadecimal; the address is in words of the host's order.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words = address.as_bytes().chunks(8);
    let words = words.map(|word| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok());
    let words: Vec<u32> = words.collect::<Option<_>>()?;
    let ip = match *words {
        [word] => IpAddr::V4(Ipv4Addr::from(word.to_ne_bytes())),
        [a, b, c, d] => {
            let mut bytes = [0; 16];
            for (at, word) in bytes.chunks_exact_mut(4).zip([a, b, c, d]) {
                at.copy_from_slice(&word.to_ne_bytes());
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Returns a process that has the socket open, as far as this process may look: its name and number.
pub(super) fn owner(inode: u64) -> Option<(String, u32)> {
    let wanted = format!("socket:[{inode}]");
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let Ok(files) = fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        let is_it = |file: fs::DirEntry| {
            fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == wanted.as_str())
        };
        if files.flatten().any(is_it) {
            let name = fs::read(process.path().join("comm")).unwrap_or_default();
            let name = ringtap_sys::netlink::escape(name.trim_ascii_end());
            return Some((name, pid));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_parsed() {
        let line = " 4211: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000  101        0 23456 2 00000000abcdef01 17";
        let socket = parse("udp", line).expect("a socket");
        let expected: SocketAddr = if cfg!(target_endian = "little") {
            "127.0.0.1:53".parse().expect("an address")
        } else {
            "1.0.0.127:53".parse().expect("an address")
        };
        assert_eq!(
            (socket.local, socket.inode, socket.drops),
            (expected, 23456, 17)
        );
        assert_eq!(parse("udp", "sl  local_address rem_address"), None);
        assert_eq!(
            address("00:1"),
            Some("0.0.0.0:1".parse().expect("an address"))
        );
        assert_eq!(address("0000000000000000:1"), None);
    }
}
