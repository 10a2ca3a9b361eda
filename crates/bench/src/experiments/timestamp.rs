//! The cost of a timestamp, as a part of all that the kernel does for a packet, by clock.

use ringtap_capture::{Mode, Precision, Stage as Depth};
use ringtap_lab::Need;
use ringtap_lab::traffic::XdpDrop;

use crate::results::{Axis, Case};
use crate::sample::{Verdict, compare};
use crate::session::{Done, Session};
use crate::stage::{Load, READER, Reader, Stage, own_options};

const PACKETS: u32 = 2_000_000;
const QUICK_PACKETS: u32 = 800_000;
const SIZE: u16 = 64;
const SNAPLEN: u32 = 96;

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 6)], 2)?;
    let metrics = [
        ("kernel's processor time of a packet", "ns", 1),
        ("lost", "%", 2),
    ];
    session.figure("The clocks of the tap", Axis::names("tap"), metrics);
    let stage = Stage::new()?;
    let names = [
        "read for each packet",
        "last tick",
        "none",
        "no capture: dropped, or passed on",
    ];
    let packets = session.amount(PACKETS, QUICK_PACKETS);
    for (engine, mode, what) in [
        ("xdp", Mode::Steal, "tap at XDP, steal"),
        ("tcx", Mode::Copy, "tap at tcx, copy"),
    ] {
        let load = Load {
            at_driver: engine == "xdp",
            ..Load::top(SIZE, packets)
        };
        let title = format!("{what}, {SIZE} bytes");
        let case = session.case(&title, None, &names, 2, |who| {
            let precision = [Precision::Fine, Precision::Coarse, Precision::None];
            let options = own_options()
                .precision(precision.get(who).copied().unwrap_or_default())
                .study((who == 3).then_some(Depth::Hook))
                .snaplen(SNAPLEN)
                .mode(mode);
            let reader = Reader::library(engine, options);
            // A tap that steals is compared with a program that only drops.
            let dropping = (who == 3 && load.at_driver).then(|| XdpDrop::on(&stage.pair.right));
            let dropping = dropping.transpose()?;
            let readers = if dropping.is_some() {
                &[][..]
            } else {
                &[reader]
            };
            let (sent, seen) = stage.run(load, readers, &[READER])?;
            drop(dropping);
            let came: f64 = seen.iter().map(|seen| seen.packets).sum();
            let lost = if who == 3 {
                0.0
            } else {
                1.0 - came / sent.packets
            };
            Ok(vec![
                1e9 * sent.processor / sent.packets,
                100.0 * lost.max(0.0),
            ])
        })?;
        if let Some(case) = case {
            session.note(told(what, &case));
        }
    }
    Ok(())
}

/// Describes the share of reading the clock, if the runs allow a conclusion.
fn told(what: &str, case: &Case) -> String {
    let cost = |who: usize| case.contenders[who].samples[0].median();
    let (whole, stamp) = (cost(0), cost(0) - cost(2));
    let shown = |who: usize| {
        let sample = |who: usize| &case.contenders[who].samples[0];
        compare(sample(0), sample(who)) == Verdict::More
    };
    let share = |of: f64| 100.0 * stamp / of;
    if !shown(2) {
        return format!("{what}: the spread swallows what reading the clock costs");
    }
    let of_capture = if shown(3) {
        let percent = share(whole - cost(3));
        format!("{percent:.1} % of what the capture adds to it")
    } else {
        "the spread swallows what the capture adds to it".to_owned()
    };
    format!(
        "{what}: reading the clock is {:.1} % of the kernel's whole time for a packet; {of_capture}",
        share(whole)
    )
}
