//! The packets delivered to an application that discards all of them, over frame sizes, at top
//! speed.

use ringtap_lab::Need;

use crate::results::{Axis, Metric};
use crate::session::{Done, Session};
use crate::stage::{Load, LoadPace, READER, Reader, Seen, Sent, Stage};

const PACKETS: u32 = 1_500_000;
const QUICK_PACKETS: u32 = 400_000;
const SIZES: [u16; 5] = [64, 128, 512, 1024, 1496];
const QUICK_SIZES: [u16; 2] = [64, 1496];

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 6)])?;
    session.require_cpus(2)?;
    let readers = contenders(session);
    let names: Vec<&str> = readers.iter().map(|(name, _)| *name).collect();
    let reference = names.iter().position(|name| *name == "tcpdump");
    let packets = session.amount(PACKETS, QUICK_PACKETS);
    let bytes = Axis::log("frame without check sequence", "bytes");
    session.figure("Delivered to a void application", bytes, at_top_speed());
    let sizes: &[u16] = session.amount(&SIZES, &QUICK_SIZES);
    let stage = Stage::new()?;
    for &size in sizes {
        let load = Load {
            size,
            packets,
            pace: LoadPace::Top,
            at_driver: false,
        };
        let title = format!("{size} bytes");
        let at = Some(f64::from(size));
        session.case(&title, at, &names, reference.unwrap_or(1), |who| {
            let (sent, seen) = stage.run(load, &[readers[who].1.clone()], &[READER])?;
            Ok(figures_at_top_speed(sent, &seen))
        })?;
    }
    Ok(())
}

/// Returns the library on both engines, and the installed peers.
pub(super) fn contenders(session: &mut Session) -> Vec<(&'static str, Reader)> {
    let mut readers = vec![
        ("ringtap tcx", Reader::tcx()),
        ("ringtap packet", Reader::packet()),
    ];
    let peers = [
        ("tcpdump", tcpdump()),
        ("dumpcap", Reader::Dumpcap),
        ("netsniff-ng", Reader::NetsniffNg),
    ];
    for (name, reader) in peers {
        if session.peer(name).is_some() {
            readers.push((name, reader));
        }
    }
    readers
}

/// Returns tcpdump with as much memory as the library.
pub(super) fn tcpdump() -> Reader {
    Reader::Tcpdump(vec!["-B".to_owned(), "65536".to_owned()])
}

/// Returns the metrics of [`figures`].
pub(super) fn metrics() -> Vec<Metric> {
    vec![
        Metric::new("offered", "million packets/s", 3),
        Metric::new("delivered", "million packets/s", 3),
        Metric::new("lost", "%", 2),
        // More than 100: packets left in the ring were read after sending ended.
        Metric::new("reader's processor", "% of the time of sending", 1),
        Metric::new("reader's processor time of a packet", "ns", 1),
    ]
}

/// Returns the same with the kernel's cost, which is known if the sender has its processor to
/// itself.
pub(super) fn at_top_speed() -> Vec<Metric> {
    let mut metrics = metrics();
    metrics.push(Metric::new("kernel's processor time of a packet", "ns", 1));
    metrics
}

/// Returns the values of [`at_top_speed`].
pub(super) fn figures_at_top_speed(sent: Sent, seen: &[Seen]) -> Vec<f64> {
    let mut values = figures(sent, seen);
    values.push(1e9 * sent.processor / sent.packets);
    values
}

/// Returns the average values over all readers.
pub(super) fn figures(sent: Sent, seen: &[Seen]) -> Vec<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a few readers")]
    let readers = seen.len().max(1) as f64;
    let packets = seen.iter().map(|seen| seen.packets).sum::<f64>() / readers;
    let processor = seen.iter().map(|seen| seen.processor).sum::<f64>();
    let share = (packets / sent.packets).min(1.0);
    let offered = sent.packets / sent.seconds / 1e6;
    vec![
        offered,
        share * offered,
        100.0 * (1.0 - share),
        100.0 * processor / sent.seconds,
        processor / readers * 1e9 / packets.max(1.0),
    ]
}
