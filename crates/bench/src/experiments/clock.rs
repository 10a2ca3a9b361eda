//! The minimum cost of stamping a packet: an XDP program that reads a clock and drops, against one
//! that only drops. It is a lower limit for every tap that stamps each packet.

use ringtap_filter::ebpf::Helper;
use ringtap_lab::Need;
use ringtap_lab::netns::VethPair;
use ringtap_lab::traffic::{LiveFrames, Target, XdpDrop};
use ringtap_sys::sched::set_affinity;

use crate::helpers::datagram;
use crate::results::{Axis, Metric};
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
    session.require(&[Need::Root, Need::Kernel(6, 1)])?;
    let packets = session.amount(PACKETS, QUICK_PACKETS);
    let cost = Metric::new("processor time of a packet", "ns", 1);
    session.figure(
        "An XDP program that stamps and drops",
        Axis::names("clock"),
        vec![cost],
    );
    let frame = datagram(FRAME);
    let pair = VethPair::new();
    let frames = LiveFrames::new(&frame, Target::OutOf(&pair.left));
    let frames = frames.map_err(|error| error.to_string())?;
    set_affinity(&CPUS).map_err(|error| error.to_string())?;
    for (name, helper) in CLOCKS {
        let case = format!("{name}, {packets} frames of {FRAME} bytes");
        session.versus(&case, "XDP drop", |side| {
            let helper = (side == Side::Ringtap).then_some(helper);
            let dropping = XdpDrop::after(&pair.right, helper);
            let dropping = dropping.map_err(|error| error.to_string())?;
            let send = |count| frames.send_measured(count);
            send(WARM_UP).map_err(|error| error.to_string())?;
            let cost = send(packets).map_err(|error| error.to_string())?;
            drop(dropping);
            Ok(vec![
                cost.processor.as_secs_f64() * 1e9 / f64::from(packets),
            ])
        })?;
    }
    Ok(())
}
