//! Timestamp units of pcapng interfaces: converts ticks to [`Timestamp`]s and back.

use crate::Timestamp;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The finest decimal unit, as a negative exponent, whose ticks per second fit 64 bits.
const MAX_DECIMAL: u8 = 19;
/// The finest binary unit, as a negative exponent, whose ticks per second fit 64 bits.
const MAX_BINARY: u8 = 63;

/// The unit of an interface's timestamps, as in the `if_tsresol` option: a negative power of ten,
/// or of two if the top bit is set (draft-ietf-opsawg-pcapng, section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resolution(u8);

impl Resolution {
    /// Microseconds, the default.
    pub const MICROS: Self = Self(6);
    /// Nanoseconds.
    pub const NANOS: Self = Self(9);

    /// Parses an `if_tsresol` byte. Returns `None` if a second would not fit the 64 bits of a time
    /// stamp (10^-20 and finer, 2^-64 and finer).
    #[must_use]
    pub const fn from_option(byte: u8) -> Option<Self> {
        let max = if byte & 0x80 == 0 {
            MAX_DECIMAL
        } else {
            MAX_BINARY
        };
        if byte & 0x7f <= max {
            Some(Self(byte))
        } else {
            None
        }
    }

    /// Returns the `if_tsresol` byte.
    #[must_use]
    pub const fn to_option(self) -> u8 {
        self.0
    }

    /// Returns the ticks per second.
    #[must_use]
    pub const fn ticks_per_second(self) -> u64 {
        let exponent = (self.0 & 0x7f) as u32;
        if self.0 & 0x80 == 0 {
            10u64.pow(exponent)
        } else {
            1 << exponent
        }
    }

    /// Returns the conversion of ticks, computed once per interface.
    pub(crate) const fn scale(self) -> Scale {
        let exponent = self.0 & 0x7f;
        let per_second = self.ticks_per_second();
        match self.0 {
            6 => Scale::Micros,
            9 => Scale::Nanos,
            0..6 | 7..9 => Scale::Coarse {
                per_second,
                nanos_per_tick: NANOS_PER_SEC / per_second,
            },
            10..0x80 => Scale::Fine {
                per_second,
                ticks_per_nano: per_second / NANOS_PER_SEC,
            },
            0x80.. => Scale::Binary { shift: exponent },
        }
    }
}

/// The conversion of an interface's ticks to and from whole seconds and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Micros,
    Nanos,
    /// A decimal unit of a nanosecond or more.
    Coarse {
        per_second: u64,
        nanos_per_tick: u64,
    },
    /// A decimal unit below a nanosecond.
    Fine {
        per_second: u64,
        ticks_per_nano: u64,
    },
    Binary {
        shift: u8,
    },
}

/// The conversion of one interface's timestamps: unit and offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    pub(crate) scale: Scale,
    /// Seconds to add (`if_tsoffset`).
    pub(crate) offset: i64,
}

impl Clock {
    #[inline]
    pub(crate) fn timestamp(self, ticks: u64) -> Timestamp {
        let (secs, nanos) = match self.scale {
            Scale::Micros => (ticks / 1_000_000, ticks % 1_000_000 * 1000),
            Scale::Nanos => (ticks / NANOS_PER_SEC, ticks % NANOS_PER_SEC),
            Scale::Coarse {
                per_second,
                nanos_per_tick,
            } => (ticks / per_second, ticks % per_second * nanos_per_tick),
            Scale::Fine {
                per_second,
                ticks_per_nano,
            } => (ticks / per_second, ticks % per_second / ticks_per_nano),
            Scale::Binary { shift } => binary_parts(ticks, shift),
        };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "each arm yields less than a second of nanoseconds"
        )]
        let nanos = nanos as u32;
        // More than 2^63 seconds are only possible if a tick is a second.
        let secs = i64::try_from(secs).unwrap_or(i64::MAX);
        Timestamp::new(secs.saturating_add(self.offset), nanos)
    }

    /// Returns the tick that contains `timestamp`; a time that unit and 64 bits cannot represent
    /// becomes the nearest tick.
    #[inline]
    pub(crate) fn ticks(self, timestamp: Timestamp) -> u64 {
        let Ok(secs) = u64::try_from(timestamp.secs().saturating_sub(self.offset)) else {
            return 0;
        };
        let nanos = u64::from(timestamp.subsec_nanos());
        let (per_second, fraction) = match self.scale {
            Scale::Micros => (1_000_000, nanos / 1000),
            Scale::Nanos => (NANOS_PER_SEC, nanos),
            Scale::Coarse {
                per_second,
                nanos_per_tick,
            } => (per_second, nanos / nanos_per_tick),
            Scale::Fine {
                per_second,
                ticks_per_nano,
            } => (per_second, nanos * ticks_per_nano),
            Scale::Binary { shift } => (1 << shift, binary_ticks(nanos, shift)),
        };
        secs.saturating_mul(per_second).saturating_add(fraction)
    }
}

