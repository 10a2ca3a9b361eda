//! Reading a file and writing it to `/dev/null`, against tcpdump.

use std::path::Path;
use std::process::Command;

use ringtap_lab::traffic::{Sizes, Traffic};

use crate::goals;
use crate::helpers::{fill_cache, timed};
use crate::results::Axis;
use crate::session::{Done, Session, Side, judge};

const BYTES: u64 = 1_000_000_000;
const QUICK_BYTES: u64 = 100_000_000;
const FILTERS: [Option<&str>; 2] = [None, Some("tcp port 443")];

/// Sizes of packets, and the average size of one in the file with its header, in bytes.
const MIXES: [(&str, Sizes, u64); 3] = [
    ("90 to 110 bytes", Sizes::Between(90, 110), 116),
    ("Internet mix", Sizes::Imix, 370),
    ("1500 bytes", Sizes::Fixed(1500), 1516),
];

pub(crate) fn run(session: &mut Session) -> Done {
    let tcpdump = session.needed_peer("tcpdump")?;
    let time = [("time", "s", 3)];
    let title = "A capture file read and written to /dev/null";
    session.figure(title, Axis::names("file"), time);
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let file = folder.path().join("bench.pcap");
    for (mix, sizes, bytes_per_packet) in MIXES {
        let bytes = session.amount(BYTES, QUICK_BYTES);
        let traffic = Traffic {
            packets: bytes / bytes_per_packet,
            sizes,
            ..Traffic::default()
        };
        let made = traffic
            .write_file(&file)
            .map_err(|error| format!("the capture: {error}"))?;
        fill_cache(&file).map_err(|error| format!("the capture: {error}"))?;
        for filter in FILTERS {
            let case = format!(
                "{mix}, {} packets, {}",
                made.packets,
                filter.unwrap_or("no filter")
            );
            let ringtap = session.ringtap.clone();
            let case = session.versus(&case, "tcpdump", |side| {
                let program = match side {
                    Side::Ringtap => &ringtap,
                    Side::Peer => &tcpdump,
                };
                Ok(vec![timed(&mut command(side, program, &file, filter))?])
            })?;
            judge("of tcpdump's time", goals::READ, case.as_ref(), 0);
        }
    }
    Ok(())
}

fn command(side: Side, program: &Path, file: &Path, filter: Option<&str>) -> Command {
    let mut command = Command::new(program);
    match side {
        Side::Ringtap => command.arg("dump"),
        // As root it would change the device's owner to its own user.
        Side::Peer => command.args(["-Z", "root"]),
    };
    command
        .arg("-r")
        .arg(file)
        .args(["-w", "/dev/null"])
        .args(filter);
    command
}
