//! The interpreter that captures of files use, compared with the plain one: without metadata, and
//! with.

use ringtap_filter::program::plain;
use ringtap_filter::{Ancillary, Program};

use super::Checked;
use crate::packets::Packet;

pub(super) fn check(program: &Program, packets: &[Packet]) -> Result<Checked, String> {
    let metadata = Ancillary {
        pkttype: 4,
        ifindex: 3,
        vlan_tci: Some(0x0101),
        vlan_tpid: 0x8100,
        ..Ancillary::default()
    };
    for (data, len) in packets {
        let found = [
            program.run(data, *len),
            program.run_with(data, *len, &metadata),
        ];
        let expected = [None, Some(&metadata)].map(|known| plain::run(program, data, *len, known));
        if found != expected {
            return Err(format!(
                "{found:?} without and with metadata, not {expected:?}, on {data:02x?} of {len}"
            ));
        }
    }
    Ok(Checked::Compared(2 * packets.len()))
}
