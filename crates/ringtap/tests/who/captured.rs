//! A capture with processes, live and read back.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use ringtap_packet::process::Evidence;
use ringtap_packet::{Packet, PacketFlags};
use ringtap_savefile::{Item, ProcessBlock, ReadOptions, Reader};
use ringtap_testkit::Need;
use ringtap_testkit::netns::Side;
use ringtap_testkit::process::Running;
use tempfile::TempDir;

pub(crate) const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
/// For what should end by itself.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A packet, with what its record and its payload say of its process.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) is_sent: bool,
    pub(crate) pid: Option<u32>,
    /// The number that the sender wrote into it.
    pub(crate) claimed: Option<u32>,
    pub(crate) is_held: bool,
    pub(crate) listens: bool,
    pub(crate) is_from_sender: bool,
    pub(crate) is_ipv6: bool,
    ports: Option<(u16, u16)>,
}

impl Seen {
    fn of(packet: &Packet<'_>) -> Self {
        let is_sent = packet.flags.0 & 3 == PacketFlags::OUTBOUND.0;
        let tag = packet.process.and_then(|process| process.tag);
        Self {
            is_sent,
            pid: packet.process.map(|process| process.pid),
            claimed: claimed(packet.data),
            is_held: tag.is_some_and(|tag| tag.evidence() == Evidence::Held),
            listens: tag.is_some_and(|tag| tag.listens()),
            is_from_sender: tag.is_some_and(|tag| tag.is_sender()),
            is_ipv6: is_ipv6(packet.data),
            ports: ports(packet),
        }
    }

    pub(crate) fn local_port(&self) -> Option<u16> {
        self.ports
            .map(|(from, to)| if self.is_sent { from } else { to })
    }

    pub(crate) fn remote_port(&self) -> Option<u16> {
        self.ports
            .map(|(from, to)| if self.is_sent { to } else { from })
    }
}

fn is_ipv6(data: &[u8]) -> bool {
    data.get(12..14) == Some(&[0x86, 0xdd])
}

/// Returns source and destination port of TCP or UDP, of IPv6 without extension headers.
fn ports(packet: &Packet<'_>) -> Option<(u16, u16)> {
    let data = packet.data;
    let (protocol, start) = if is_ipv6(data) {
        (*data.get(20)?, 54)
    } else if data.get(12..14)? == [8, 0] {
        (*data.get(23)?, 14 + usize::from(data.get(14)? & 15) * 4)
    } else {
        return None;
    };
    let ports = data.get(start..start + 4)?;
    let number = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
    matches!(protocol, 6 | 17).then(|| (number(0), number(2)))
}

/// Returns the number behind `pid=` in the packet.
fn claimed(data: &[u8]) -> Option<u32> {
    let start = data.windows(4).position(|part| part == b"pid=")? + 4;
    let length = data[start..].iter().position(|byte| *byte == b';')?;
    std::str::from_utf8(&data[start..start + length])
        .ok()?
        .parse()
        .ok()
}

/// A finished capture.
pub(crate) struct Captured {
    pub(crate) packets: Vec<Seen>,
    /// The command lines of the processes that the file describes.
    pub(crate) described: BTreeMap<u32, String>,
    /// The number of blocks that describe processes.
    pub(crate) blocks: usize,
    pub(crate) file: Vec<u8>,
    pub(crate) path: PathBuf,
    /// How the capture worked.
    explained: String,
    _folder: Option<TempDir>,
}

impl Captured {
    /// Returns the processes that say that they have sent a packet.
    pub(crate) fn senders(&self) -> Vec<u32> {
        let sent = self.packets.iter().filter(|seen| seen.is_sent);
        let mut senders: Vec<u32> = sent.filter_map(|seen| seen.claimed).collect();
        senders.dedup();
        senders
    }

    /// Returns the number of packets whose sender says who it is.
    pub(crate) fn claimed(&self) -> usize {
        let sent = self.packets.iter().filter(|seen| seen.is_sent);
        sent.filter(|seen| seen.claimed.is_some()).count()
    }

    /// Returns whether programs run at the kernel's functions.
    pub(crate) fn is_by_function(&self) -> bool {
        !self.explained.contains("no programs at its functions")
    }

