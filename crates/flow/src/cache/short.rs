//! A duration in 32 bits: exact to the nanosecond up to 2.1 s, then to the microsecond, up to 35 min.

/// A duration, or an unknown one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Short(u32);

/// The value is in microseconds.
const MICROS: u32 = 1 << 31;

impl Short {
    pub(crate) const UNKNOWN: Self = Self(u32::MAX);

    /// Returns the duration of so many nanoseconds; beyond 35 minutes, the longest one.
    pub(crate) fn of(nanos: u64) -> Self {
        match u32::try_from(nanos) {
            Ok(nanos) if nanos < MICROS => Self(nanos),
            _ => {
                let micros = u32::try_from(nanos / 1000).unwrap_or(u32::MAX);
                Self(MICROS | micros.min(MICROS - 2))
            }
        }
    }

    /// Returns the nanoseconds, or `None` if the duration is unknown.
    pub(crate) fn nanos(self) -> Option<u64> {
        match self {
            Self::UNKNOWN => None,
            Self(micros) if micros & MICROS != 0 => Some(u64::from(micros & !MICROS) * 1000),
            Self(nanos) => Some(nanos.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times_are_exact_and_long_ones_to_the_microsecond() {
        let cases = [
            (0, 0),
            (2_147_483_647, 2_147_483_647),
            (2_147_483_648, 2_147_483_000),
            (3_000_000_999, 3_000_000_000),
            (u64::MAX, 2_147_483_646_000),
        ];
        for (nanos, expected) in cases {
            assert_eq!(Short::of(nanos).nanos(), Some(expected));
        }
        assert_eq!(Short::UNKNOWN.nanos(), None);
    }
}
