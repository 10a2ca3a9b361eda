//! Compiles expressions to programs: `pcap_compile`.

use std::ffi::{c_int, c_uint};
use std::net::Ipv4Addr;

use ringtap_capture::{Error, Filter, LinkType};
use ringtap_filter::Program;

use crate::boundary::export;
use crate::handle::{Kind, Opened, Pcap};
use crate::text::CText;
use crate::types::{BpfProgram, NETMASK_UNKNOWN, code};
use crate::{memory, messages};

/// The link type and the origin of the packets to filter.
struct Target<'a> {
    link_type: c_int,
    snaplen: c_int,
    kind: &'a Kind,
}

fn compile(
    target: &Target<'_>,
    expression: &str,
    optimize: bool,
    netmask: u32,
) -> Result<Program, String> {
    let mut filter = Filter::new(expression).with_optimizer(optimize);
    if netmask != NETMASK_UNKNOWN {
        filter = filter.with_netmask(Ipv4Addr::from(netmask));
    }
    let unknown = || format!("unknown data link type {}", target.link_type);
    let link_type = u32::try_from(target.link_type)
        .ok()
        .and_then(LinkType::from_dlt);
    let link_type = link_type.ok_or_else(unknown)?;
    let snaplen = u32::try_from(target.snaplen).unwrap_or(0);
    let compiled = match target.kind {
        Kind::Offline(file) => filter.compile_for_file(link_type, file.byte_order, snaplen),
        Kind::Live(_) | Kind::Dead => filter.compile(link_type, snaplen),
    };
    compiled.map_err(|error| match error {
        Error::Filter { error, .. } => messages::of_filter(&error),
        other => other.to_string(),
    })
}

/// Gives C a copy of a program.
fn hand_over(program: &Program, to: &mut BpfProgram) -> Result<(), String> {
    let insns = program.insns();
    let copy = memory::array(insns).ok_or("malloc: Cannot allocate memory")?;
    *to = BpfProgram {
        bf_len: c_uint::try_from(insns.len()).unwrap_or(0),
        bf_insns: copy,
    };
    Ok(())
}

/// Returns the expression; invalid UTF-8 in it is a syntax error later.
fn expression(text: CText<'_>) -> String {
    String::from_utf8_lossy(text.bytes()).into_owned()
}

export! {
    /// Compiles an expression for the handle's packets.
    fn pcap_compile(
        handle: Option<&Pcap>,
        program: Option<&mut BpfProgram>,
        text: CText<'_>,
        optimize: c_int,
        netmask: u32,
    ) -> c_int {
        let (Some(handle), Some(program)) = (handle, program) else {
            return code::ERROR;
        };
        let Some(Opened { snapshot, kind, .. }) = handle.opened.get() else {
            return handle.fail("not-yet-activated pcap_t passed to pcap_compile");
        };
        if *snapshot == 0 {
            return handle.fail("snaplen of 0 rejects all packets");
        }
        let target = Target { link_type: handle.dlt(), snaplen: *snapshot, kind };
        let compiled = compile(&target, &expression(text), optimize != 0, netmask);
        handle.answer(compiled.and_then(|compiled| hand_over(&compiled, program)))
    } else code::ERROR;

    /// Compiles an expression without a handle.
    fn pcap_compile_nopcap(
        snaplen: c_int,
        link_type: c_int,
        program: Option<&mut BpfProgram>,
        text: CText<'_>,
        optimize: c_int,
        netmask: u32,
    ) -> c_int {
        let Some(program) = program else { return code::ERROR };
        let target = Target { link_type, snaplen, kind: &Kind::Dead };
        let compiled = compile(&target, &expression(text), optimize != 0, netmask);
        match compiled.and_then(|compiled| hand_over(&compiled, program)) {
            Ok(()) => 0,
            Err(_) => code::ERROR,
        }
    } else code::ERROR;
}
