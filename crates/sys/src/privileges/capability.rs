//! Capabilities and sets of them.

use std::fmt;
use std::ops::BitOr;

/// A capability by its number (`include/uapi/linux/capability.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability(pub(super) u8);

impl Capability {
    /// Change the owners of files.
    pub const CHOWN: Self = Self(0);
    /// Bypass file permissions.
    pub const DAC_OVERRIDE: Self = Self(1);
    /// Bypass permissions to read files and to search folders.
    pub const DAC_READ_SEARCH: Self = Self(2);
    /// Bypass checks for the owner of a file.
    pub const FOWNER: Self = Self(3);
    /// Change group identities.
    pub const SETGID: Self = Self(6);
    /// Change user identities.
    pub const SETUID: Self = Self(7);
    /// Remove capabilities from the bounding set.
    pub const SETPCAP: Self = Self(8);
    /// Configure interfaces, promiscuous mode, XDP and tcx programs.
    pub const NET_ADMIN: Self = Self(12);
    /// Open packet sockets.
    pub const NET_RAW: Self = Self(13);
    /// Lock memory beyond the limit.
    pub const IPC_LOCK: Self = Self(14);
    /// Examine processes of others.
    pub const SYS_PTRACE: Self = Self(19);
    /// Enter and make namespaces, mount, and much else.
    pub const SYS_ADMIN: Self = Self(21);
    /// Real-time priority.
    pub const SYS_NICE: Self = Self(23);
    /// Read kernel addresses and trace by BPF (Linux ≥ 5.8).
    pub const PERFMON: Self = Self(38);
    /// Leases on files of others.
    pub const LEASE: Self = Self(28);
    /// Load BPF programs (Linux ≥ 5.8).
    pub const BPF: Self = Self(39);

    /// Returns the name as in the manual, such as `CAP_NET_RAW`; `CAP_41` for a number without a
    /// name here.
    #[must_use]
    pub fn name(self) -> String {
        let known = match self {
            Self::CHOWN => "CHOWN",
            Self::DAC_OVERRIDE => "DAC_OVERRIDE",
            Self::DAC_READ_SEARCH => "DAC_READ_SEARCH",
            Self::FOWNER => "FOWNER",
            Self::LEASE => "LEASE",
            Self::SETGID => "SETGID",
            Self::SETUID => "SETUID",
            Self::SETPCAP => "SETPCAP",
            Self::NET_ADMIN => "NET_ADMIN",
            Self::NET_RAW => "NET_RAW",
            Self::IPC_LOCK => "IPC_LOCK",
            Self::SYS_PTRACE => "SYS_PTRACE",
            Self::SYS_ADMIN => "SYS_ADMIN",
            Self::SYS_NICE => "SYS_NICE",
            Self::PERFMON => "PERFMON",
            Self::BPF => "BPF",
            Self(number) => return format!("CAP_{number}"),
        };
        format!("CAP_{known}")
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.name())
    }
}

/// A set of capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapabilitySet(pub(super) u64);

impl CapabilitySet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// Returns whether the set holds a capability.
    #[must_use]
    pub fn contains(self, capability: Capability) -> bool {
        self.0 >> capability.0 & 1 != 0
    }

    /// Returns the capabilities of the set.
    pub fn iter(self) -> impl Iterator<Item = Capability> {
        (0..64)
            .map(Capability)
            .filter(move |&one| self.contains(one))
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl From<&[Capability]> for CapabilitySet {
    fn from(list: &[Capability]) -> Self {
        list.iter()
            .fold(Self::EMPTY, |set, capability| set | Self(1 << capability.0))
    }
}

impl BitOr for CapabilitySet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Writes the names with commas between them; `none` for the empty set.
impl fmt::Display for CapabilitySet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return out.pad("none");
        }
        let names: Vec<String> = self.iter().map(Capability::name).collect();
        out.pad(&names.join(", "))
    }
}
