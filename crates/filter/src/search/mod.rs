//! Finding packets by an index of their addresses and ports.
//!
//! Two halves that belong together. [`KeyReader`] tells of a packet the [`Key`]s that an index
//! keeps: every address and port that a primitive of the language can find in it. [`need`] tells of
//! an expression which keys a packet must have to be accepted, as a [`Need`]. So where the keys of a
//! stretch of packets don't meet the need, none of them is accepted, and the stretch need not be
//! read.
//!
//! Why this holds: both halves are taken from the lowering that makes filter programs. The reader
//! evaluates the very conditions of `host` and `port`, with all addresses and ports in the place of
//! one, at each place to which `vlan`, `mpls`, `pppoes`, `geneve` and `vxlan` move them, as far as
//! the packet has those headers. The need is what the primitives compare with. Whatever is not
//! certain is taken to be possible: an expression's other primitives need nothing
//! ([`Need::Nothing`]), and of a packet with more headers in one another than are followed nothing is
//! known. Where the packet ends before a place, a program that looks there rejects it, so that there
//! is no key.
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

mod keys;
mod need;

pub use keys::{Followed, Key, KeyReader};
pub use need::{Need, need};
