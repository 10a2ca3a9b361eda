//! Describes in words how statistics are counted.

use std::fmt;

use super::StatOptions;
use crate::hook::{Attached, Hook, HookDevice, HookPoint};
use crate::{Description, Error, LinkType, Mode};

const TAGS_TAKEN_OUT: &str = "the driver takes VLAN tags out of packets before XDP sees them: \
     tagged packets are counted as if untagged (keep tags in: ethtool -K DEV rxvlan off rx-vlan-stag-hw-parse off)";

const COPIED: &str = "every packet is copied to this process, which counts; packets that arrive too fast \
     are counted as lost";

/// Where and how the filters count, with the reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatDescription {
    /// The device.
    pub device: String,
    /// The link type of its packets.
    pub link_type: LinkType,
    /// The hooks, received packets first. Empty if a packet socket counts.
    pub places: Vec<HookPoint>,
    /// Whether dropped packets are counted, by reason.
    pub counts_drops: bool,
    /// Whether packets also go on to the host.
    pub mode: Mode,
    /// Unexpected facts: hooks that were passed over, packets that are not seen, packets that the program
    /// takes from the host.
    pub notes: Vec<String>,
    /// Packets that are not counted, or not as on the wire.
    pub blind: Vec<&'static str>,
    /// The kernel's release.
    pub kernel: String,
}

impl StatDescription {
    pub(super) fn new(device: &HookDevice, attached: &Attached, options: &StatOptions) -> Self {
        let places: Vec<HookPoint> = attached.hooks.iter().map(Hook::place).collect();
        let mut notes = attached.passed_over_texts();
        notes.extend(
            attached
                .uncovered
                .map(|what| format!("does not see {what}")),
        );
        let hazards = attached.hazards.iter();
        notes.extend(hazards.map(|hazard| format!("stealing although {hazard}")));
        let lost = device.takes_tags && device.tag_restorer.is_none();
        if lost && places.iter().any(|place| place.is_xdp()) {
            notes.push(TAGS_TAKEN_OUT.to_owned());
        }
        if !device.is_up {
            notes.push("the interface is down".to_owned());
        }
        let mut blind = Vec::new();
        if places.iter().any(|place| !place.is_xdp()) {
            blind.push("packets that an XDP program took before");
            blind.push(
                "segments before receive offload joined them, or after send offload divides them",
            );
        }
        if places
            .iter()
            .any(|place| matches!(place, HookPoint::Clsact(_)))
        {
            blind.push("packets that an earlier filter took");
        }
        Self {
            places,
            mode: options.mode,
            notes,
            blind,
            ..Self::plain(&device.name, device.link_type)
        }
    }

    /// Returns the description of counting by a packet socket, with the reason, unless it was requested.
    pub(super) fn of_socket(
        device: &HookDevice,
        socket: &Description,
        reason: Option<&Error>,
    ) -> Self {
        let reason = reason.map(|reason| format!("not at a hook: {reason}"));
        Self {
            notes: reason.into_iter().chain([COPIED.to_owned()]).collect(),
            blind: socket.blind.clone(),
            ..Self::plain(&device.name, device.link_type)
        }
    }

    /// Returns the description of counting dropped packets.
    pub(super) fn of_drops(device: &str) -> Self {
        Self {
            counts_drops: true,
            blind: vec!["packets that adapter, driver or XDP in the driver drop"],
            ..Self::plain(device, LinkType::LINUX_SLL2)
        }
    }

    /// Returns the description of copying without hooks and notes.
    fn plain(device: &str, link_type: LinkType) -> Self {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            device: device.to_owned(),
            link_type,
            places: Vec::new(),
            counts_drops: false,
            mode: Mode::Copy,
            notes: Vec::new(),
            blind: Vec::new(),
            kernel: release.trim().to_owned(),
        }
    }

    /// Returns whether the kernel counts, at hooks; otherwise this process does, with a packet socket.
    #[must_use]
    pub fn is_in_kernel(&self) -> bool {
        self.counts_drops || !self.places.is_empty()
    }

    /// Returns the hooks in one line, such as `tcx ingress and tcx egress`, or `packet socket`.
    #[must_use]
    pub fn hooks(&self) -> String {
        if self.counts_drops {
            return "tracepoint kfree_skb".to_owned();
        }
        if !self.is_in_kernel() {
            return "packet socket".to_owned();
        }
        let names: Vec<String> = self.places.iter().map(ToString::to_string).collect();
        names.join(" and ")
    }
}

impl fmt::Display for StatDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "device:         {}", self.device)?;
        writeln!(f, "link type:      {}", self.link_type)?;
        writeln!(f, "hook:           {}", self.hooks())?;
        let mode = match self.mode {
            Mode::Copy => "copy (packets go on to the host)",
            Mode::Steal => "steal (packets that a filter accepts end here)",
        };
        writeln!(f, "mode:           {mode}")?;
        let memory = match self.is_in_kernel() {
            true => "counters only, shared with the kernel",
            false => "counters, and a ring of packets that wait to be counted",
        };
        writeln!(f, "memory:         {memory}")?;
        writeln!(f, "kernel:         {}", self.kernel)?;
        for blind in &self.blind {
            writeln!(f, "cannot see:     {blind}")?;
        }
        for note in &self.notes {
            writeln!(f, "note:           {note}")?;
        }
        Ok(())
    }
}
