//! The running kernel's structures and drop reasons, by its own types (BTF).

use std::collections::BTreeMap;
use std::sync::OnceLock;

use ringtap_sys::bpf::{Feature, KernelTypes};

use crate::engines::tap::program::drops::{Field, Layout, PacketLayout, Reasons, STRUCTURE_MAX};

/// The tracepoint.
const TRACEPOINT: &str = "kfree_skb";
/// The number of its arguments from which on a reason is among them.
const WITH_REASON: usize = 3;
/// The enumeration of reasons, the prefix of their names, and constants that are none.
const ENUMERATION: &str = "skb_drop_reason";
const PREFIX: &str = "SKB_DROP_REASON_";
const NOT_REASONS: [&str; 2] = ["MAX", "SUBSYS_"];
/// Constants that mean that the packet was not dropped.
const NO_DROPS: [&str; 2] = ["SKB_NOT_DROPPED_YET", "SKB_CONSUMED"];
/// The reason for a full queue of a processor.
const BACKLOG: &str = "SKB_DROP_REASON_CPU_BACKLOG";
/// Enumerations of subsystems, whose numbers have the subsystem's in the upper half.
const SUBSYSTEMS: [&str; 2] = ["mac80211_drop_reason", "ovs_drop_reason"];

/// The facts about the kernel that programs and readers need.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(in crate::engines::tap) layout: Layout,
    pub(in crate::engines::tap) reasons: Reasons,
    /// The tracepoint's type.
    pub(in crate::engines::tap) tracepoint: u32,
    /// The names of reasons, without the prefix.
    pub(crate) names: BTreeMap<u32, String>,
}

impl Facts {
    /// Returns those of the running kernel, or the feature that it lacks; determined once.
    pub(crate) fn of_kernel() -> Result<&'static Self, Feature> {
        static FOUND: OnceLock<Result<Facts, Feature>> = OnceLock::new();
        let found = FOUND.get_or_init(|| {
            let types = KernelTypes::read().ok().flatten();
            Self::find(&types.ok_or(Feature::KernelTypes)?)
        });
        found.as_ref().map_err(|feature| *feature)
    }

    fn find(types: &KernelTypes) -> Result<Self, Feature> {
        let arguments = types.tracepoint_arguments(TRACEPOINT).unwrap_or_default();
        let constants = types.enumeration(ENUMERATION);
        let constants = constants.filter(|_| arguments >= WITH_REASON);
        let constants = constants.ok_or(Feature::DropReasons)?;
        let value = |name: &str| {
            constants
                .iter()
                .find(|(one, _)| one == name)
                .map(|one| one.1)
        };
        let reasons = Reasons {
            none: NO_DROPS.iter().filter_map(|name| value(name)).collect(),
            backlog: value(BACKLOG),
        };
        Ok(Self {
            layout: layout(types).ok_or(Feature::KernelTypes)?,
            names: names(types, &constants, &reasons.none),
            tracepoint: types.tracepoint(TRACEPOINT).ok_or(Feature::DropReasons)?,
            reasons,
        })
    }
}

/// Returns the names of all reasons that are drops.
fn names(types: &KernelTypes, constants: &[(String, u32)], none: &[u32]) -> BTreeMap<u32, String> {
    let mut names = BTreeMap::new();
    for (name, value) in constants {
        let Some(name) = name.strip_prefix(PREFIX) else {
            continue;
        };
        if !NOT_REASONS.iter().any(|other| name.starts_with(other)) && !none.contains(value) {
            names.insert(*value, name.to_owned());
        }
    }
    for subsystem in SUBSYSTEMS {
        let constants = types.enumeration(subsystem).unwrap_or_default().into_iter();
        names.extend(constants.map(|(name, value)| (value, name)));
    }
    names
}

/// Returns `None` if a structure has another form than all known kernels.
fn layout(types: &KernelTypes) -> Option<Layout> {
    let at = |structure: &str, member: &str| {
        let offset = types.member(structure, member)?;
        i32::try_from(offset).ok()
    };
    Some(Layout {
        packet: packet_layout(types)?,
        ifindex: at("net_device", "ifindex")?,
        hardware_type: at("net_device", "type")?,
        device_net: at("net_device", "nd_net")?,
        route_device: at("dst_entry", "dev")?,
        passes_socket: types.tracepoint_arguments(TRACEPOINT)? > WITH_REASON,
        socket_net: at("sock", "__sk_common")?.checked_add(at("sock_common", "skc_net")?)?,
        inode: at("net", "ns")?.checked_add(at("ns_common", "inum")?)?,
    })
}

fn packet_layout(types: &KernelTypes) -> Option<PacketLayout> {
    const NAME: &str = "sk_buff";
    let mut end = 0;
    let mut reach = |offset: i16, bytes: i16| {
        end = offset.checked_add(bytes)?.max(end);
        Some(offset)
    };
    let mut at =
        |member: &str, bytes: i16| reach(i16::try_from(types.member(NAME, member)?).ok()?, bytes);
    let mut layout = PacketLayout {
        bytes: 0,
        dev: at("dev", 8)?,
        sk: at("sk", 8)?,
        route: at("_skb_refdst", 8)?,
        len: at("len", 4)?,
        data_len: at("data_len", 4)?,
        skb_iif: at("skb_iif", 4)?,
        protocol: at("protocol", 2)?,
        network_header: at("network_header", 2)?,
        mac_header: at("mac_header", 2)?,
        head: at("head", 8)?,
        data: at("data", 8)?,
        vlan_proto: at("vlan_proto", 2)?,
        vlan_tci: at("vlan_tci", 2)?,
        packet_type: field(types, NAME, "pkt_type")?,
        vlan_present: field(types, NAME, "vlan_present"),
    };
    let fields = [Some(layout.packet_type), layout.vlan_present];
    for field in fields.into_iter().flatten() {
        reach(field.byte, 1)?;
    }
    layout.bytes = end;
    (end <= STRUCTURE_MAX).then_some(layout)
}

/// Returns a bit field that lies in one byte.
fn field(types: &KernelTypes, structure: &str, member: &str) -> Option<Field> {
    let bits = types.bits(structure, member)?;
    let (width, first) = (bits.width?, bits.offset % 8);
    let after = 8_u32.checked_sub(first.checked_add(width)?)?;
    let shift = if cfg!(target_endian = "little") {
        first
    } else {
        after
    };
    Some(Field {
        byte: i16::try_from(bits.offset / 8).ok()?,
        shift: shift.cast_signed(),
        mask: (1 << width) - 1,
    })
}
