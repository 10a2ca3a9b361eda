//! The packet as every source delivers it: a borrowed view, never an owned copy.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::process::PacketProcess;

/// A point in time: seconds and nanoseconds since 1970-01-01T00:00:00Z.
///
/// It has two fields, like records of pcap and of the kernel's rings: reading and writing them
/// needs no multiplication or division.
///
/// Damaged pcap files may contain fractions of a second or more. Such a time is invalid
/// ([`Timestamp::is_valid`]). Arithmetic and comparisons use the sum of both fields, and
/// [`Timestamp::stored`] returns the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    secs: i64,
    /// Below 1,000,000,000.
    nanos: u32,
    /// Seconds of `secs` that came from the fraction.
    excess: u32,
}

const NANOS_PER_SEC: u32 = 1_000_000_000;
const MICROS_PER_SEC: u32 = 1_000_000;
const NANOS_PER_MICRO: u32 = 1000;

impl Timestamp {
    /// Returns a time from seconds since the epoch and nanoseconds; invalid if these are a second
    /// or more.
    #[inline]
    #[must_use]
    pub const fn new(secs: i64, nanos: u32) -> Self {
        if nanos < NANOS_PER_SEC {
            return Self {
                secs,
                nanos,
                excess: 0,
            };
        }
        Self::carried(secs, nanos / NANOS_PER_SEC, nanos % NANOS_PER_SEC)
    }

    /// Returns a time from seconds since the epoch and microseconds; invalid if these are a second
    /// or more.
    #[inline]
    #[must_use]
    pub const fn from_micros(secs: i64, micros: u32) -> Self {
        if micros < MICROS_PER_SEC {
            return Self {
                secs,
                nanos: micros * NANOS_PER_MICRO,
                excess: 0,
            };
        }
        let rest = micros % MICROS_PER_SEC;
        Self::carried(secs, micros / MICROS_PER_SEC, rest * NANOS_PER_MICRO)
    }

    #[cold]
    const fn carried(secs: i64, excess: u32, nanos: u32) -> Self {
        Self {
            secs: secs.saturating_add(excess as i64),
            nanos,
            excess,
        }
    }

    /// Returns whether the stored fraction is below a second.
    #[inline]
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.excess == 0
    }

    /// Returns seconds and nanoseconds as they were stored: the latter may be more than a second.
    #[inline]
    #[must_use]
    pub const fn stored(self) -> (i64, u64) {
        let nanos = self.excess as u64 * NANOS_PER_SEC as u64 + self.nanos as u64;
        (self.secs.saturating_sub(self.excess as i64), nanos)
    }

    /// Returns whole seconds since the epoch; negative before it.
    #[inline]
    #[must_use]
    pub const fn secs(self) -> i64 {
        self.secs
    }

    /// Returns the fraction of the second, in nanoseconds, below 1,000,000,000.
    #[inline]
    #[must_use]
    pub const fn subsec_nanos(self) -> u32 {
        self.nanos
    }

    /// Returns nanoseconds since the epoch.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> i128 {
        self.secs as i128 * NANOS_PER_SEC as i128 + self.nanos as i128
    }

    /// Returns the time by the wall clock; the epoch if the clock is set to an earlier time.
    #[must_use]
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.unwrap_or_default();
        let secs = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        Self::new(secs, since.subsec_nanos())
    }

    /// Returns a time from nanoseconds since the epoch.
    #[inline]
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the remainder is at least 0 and below 1,000,000,000"
        )]
        Self {
            secs: nanos.div_euclid(NANOS_PER_SEC as i64),
            nanos: nanos.rem_euclid(NANOS_PER_SEC as i64) as u32,
            excess: 0,
        }
    }
}

/// The `epb_flags` word of pcapng (draft-ietf-opsawg-pcapng, section 4.3.1); 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PacketFlags(pub u32);

impl PacketFlags {
    /// Received by the host.
    pub const INBOUND: Self = Self(1);
    /// Sent by the host.
    pub const OUTBOUND: Self = Self(2);
}

/// One captured packet, borrowed from the ring or the file that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The time of the capture.
    pub timestamp: Timestamp,
    /// Its length on the wire in bytes; `data.len()` is the captured part (caplen). Damaged files
    /// may state a smaller length than was captured.
    pub len: u32,
    /// Index into the interfaces of the source, counted over all sections of a file.
    pub interface: u32,
    /// Direction and reception type, if known.
    pub flags: PacketFlags,
    /// The captured bytes, beginning with the link-layer header.
    pub data: &'a [u8],
    /// The process that the packet belongs to, if it was recorded.
    pub process: Option<PacketProcess<'a>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_is_known_where_it_is_invalid() {
        let cases = [
            (Timestamp::new(5, 999_999_999), (5, 999_999_999), 5, true),
            (
                Timestamp::new(5, 1_000_000_000),
                (5, 1_000_000_000),
                6,
                false,
            ),
            (Timestamp::new(5, u32::MAX), (5, 4_294_967_295), 9, false),
            (
                Timestamp::from_micros(5, 999_999),
                (5, 999_999_000),
                5,
                true,
            ),
            (
                Timestamp::from_micros(5, 1_500_000),
                (5, 1_500_000_000),
                6,
                false,
            ),
            (
                Timestamp::from_micros(5, u32::MAX),
                (5, 4_294_967_295_000),
                4299,
                false,
            ),
        ];
        for (time, stored, secs, is_valid) in cases {
            assert_eq!(
                (time.stored(), time.secs(), time.is_valid()),
                (stored, secs, is_valid)
            );
            assert!(time.subsec_nanos() < NANOS_PER_SEC);
        }
        // It is ordered by its sum.
        assert!(Timestamp::new(5, 1_500_000_000) > Timestamp::new(6, 499_999_999));
        assert!(Timestamp::new(5, 1_500_000_000) < Timestamp::new(6, 500_000_001));
        assert!(Timestamp::new(i64::MAX, u32::MAX).as_nanos() > 0);
    }
}
