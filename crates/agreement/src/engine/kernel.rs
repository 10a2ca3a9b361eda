//! eBPF in this kernel, with test runs (`BPF_PROG_TEST_RUN`).

use ringtap_filter::Program;
use ringtap_filter::ebpf::lower::{Hook, standalone};

use super::machine::Loaded;
use super::{Checked, compare};
use crate::packets::Packet;

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
    compare(program, packets, |data, _| {
        let fits = (LEAST..=ONE_BUFFER).contains(&data.len()) && loaded.takes(data);
        let verdict = fits.then(|| loaded.try_run(data)).transpose()?;
        Ok(verdict.map(|found| (found, loaded.expected(data))))
    })
}
