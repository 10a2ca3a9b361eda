//! Everything that runs filters, held against libpcap and against each other.
//!
//! What it is: the parts that agreement is tested with, for the tests of this crate and for the fuzz
//! targets: packets ([`packets`]), random expressions ([`generate`]), the comparison with the
//! installed libpcap ([`judge`], with an eye on undefined verdicts, [`foreign`]), and one table of the
//! engines that must give the plain interpreter's verdicts ([`engine`]). The expressions themselves are data,
//! [`ringtap_testkit::expressions`]. What it is not: nothing that ships depends on it.
#![forbid(unsafe_code)]

pub mod engine;
pub mod foreign;
pub mod generate;
pub mod judge;
pub mod packets;

/// The random numbers of SplitMix64: the same in every run.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `count`, or 0.
    pub fn below(&mut self, count: u32) -> u32 {
        let upper = u32::try_from(self.word() >> 32).unwrap_or_default();
        upper.checked_rem(count).unwrap_or_default()
    }
}
