//! Finding packets by an index of their addresses and ports.
//!
//! The module has two halves. [`KeyReader`] extracts the [`Key`]s of a packet, which an index
//! keeps: every address and port that a primitive of the language can find in it. [`need()`] derives
//! a [`Need`] from an expression: the keys that a packet must have to be accepted. If the keys of a
//! run of packets do not meet the need, none of them matches, and the run need not be read.
//!
//! This is correct because both halves use the lowering that makes filter programs. The reader
//! evaluates the same conditions as `host` and `port`, with all addresses and ports in place of
//! one. It does so at each offset to which `vlan`, `mpls`, `pppoes`, `geneve` and `vxlan` move
//! them, as far as the packet has those headers. The need is made of the values that the primitives
//! compare with. Anything uncertain is taken as possible: other primitives need nothing
//! ([`Need::Nothing`]), and a packet with too many nested headers may have any key. If the packet
//! ends before an offset, a program that reads there rejects it, so there is no key. Only the headers of
//! almost all Ethernet frames are read by code of their own, for speed, which tests compare with the conditions.
//!
//! ```
//! use ringtap_filter::search::{Key, KeyReader, Need, need};
//! use ringtap_filter::{CompileOptions, LinkType, Tables};
//!
//! let need = need("tcp and host 10.0.0.1 and port 80", false, &Tables::new())?;
//! let address = Need::Ip4 { address: 0x0a00_0001, mask: u32::MAX };
//! assert_eq!(need, Need::All(vec![address, Need::Port { first: 80, last: 80 }]));
//!
//! let mut reader = KeyReader::new(&CompileOptions::new(LinkType::IPV4)).expect("is supported");
//! let packet = [&[0x45, 0, 0, 20, 0, 0, 0, 0, 64, 1, 0, 0][..], &[10, 0, 0, 1, 10, 0, 0, 2]].concat();
//! let mut keys = Vec::new();
//! reader.read(&packet, 20, |key| keys.push(key));
//! assert_eq!(keys, [Key::Ip4(0x0a00_0001), Key::Ip4(0x0a00_0002)]);
//! # Ok::<(), ringtap_filter::CompileError>(())
//! ```

mod common;
mod keys;
mod need;

pub use keys::{Followed, Key, KeyReader};
pub use need::{Need, need};