/// Returns seconds and nanoseconds of ticks of 2^-shift seconds, rounded down.
fn binary_parts(ticks: u64, shift: u8) -> (u64, u64) {
    let fraction = u128::from(ticks & ((1 << shift) - 1));
    let nanos = (fraction * u128::from(NANOS_PER_SEC)) >> shift;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the fraction is below 2^shift, so this is below a second"
    )]
    let nanos = nanos as u64;
    (ticks >> shift, nanos)
}

/// Returns the ticks of 2^-shift seconds for less than a second of nanoseconds, rounded up:
/// [`binary_parts`] rounds down, and both together must return the original value.
fn binary_ticks(nanos: u64, shift: u8) -> u64 {
    let scaled = (u128::from(nanos) << shift).div_ceil(u128::from(NANOS_PER_SEC));
    #[expect(
        clippy::cast_possible_truncation,
        reason = "at most 2^63: nanos is below a second and shift at most 63"
    )]
    let ticks = scaled as u64;
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clock(byte: u8) -> Clock {
        Clock {
            scale: Resolution::from_option(byte).expect("valid").scale(),
            offset: 0,
        }
    }

    #[test]
    fn refuses_units_whose_second_exceeds_64_bits() {
        for (byte, valid) in [(0, true), (19, true), (20, false), (0x7f, false)] {
            assert_eq!(Resolution::from_option(byte).is_some(), valid, "{byte}");
        }
        for (byte, valid) in [(0x80, true), (0xbf, true), (0xc0, false), (0xff, false)] {
            assert_eq!(Resolution::from_option(byte).is_some(), valid, "{byte}");
        }
    }

    #[test]
    fn known_ticks() {
        let cases: [(u8, u64, i64, u32); 8] = [
            (0, 5, 5, 0),
            (3, 5_250, 5, 250_000_000),
            (6, 1_000_002, 1, 2_000),
            (9, 3_000_000_007, 3, 7),
            (12, 2_000_000_003_999, 2, 3),
            (0x80, 7, 7, 0),
            (0x8a, 1024 + 512, 1, 500_000_000),
            // libpcap 1.10 overflows 64 bits here and returns 3,031,811 ns.
            (0xa8, 0x5_1234_5678, 0, 19_809_027),
        ];
        for (byte, ticks, secs, nanos) in cases {
            assert_eq!(
                clock(byte).timestamp(ticks),
                Timestamp::new(secs, nanos),
                "if_tsresol {byte:#x}"
            );
        }
    }

    #[test]
    fn offset_moves_both_ways() {
        let clock = Clock {
            scale: Scale::Nanos,
            offset: -100,
        };
        let early = clock.timestamp(1_000_000_005);
        assert_eq!(early, Timestamp::new(-99, 5));
        assert_eq!(clock.ticks(early), 1_000_000_005);
        assert_eq!(clock.ticks(Timestamp::new(-101, 0)), 0);
    }

    #[test]
    fn extremes_saturate() {
        let clock = Clock {
            scale: Resolution(0).scale(),
            offset: i64::MAX,
        };
        assert_eq!(clock.timestamp(u64::MAX).secs(), i64::MAX);
        let nanos = Clock {
            scale: Scale::Nanos,
            offset: i64::MIN,
        };
        assert_eq!(nanos.ticks(Timestamp::new(i64::MAX, 0)), u64::MAX);
    }

    proptest! {
        #[test]
        fn ticks_survive_the_round_trip(byte in prop_oneof![0u8..=9, 0x80u8..=0x9d], ticks: u64) {
            let clock = clock(byte);
            prop_assume!(ticks / Resolution(byte).ticks_per_second() < i64::MAX as u64);
            prop_assert_eq!(clock.ticks(clock.timestamp(ticks)), ticks);
        }

        #[test]
        fn nanoseconds_survive_finer_units(
            byte in prop_oneof![9u8..=12, 0x9eu8..=0xa0],
            secs in 0i64..4_000_000,
            nanos in 0u32..1_000_000_000,
        ) {
            let time = Timestamp::new(secs, nanos);
            prop_assert_eq!(clock(byte).timestamp(clock(byte).ticks(time)), time);
        }
    }
}
