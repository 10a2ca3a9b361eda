//! The size of the ring against bursts, and against the cost of cache misses.

use ringtap_lab::Need;

use super::deliver::{METRICS, at_top_speed, figures, figures_at_top_speed};
use crate::results::Axis;
use crate::session::{Done, Session};
use crate::stage::{Load, LoadPace, READER, Reader, Stage, own_options};

/// Sizes of the ring in KiB.
const RINGS: [u32; 6] = [256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10];
const QUICK_RINGS: [u32; 3] = [512, 16 << 10, 256 << 10];
const SIZE: u16 = 512;
/// Packets of a burst, packets a second on average, and nanoseconds of work on a packet: too many
/// for the burst's rate, few enough for the average.
const BURST: u32 = 50_000;
const RATE: u32 = 500_000;
const WORK: u32 = 1_000;

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 6)], 2)?;
    let stage = Stage::new()?;
    let top = Load::top(SIZE, session.amount(1_500_000, 400_000));
    let title = "The ring's size at top speed, 512 bytes";
    session.figure(title, Axis::log("ring", "KiB"), at_top_speed());
    over_sizes(session, &stage, top, 0)?;
    let bursts = Load::top(SIZE, session.amount(350_000, 200_000));
    let bursts = bursts.paced(LoadPace::Bursts(RATE, BURST));
    let title = "The ring's size and bursts of 50,000 packets, 500,000 packets/s on average";
    session.figure(title, Axis::log("ring", "KiB"), METRICS);
    over_sizes(session, &stage, bursts, WORK)
}

fn over_sizes(session: &mut Session, stage: &Stage, load: Load, work: u32) -> Done {
    let names = ["ringtap tcx", "ringtap packet", "tcpdump"];
    let count = if work == 0 && session.peer("tcpdump").is_some() {
        3
    } else {
        2
    };
    for &kibibytes in session.amount(&RINGS[..], &QUICK_RINGS) {
        let options = own_options().buffer(u64::from(kibibytes) << 10);
        let title = format!("{kibibytes} KiB");
        let at = Some(f64::from(kibibytes));
        session.case(&title, at, &names[..count], count - 1, |who| {
            let reader = match who {
                0 => Reader::library("tcx", options.clone()),
                1 => Reader::library("packet", options.clone()),
                _ => Reader::Tcpdump(vec!["-B".to_owned(), kibibytes.to_string()]),
            };
            let (sent, seen) = stage.run(load, &[reader.working(work)], &[READER])?;
            Ok(if load.pace == LoadPace::Top {
                figures_at_top_speed(sent, &seen)
            } else {
                figures(sent, &seen)
            })
        })?;
    }
    Ok(())
}
