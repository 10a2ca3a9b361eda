//! The time before a line.

use std::fmt;

use jiff::tz::TimeZone;
use ringtap_packet::Timestamp;

use super::line::{Line, put};
use super::options::TimestampFormat;

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// Prints times. It remembers the times that relative forms refer to. For speed it remembers the
/// text of the last printed second, so that calendar and time zone are used once per second of
/// captured time.
#[derive(Debug)]
pub(crate) struct Clock {
    format: TimestampFormat,
    nanos: bool,
    zone: TimeZone,
    reference: Option<Timestamp>,
    second: Option<(i64, Option<CivilText>)>,
}

/// `YYYY-MM-DD HH:MM:SS`; jiff's range has no year below 0 or above 9999.
type CivilText = [u8; 19];
/// The offset of the time of day in it.
const TIME_OF_DAY: usize = 11;

impl Clock {
    pub(crate) fn new(format: TimestampFormat, nanos: bool) -> Self {
        Self {
            format,
            nanos,
            zone: TimeZone::system(),
            reference: None,
            second: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn with_zone(mut self, zone: TimeZone) -> Self {
        self.zone = zone;
        self
    }

    /// Writes the time of a packet and a space, or nothing if no time is selected.
    pub(crate) fn print(&mut self, line: &mut Line, time: Timestamp) {
        match self.format {
            TimestampFormat::None => return,
            TimestampFormat::TimeOfDay => self.civil(line, time, TIME_OF_DAY),
            TimestampFormat::DateTime => self.civil(line, time, 0),
            TimestampFormat::Epoch => {
                let (secs, nanos) = time.stored();
                put!(line, "{secs}");
                self.fraction(line, nanos);
            }
            TimestampFormat::SincePrevious => {
                let before = self.reference.replace(time).unwrap_or(time);
                self.difference(line, before, time);
            }
            TimestampFormat::SinceFirst => {
                let first = *self.reference.get_or_insert(time);
                self.difference(line, first, time);
            }
        }
        if !time.is_valid() {
            // As in tcpdump.
            line.str(if self.nanos {
                " (invalid ns)"
            } else {
                " (invalid us)"
            });
        }
        line.str(" ");
    }

    fn civil(&mut self, line: &mut Line, time: Timestamp, from: usize) {
        let (secs, nanos) = time.stored();
        let text = match self.second {
            Some((cached, text)) if cached == secs => text,
            _ => {
                let text = civil_text(secs, &self.zone);
                self.second = Some((secs, text));
                text
            }
        };
        match text {
            Some(text) => line.bytes(&text[from..]),
            // Beyond the calendar (a damaged file): the number itself is more useful than an error.
            None => put!(line, "{secs}"),
        }
        self.fraction(line, nanos);
    }

    fn difference(&self, line: &mut Line, from: Timestamp, to: Timestamp) {
        let nanos = self.at_resolution(to) - self.at_resolution(from);
        line.str(if nanos < 0 { "-" } else { " " });
        let nanos = nanos.unsigned_abs();
        let (secs, subsec) = (nanos / NANOS_PER_SEC, nanos % NANOS_PER_SEC);
        put!(
            line,
            "{:02}:{:02}:{:02}",
            secs / 3600,
            secs / 60 % 60,
            secs % 60
        );
        self.fraction(line, u64::try_from(subsec).unwrap_or_default());
    }

    /// Returns nanoseconds since the epoch, rounded as they are printed, so that differences match
    /// the printed times.
    fn at_resolution(&self, time: Timestamp) -> i128 {
        let nanos = time.as_nanos();
        if self.nanos {
            nanos
        } else {
            nanos.div_euclid(1000) * 1000
        }
    }

    fn fraction(&self, line: &mut Line, nanos: u64) {
        if self.nanos {
            put!(line, ".{nanos:09}");
        } else {
            put!(line, ".{:06}", nanos / 1000);
        }
    }
}

fn civil_text(secs: i64, zone: &TimeZone) -> Option<CivilText> {
    let instant = jiff::Timestamp::from_second(secs).ok()?;
    let civil = zone.to_datetime(instant);
    let year = u32::try_from(civil.year()).ok()?;
    let mut text = *b"0000-00-00 00:00:00";
    let two = |value: i8| {
        let value = value.unsigned_abs();
        [b'0' + value / 10, b'0' + value % 10]
    };
    let (century, rest) = (year / 100, year % 100);
    for (at, part) in [(0, century), (2, rest)] {
        text[at..at + 2].copy_from_slice(&two(i8::try_from(part).ok()?));
    }
    for (at, part) in [
        (5, civil.month()),
        (8, civil.day()),
        (11, civil.hour()),
        (14, civil.minute()),
        (17, civil.second()),
    ] {
        text[at..at + 2].copy_from_slice(&two(part));
    }
    Some(text)
}

/// A time as RFC 3339 in UTC with nanoseconds, for JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rfc3339(pub(crate) Timestamp);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(time) = self;
        if let Some(mut text) = civil_text(time.secs(), &TimeZone::UTC) {
            text[10] = b'T';
            f.write_str(str::from_utf8(&text).unwrap_or_default())?;
            write!(f, ".{:09}Z", time.subsec_nanos())
        } else {
            // Beyond the calendar: the number of seconds is printed.
            write!(f, "{}.{:09}", time.secs(), time.subsec_nanos())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(format: TimestampFormat, nanos: bool, times: &[(i64, u32)]) -> Vec<String> {
        let mut clock = Clock::new(format, nanos).with_zone(TimeZone::UTC);
        times
            .iter()
            .map(|&(secs, nanos)| {
                let mut line = Line::default();
                clock.print(&mut line, Timestamp::new(secs, nanos));
                String::from_utf8_lossy(line.text()).into_owned()
            })
            .collect()
    }

    #[test]
    fn each_format_has_its_form() {
        let times = [
            (1_700_000_000, 123_456_789),
            (1_700_000_001, 0),
            (1_699_996_400, 500),
        ];
        let cases: [(TimestampFormat, [&str; 3]); 6] = [
            (TimestampFormat::None, ["", "", ""]),
            (
                TimestampFormat::TimeOfDay,
                ["22:13:20.123456 ", "22:13:21.000000 ", "21:13:20.000000 "],
            ),
            (
                TimestampFormat::Epoch,
                [
                    "1700000000.123456 ",
                    "1700000001.000000 ",
                    "1699996400.000000 ",
                ],
            ),
            (
                TimestampFormat::SincePrevious,
                [
                    " 00:00:00.000000 ",
                    " 00:00:00.876544 ",
                    "-01:00:01.000000 ",
                ],
            ),
            (
                TimestampFormat::DateTime,
                [
                    "2023-11-14 22:13:20.123456 ",
                    "2023-11-14 22:13:21.000000 ",
                    "2023-11-14 21:13:20.000000 ",
                ],
            ),
            (
                TimestampFormat::SinceFirst,
                [
                    " 00:00:00.000000 ",
                    " 00:00:00.876544 ",
                    "-01:00:00.123456 ",
                ],
            ),
        ];
        for (format, expected) in cases {
            assert_eq!(shown(format, false, &times), expected, "{format:?}");
        }
        assert_eq!(
            shown(TimestampFormat::TimeOfDay, true, &times)[0],
            "22:13:20.123456789 "
        );
    }

    #[test]
    fn an_invalid_time_is_shown_as_it_was_stored() {
        let times = [(100, 1_500_000_999), (101, 0)];
        let second = |format, nanos| shown(format, nanos, &times).swap_remove(0);
        assert_eq!(
            second(TimestampFormat::TimeOfDay, false),
            "00:01:40.1500000 (invalid us) "
        );
        assert_eq!(
            second(TimestampFormat::Epoch, true),
            "100.1500000999 (invalid ns) "
        );
        let since = shown(TimestampFormat::SincePrevious, false, &times);
        assert_eq!(
            since,
            [" 00:00:00.000000 (invalid us) ", "-00:00:00.500000 "]
        );
    }

    #[test]
    fn a_time_beyond_the_calendar_is_shown_as_a_number() {
        let far = [(i64::MAX, 7), (i64::MIN, 7), (-62_200_000_000, 0)];
        let shown = shown(TimestampFormat::DateTime, false, &far);
        assert_eq!(shown[0], "9223372036854775807.000000 ");
        assert_eq!(shown[1], "-9223372036854775808.000000 ");
        assert_eq!(shown[2], "-62200000000.000000 ");
    }
}
