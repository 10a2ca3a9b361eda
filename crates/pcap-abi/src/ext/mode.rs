//! Selects packets or statistics: `pcap_setmode`.

use std::ffi::c_int;

use ringtap_filter::program::opcode as op;
use ringtap_filter::{Insn, Program};

use crate::backlog::Backlog;
use crate::boundary::export;
use crate::handle::Pcap;
use crate::state::counting::Counting;
use crate::state::reading::Reading;
use crate::types::code;

/// `MODE_CAPT`: packets.
const CAPTURE: c_int = 0;
/// `MODE_STAT`: numbers of packets and bytes.
const STATISTICS: c_int = 1;

/// Returns a program that rejects every packet.
fn nothing() -> Option<Program> {
    Program::new(vec![Insn::new(op::RET | op::K, 0)]).ok()
}

fn set(handle: &Pcap, mode: c_int) -> c_int {
    let Some(live) = handle.live() else {
        return handle.fail("This is for live captures only");
    };
    let busy = "The mode can't be changed while packets are read";
    handle.change(busy, |reading| match mode {
        CAPTURE => to_packets(reading),
        STATISTICS => Counting::begin(live, reading.program.as_ref())
            .and_then(|counting| to_statistics(reading, counting)),
        other => Err(format!("unknown mode {other}")),
    })
}

/// Delivers packets again. If the kernel rejects the filter, the handle goes on counting.
fn to_packets(reading: &mut Reading) -> Result<(), String> {
    if reading.counting.is_none() {
        return Ok(());
    }
    let program = reading.program.clone();
    let set = reading.filter_source(program.as_ref());
    set.map_err(|error| error.to_string())?;
    reading.counting = None;
    Ok(())
}

/// Counts packets at the hook instead of copying them. Waiting packets are dropped, unless the
/// kernel rejects the change.
fn to_statistics(reading: &mut Reading, counting: Counting) -> Result<(), String> {
    reading.set_aside();
    let set = reading.filter_source(nothing().as_ref());
    set.map_err(|error| error.to_string())?;
    reading.backlog = Backlog::default();
    reading.counting = Some(counting);
    Ok(())
}

export! {
    /// Selects packets (0) or statistics (1). In statistics mode each timeout delivers one packet of 16
    /// bytes: the packets and bytes that the filter has accepted since the last.
    fn pcap_setmode(handle: Option<&Pcap>, mode: c_int) -> c_int {
        handle.map_or(code::ERROR, |handle| set(handle, mode))
    } else code::ERROR;
}
