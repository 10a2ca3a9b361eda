//! Where the headers of a packet are.
//!
//! What goes in is hostile: each length field may lie, each header may be cut off. What is read was
//! captured. Every walk is bounded, so that a packet that nests without end has no IP.

pub mod ip;
pub mod link;
pub mod tunnel;
