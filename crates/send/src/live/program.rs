//! The programs that run on live frames: write the fields that differ, and redirect.

use std::os::fd::{AsFd, AsRawFd};

use ringtap_filter::ebpf::{AluOp, AssembleError, Assembler, Cond, Helper, Insn, Reg, Size, Width};
use ringtap_sys::bpf::Map;

use crate::template::{FIRST_PORT, PORTS, Template};

/// `XDP_DROP`.
const DROP: i32 = 1;
/// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;

/// Offsets in the state that a program keeps between frames, 8 bytes each.
pub(super) mod state {
    pub(crate) const NUMBER: i16 = 0;
    pub(crate) const SIZE: i16 = 8;
    pub(crate) const FLOW: i16 = 16;
    pub(crate) const BYTES: u32 = 24;
}

/// The bytes of a size in the map of sizes, and their content.
pub(super) const SIZE_BYTES: usize = 16;
mod size_entry {
    pub(crate) const SHORTER: i16 = 0;
    pub(crate) const IP_LEN: i16 = 4;
    pub(crate) const UDP_LEN: i16 = 6;
    pub(crate) const IP_SUM: i16 = 8;
    pub(crate) const UDP_SUM: i16 = 12;
}

/// The maps of a program.
#[derive(Debug)]
pub(super) struct Maps {
    pub(super) state: Map,
    pub(super) sizes: Map,
    pub(super) device: Map,
}

/// Returns the map of sizes as bytes.
pub(super) fn sizes(template: &Template) -> Vec<u8> {
    let longest = template.longest();
    let at = template.layout;
    let entry = |size: &crate::template::Sized| {
        let shorter = longest - usize::from(size.len);
        let shorter = u32::try_from(shorter).unwrap_or_default();
        let mut bytes = shorter.to_ne_bytes().to_vec();
        bytes.extend(at.ip_len_of(size.len));
        bytes.extend(at.udp_len_of(size.len));
        bytes.extend(size.ip_sum.to_ne_bytes());
        bytes.extend(size.udp_sum.to_ne_bytes());
        bytes
    };
    template.sizes.iter().flat_map(entry).collect()
}

/// Redirects frames unchanged, and counts them.
pub(super) fn plain(maps: &Maps) -> Result<Vec<u64>, AssembleError> {
    let mut asm = Assembler::new();
    load_value(&maps.state, Reg::R1, &mut asm);
    asm.load(Size::Dw, Reg::R2, Reg::R1, state::NUMBER);
    asm.add64(Reg::R2, 1);
    asm.store(Size::Dw, Reg::R1, state::NUMBER, Reg::R2);
    redirect(&maps.device, &mut asm);
    asm.finish()
}

/// Writes frames of a template, one after the other. The kernel reuses the memory of frames, so all headers
/// are written, whatever a receiver has done to them.
///
/// R6 is the context, then the first word of the packet; R7 the time; R8 the size's entry; R9 the
/// state.
pub(super) fn generating(
    template: &Template,
    maps: &Maps,
    from_tai: u64,
) -> Result<Vec<u64>, AssembleError> {
    let mut asm = Assembler::new();
    let asm = &mut asm;
    let at = template.layout;
    let drop = asm.label();
    asm.mov64(Reg::R6, Reg::R1);
    load_value(&maps.state, Reg::R9, asm);
    choose_size(template, maps, drop, asm);
    write_time(from_tai, asm);
    asm.load(Size::W, Reg::R2, Reg::R6, DATA_END);
    asm.load(Size::W, Reg::R6, Reg::R6, DATA);
    asm.mov64(Reg::R3, Reg::R6);
    asm.add64(Reg::R3, i32::from(offset(at.end())));
    asm.jump_if(Cond::Gt, Width::W64, Reg::R3, Reg::R2, drop);
    write_head(template, asm);
    if template.sizes.len() > 1 {
        for (from, to) in [
            (size_entry::IP_LEN, at.ip_len),
            (size_entry::UDP_LEN, at.udp_len()),
        ] {
            asm.load(Size::H, Reg::R3, Reg::R8, from);
            asm.store(Size::H, Reg::R6, offset(to), Reg::R3);
        }
    }
    write_flow(template, asm);
    write_ip_checksum(template, asm);
    write_number(template, asm);
    write_udp_checksum(template, asm);
    redirect(&maps.device, asm);
    asm.place(drop);
    asm.mov32(Reg::R0, DROP);
    asm.exit();
    asm.finish()
}

