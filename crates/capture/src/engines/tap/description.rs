//! The description of a tap: engine, hook, clock, memory, and the packets that it does not see.

use std::time::Duration;

use ringtap_sys::bpf;
use ringtap_sys::privileges::Capability;
use ringtap_sys::receive_stamps::ReceiveStamps;

use super::TapSource;
use crate::describe::{self, Memory};
use crate::hook::{self, Hook, HookPoint};
use crate::options::{Direction, Mode};
use crate::{Description, LinkType};

/// Returns how the capture works.
pub(super) fn describe(source: &TapSource) -> Description {
    let rings = source.reader.current();
    let hooks = &source.attached.hooks;
    let at_xdp = hooks.iter().any(|hook| hook.place().is_xdp());
    let stolen = source.options.mode == Mode::Steal;
    let link_types = describe::link_types(&source.interfaces);
    let vlan = vlan_tags(source, at_xdp, link_types.first());
    let count = u32::try_from(rings.rings.len()).unwrap_or(u32::MAX);
    Description {
        engine: source.engine,
        choice: source.choice.clone(),
        device: source.device.clone(),
        link_types,
        hook: match source.drops {
            Some(_) => "tracepoint kfree_skb (raw)",
            None => hook_name(hooks, stolen),
        },
        clock: match source.bound.stamps {
            Some(_) => describe::Clock::Adapter(source.kernel_clock),
            None => describe::Clock::Kernel(source.kernel_clock),
        },
        vlan,
        memory: Some(Memory {
            block_size: u32::try_from(rings.geometry().size()).unwrap_or(u32::MAX),
            blocks: count,
            requested: source.options.buffer,
        }),
        snaplen: Some(source.options.snaplen),
        loopback: source.bound.loopback,
        promiscuous: source.options.promiscuous && source.drops.is_none(),
        direction: match source.drops.is_some() || source.is_everywhere() {
            true => source.options.direction,
            false => direction(hooks),
        },
        delivery_bound: Some(if source.options.immediate {
            Duration::from_millis(1)
        } else {
            source.options.timeout
        }),
        filter: source.plan.place(),
        fanout_group: None,
        required_capabilities: required_capabilities(source),
        notes: source.notes.clone(),
        blind: unseen(source, at_xdp),
    }
}

/// The capabilities to enter network namespaces of any process, and to load and attach programs there.
const FOLLOWING: [Capability; 6] = [
    Capability::SYS_ADMIN,
    Capability::SYS_PTRACE,
    Capability::DAC_READ_SEARCH,
    Capability::NET_ADMIN,
    Capability::BPF,
    Capability::PERFMON,
];

fn required_capabilities(source: &TapSource) -> &'static [Capability] {
    if source.is_everywhere() {
        return &FOLLOWING;
    }
    let stamps = source.receive_stamps.as_ref();
    if source.watches_chain() || stamps.is_some_and(ReceiveStamps::must_undo) {
        return &[Capability::NET_ADMIN];
    }
    source.attached.required_capabilities()
}

fn direction(hooks: &[Hook]) -> Direction {
    let is_any = |side: fn(HookPoint) -> bool| hooks.iter().any(|hook| side(hook.place()));
    match (
        is_any(HookPoint::is_ingress),
        is_any(|place| !place.is_ingress()),
    ) {
        (true, true) => Direction::Both,
        (true, false) => Direction::In,
        (false, _) => Direction::Out,
    }
}

fn vlan_tags(source: &TapSource, at_xdp: bool, first: Option<&LinkType>) -> &'static str {
    match (at_xdp, first) {
        (true, _) if source.bound.tags.is_some() => {
            "put back at byte 12 where the driver took them out"
        }
        (true, _) => "as the driver shows them",
        (false, Some(&LinkType::ETHERNET)) => "put back at byte 12 where the kernel took them out",
        (false, Some(&LinkType::LINUX_SLL2)) => "put back where the kernel took them out",
        (false, _) => "as the interface shows them",
    }
}

/// The dropped packets that have no socket buffer, or only bytes in pages.
const UNSEEN_DROPS: [&str; 2] = [
    "packets that adapter, driver or XDP in the driver drop before the kernel has a buffer for them",
    "bytes of dropped packets in pages beside the linear part of their buffer (the length counts them)",
];

/// Returns the packets that do not pass the hooks.
fn unseen(source: &TapSource, at_xdp: bool) -> Vec<&'static str> {
    if source.drops.is_some() {
        return UNSEEN_DROPS.to_vec();
    }
    if at_xdp {
        return vec!["packets that the host sends"];
    }
    let mut unseen = vec![
        "packets that an XDP program took",
        "segments before receive offload joined them, or after send offload divides them",
    ];
    unseen.extend(source.attached.uncovered.map(|uncovered| match uncovered {
        hook::Uncovered::SentOnLoopback => "the second copy of each packet on loopback",
        hook::Uncovered::SentWhileStealing => {
            "packets that the host sends: only received ones can be stolen"
        }
        hook::Uncovered::SentWithoutHook => "packets that the host sends: there is no hook",
    }));
    unseen
}

fn hook_name(hooks: &[Hook], stolen: bool) -> &'static str {
    let is = |wanted: fn(&HookPoint) -> bool| hooks.iter().any(|hook| wanted(&hook.place()));
    let name = |copied, taken| if stolen { taken } else { copied };
    if is(|place| *place == HookPoint::Xdp(bpf::XdpMode::Native)) {
        name(
            "XDP in the driver; packets go on to the host",
            "XDP in the driver; packets end here",
        )
    } else if is(|place| place.is_xdp()) {
        name(
            "generic XDP; packets go on to the host",
            "generic XDP; packets end here",
        )
    } else if is(|place| matches!(place, HookPoint::Clsact(_))) {
        "clsact; packets go on to the host"
    } else {
        name(
            "tcx; packets go on to the host",
            "tcx ingress; packets end here",
        )
    }
}
