//! The reader on the processor that receives (A:A), on the other (A:B), or wherever the scheduler
//! puts it, over the rate of packets.

use ringtap_lab::Need;

use super::deliver::{figures, metrics, tcpdump};
use crate::results::Axis;
use crate::session::{Done, Session};
use crate::stage::{Load, Pace, READER, Reader, SENDER, Stage};

const RATES: [u32; 3] = [500_000, 1_000_000, 2_000_000];
const QUICK_RATES: [u32; 2] = [500_000, 2_000_000];
const SIZE: u16 = 64;

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 6)])?;
    session.require_cpus(2)?;
    let places: [(&str, &[usize]); 3] = [
        ("A:A", &[SENDER]),
        ("A:B", &[READER]),
        ("automatic", &[SENDER, READER]),
    ];
    let mut readers = vec![("ringtap", Reader::tcx())];
    if session.peer("tcpdump").is_some() {
        readers.push(("tcpdump", tcpdump()));
    }
    let mut contenders = Vec::new();
    for (name, reader) in &readers {
        for (place, cpus) in places {
            contenders.push((format!("{name} {place}"), reader.clone(), cpus));
        }
    }
    let names: Vec<&str> = contenders.iter().map(|(name, ..)| name.as_str()).collect();
    let rate = Axis::log("rate of frames of 64 bytes", "packets/s");
    session.figure("Where the reader runs", rate, metrics());
    let stage = Stage::new()?;
    let rates: &[u32] = session.amount(&RATES, &QUICK_RATES);
    let milliseconds = session.amount(1_000, 400);
    for &rate in rates {
        let load = Load {
            size: SIZE,
            packets: rate / 1_000 * milliseconds,
            pace: Pace::Rate(rate),
            at_driver: false,
        };
        let title = format!("{rate} packets/s");
        let reference = if names.len() > 3 { 5 } else { 2 };
        session.case(&title, Some(f64::from(rate)), &names, reference, |who| {
            let (_, reader, cpus) = &contenders[who];
            let (sent, seen) = stage.run(load, std::slice::from_ref(reader), cpus)?;
            Ok(figures(sent, &seen))
        })?;
    }
    Ok(())
}
