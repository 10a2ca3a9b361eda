#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod build;
mod checksum;
mod layers;
mod rewrite;

pub use build::{BuildError, Built};
pub use rewrite::{Mac, Rule, RuleError, apply};

/// Computes the checksums of IPv4, TCP, UDP, ICMP, ICMPv6 and SCTP in an Ethernet frame again.
/// Returns false if the transport's cannot be computed: the packet is a fragment, was not captured
/// completely, states a length beyond its end, or has a routing header of a type other than 0, 2
/// and 4.
pub fn fix_checksums(frame: &mut [u8]) -> bool {
    let network = layers::find(frame);
    checksum::fix(frame, network.as_ref())
}
