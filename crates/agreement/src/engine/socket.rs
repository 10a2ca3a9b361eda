//! The kernel's own classic BPF: `SO_ATTACH_FILTER` on one of a pair of connected sockets. A
//! datagram that the filter rejects does not arrive; others arrive with as many bytes as it
//! accepts. The attached program is that of a capture: lowered for packets whose tag was removed.

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;

use ringtap_filter::Program;
use ringtap_filter::program::plain;
use ringtap_filter::socket::lower;
use ringtap_sys::packet::{Instruction, inject};

use super::stripped::VIEW;
use super::{Checked, compare};
use crate::packets::Packet;

pub(super) fn check(program: &Program, packets: &[Packet]) -> Result<Checked, String> {
    let Ok(lowered) = lower(program, &VIEW) else {
        return Ok(Checked::NotTaken);
    };
    let (sender, receiver) = UnixDatagram::pair().map_err(|error| error.to_string())?;
    receiver
        .set_nonblocking(true)
        .map_err(|error| error.to_string())?;
    let insns: Vec<_> = lowered
        .insns()
        .iter()
        .map(|insn| Instruction {
            code: insn.code,
            jt: insn.jt,
            jf: insn.jf,
            k: insn.k,
        })
        .collect();
    inject::attach_filter(receiver.as_fd(), &insns).map_err(|error| error.to_string())?;
    let mut buffer = [0; 1 << 16];
    compare(program, packets, |data, len| {
        sender.send(data).map_err(|error| error.to_string())?;
        let found = match receiver.recv(&mut buffer) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => return Err(error.to_string()),
        };
        let verdict = plain::run(program, data, len, None);
        let expected = (verdict > 0).then(|| data.len().min(verdict as usize));
        Ok(Some((found, expected)))
    })
}
