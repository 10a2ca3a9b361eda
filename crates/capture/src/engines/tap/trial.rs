//! The smallest program of a tap, which is loaded and dropped to test whether this kernel accepts it.

use ringtap_sys::bpf::{self, Kernel, XdpMode};
use ringtap_sys::tap::{Control, Doorbell};

use super::plan::{Bound, Form, Programs};
use super::program::largest_record;
use super::rings::RingSet;
use crate::LinkType;
use crate::describe::KernelClock;
use crate::engines::filter_plan::FilterPlan;
use crate::hook::{HookPoint, Side};
use crate::options::CaptureOptions;

/// The longest packet that the program is made for, in bytes.
const ROOM: u32 = 2048;

/// Loads the tap's program for tcx, which is also that for clsact.
pub(crate) fn tcx(kernel: &Kernel) -> bpf::Result<()> {
    load(kernel, HookPoint::Tcx(Side::Ingress))
}

/// Loads the program of the tap at XDP.
pub(crate) fn xdp(kernel: &Kernel) -> bpf::Result<()> {
    load(kernel, HookPoint::Xdp(XdpMode::Native))
}

fn one_processor() -> Vec<usize> {
    vec![0]
}

fn load(kernel: &Kernel, place: HookPoint) -> bpf::Result<()> {
    let options = CaptureOptions::default();
    let rings = RingSet::create(kernel, one_processor, 1, largest_record(ROOM))?;
    let (control, doorbell) = (Control::create(kernel)?, Doorbell::create(kernel)?);
    let plan = FilterPlan::new(None, &options);
    let programs = Programs {
        kernel,
        device: Bound::ANY,
        home: None,
        plan: &plan,
        options: &options,
        room: ROOM,
        geometry: rings.geometry(),
        maps: rings.maps(&control, &doorbell),
        drops: None,
    };
    let form = Form::own(LinkType::ETHERNET);
    let loaded = programs.load_or_older(form, place, KernelClock::Tai);
    loaded.map(drop)
}
