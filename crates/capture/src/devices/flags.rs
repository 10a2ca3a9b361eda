//! The flags of an interface (`IFF_…`, `include/uapi/linux/if.h`).

/// The flags of an interface, as the kernel stores them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u32);

/// Names by bit number, as netdevice(7) has them.
const NAMES: [&str; 19] = [
    "up",
    "broadcast",
    "debug",
    "loopback",
    "point-to-point",
    "no-trailers",
    "running",
    "no-arp",
    "promiscuous",
    "all-multicast",
    "master",
    "slave",
    "multicast",
    "port-select",
    "auto-media",
    "dynamic",
    "lower-up",
    "dormant",
    "echo",
];

impl Flags {
    /// Returns whether the administrator has enabled it.
    #[must_use]
    pub fn is_up(self) -> bool {
        self.0 & 1 != 0
    }

    /// Returns whether it is the loopback interface.
    #[must_use]
    pub fn is_loopback(self) -> bool {
        self.0 & 1 << 3 != 0
    }

    /// Returns whether it is up and able to carry frames.
    #[must_use]
    pub fn is_running(self) -> bool {
        self.0 & 1 << 6 != 0
    }

    /// Promiscuous mode: receives every frame, whatever its destination. The kernel sets it only for an
    /// administrator's request; captures appear in [`DeviceInfo::promiscuity`](super::DeviceInfo).
    #[must_use]
    pub fn is_promiscuous(self) -> bool {
        self.0 & 1 << 8 != 0
    }

    /// Returns the names of the set flags, by bit.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let set = NAMES
            .into_iter()
            .enumerate()
            .filter(move |(bit, _)| self.0 >> bit & 1 != 0);
        set.map(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_names() {
        let flags = Flags(0x1_0049);
        assert!(flags.is_up() && flags.is_loopback() && flags.is_running());
        assert!(!flags.is_promiscuous() && Flags(0x100).is_promiscuous());
        let names: Vec<_> = flags.names().collect();
        assert_eq!(names, ["up", "loopback", "running", "lower-up"]);
        assert_eq!(Flags(u32::MAX).names().count(), NAMES.len());
    }
}
