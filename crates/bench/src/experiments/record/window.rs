//! A minute of one host out of an hour on disk, from a cold cache: the first packet, and the whole answer, against
//! reading just the chunks of that minute, and against tcpdump on all files.
//!
//! The folder is written by the recorder's own library, with an hour of packets that hardly compress, without
//! compression, so that tcpdump reads the same files. One host has packets in a few moments, another one always.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use ringtap_packet::{LinkType, Packet, PacketFlags, Timestamp};
use ringtap_record::archive::{
    Archive, ArchiveOptions, Completed, Listing, Stream, Window, look, open_catalogue,
};
use ringtap_record::{Access, Host, RecordError, RecordOptions, Recording, RotationPlan};
use ringtap_savefile::{Format, Interface, Options, Resolution};

use super::super::dump::Storage;
use crate::helpers::{check, datagram, timed};
use crate::results::{Axis, Case};
use crate::session::{Done, Session, told};

/// The bytes of the folder and of a file, and those with `--minutes`.
const BYTES: [u64; 2] = [2 << 30, 64 << 20];
const ALL_BYTES: [u64; 2] = [20 << 30, 256 << 20];
/// The length of a packet.
const LEN: usize = 1000;
/// The first second, and the seconds of all packets.
const START: i64 = 1_769_860_800;
const HOUR: i64 = 3600;
/// The minute that is asked for.
const MINUTE: i64 = 30;
/// The host that sends ten packets every ten seconds, and the one that sends every hundredth packet.
const RARE: [u8; 4] = [203, 0, 113, 77];
const FREQUENT: [u8; 4] = [203, 0, 113, 78];
/// The first packet must come within this many seconds.
const FIRST: f64 = 1.0;
/// The whole answer may take this many times the reading of its chunks, and this fraction of tcpdump's time.
const WHOLE: f64 = 1.5;
const AGAINST_TCPDUMP: f64 = 1.0 / 20.0;

pub(super) fn run(session: &mut Session) -> Done {
    let title = "a minute of one host";
    if !session.wants(title) {
        return Ok(());
    }
    let tcpdump = session.needed_peer("tcpdump")?;
    let storage = Storage::first(session)?;
    let [bytes, size] = if session.minutes.is_some() {
        ALL_BYTES
    } else {
        BYTES
    };
    let folder = storage.folder.join("archive");
    fill(&folder, bytes, size)?;
    let files = files(&folder)?;
    for file in &files {
        let mut command = Command::new(&session.ringtap);
        command.args(["dump", "--index", "-r"]).arg(file);
        check(command.stderr(Stdio::null()))?;
    }
    let (size, name) = (bytes >> 30, &storage.name);
    let heading = format!("A minute of an hour in {size} GB, {name}, from a cold cache");
    session.figure(&heading, Axis::names("host"), [("time", "s", 3)]);
    for (what, host) in [
        ("a host now and then", RARE),
        ("a host all the time", FREQUENT),
    ] {
        let host = host.map(|byte| byte.to_string()).join(".");
        let asked = Asked {
            ringtap: session.ringtap.clone(),
            tcpdump: tcpdump.clone(),
            folder: &folder,
            files: &files,
            filter: format!("host {host}"),
        };
        asked.run(session, &format!("{title}: {what}"))?;
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Compares the medians with the goals.
fn compared(case: &Case) -> String {
    let median = |who: usize| case.contenders[who].samples[0].median();
    let (first, whole, chunks, other) = (median(0), median(1), median(2), median(3));
    format!(
        "the first packet comes after {first:.3} s (goal {FIRST:.0} s: {}); the whole answer takes {:.2} times the \
         reading of its chunks (goal {WHOLE}: {}), and {:.4} of tcpdump's time (goal {AGAINST_TCPDUMP}: {})",
        told(first <= FIRST),
        whole / chunks,
        told(whole <= WHOLE * chunks),
        whole / other,
        told(whole <= AGAINST_TCPDUMP * other),
    )
}

/// Writes an hour of packets into a recorder's folder.
fn fill(folder: &Path, bytes: u64, file: u64) -> Done {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir(folder).map_err(failed)?;
    let directory = File::open(folder).map_err(failed)?;
    let options = ArchiveOptions::default()
        .budget(4 * bytes)
        .compressed(false);
    let found = look(folder).map_err(failed)?;
    let access = Arc::new(Access::Owner);
    let archive = Arc::new(Archive::open(folder, directory, &found, 0, access, options)?.0);
    let indexed = Arc::clone(&archive);
    let complete = Box::new(move |completed: Completed| {
        indexed.indexed(&completed.path);
    });
    let stream = Stream::new(Arc::clone(&archive), "eth0", complete, Box::new(drop));
    let mut rotation = RotationPlan::default();
    rotation.size = Some(file);
    let options = RecordOptions::default()
        .format(Format::Pcapng)
        .live(true)
        .memory(64 << 20)
        .rotation(Some(rotation));
    let host: Arc<dyn Host> = Arc::new(stream);
    Ok(write(options, host, bytes)?)
}

fn write(options: RecordOptions, host: Arc<dyn Host>, bytes: u64) -> Result<(), RecordError> {
    let mut recording = Recording::create(Path::new("unused"), options, host)?;
    let mut interface = Interface::new(LinkType::ETHERNET, 65_535);
    interface.resolution = Resolution::NANOS;
    recording.describe(&[interface])?;
    let mut frame = datagram(u16::try_from(LEN).unwrap_or(u16::MAX));
    let count = bytes / (LEN as u64 + 32);
    let step = i128::from(HOUR) * 1_000_000_000 / i128::from(count);
    let mut state = 1_u64;
    let mut rare = (0, 0);
    for number in 0..count {
        let nanos = i128::from(number) * step;
        let second = i64::try_from(nanos / 1_000_000_000).unwrap_or(0);
        // Packets of the rare host come first in every tenth second.
        if second / 10 != rare.0 {
            rare = (second / 10, 10);
        }
        let source = match (rare.1, number % 100) {
            (1.., _) => RARE,
            (_, 0) => FREQUENT,
            _ => {
                let [low, high, ..] = number.to_le_bytes();
                [10, 0, high, low]
            }
        };
        rare.1 -= i32::from(source == RARE);
        frame[26..30].copy_from_slice(&source);
        for word in frame[42..].chunks_exact_mut(8) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            word.copy_from_slice(&state.to_le_bytes());
        }
        let rest = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
        let packet = Packet {
            timestamp: Timestamp::new(START + second, rest),
            len: u32::try_from(LEN).unwrap_or(u32::MAX),
            interface: 0,
            flags: PacketFlags(0),
            data: &frame,
            process: None,
        };
        let one = std::iter::once(Ok::<_, RecordError>((packet, Options::none())));
        recording.write_packets(one)?;
    }
    recording.finish().map(drop)
}

/// Returns the files with packets.
fn files(folder: &Path) -> Done<Vec<PathBuf>> {
    let found = look(folder)?;
    let names = found.into_iter().map(|found| found.name);
    let data = names.filter(|name| name.ends_with(".pcapng"));
    Ok(data.map(|name| folder.join(name)).collect())
}

/// A question to the folder.
struct Asked<'a> {
    ringtap: PathBuf,
    tcpdump: PathBuf,
    folder: &'a Path,
    files: &'a [PathBuf],
    filter: String,
}

