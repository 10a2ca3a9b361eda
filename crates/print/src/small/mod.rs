//! Protocols that are printed in one short line.

pub(crate) mod dhcp;
pub(crate) mod eapol;
pub(crate) mod lldp;
pub(crate) mod loopback;
pub(crate) mod mpls;
pub(crate) mod ntp;
pub(crate) mod overlay;
pub(crate) mod stp;
