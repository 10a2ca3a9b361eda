//! Compares everything that runs filters with libpcap and with each other.
//!
//! The tests of this crate and the fuzz targets use these parts: packets ([`packets`]), the
//! comparison with the installed libpcap ([`judge`], which detects undefined verdicts with
//! [`foreign`]), and a table of the engines that must return the plain interpreter's verdicts
//! ([`engine`]). Expressions are data ([`ringtap_testkit::expressions`]) or random
//! ([`ringtap_testkit::generate`]). No shipped code depends on this crate.
#![forbid(unsafe_code)]

pub mod engine;
pub mod foreign;
pub mod judge;
pub mod packets;

/// Random numbers (SplitMix64), the same in every run.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// Returns the next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `count`, or 0.
    pub fn below(&mut self, count: u32) -> u32 {
        let upper = u32::try_from(self.word() >> 32).unwrap_or_default();
        upper.checked_rem(count).unwrap_or_default()
    }
}
