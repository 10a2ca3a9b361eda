//! eBPF that reads a packet in a program's own memory, with test runs.

use std::os::fd::{AsFd, AsRawFd};

use ringtap_filter::Program;
use ringtap_filter::ebpf::lower::{Hook, scratch};
use ringtap_filter::ebpf::{Assembler, Insn, Reg};
use ringtap_filter::program::plain;
use ringtap_sys::bpf::{self, Kernel, Map, MapKind, MapSpec, ProgramKind, ProgramRun};

use super::{Checked, compare, complete};
use crate::packets::Packet;

/// Loads the program, which the verifier must accept, and compares verdicts.
///
/// # Errors
/// Returns the verifier's reason, or the packet on which the verdicts differ.
pub(super) fn check(program: &Program, packets: &[Packet]) -> Result<Checked, String> {
    let kernel = Kernel::running();
    let kind = MapKind::Array {
        mmapable: false,
        inner: false,
    };
    let spec = MapSpec::new("ringtap_scratch", kind, scratch::VALUE, 1);
    let map = Map::create(&kernel, &spec).map_err(|error| error.to_string())?;
    let Some(code) = code(program, &map) else {
        return Ok(Checked::NotTaken);
    };
    let loaded = bpf::Program::load(&kernel, "ringtap_test", ProgramKind::SchedCls, &code);
    let loaded = loaded.map_err(|error| format!("{} instructions: {error}", code.len()))?;
    let mut value = vec![0xee; map.value_size()];
    compare(program, packets, |data, len| {
        if len > scratch::BYTES {
            return Ok(None);
        }
        // Behind the packet are the bytes of an earlier one, which no load may reach.
        put(&mut value, scratch::LEN, &len.to_ne_bytes());
        put(&mut value, scratch::CAPLEN, &len.to_ne_bytes());
        put(&mut value, scratch::DATA, data);
        map.update(0, &value).map_err(|error| error.to_string())?;
        let run = ProgramRun {
            data: &[0; 64],
            ..ProgramRun::default()
        };
        let found = loaded.run(&run).map_err(|error| error.to_string())?;
        Ok(Some((
            found.return_value,
            plain::run(program, data, len, None),
        )))
    })
}

fn put(value: &mut [u8], at: i16, bytes: &[u8]) {
    let at = usize::from(at.unsigned_abs());
    value[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Returns the program on the map's value; `None` if programs cannot have its metadata.
fn code(program: &Program, map: &Map) -> Option<Vec<u64>> {
    let mut asm = Assembler::new();
    asm.allow_long_jumps(true);
    asm.push(Insn::LoadMapValue {
        dst: Reg::R6,
        fd: map.as_fd().as_raw_fd(),
        offset: 0,
    });
    complete(program, Hook::Scratch, &mut asm).ok()?;
    Some(asm.finish().expect("every label is placed"))
}
