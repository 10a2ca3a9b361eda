//! The values of the Linux ancillary loads, in the layout that generated code reads.

use ringtap_filter::Ancillary;
use ringtap_filter::program::opcode as op;

/// Words of metadata: one for each load from `SKF_AD_PROTOCOL` (0) to `SKF_AD_VLAN_TPID` (60).
pub(crate) const WORDS: usize = 16;

/// A packet's [`Ancillary`] values in the layout of the loads (`linux/filter.h`): the word at byte
/// offset `n` is the result of a load at `SKF_AD_OFF + n`. 64 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Metadata([u32; WORDS]);

impl Metadata {
    /// Distance between the metadata of two packets of a batch, in bytes.
    pub(crate) const SIZE: i64 = 64;
}

// Generated code advances by this size.
const _: () = assert!(size_of::<Metadata>() == 64);

impl From<&Ancillary> for Metadata {
    fn from(ancillary: &Ancillary) -> Self {
        let mut words = [0; WORDS];
        // Loads that search netlink attributes stay 0, as in the interpreter. Generated code
        // computes the one that combines A and X.
        for (offset, value) in [
            (op::SKF_AD_PROTOCOL, u32::from(ancillary.protocol)),
            (op::SKF_AD_PKTTYPE, u32::from(ancillary.pkttype)),
            (op::SKF_AD_IFINDEX, ancillary.ifindex),
            (op::SKF_AD_MARK, ancillary.mark),
            (op::SKF_AD_QUEUE, ancillary.queue),
            (op::SKF_AD_HATYPE, u32::from(ancillary.hatype)),
            (op::SKF_AD_RXHASH, ancillary.rxhash),
            (op::SKF_AD_CPU, ancillary.cpu),
            (
                op::SKF_AD_VLAN_TAG,
                u32::from(ancillary.vlan_tci.unwrap_or(0)),
            ),
            (
                op::SKF_AD_VLAN_TAG_PRESENT,
                u32::from(ancillary.vlan_tci.is_some()),
            ),
            (op::SKF_AD_PAY_OFFSET, ancillary.pay_offset),
            (op::SKF_AD_RANDOM, ancillary.random),
            (op::SKF_AD_VLAN_TPID, u32::from(ancillary.vlan_tpid)),
        ] {
            if let Some(word) = words.get_mut(offset as usize / 4) {
                *word = value;
            }
        }
        Self(words)
    }
}
