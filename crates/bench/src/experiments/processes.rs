//! One, two and three captures of the same packets at once.

use ringtap_lab::Need;

use super::deliver::{figures, metrics, tcpdump};
use crate::results::Axis;
use crate::session::{Done, Session};
use crate::stage::{Load, LoadPace, READER, Reader, Stage};

/// Packets a second; Braun and others had 1,270,000.
const RATE: u32 = 1_270_000;
const PACKETS: u32 = 1_270_000;
const QUICK_PACKETS: u32 = 500_000;
const SIZE: u16 = 64;

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 6)])?;
    session.require_cpus(2)?;
    let mut readers = vec![
        ("ringtap tcx", Reader::tcx()),
        ("ringtap packet", Reader::packet()),
    ];
    if session.peer("tcpdump").is_some() {
        readers.push(("tcpdump", tcpdump()));
    }
    let names: Vec<&str> = readers.iter().map(|(name, _)| *name).collect();
    let captures = Axis::linear("captures at once", "");
    session.figure(
        "Several captures of 1,270,000 packets/s",
        captures,
        metrics(),
    );
    let stage = Stage::new()?;
    let load = Load {
        size: SIZE,
        packets: session.amount(PACKETS, QUICK_PACKETS),
        pace: LoadPace::Rate(RATE),
        at_driver: false,
    };
    for count in 1..=3_u8 {
        let title = format!("{count} at once");
        let at = Some(f64::from(count));
        session.case(&title, at, &names, names.len() - 1, |who| {
            let readers = vec![readers[who].1.clone(); count.into()];
            let (sent, seen) = stage.run(load, &readers, &[READER])?;
            Ok(figures(sent, &seen))
        })?;
    }
    Ok(())
}