    /// Returns whether every use of a socket is seen before its packets, as far as the tests know it.
    pub(crate) fn is_exact(&self) -> bool {
        self.is_by_function() || Need::Kernel(6, 16).unmet().is_none()
    }
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Captured {
    let file = fs::read(path).expect("a file");
    let stream = Box::new(std::io::Cursor::new(file.clone()));
    let mut reader = Reader::new(stream, "file", &ReadOptions::default()).expect("a capture");
    let (mut packets, mut described, mut blocks) = (Vec::new(), BTreeMap::new(), 0);
    while let Some(item) = reader.next().expect("a whole file") {
        match item {
            Item::Run(run) => packets.extend(run.packets().map(|packet| Seen::of(&packet))),
            Item::Other(block) => {
                let process = ProcessBlock::parse(&block).expect("a process");
                described.insert(process.tag.pid(), process.description.command());
                blocks += 1;
            }
            _ => {}
        }
    }
    Captured {
        packets,
        described,
        blocks,
        file,
        path: path.to_owned(),
        explained: String::new(),
        _folder: None,
    }
}

/// A running capture.
pub(crate) struct Capturing {
    running: Running,
    folder: TempDir,
}

impl Capturing {
    /// Captures on the device of a side.
    pub(crate) fn start(side: &Side, arguments: &[&str]) -> Self {
        Self::start_on(side, &side.device, arguments)
    }

    pub(crate) fn start_on(side: &Side, device: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = side.namespace.command(RINGTAP);
        command.args([
            "dump",
            "-i",
            device,
            "--print",
            "--json",
            "--immediate",
            "-U",
        ]);
        command
            .args(["--explain-capture", "-w"])
            .arg(folder.path().join("file.pcapng"));
        if !arguments
            .iter()
            .any(|argument| argument.starts_with("--who"))
        {
            command.arg("--who");
        }
        command.args(arguments);
        let mut running = Running::start_piped(&mut command).expect("ringtap starts");
        let side = Side {
            device: device.to_owned(),
            ..side.clone()
        };
        let capturing = running.wait_until_capturing(&side, LIMIT);
        capturing.expect("capturing");
        Self { running, folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("file.pcapng")
    }

    /// Waits until this number of packets was captured: they are printed one by one.
    pub(crate) fn wait_for_packets(&self, count: usize) {
        let until = Instant::now() + LIMIT;
        // The file grows by whole packets, with their processes.
        while self.packets() < count {
            assert!(Instant::now() < until, "{count} packets");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn packets(&self) -> usize {
        let Ok(file) = fs::read(self.file()) else {
            return 0;
        };
        let stream = Box::new(std::io::Cursor::new(file));
        let Ok(mut reader) = Reader::new(stream, "file", &ReadOptions::default()) else {
            return 0;
        };
        let mut packets = 0;
        while let Ok(Some(item)) = reader.next() {
            if let Item::Run(run) = item {
                packets += run.len();
            }
        }
        packets
    }

    /// Returns the numbers of the programs that the capture holds.
    pub(crate) fn programs(&self) -> Vec<u32> {
        let folder = format!("/proc/{}/fdinfo", self.running.id());
        let entries = fs::read_dir(folder).expect("descriptors");
        let texts = entries.filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok());
        let numbers = texts.filter_map(|text| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("prog_id:"))?;
            line.trim().parse().ok()
        });
        numbers.collect()
    }

    /// Ends the capture without notice.
    pub(crate) fn kill(self) {
        self.running.signal("KILL").expect("a signal");
        let ended = self.running.wait(LIMIT).expect("an end");
        assert!(!ended.status.success());
    }

    /// Ends the capture; what was printed live must be what is printed from the file.
    pub(crate) fn finish(self) -> Captured {
        let path = self.file();
        self.running.signal("INT").expect("a signal");
        let output = self.running.wait(LIMIT).expect("an end");
        assert!(output.status.success(), "{output:?}");
        let mut again = Command::new(RINGTAP);
        let again = again.args(["dump", "--json", "-r"]).arg(&path).output();
        let again = again.expect("ringtap runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(&output.stdout), text(&again.stdout));
        Captured {
            explained: text(&output.stderr),
            _folder: Some(self.folder),
            ..read(&path)
        }
    }
}
