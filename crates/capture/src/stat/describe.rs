//! How statistics are counted, in words.

use std::fmt;

use ringtap_sys::bpf::Features;

use super::StatOptions;
use crate::hook::{Attached, Hook, HookDevice, Place};
use crate::{LinkType, Mode};

const TAGS_TAKEN_OUT: &str = "the driver takes VLAN tags out of packets before XDP sees them: \
     tagged packets are counted as if untagged (keep tags in: ethtool -K DEV rxvlan off)";

/// Where and how the filters count, with the reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatDescription {
    /// The device.
    pub device: String,
    /// What its packets begin with.
    pub link_type: LinkType,
    /// The hooks, received packets first.
    pub places: Vec<Place>,
    /// Whether packets go on to the host.
    pub mode: Mode,
    /// What is not as one might expect: hooks that were passed over, packets that are not seen,
    /// what the program takes from the host.
    pub notes: Vec<String>,
    /// What is not counted, or not as it was on the wire.
    pub blind: Vec<&'static str>,
    /// The kernel's release.
    pub kernel: String,
}

impl StatDescription {
    pub(super) fn new(
        device: &HookDevice,
        attached: &Attached,
        options: &StatOptions,
        features: &Features,
    ) -> Self {
        let places: Vec<Place> = attached.hooks.iter().map(Hook::place).collect();
        let mut notes: Vec<String> = attached
            .passed_over
            .iter()
            .map(ToString::to_string)
            .collect();
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
        if places.iter().any(|place| matches!(place, Place::Clsact(_))) {
            blind.push("packets that a filter in front of ours took");
        }
        Self {
            device: device.name.clone(),
            link_type: device.link_type,
            places,
            mode: options.mode,
            notes,
            blind,
            kernel: features.kernel_release().to_owned(),
        }
    }

    /// The hooks in one line, such as `tcx ingress and tcx egress`.
    #[must_use]
    pub fn hooks(&self) -> String {
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
        writeln!(f, "memory:         counters only, shared with the kernel")?;
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
