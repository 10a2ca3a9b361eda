//! eBPF in this kernel, with test runs (`BPF_PROG_TEST_RUN`).

use ringtap_filter::Program;
use ringtap_filter::ebpf::lower::{Hook, standalone};

use super::machine::Loaded;
use super::{Checked, asks_for_metadata};
use crate::packets::{Packet, is_whole};

/// The most bytes in one buffer of a test run.
const ONE_BUFFER: usize = 3_000;
/// The fewest bytes that a test run accepts.
const LEAST: usize = 14;

/// Loads the program, which the verifier must accept, and compares verdicts.
///
/// # Errors
/// Returns the verifier's reason, or the packet on which the verdicts differ.
pub fn check(program: &Program, hook: Hook, packets: &[Packet]) -> Result<Checked, String> {
    let Ok(asm) = standalone(program, hook) else {
        return Ok(Checked::NotTaken);
    };
    let loaded = Loaded::try_assembled(program, hook, asm)?;
    if asks_for_metadata(program) {
        return Ok(Checked::Compared(0));
    }
    let mut compared = 0;
    for packet in packets.iter().filter(|packet| is_whole(packet)) {
        let (data, _) = packet;
        if !(LEAST..=ONE_BUFFER).contains(&data.len()) || !loaded.takes(data) {
            continue;
        }
        let (found, expected) = (loaded.try_run(data)?, loaded.expected(data));
        if found != expected {
            return Err(format!("{found}, not {expected}, on {data:02x?}"));
        }
        compared += 1;
    }
    Ok(Checked::Compared(compared))
}
