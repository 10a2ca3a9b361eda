//! The minimum cost of stamping a packet: an XDP program that reads a clock and drops, against one
//! that only drops. It is a lower limit for every tap that stamps each packet.

use ringtap_filter::ebpf::Helper;
use ringtap_lab::Need;
use ringtap_lab::netns::VethPair;
use ringtap_lab::traffic::{LiveFrames, Target, XdpDrop};
use ringtap_sys::sched::set_affinity;

use crate::helpers::datagram;
use crate::results::Axis;
use crate::session::{Done, Session, Side};

const PACKETS: u32 = 3_000_000;
const QUICK_PACKETS: u32 = 1_000_000;
const WARM_UP: u32 = 50_000;
const FRAME: u16 = 64;
/// The processor where frames are made and received.
const CPUS: [usize; 1] = [0];
/// The helpers that read the clocks, by the choice of the stamp.
const CLOCKS: [(&str, Helper); 4] = [
    ("atomic time (host_hiprec)", Helper::KtimeGetTaiNs),
    ("monotonic (Linux before 6.1)", Helper::KtimeGetNs),
    ("last tick (host_lowprec)", Helper::KtimeGetCoarseNs),
    ("no clock, another helper", Helper::GetSmpProcessorId),
];

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 1)], 1)?;
    let packets = session.amount(PACKETS, QUICK_PACKETS);
    let title = "An XDP program that stamps and drops";
    session.figure(
        title,
        Axis::names("clock"),
        [("processor time of a packet", "ns", 1)],
    );
    let frame = datagram(FRAME);
    let pair = VethPair::new();
    let frames = LiveFrames::new(&frame, Target::OutOf(&pair.left))?;
    set_affinity(&CPUS)?;
    for (name, helper) in CLOCKS {
        let case = format!("{name}, {packets} frames of {FRAME} bytes");
        session.versus(&case, "XDP drop", |side| {
            let helper = (side == Side::Ringtap).then_some(helper);
            let dropping = XdpDrop::after(&pair.right, helper)?;
            frames.send_measured(WARM_UP)?;
            let cost = frames.send_measured(packets)?;
            drop(dropping);
            Ok(vec![
                cost.processor.as_secs_f64() * 1e9 / f64::from(packets),
            ])
        })?;
    }
    Ok(())
}
