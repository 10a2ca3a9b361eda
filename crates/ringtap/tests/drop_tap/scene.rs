//! A wire whose right end drops packets, a capture of drops there, and frames for it.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use ringtap_sys::packet::inject::Injector;
use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::process::Running;
use serde_json::Value;

pub(crate) const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Protocols of IPv4.
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// A running capture of drops on one end of a wire.
pub(crate) struct Capture {
    running: Running,
    folder: tempfile::TempDir,
    namespace: u64,
}

/// The result of a capture.
pub(crate) struct Found {
    /// The objects that `dump --json` prints, in this namespace only.
    pub(crate) packets: Vec<Value>,
    /// The lines that `dump` prints.
    pub(crate) lines: Vec<String>,
    /// Standard error of the capture.
    pub(crate) summary: String,
}

impl Capture {
    /// Starts a capture on the side's device, and waits until it captures.
    pub(crate) fn start(side: &Side, arguments: &[&str]) -> Self {
        let device = format!("drop:{}", side.device);
        Self::on(&device, side, arguments)
    }

    /// Starts a capture on a device.
    pub(crate) fn on(device: &str, side: &Side, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = side.namespace.command(RINGTAP);
        command
            .args(["dump", "-w", "drops.pcapng", "-i", device])
            .args(arguments);
        command.current_dir(folder.path());
        let mut running = Running::start_piped(&mut command).expect("ringtap starts");
        let told = running.wait_until_told("capturing on drop:", LIMIT);
        told.unwrap_or_else(|error| panic!("{error}: {}", running.said()));
        Self {
            running,
            folder,
            namespace: side.namespace.inode().expect("a namespace"),
        }
    }

    /// Ends the capture, and reads its file.
    pub(crate) fn finish(self) -> Found {
        self.running.signal("INT").expect("a signal");
        let output = self.running.wait(LIMIT).expect("an end");
        let summary = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{summary}");
        let file = self.folder.path().join("drops.pcapng");
        let objects = read(&file, &["--json"]);
        let objects = objects
            .iter()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        let is_here =
            |packet: &Value| packet["drop"]["network_namespace"].as_u64() == Some(self.namespace);
        Found {
            packets: objects.filter(is_here).collect(),
            lines: read(&file, &["-n"]),
            summary,
        }
    }
}

/// Returns the lines that `dump -r` prints.
pub(crate) fn read(file: &std::path::Path, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new(RINGTAP);
    command.args(["dump", "-r"]).arg(file).args(arguments);
    let output = command.output().expect("ringtap runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().map(str::to_owned).collect()
}

impl Found {
    /// Returns the packets with an identification of IPv4.
    pub(crate) fn with_id(&self, id: u16) -> Vec<&Value> {
        let packets = self.packets.iter();
        packets
            .filter(|packet| packet["ipv4"]["id"] == id)
            .collect()
    }

    /// Returns the number of packets with this reason and a property.
    pub(crate) fn count(&self, reason: &str, is_it: impl Fn(&Value) -> bool) -> usize {
        let packets = self.packets.iter();
        packets
            .filter(|packet| packet["drop"]["reason"] == reason && is_it(packet))
            .count()
    }
}

/// A packet of IPv4, to be changed before it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Ip {
    pub(crate) id: u16,
    pub(crate) ttl: u8,
    pub(crate) protocol: u8,
    pub(crate) source: Ipv4Addr,
    pub(crate) target: Ipv4Addr,
    pub(crate) payload: Vec<u8>,
    /// Bytes that the header states beyond those that there are.
    pub(crate) missing: u16,
    pub(crate) is_damaged: bool,
}

impl Ip {
    /// From the left end to the right one.
    pub(crate) fn over(pair: &VethPair, id: u16, protocol: u8, payload: Vec<u8>) -> Self {
        Self {
            id,
            ttl: 64,
            protocol,
            source: pair.left.ipv4,
            target: pair.right.ipv4,
            payload,
            missing: 0,
            is_damaged: false,
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let len = u16::try_from(20 + self.payload.len()).expect("short") + self.missing;
        let mut header = vec![0x45, 0];
        header.extend(len.to_be_bytes());
        header.extend(self.id.to_be_bytes());
        // Not to be fragmented.
        header.extend([0x40, 0, self.ttl, self.protocol, 0, 0]);
        header.extend(self.source.octets());
        header.extend(self.target.octets());
        let mut sum = checksum(&header);
        if self.is_damaged {
            sum ^= 0x0101;
        }
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        [header, self.payload.clone()].concat()
    }

    /// Returns the packet with its transport's checksum, at this offset of the payload, or with a wrong one.
    pub(crate) fn summed(mut self, at: usize, is_right: bool) -> Self {
        let mut pseudo = [self.source.octets(), self.target.octets()].concat();
        pseudo.extend([0, self.protocol]);
        pseudo.extend(
            u16::try_from(self.payload.len())
                .expect("short")
                .to_be_bytes(),
        );
        if self.protocol == ICMP {
            pseudo.clear();
        }
        pseudo.extend(&self.payload);
        let mut sum = checksum(&pseudo);
        if !is_right {
            sum ^= 0x0101;
        }
        self.payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        self
    }
}

fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("folded")
}

/// Returns a datagram without checksum.
pub(crate) fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(8 + payload.len()).expect("short");
    let ports = [40_000_u16, port, len, 0].map(u16::to_be_bytes);
    [ports.concat(), payload.to_vec()].concat()
}

/// The offsets of checksums in the headers.
pub(crate) const UDP_SUM: usize = 6;
pub(crate) const TCP_SUM: usize = 16;
pub(crate) const ICMP_SUM: usize = 2;

/// Returns a segment without payload; the checksum is missing.
pub(crate) fn tcp((from, to): (u16, u16), (seq, ack): (u32, u32), flags: u8) -> Vec<u8> {
    let mut segment = [from, to].map(u16::to_be_bytes).concat();
    segment.extend([seq, ack].map(u32::to_be_bytes).concat());
    segment.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment
}

/// Sends frames from the left end of a wire.
pub(crate) struct Sender<'a> {
    pair: &'a VethPair,
    injector: Injector,
}

impl<'a> Sender<'a> {
    pub(crate) fn on(pair: &'a VethPair) -> Self {
        let injector = pair.left.run(|| {
            let index = pair.left.namespace.netlink().index(&pair.left.device);
            Injector::open(index.expect("a device")).expect("a socket")
        });
        Self { pair, injector }
    }

    /// Sends a frame of an Ethernet type to an address.
    pub(crate) fn frame(&self, to: [u8; 6], kind: u16, payload: &[u8]) {
        let frame = [&to[..], &self.pair.left.mac, &kind.to_be_bytes(), payload].concat();
        self.injector.send(&frame).expect("sent");
    }

    /// Sends a packet to the right end.
    pub(crate) fn ip(&self, packet: &Ip) {
        self.frame(self.pair.right.mac, 0x0800, &packet.bytes());
    }
}

/// Writes a setting of a side's namespace.
pub(crate) fn set(side: &Side, name: &str, value: &str) {
    side.run(|| {
        let path = format!("/proc/sys/net/ipv4/{name}");
        std::fs::write(path, value).expect("a setting of the namespace");
    });
}
