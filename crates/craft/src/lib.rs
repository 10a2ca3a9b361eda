//! Packets built from a description, and packets changed.
//!
//! What it is: text in, frames out ([`Built`]), and rules applied to frames in place ([`apply`],
//! [`fix_checksums`]). What it is not: it sends and receives nothing; of files it reads descriptions
//! only.
//!
//! ```
//! let built: ringtap_craft::Built = "eth/ipv4(dst=10.0.0.2)/udp(dport=53)/\"text\"".parse()?;
//! let mut frame = built.0[0].clone();
//! ringtap_craft::apply(&["port.dst=53->5353".parse()?], &mut frame);
//! assert_eq!(frame[36..38], 5353_u16.to_be_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod build;
mod checksum;
mod layers;
mod rewrite;

pub use build::{BuildError, Built};
pub use rewrite::{Mac, Rule, RuleError, apply};

/// Computes the checksums of IPv4, TCP, UDP, ICMP, ICMPv6 and SCTP in an Ethernet frame anew. False
/// where the transport's cannot be: the packet is a fragment or was not captured whole, it says that it
/// is longer than it is, or it goes on by a routing header of a type other than 0, 2 and 4.
pub fn fix_checksums(frame: &mut [u8]) -> bool {
    let network = layers::find(frame);
    checksum::fix(frame, network.as_ref())
}