/// Puts the entry of the frame's size into R8 and cuts the frame to that size.
fn choose_size(
    template: &Template,
    maps: &Maps,
    drop: ringtap_filter::ebpf::Label,
    asm: &mut Assembler,
) {
    let count = i32::try_from(template.sizes.len()).unwrap_or(1);
    if count == 1 {
        return;
    }
    asm.load(Size::Dw, Reg::R7, Reg::R9, state::SIZE);
    let inside = asm.label();
    asm.jump_if(Cond::Lt, Width::W64, Reg::R7, count, inside);
    asm.mov64(Reg::R7, 0);
    asm.place(inside);
    asm.mov64(Reg::R2, Reg::R7);
    asm.add64(Reg::R2, 1);
    asm.store(Size::Dw, Reg::R9, state::SIZE, Reg::R2);
    asm.alu64(AluOp::Lsh, Reg::R7, SIZE_BYTES.ilog2().cast_signed());
    load_value(&maps.sizes, Reg::R8, asm);
    asm.add64(Reg::R8, Reg::R7);
    let whole = asm.label();
    asm.load(Size::W, Reg::R3, Reg::R8, size_entry::SHORTER);
    asm.jump_if(Cond::Eq, Width::W64, Reg::R3, 0, whole);
    asm.mov64(Reg::R2, 0);
    asm.alu64(AluOp::Sub, Reg::R2, Reg::R3);
    asm.mov64(Reg::R1, Reg::R6);
    asm.call(Helper::XdpAdjustTail);
    asm.jump_if(Cond::Ne, Width::W64, Reg::R0, 0, drop);
    asm.place(whole);
}

/// Puts the time into R7, in network order.
fn write_time(from_tai: u64, asm: &mut Assembler) {
    asm.call(Helper::KtimeGetTaiNs);
    asm.push(Insn::LoadImm64 {
        dst: Reg::R7,
        value: from_tai,
    });
    asm.add64(Reg::R7, Reg::R0);
    asm.from_network(Reg::R7, Size::Dw);
}

/// Writes everything that does not change, up to the number; the fields that change are overwritten later.
fn write_head(template: &Template, asm: &mut Assembler) {
    let at = template.layout;
    let mut frame = template.frame[..at.number()].to_vec();
    let len = template.sizes[0].len;
    frame[at.ip_len..at.ip_len + 2].copy_from_slice(&at.ip_len_of(len));
    frame[at.udp_len()..at.udp_len() + 2].copy_from_slice(&at.udp_len_of(len));
    let (words, rest) = frame.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        asm.push(Insn::LoadImm64 {
            dst: Reg::R3,
            value: u64::from_ne_bytes(*word),
        });
        asm.store(Size::Dw, Reg::R6, offset(index * 8), Reg::R3);
    }
    let (words, _) = rest.as_chunks::<4>();
    for (index, word) in (frame.len() - rest.len()..).step_by(4).zip(words) {
        asm.store_imm(Size::W, Reg::R6, offset(index), i32::from_ne_bytes(*word));
    }
}

/// Writes source address and port of the flow; leaves the address in R1 and the port in R5, as they are in
/// the packet.
fn write_flow(template: &Template, asm: &mut Assembler) {
    if template.flows == 1 {
        return;
    }
    let next = asm.label();
    asm.load(Size::Dw, Reg::R3, Reg::R9, state::FLOW);
    asm.mov64(Reg::R4, Reg::R3);
    asm.add64(Reg::R4, 1);
    let flows = i32::try_from(template.flows).unwrap_or(1);
    asm.jump_if(Cond::Lt, Width::W64, Reg::R4, flows, next);
    asm.mov64(Reg::R4, 0);
    asm.place(next);
    asm.store(Size::Dw, Reg::R9, state::FLOW, Reg::R4);
    asm.mov32(Reg::R1, template.source.cast_signed());
    asm.alu32(AluOp::Add, Reg::R1, Reg::R3);
    asm.from_network(Reg::R1, Size::W);
    asm.store(Size::W, Reg::R6, offset(template.layout.source), Reg::R1);
    asm.mov32(Reg::R5, Reg::R3);
    let ports = i32::try_from(PORTS - 1).unwrap_or_default();
    asm.alu32(AluOp::And, Reg::R5, ports);
    asm.alu32(AluOp::Add, Reg::R5, i32::from(FIRST_PORT));
    asm.from_network(Reg::R5, Size::H);
    asm.store(Size::H, Reg::R6, offset(template.layout.udp), Reg::R5);
}