impl Asked<'_> {
    fn run(&self, session: &mut Session, title: &str) -> Done {
        let names = [
            "first packet",
            "whole answer",
            "just the chunks",
            "tcpdump -r",
        ];
        let case = session.case(title, None, &names, 2, |who| {
            self.drop_cache()?;
            Ok(vec![match who {
                0 => self.first()?,
                1 => timed(&mut self.extract("/dev/null"))?,
                2 => self.chunks()?,
                _ => self.tcpdump()?,
            }])
        })?;
        if let Some(case) = &case {
            session.note(format!("{title}: {}", compared(case)));
        }
        Ok(())
    }

    /// Drops the folder's files from the page cache, and nothing else.
    fn drop_cache(&self) -> Done {
        for entry in std::fs::read_dir(self.folder)? {
            let path = entry?.path();
            if path.is_file() {
                let mut dd = Command::new("dd");
                dd.arg(format!("if={}", path.display()));
                dd.args(["iflag=nocache", "count=0", "status=none"]);
                check(&mut dd)?;
            }
        }
        Ok(())
    }

    fn extract(&self, to: &str) -> Command {
        let begin = START + 60 * MINUTE;
        let mut command = Command::new(&self.ringtap);
        command.args(["extract", "--format", "pcapng", "-Z", "root", "-w", to]);
        command.arg("--dir").arg(self.folder).arg("--from");
        command.args([
            &begin.to_string(),
            "--to",
            &(begin + 60).to_string(),
            &self.filter,
        ]);
        command
    }

    /// Returns the seconds until the first packet is there.
    fn first(&self) -> Done<f64> {
        let begun = Instant::now();
        let mut extract = self.extract("-");
        extract.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = extract.spawn()?;
        let mut some = [0; LEN];
        let mut output = child.stdout.take().ok_or("no output")?;
        let read = output.read_exact(&mut some);
        let seconds = begun.elapsed().as_secs_f64();
        read?;
        let _ = child.kill();
        child.wait()?;
        Ok(seconds)
    }

    /// Reads all chunks of the minute, and returns the seconds.
    fn chunks(&self) -> Done<f64> {
        let begin = (START + 60 * MINUTE) * 1_000_000_000;
        let window = Window {
            from: Some(begin),
            to: Some(begin + 60_000_000_000),
        };
        let found = look(self.folder)?;
        let names = found.iter().map(|found| found.name.as_str());
        let catalogue = open_catalogue(&Access::Owner, self.folder, names)?;
        let listing = Listing::read(catalogue.ok_or("no catalogue")?, window)?;
        let listing = listing.ok_or("no catalogue")?;
        let begun = Instant::now();
        let mut bytes = Vec::new();
        for listed in &listing.files {
            let file = File::open(listed.name.path(self.folder))?;
            for chunk in &listed.chunks {
                bytes.resize(chunk.len as usize, 0);
                file.read_exact_at(&mut bytes, chunk.offset)?;
            }
        }
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Has tcpdump read all files for the host, and returns the seconds.
    fn tcpdump(&self) -> Done<f64> {
        let mut seconds = 0.0;
        for file in self.files {
            let mut command = Command::new(&self.tcpdump);
            command
                .args(["-Z", "root", "-w", "/dev/null", "-r"])
                .arg(file);
            seconds += timed(command.arg(&self.filter))?;
        }
        Ok(seconds)
    }
}
