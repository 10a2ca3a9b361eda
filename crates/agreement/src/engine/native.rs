//! Native code: one packet a call, and a batch.

use ringtap_filter::Program;
use ringtap_filter::program::plain;
use ringtap_jit::{Native, NativeError, PacketRef};

use super::Checked;
use crate::packets::Packet;

pub(super) fn check(program: &Program, packets: &[Packet]) -> Result<Checked, String> {
    let native = match Native::compile(program) {
        Ok(native) => native,
        Err(NativeError::TooLong(_)) => return Ok(Checked::NotTaken),
        Err(error) => return Err(error.to_string()),
    };
    let batch: Vec<_> = packets
        .iter()
        .map(|(data, len)| PacketRef::new(data, *len))
        .collect();
    let mut verdicts = vec![0; batch.len()];
    native.run_batch(&batch, &mut verdicts);
    for ((data, len), in_batch) in packets.iter().zip(verdicts) {
        let expected = plain::run(program, data, *len, None);
        let alone = native.run(data, *len);
        if (alone, in_batch) != (expected, expected) {
            return Err(format!(
                "{alone} alone, {in_batch} in a batch, not {expected}, on {data:02x?} of {len}"
            ));
        }
    }
    Ok(Checked::Compared(packets.len()))
}
