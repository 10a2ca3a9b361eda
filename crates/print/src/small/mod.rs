//! Protocols that get one short line and no more.

pub(crate) mod dhcp;
pub(crate) mod eapol;
pub(crate) mod lldp;
pub(crate) mod loopback;
pub(crate) mod mpls;
pub(crate) mod ntp;
pub(crate) mod overlay;
pub(crate) mod stp;
