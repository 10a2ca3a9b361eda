//! How often a reader calls the kernel and sleeps: over min-to-copy, over the timeout, and over the
//! application's own work on each packet, which the documents found to help.

use std::time::Duration;

use ringtap_lab::Need;

use super::deliver::{METRICS, figures, tcpdump};
use crate::results::Axis;
use crate::session::{Done, Session};
use crate::stage::{Load, LoadPace, READER, Reader, Seen, Sent, Stage, own_options};

const RATE: u32 = 200_000;
const SIZE: u16 = 64;
/// Bytes; 0 is immediate mode.
const MIN_TO_COPY: [u32; 5] = [0, 1 << 10, 16 << 10, 64 << 10, 256 << 10];
const QUICK_MIN_TO_COPY: [u32; 3] = [0, 16 << 10, 256 << 10];
/// Milliseconds.
const TIMEOUTS: [u16; 4] = [1, 10, 100, 1_000];
const QUICK_TIMEOUTS: [u16; 2] = [1, 100];
/// Nanoseconds of work on a packet.
const WORK: [u32; 6] = [0, 50, 100, 200, 400, 800];
const QUICK_WORK: [u32; 3] = [0, 100, 400];

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 6)], 2)?;
    let stage = Stage::new()?;
    let has_tcpdump = session.peer("tcpdump").is_some();
    min_to_copy(session, &stage, has_tcpdump)?;
    timeout(session, &stage)?;
    work(session, &stage)
}

const CALLS: [(&str, &str, usize); 4] = [
    ("system calls", "of 1000 packets", 2),
    ("sleeps", "of 1000 packets", 2),
    ("reader's processor time of a packet", "ns", 1),
    ("lost", "%", 2),
];

fn called(sent: Sent, seen: &[Seen]) -> Vec<f64> {
    let Some(seen) = seen.first() else {
        return Vec::new();
    };
    let packets = seen.packets.max(1.0);
    vec![
        1e3 * seen.syscalls / packets,
        1e3 * seen.waits / packets,
        1e9 * seen.processor / packets,
        100.0 * (1.0 - (packets / sent.packets).min(1.0)),
    ]
}

fn steady(session: &Session) -> Load {
    let packets = session.amount(RATE / 10 * 7, RATE / 2);
    Load::top(SIZE, packets).paced(LoadPace::Rate(RATE))
}

fn min_to_copy(session: &mut Session, stage: &Stage, has_tcpdump: bool) -> Done {
    let bytes = Axis::log("min-to-copy (1: immediate mode)", "bytes");
    let title = "Calls of the kernel over min-to-copy, 200,000 packets/s";
    session.figure(title, bytes, CALLS);
    let load = steady(session);
    let mut names = vec!["ringtap tcx"];
    if has_tcpdump {
        names.push("tcpdump (has no such option)");
    }
    for &bytes in session.amount(&MIN_TO_COPY[..], &QUICK_MIN_TO_COPY) {
        let options = own_options()
            .min_to_copy(bytes.max(1))
            .immediate(bytes == 0);
        let title = match bytes {
            0 => "immediate".to_owned(),
            bytes => format!("{} KiB", bytes >> 10),
        };
        let at = Some(f64::from(bytes.max(1)));
        session.case(&title, at, &names, names.len() - 1, |who| {
            let reader = match (who, bytes) {
                (0, _) => Reader::library("tcx", options.clone()),
                (_, 0) => {
                    let options = ["--immediate-mode", "-B", "65536"];
                    Reader::Tcpdump(options.map(str::to_owned).to_vec())
                }
                _ => tcpdump(),
            };
            let (sent, seen) = stage.run(load, &[reader], &[READER])?;
            Ok(called(sent, &seen))
        })?;
    }
    Ok(())
}

fn timeout(session: &mut Session, stage: &Stage) -> Done {
    let title = "Calls of the kernel over the timeout, 200,000 packets/s";
    session.figure(title, Axis::log("timeout", "ms"), CALLS);
    let load = steady(session);
    let names = ["ringtap tcx", "ringtap packet"];
    for &millis in session.amount(&TIMEOUTS[..], &QUICK_TIMEOUTS) {
        let options = own_options()
            .timeout(Duration::from_millis(millis.into()))
            // Only the timeout decides.
            .min_to_copy(8 << 20);
        let at = Some(f64::from(millis));
        session.case(&format!("{millis} ms"), at, &names, 1, |who| {
            let engine = ["tcx", "packet"][who];
            let reader = Reader::library(engine, options.clone());
            let (sent, seen) = stage.run(load, &[reader], &[READER])?;
            Ok(called(sent, &seen))
        })?;
    }
    Ok(())
}

/// Tests the documents' paradox: whether a reader that works on each packet loses fewer.
fn work(session: &mut Session, stage: &Stage) -> Done {
    let axis = Axis::linear("application's work on a packet", "ns");
    let wanted = METRICS.into_iter().take(4).chain([CALLS[0]]);
    session.figure(
        "The application's load at top speed, 64 bytes",
        axis,
        wanted,
    );
    let load = Load::top(SIZE, session.amount(1_500_000, 500_000));
    let names = ["ringtap tcx", "ringtap packet"];
    for &nanoseconds in session.amount(&WORK[..], &QUICK_WORK) {
        let at = Some(f64::from(nanoseconds));
        session.case(&format!("{nanoseconds} ns"), at, &names, 1, |who| {
            let reader = [Reader::tcx(), Reader::packet()][who].clone();
            let reader = reader.working(nanoseconds);
            let (sent, seen) = stage.run(load, &[reader], &[READER])?;
            let mut values = figures(sent, &seen);
            values.truncate(4);
            values.extend(called(sent, &seen).first());
            Ok(values)
        })?;
    }
    Ok(())
}
