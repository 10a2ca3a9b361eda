//! A large file that is read ahead, mapped, or neither.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use ringtap_testkit::corpus;
use ringtap_testkit::pcap::{self, Pcap};

use super::{RINGTAP, findings, meter};

/// More than the minimum size for mapping.
const BYTES: u64 = 24_000_000;

/// One processor maps the file and takes its packets one by one, two read it ahead, and standard input is a stream.
pub(crate) fn however_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pcap, pcapng) = (
        folder.path().join("large.pcap"),
        folder.path().join("large.pcapng"),
    );
    write_corpus(&pcap).expect("written");
    let mut dump = Command::new(RINGTAP);
    dump.arg("dump").arg("-r").arg(&pcap).arg("-w").arg(&pcapng);
    assert!(dump.output().expect("ringtap starts").status.success());
    // With times that end flows, a cache that is large, one that is full, and what needs all packets.
    let settings: [&[&str]; 5] = [
        &["--active", "3", "--inactive", "1"],
        &["--flows", "300000", "--linger", "0"],
        &["--flows", "512"],
        &["--tunnels", "all"],
        &["--biflow", "--tcp"],
    ];
    for (number, setting) in settings.into_iter().enumerate() {
        let records = folder.path().join(format!("{number}.csv"));
        let run = |file: &Path, more: &[&str]| {
            let output = meter(file, &records, &[setting, more].concat());
            assert!(output.status.success(), "{output:?}");
            findings(&output, &records)
        };
        let expected = streamed(&pcap, &records, setting);
        assert!(expected.1.len() > 1000, "{setting:?}");
        for (file, more) in [
            (&pcap, &["--cpu", "0"][..]),
            (&pcapng, &["--cpu", "0"]),
            (&pcap, &[]),
        ] {
            let found = run(file, more);
            assert_eq!(found.0, expected.0, "{setting:?} {more:?} {file:?}");
            assert!(found.1 == expected.1, "{setting:?} {more:?} {file:?}");
        }
    }
}

/// Meters as [`meter`], from standard input.
fn streamed(file: &Path, records: &Path, options: &[&str]) -> (serde_json::Value, Vec<String>) {
    let mut command = Command::new(RINGTAP);
    command.args(["flow", "--top", "0", "--json-stats", "-r", "-", "-w"]);
    command.arg(records).args(options);
    command.stdin(Stdio::from(File::open(file).expect("opened")));
    let output = command.output().expect("ringtap starts");
    assert!(output.status.success(), "{output:?}");
    findings(&output, records)
}

/// Returns whether a frame is a fragment. This many at a time are not all remembered; it is random which ones
/// make room for others.
fn is_fragment(frame: &[u8]) -> bool {
    match frame.get(12..14) {
        Some([0x08, 0x00]) => {
            matches!(frame.get(20..22), Some([high, low]) if high & 0x3f | low != 0)
        }
        Some([0x86, 0xdd]) => frame.get(20) == Some(&44),
        _ => false,
    }
}

/// Writes the Ethernet captures of the corpus, over and over, 100 µs apart; fragments are left out.
fn write_corpus(path: &Path) -> io::Result<()> {
    let mut writer = BufWriter::new(File::create(path)?);
    writer.write_all(&pcap::header(1))?;
    let (mut packets, mut bytes) = (0_u32, 0);
    while bytes < BYTES {
        for file in corpus::files() {
            let capture = std::fs::read(file)?;
            let Ok(capture) = Pcap::parse(&capture) else {
                continue;
            };
            if capture.link_type != 1 {
                continue;
            }
            // Damaged files end where they are damaged.
            for record in capture.records().map_while(Result::ok) {
                if is_fragment(record.data) {
                    continue;
                }
                let captured = u32::try_from(record.data.len()).expect("fits");
                let micros = packets * 100;
                let times = [1_700_000_000 + micros / 1_000_000, micros % 1_000_000];
                for word in times
                    .into_iter()
                    .chain([captured, record.len.max(captured)])
                {
                    writer.write_all(&word.to_ne_bytes())?;
                }
                writer.write_all(record.data)?;
                packets += 1;
                bytes += u64::from(captured) + 16;
            }
        }
        assert!(packets > 0, "the corpus has captures of Ethernet");
    }
    writer.flush()
}
