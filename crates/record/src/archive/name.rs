//! The names of a recorder's files. They carry the time of the first packet, so that sorting by name sorts by
//! time: `20261125T224253.123456Z-00000042-eth0.pcapng.zst`.

use std::fmt;
use std::path::{Path, PathBuf};

use ringtap_savefile::Timestamp;

/// The name of the lock: whoever holds it records into the folder.
pub const LOCK: &str = "lock";
/// The name of the file with the recorder's present counters.
pub const STATUS: &str = "status";
/// The folder of the copies that triggers made.
pub const INCIDENTS: &str = "incidents";
/// The name of the socket by which a running recorder takes requests.
pub const CONTROL: &str = "control";

/// The front of a catalogue's name; its generation follows.
const CATALOGUE: &str = "catalogue.";
/// The end of the name of an uncompressed file, and of one compressed with zstd.
pub(super) const PLAIN: &str = ".pcapng";
pub(super) const ZSTD: &str = ".pcapng.zst";
/// The maximum length of a device's name in a file's name.
pub(crate) const DEVICE: usize = 32;

/// The name of a file with packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName {
    /// The time of the first packet, in nanoseconds since the epoch; the name has microseconds.
    pub begun: i64,
    /// The number of the file, which no other file of the folder had before.
    pub number: u32,
    /// The device, in characters that are safe in names.
    pub device: String,
    /// Whether the file is compressed.
    pub compressed: bool,
}

impl FileName {
    /// Parses a name without its folder.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let (stem, compressed) = match name.strip_suffix(ZSTD) {
            Some(stem) => (stem, true),
            None => (name.strip_suffix(PLAIN)?, false),
        };
        let mut parts = stem.splitn(3, '-');
        let (time, number, device) = (parts.next()?, parts.next()?, parts.next()?);
        let is_number = number.len() >= 8 && number.bytes().all(|byte| byte.is_ascii_digit());
        let is_safe = !device.is_empty() && device.len() <= DEVICE && device == safe(device);
        let parsed = Self {
            begun: parse_time(time)?,
            number: number.parse().ok().filter(|_| is_number)?,
            device: device.to_owned(),
            compressed,
        };
        is_safe.then_some(parsed)
    }

    /// Returns the path in a folder.
    #[must_use]
    pub fn path(&self, folder: &Path) -> PathBuf {
        folder.join(self.to_string())
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.compressed { ZSTD } else { PLAIN };
        let time = stamp(self.begun);
        write!(f, "{time}-{:08}-{}{end}", self.number, self.device)
    }
}

/// Returns a time as names have it: UTC, with microseconds.
#[must_use]
pub fn stamp(nanos: i64) -> String {
    let time = jiff::Timestamp::from_nanosecond(nanos.into()).unwrap_or_default();
    time.strftime("%Y%m%dT%H%M%S%.6fZ").to_string()
}

fn parse_time(text: &str) -> Option<i64> {
    let (whole, micros) = text.strip_suffix('Z')?.split_once('.')?;
    let is_fraction = micros.len() == 6 && micros.bytes().all(|byte| byte.is_ascii_digit());
    let time = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%S", whole).ok()?;
    let time = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    let micros: i64 = micros.parse().ok().filter(|_| is_fraction)?;
    time.as_second()
        .checked_mul(1_000_000_000)?
        .checked_add(micros * 1000)
}

/// Returns a device's name in characters that are safe in names of files, at most 32 of them.
#[must_use]
pub fn safe(device: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@');
    let all = device.chars().map(|c| if is_safe(c) { c } else { '_' });
    let name: String = all.take(DEVICE).collect();
    match name.as_str() {
        "" | "." | ".." => "_".to_owned(),
        _ => name,
    }
}

/// Returns the name of the catalogue of a generation.
#[must_use]
pub fn catalogue(generation: u32) -> String {
    format!("{CATALOGUE}{generation}")
}

/// Returns the generation in a catalogue's name. `None` if it is another name.
#[must_use]
pub(super) fn generation(name: &str) -> Option<u32> {
    let digits = name.strip_prefix(CATALOGUE)?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// Returns whether a recorder gives its files this name, without the folder.
#[must_use]
pub fn is_of_recorder(name: &str) -> bool {
    let data = name.strip_suffix(".idx").unwrap_or(name);
    FileName::parse(data).is_some()
        || generation(name).is_some()
        || matches!(name, LOCK | STATUS | CONTROL)
}

/// Returns whether triggers give the files of their copies this name, without the folder.
#[must_use]
pub fn is_of_incident(name: &str) -> bool {
    let stem = [ZSTD, PLAIN, ".json"]
        .iter()
        .find_map(|end| name.strip_suffix(end));
    let Some((time, trigger)) = stem.and_then(|stem| stem.split_once('-')) else {
        return false;
    };
    parse_time(time).is_some() && !trigger.is_empty() && trigger == safe(trigger)
}

/// Returns a time in nanoseconds since the epoch, the nearest one that fits.
#[must_use]
pub fn nanos(time: Timestamp) -> i64 {
    let nanos = time.as_nanos();
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_as_they_are_written_and_sort_by_time() {
        let name = |begun, number, compressed| FileName {
            begun,
            number,
            device: safe("tcx:eth0"),
            compressed,
        };
        let names = [
            name(1_700_000_000_000_001_000, 7, true),
            name(1_700_000_000_000_002_000, 3, false),
            name(1_800_000_000_000_000_000, 100_000_000, true),
        ];
        let texts: Vec<String> = names.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts[0],
            "20231114T221320.000001Z-00000007-tcx_eth0.pcapng.zst"
        );
        assert!(texts.is_sorted());
        for (name, text) in names.iter().zip(&texts) {
            assert_eq!(FileName::parse(text).as_ref(), Some(name));
            assert!(is_of_recorder(text) && is_of_recorder(&format!("{text}.idx")));
        }
    }

    #[test]
    fn other_names_are_not_of_the_recorder() {
        for name in [
            "x.pcapng",
            "20231114T221320.000001Z-7-eth0.pcapng",
            "20231114T221320.000001Z-00000007-.pcapng",
            "20231114T221320.000001Z-00000007-a:b.pcapng",
            "20231314T221320.000001Z-00000007-eth0.pcapng",
            "../20231114T221320.000001Z-00000007-eth0.pcapng",
            "catalogue",
            "catalogue.x",
            "catalogue.1.idx",
            "incidents",
        ] {
            assert!(!is_of_recorder(name), "{name}");
        }
        assert_eq!(generation("catalogue.12"), Some(12));
    }
}
