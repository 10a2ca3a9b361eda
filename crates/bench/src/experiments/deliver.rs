//! The packets delivered to an application that discards all of them, over frame sizes, at top
//! speed.

use ringtap_lab::Need;

use crate::results::Axis;
use crate::session::{Done, Session};
use crate::stage::{Load, READER, Reader, Seen, Sent, Stage};

const PACKETS: u32 = 1_500_000;
const QUICK_PACKETS: u32 = 400_000;
const SIZES: [u16; 5] = [64, 128, 512, 1024, 1496];
const QUICK_SIZES: [u16; 2] = [64, 1496];

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 6)], 2)?;
    let readers = contenders(session, 3);
    let names: Vec<&str> = readers.iter().map(|(name, _)| *name).collect();
    let reference = names.iter().position(|name| *name == "tcpdump");
    let packets = session.amount(PACKETS, QUICK_PACKETS);
    let bytes = Axis::log("frame without check sequence", "bytes");
    session.figure("Delivered to a void application", bytes, at_top_speed());
    let stage = Stage::new()?;
    for &size in session.amount(&SIZES[..], &QUICK_SIZES) {
        let load = Load::top(size, packets);
        let title = format!("{size} bytes");
        let at = Some(f64::from(size));
        session.case(&title, at, &names, reference.unwrap_or(1), |who| {
            let (sent, seen) = stage.run(load, &[readers[who].1.clone()], &[READER])?;
            Ok(figures_at_top_speed(sent, &seen))
        })?;
    }
    Ok(())
}

/// Returns the library on both engines, and those of the first peers that are installed.
pub(super) fn contenders(session: &mut Session, peers: usize) -> Vec<(&'static str, Reader)> {
    let mut readers = vec![
        ("ringtap tcx", Reader::tcx()),
        ("ringtap packet", Reader::packet()),
    ];
    let all = [
        ("tcpdump", tcpdump()),
        ("dumpcap", Reader::Dumpcap),
        ("netsniff-ng", Reader::NetsniffNg),
    ];
    let wanted = all.into_iter().take(peers);
    readers.extend(wanted.filter(|(name, _)| session.peer(name).is_some()));
    readers
}

/// Returns tcpdump with as much memory as the library.
pub(super) fn tcpdump() -> Reader {
    Reader::Tcpdump(vec!["-B".to_owned(), "65536".to_owned()])
}

/// A metric: its name, its unit, and the digits after the point.
type Named = (&'static str, &'static str, usize);

/// The metrics of [`figures`].
pub(super) const METRICS: [Named; 5] = [
    ("offered", "million packets/s", 3),
    ("delivered", "million packets/s", 3),
    ("lost", "%", 2),
    // More than 100: packets left in the ring were read after sending ended.
    ("reader's processor", "% of the time of sending", 1),
    ("reader's processor time of a packet", "ns", 1),
];

/// Returns the same with the kernel's cost, which is known if the sender has its processor to
/// itself.
pub(super) fn at_top_speed() -> impl Iterator<Item = Named> {
    METRICS
        .into_iter()
        .chain([("kernel's processor time of a packet", "ns", 1)])
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
