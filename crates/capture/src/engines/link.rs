//! From the kernel's hardware types (`ARPHRD_*`, linux/if_arp.h) to link types.

use ringtap_packet::LinkType;
use ringtap_sys::packet::LinkLayer;

/// `ARPHRD_LOOPBACK`.
pub(in crate::engines) const LOOPBACK: u16 = 772;

/// Returns the link type for an interface of this hardware type, and how the ring delivers its packets.
///
/// Some hardware types are captured in cooked form: the kernel does not show their link-layer header
/// unchanged, shows it only sometimes, or they have no link type.
pub(in crate::engines) fn link_of(hardware_type: u16) -> (LinkType, LinkLayer) {
    let native = match hardware_type {
        // ARPHRD_ETHER, ARPHRD_METRICOM, ARPHRD_LOOPBACK: tags can be put back.
        1 | 23 | LOOPBACK => return (LinkType::ETHERNET, LinkLayer::Ethernet),
        // ARPHRD_NETLINK
        824 => return (LinkType::NETLINK, LinkLayer::Netlink),
        // ARPHRD_IEEE802, ARPHRD_IEEE802_TR
        6 | 800 => LinkType::IEEE802_5,
        // ARPHRD_ARCNET
        7 => LinkType::ARCNET_LINUX,
        // ARPHRD_CAN
        280 => LinkType::CAN_SOCKETCAN,
        // ARPHRD_CISCO, which is ARPHRD_HDLC
        513 => LinkType::C_HDLC,
        // ARPHRD_TUNNEL, ARPHRD_TUNNEL6, ARPHRD_SIT, ARPHRD_RAWIP, ARPHRD_NONE: IP at once
        768 | 769 | 776 | 519 | 0xfffe => LinkType::RAW,
        // ARPHRD_FRAD
        770 => LinkType::FRELAY,
        // ARPHRD_LOCALTLK
        773 => LinkType::LTALK,
        // ARPHRD_FDDI
        774 => LinkType::FDDI,
        // ARPHRD_IEEE80211, ARPHRD_IEEE80211_PRISM, ARPHRD_IEEE80211_RADIOTAP
        801 => LinkType::IEEE802_11,
        802 => LinkType::IEEE802_11_PRISM,
        803 => LinkType::IEEE802_11_RADIOTAP,
        // ARPHRD_IEEE802154: without frame check sequence
        804 => LinkType::IEEE802_15_4_NOFCS,
        // ARPHRD_VSOCKMON
        826 => LinkType::VSOCK,
        _ => return cooked(),
    };
    (native, LinkLayer::Native)
}

/// Returns cooked v2: the form of the device `any` and of unknown hardware types.
pub(in crate::engines) const fn cooked() -> (LinkType, LinkLayer) {
    (LinkType::LINUX_SLL2, LinkLayer::CookedV2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_interfaces_have_their_link_types() {
        assert_eq!(link_of(1), (LinkType::ETHERNET, LinkLayer::Ethernet));
        assert_eq!(link_of(LOOPBACK), (LinkType::ETHERNET, LinkLayer::Ethernet));
        assert_eq!(link_of(0xfffe), (LinkType::RAW, LinkLayer::Native));
        assert_eq!(
            link_of(803),
            (LinkType::IEEE802_11_RADIOTAP, LinkLayer::Native)
        );
        assert_eq!(link_of(824), (LinkType::NETLINK, LinkLayer::Netlink));
        // ARPHRD_PPP and ARPHRD_IPGRE have no reliable header; 65535 is ARPHRD_VOID.
        for hardware_type in [512, 778, 65_535] {
            assert_eq!(link_of(hardware_type), cooked());
        }
    }
}
