//! What a handle delivers: `pcap_setmode`.

use std::ffi::c_int;

use ringtap_filter::program::opcode as op;
use ringtap_filter::{Insn, Program};

use crate::backlog::Backlog;
use crate::boundary::export;
use crate::ext::statistics::Counting;
use crate::handle::Pcap;
use crate::read::Reading;
use crate::types::code;

/// `MODE_CAPT`: packets.
const CAPTURE: c_int = 0;
/// `MODE_STAT`: how many packets and bytes.
const STATISTICS: c_int = 1;

/// Accepts nothing.
fn nothing() -> Option<Program> {
    Program::new(vec![Insn::new(op::RET | op::K, 0)]).ok()
}

fn set(handle: &Pcap, mode: c_int) -> c_int {
    let Some(live) = handle.live() else {
        return handle.fail("This is for live captures only");
    };
    let Some(mut guard) = handle.try_reading() else {
        return handle.fail("The mode can't be changed while packets are read");
    };
    let Some(reading) = &mut *guard else {
        return code::ERROR;
    };
    let changed = match mode {
        CAPTURE => to_packets(reading),
        STATISTICS => Counting::begin(live, reading.program.as_ref())
            .and_then(|counting| to_statistics(reading, counting)),
        other => Err(format!("there is no mode {other}")),
    };
    match changed {
        Ok(()) => 0,
        Err(message) => handle.fail(message),
    }
}

/// Where the kernel refuses the filter, the handle goes on counting.
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

/// Packets are counted at the hook, and no longer copied. Those that wait are left out; but where the
/// kernel refuses, they are still there.
fn to_statistics(reading: &mut Reading, counting: Counting) -> Result<(), String> {
    reading.set_aside();
    let set = reading.filter_source(nothing().as_ref());
    set.map_err(|error| error.to_string())?;
    reading.backlog = Backlog::default();
    reading.counting = Some(counting);
    Ok(())
}

export! {
    /// Chooses between packets (0) and statistics (1): then each time-out delivers one packet of 16
    /// bytes, the number of packets and of bytes that the filter has accepted since the last.
    fn pcap_setmode(handle: Option<&Pcap>, mode: c_int) -> c_int {
        handle.map_or(code::ERROR, |handle| set(handle, mode))
    } else code::ERROR;
}