fn write_ip_checksum(template: &Template, asm: &mut Assembler) {
    let Some(checksum) = template.layout.ip_checksum else {
        return;
    };
    load_sum(template, size_entry::IP_SUM, template.sizes[0].ip_sum, asm);
    if template.flows > 1 {
        asm.add64(Reg::R3, Reg::R1);
    }
    write_folded(checksum, asm);
}

/// Writes number and time, and leaves their sum in R4.
fn write_number(template: &Template, asm: &mut Assembler) {
    asm.load(Size::Dw, Reg::R2, Reg::R9, state::NUMBER);
    asm.mov64(Reg::R4, Reg::R2);
    asm.add64(Reg::R4, 1);
    asm.store(Size::Dw, Reg::R9, state::NUMBER, Reg::R4);
    asm.from_network(Reg::R2, Size::Dw);
    asm.store(Size::Dw, Reg::R6, offset(template.layout.number()), Reg::R2);
    asm.store(Size::Dw, Reg::R6, offset(template.layout.time()), Reg::R7);
    asm.mov64(Reg::R4, 0);
    for word in [Reg::R2, Reg::R7] {
        asm.mov32(Reg::R3, word);
        asm.add64(Reg::R4, Reg::R3);
        asm.alu64(AluOp::Rsh, word, 32);
        asm.add64(Reg::R4, word);
    }
}

fn write_udp_checksum(template: &Template, asm: &mut Assembler) {
    let sum = template.sizes[0].udp_sum;
    load_sum(template, size_entry::UDP_SUM, sum, asm);
    asm.add64(Reg::R3, Reg::R4);
    if template.flows > 1 {
        asm.add64(Reg::R3, Reg::R1);
        asm.add64(Reg::R3, Reg::R5);
    }
    let checksum = template.layout.udp_checksum();
    write_folded(checksum, asm);
    // Zero would mean no checksum.
    let is_set = asm.label();
    asm.jump_if(Cond::Ne, Width::W64, Reg::R3, 0, is_set);
    asm.store_imm(Size::H, Reg::R6, offset(checksum), 0xffff);
    asm.place(is_set);
}

/// Puts the constant part of a sum into R3.
fn load_sum(template: &Template, entry: i16, only: u32, asm: &mut Assembler) {
    if template.sizes.len() > 1 {
        asm.load(Size::W, Reg::R3, Reg::R8, entry);
    } else {
        asm.mov32(Reg::R3, only.cast_signed());
    }
}

/// Folds the sum in R3 (less than 2^48) to 16 bits and writes its complement, which stays in R3. Uses
/// R2.
fn write_folded(to: usize, asm: &mut Assembler) {
    // 2^48 → 2^33 → 2^18 → 2^16 + 3 → 2^16 - 1.
    for _ in 0..4 {
        asm.mov64(Reg::R2, Reg::R3);
        asm.alu64(AluOp::Rsh, Reg::R2, 16);
        asm.alu64(AluOp::And, Reg::R3, 0xffff);
        asm.add64(Reg::R3, Reg::R2);
    }
    asm.alu64(AluOp::Xor, Reg::R3, 0xffff);
    asm.store(Size::H, Reg::R6, offset(to), Reg::R3);
}

/// Puts the address of a map's only value into a register.
fn load_value(map: &Map, dst: Reg, asm: &mut Assembler) {
    let fd = map.as_fd().as_raw_fd();
    asm.push(Insn::LoadMapValue { dst, fd, offset: 0 });
}

fn redirect(device: &Map, asm: &mut Assembler) {
    asm.push(Insn::LoadMap {
        dst: Reg::R1,
        fd: device.as_fd().as_raw_fd(),
    });
    asm.mov32(Reg::R2, 0);
    asm.mov32(Reg::R3, DROP);
    asm.call(Helper::RedirectMap);
    asm.exit();
}

/// Offsets here are below 128.
fn offset(at: usize) -> i16 {
    i16::try_from(at).unwrap_or(i16::MAX)
}
