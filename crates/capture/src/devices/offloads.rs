//! Reports which features of a driver make a capture differ from the wire, and how.
//!
//! Source: `Documentation/networking/segmentation-offloads.rst`, `checksum-offloads.rst`,
//! `netdev-features.rst` of the kernel; names from `net/ethtool/common.c` as `ethtool -k` shows
//! them.

use super::DeviceInfo;
use ringtap_sys::netlink::Name;

/// The effect of a group of features on a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Received packets of one flow are merged before the capture sees them.
    ReceivedMerged,
    /// Sent packets are seen before they are cut into segments.
    SentUncut,
    /// Sent packets are seen before their checksums are filled in.
    SentUnchecked,
    /// The VLAN tag of received packets is taken out by the adapter.
    ReceivedUntagged,
    /// The VLAN tag of sent packets is put in by the adapter.
    SentUntagged,
    /// Packets of VLANs that nobody uses are dropped by the adapter.
    VlanFiltered,
    /// Received packets carry their frame check sequence at the end.
    CheckSequenceKept,
    /// Damaged packets are received.
    DamagedReceived,
    /// Packets of some flows are forwarded by the adapter.
    Bypassed,
    /// Packets are encrypted and decrypted by the adapter.
    Encrypted,
}

impl Effect {
    /// Returns one clause with the effect on a capture.
    #[must_use]
    pub fn clause(self) -> &'static str {
        match self {
            Self::ReceivedMerged => {
                "received packets of a flow are merged into larger ones than were on the wire"
            }
            Self::SentUncut => "sent packets are captured before they are cut into segments",
            Self::SentUnchecked => "sent packets are captured with checksums not yet computed",
            Self::ReceivedUntagged => {
                "the adapter takes VLAN tags out of received packets; ringtap puts them back"
            }
            Self::SentUntagged => {
                "the adapter puts VLAN tags into sent packets; ringtap shows them"
            }
            Self::VlanFiltered => {
                "the adapter drops packets of VLANs not in use, unless promiscuous"
            }
            Self::CheckSequenceKept => "received packets end with their frame check sequence",
            Self::DamagedReceived => "packets with a wrong frame check sequence are captured too",
            Self::Bypassed => "packets that the adapter forwards by itself are not captured",
            Self::Encrypted => "packets are captured before encryption and after decryption",
        }
    }

    /// Returns whether ringtap undoes it, so that the capture equals the wire.
    #[must_use]
    pub fn is_undone(self) -> bool {
        matches!(self, Self::ReceivedUntagged | Self::SentUntagged)
    }
}

/// Feature names and effects, the most serious first. A name that ends in `*` stands for all names with that
/// beginning.
const EFFECTS: [(&str, Effect); 24] = [
    ("rx-gro", Effect::ReceivedMerged),
    ("rx-gro-hw", Effect::ReceivedMerged),
    ("rx-gro-list", Effect::ReceivedMerged),
    ("rx-lro", Effect::ReceivedMerged),
    ("rx-udp-gro-forwarding", Effect::ReceivedMerged),
    ("tx-generic-segmentation", Effect::SentUncut),
    ("tx-gso-*", Effect::SentUncut),
    ("tx-tcp*", Effect::SentUncut),
    ("tx-udp-segmentation", Effect::SentUncut),
    ("tx-sctp-segmentation", Effect::SentUncut),
    ("tx-checksum-*", Effect::SentUnchecked),
    ("rx-vlan-hw-parse", Effect::ReceivedUntagged),
    ("rx-vlan-stag-hw-parse", Effect::ReceivedUntagged),
    ("tx-vlan-hw-insert", Effect::SentUntagged),
    ("tx-vlan-stag-hw-insert", Effect::SentUntagged),
    ("rx-vlan-filter", Effect::VlanFiltered),
    ("rx-vlan-stag-filter", Effect::VlanFiltered),
    ("rx-fcs", Effect::CheckSequenceKept),
    ("rx-all", Effect::DamagedReceived),
    ("hw-tc-offload", Effect::Bypassed),
    ("l2-fwd-offload", Effect::Bypassed),
    ("esp-hw-offload", Effect::Encrypted),
    ("tls-hw-*", Effect::Encrypted),
    ("macsec-hw-offload", Effect::Encrypted),
];

/// Feature names that a pattern with `*` includes although they do not affect a capture: they allow a
/// checksum or a segment form inside tunnels, or keep the IP identifier.
const HARMLESS: [&str; 3] = [
    "tx-gso-robust",
    "tx-gso-partial",
    "tx-tcp-mangleid-segmentation",
];

/// Enabled features with the same effect on a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveOffload {
    /// Their effect.
    pub effect: Effect,
    /// Their names, in the kernel's order.
    pub features: Vec<Name>,
}

impl DeviceInfo {
    /// Returns the enabled features that make a capture differ from the wire, one entry for each effect, the
    /// most serious first.
    #[must_use]
    pub fn active_offloads(&self) -> Vec<ActiveOffload> {
        let mut offloads: Vec<ActiveOffload> = Vec::new();
        for (pattern, effect) in EFFECTS {
            let on = self.features.iter().filter(|feature| feature.active);
            for feature in on.filter(|feature| matches(pattern, feature.name.as_bytes())) {
                let known = offloads.iter_mut().find(|offload| offload.effect == effect);
                match known {
                    Some(offload) => offload.features.push(feature.name.clone()),
                    None => offloads.push(ActiveOffload {
                        effect,
                        features: vec![feature.name.clone()],
                    }),
                }
            }
        }
        offloads
    }
}

fn matches(pattern: &str, name: &[u8]) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => {
            name.starts_with(beginning.as_bytes())
                && HARMLESS.iter().all(|harmless| harmless.as_bytes() != name)
        }
        None => name == pattern.as_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_families_and_nothing_harmless() {
        assert!(matches("rx-gro", b"rx-gro"));
        assert!(!matches("rx-gro", b"rx-gro-hw"));
        assert!(matches("tx-tcp*", b"tx-tcp6-segmentation"));
        assert!(!matches("tx-tcp*", b"tx-tcp-mangleid-segmentation"));
        assert!(!matches("tx-gso-*", b"tx-gso-robust"));
        assert!(!matches("tx-gso-*", b"tx-gs\xff"));
    }

    #[test]
    fn only_tags_are_undone() {
        let undone = EFFECTS.iter().filter(|(_, effect)| effect.is_undone());
        assert!(undone.clone().all(|(name, _)| name.contains("vlan")));
        assert_eq!(undone.count(), 4);
    }
}
