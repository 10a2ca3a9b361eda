//! Protocols of one link: what switches and stations tell their neighbours.

pub(crate) mod aoe;
pub(crate) mod cdp;
pub(crate) mod cfm;
pub(crate) mod cisco;
pub(crate) mod slow;
