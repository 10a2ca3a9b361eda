//! Protocols of one link: messages between neighbouring switches and stations.

pub(crate) mod aoe;
pub(crate) mod cdp;
pub(crate) mod cfm;
pub(crate) mod cisco;
pub(crate) mod slow;
