//! The names in a store: folders of days, hours and exporters, and files in them.
//!
//! ```text
//! DIR/.lock                                        held by the program that writes
//!     .readers                                     held, shared, by programs that read
//!     .log-0                                       records that are in no file yet
//!     date=2026-11-26/hour=7/exporter=probe1/     a leaf
//!         flows-20261126T071500.123456Z-000042.parquet
//!         .flows-20261126T071500.123456Z-000042.parquet.new      being written
//!     date=2026-11-26/hour=7/.exporter=probe1.new/              being merged, or merged and not yet removed
//! ```
//!
//! A path is one of these or it is not the store's, and then it is neither read nor removed. No part of a name comes
//! from the network: an exporter is named by its address.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The file that the writing program locks.
pub const STORE_LOCK: &str = ".lock";
/// The file that reading programs lock, shared.
pub const READERS_LOCK: &str = ".readers";

/// Returns the name of a log.
pub(crate) fn log_name(index: usize) -> String {
    format!(".log-{index}")
}

/// The longest name of an exporter, in bytes.
const LONGEST: usize = 64;
/// The ending of names of unfinished files and folders.
const UNFINISHED: &str = ".new";
/// The seconds of an hour.
pub(crate) const HOUR: u64 = 3600;

/// A folder of an hour and an exporter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Leaf {
    /// Hours since 1970, UTC.
    pub(crate) hour: u64,
    pub(crate) exporter: String,
}

impl Leaf {
    /// Returns the path of the folder of its hour, relative to the store. The hour has no zero in front: engines look
    /// for the folder of a number.
    fn folder(&self) -> PathBuf {
        let seconds = i64::try_from(self.hour * HOUR).unwrap_or(i64::MAX);
        let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
        PathBuf::from(time.strftime("date=%Y-%m-%d/hour=%-H").to_string())
    }

    /// Returns the leaf of an hour and a name, if an exporter can have it.
    pub(crate) fn named(hour: u64, exporter: &str) -> Option<Self> {
        is_exporter(exporter).then(|| Self {
            hour,
            exporter: exporter.to_owned(),
        })
    }

    /// Returns its path, relative to the store.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder().join(format!("exporter={}", self.exporter))
    }

    /// Returns the path of the folder that will replace it.
    pub(crate) fn next(&self) -> PathBuf {
        let name = format!(".exporter={}{UNFINISHED}", self.exporter);
        self.folder().join(name)
    }

    /// Returns the leaf of the names of three folders.
    pub(crate) fn parse(date: &str, hour: &str, exporter: &str) -> Option<Self> {
        let path = Path::new(date).join(hour).join(exporter);
        let date: jiff::civil::Date = date.strip_prefix("date=")?.parse().ok()?;
        let hour = hour.strip_prefix("hour=")?;
        let time = jiff::civil::Time::new(hour.parse().ok()?, 0, 0, 0).ok()?;
        let time = date.to_datetime(time);
        let seconds = time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
        let leaf = Self {
            hour: u64::try_from(seconds).ok()? / HOUR,
            exporter: exporter.strip_prefix("exporter=")?.to_owned(),
        };
        let is_named_so = is_exporter(&leaf.exporter) && leaf.path() == path;
        is_named_so.then_some(leaf)
    }
}

/// Returns the name of a new file.
pub(crate) fn file_name(is_merged: bool, nanos: u64, number: u64) -> String {
    let time = Timestamp::from_nanosecond(nanos.into()).unwrap_or(Timestamp::MAX);
    let time = time.strftime("%Y%m%dT%H%M%S%.6f");
    let kind = if is_merged { MERGED } else { FLOWS };
    format!("{kind}{time}Z-{number:06}.parquet")
}

const FLOWS: &str = "flows-";
const MERGED: &str = "merged-";

/// Returns the number of a file of a store, and whether it was merged from others. `None` if it is no such file.
pub(crate) fn parse_file(name: &str) -> Option<(u64, bool)> {
    let (rest, is_merged) = match name.strip_prefix(FLOWS) {
        Some(rest) => (rest, false),
        None => (name.strip_prefix(MERGED)?, true),
    };
    let (time, number) = rest.strip_suffix(".parquet")?.split_once("Z-")?;
    let is_time = time.len() == "20261126T071500.123456".len()
        && time.bytes().enumerate().all(|(at, byte)| match at {
            8 => byte == b'T',
            15 => byte == b'.',
            _ => byte.is_ascii_digit(),
        });
    let is_number = (6..=18).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
    (is_time && is_number).then_some((number.parse().ok()?, is_merged))
}

/// Returns the name of a file while it is written.
pub(crate) fn unfinished(name: &str) -> String {
    format!(".{name}{UNFINISHED}")
}

/// Returns the name that an unfinished file or folder will have.
pub(crate) fn finished(name: &str) -> Option<&str> {
    name.strip_prefix('.')?.strip_suffix(UNFINISHED)
}

/// Returns the file that is to be published under a path.
pub(crate) fn unfinished_path(path: &Path) -> Option<PathBuf> {
    Some(path.with_file_name(unfinished(path.file_name()?.to_str()?)))
}

/// Whether a name is one that folders of exporters have.
fn is_exporter(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=LONGEST).contains(&name.len()) && name.bytes().all(is_plain) && !name.starts_with('.')
}

/// Returns the name of an exporter by its address.
pub(crate) fn of_address(address: IpAddr) -> String {
    address.to_canonical().to_string().replace(':', "-")
}

/// Returns a probe's name in the form that folders have: other characters than letters, digits, `.`, `_` and `-`
/// become `-`.
#[must_use]
pub fn exporter_name(name: &str) -> String {
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() => c,
        '.' | '_' | '-' => c,
        _ => '-',
    };
    let name: String = name.chars().map(plain).take(LONGEST).collect();
    match name.trim_start_matches('.') {
        "" => "probe".to_owned(),
        name => name.to_owned(),
    }
}

/// Returns whether a path is that of a file or a folder that ringtap makes in the store of this folder.
#[must_use]
pub fn is_of_store(folder: &Path, path: &Path) -> bool {
    let Some(parts) = path.strip_prefix(folder).ok().and_then(parts) else {
        return false;
    };
    match parts[..] {
        [STORE_LOCK | READERS_LOCK] => true,
        [date] => is_leaf(date, "hour=0", "exporter=x"),
        [date, hour] => Leaf::parse(date, hour, "exporter=x").is_some(),
        [date, hour, leaf] => is_leaf(date, hour, leaf),
        [date, hour, leaf, file] => {
            is_leaf(date, hour, leaf) && parse_file(finished(file).unwrap_or(file)).is_some()
        }
        _ => false,
    }
}

fn is_leaf(date: &str, hour: &str, leaf: &str) -> bool {
    Leaf::parse(date, hour, finished(leaf).unwrap_or(leaf)).is_some()
}

/// Returns the names in a path that has nothing else.
fn parts(path: &Path) -> Option<Vec<&str>> {
    let parts = path.components().map(|part| match part {
        std::path::Component::Normal(name) => name.to_str(),
        _ => None,
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_files_are_found_by_the_names_that_they_got() {
        let leaf = Leaf {
            hour: 1_764_140_000 / HOUR,
            exporter: "probe-1".to_owned(),
        };
        assert_eq!(
            leaf.path(),
            Path::new("date=2025-11-26/hour=6/exporter=probe-1")
        );
        assert_eq!(
            Leaf::parse("date=2025-11-26", "hour=6", "exporter=probe-1"),
            Some(leaf.clone())
        );
        let name = file_name(false, 1_764_140_000_123_456_789, 42);
        assert_eq!(name, "flows-20251126T065320.123456Z-000042.parquet");
        assert_eq!(parse_file(&name), Some((42, false)));
        let merged = file_name(true, u64::MAX, 1_234_567);
        assert_eq!(parse_file(&merged), Some((1_234_567, true)));
        let root = Path::new("/store");
        for path in [
            leaf.path(),
            leaf.next(),
            leaf.path().join(&name),
            leaf.path().join(unfinished(&name)),
            leaf.next().join(&merged),
            PathBuf::from("date=2025-11-26"),
            PathBuf::from("date=2025-11-26/hour=6"),
            PathBuf::from(STORE_LOCK),
            PathBuf::from(READERS_LOCK),
        ] {
            assert!(is_of_store(root, &root.join(&path)), "{}", path.display());
        }
    }

    #[test]
    fn other_paths_are_not_of_the_store() {
        for path in [
            "/store",
            "/store/x",
            "/store/../etc/passwd",
            "/store/date=2025-11-26/../../etc",
            "/store/date=2025-13-26",
            "/store/date=2025-1-26",
            "/store/date=2025-11-26/hour=24",
            "/store/date=2025-11-26/hour=06/exporter=a",
            "/store/date=2025-11-26/hour=6/exporter=",
            "/store/date=2025-11-26/hour=6/exporter=..",
            "/store/date=2025-11-26/hour=6/exporter=a b",
            "/store/date=2025-11-26/hour=6/exporter=a/x.parquet",
            "/store/date=2025-11-26/hour=6/exporter=a/flows-20251126T065320.123456Z-00004x.parquet",
            "/store/date=2025-11-26/hour=6/exporter=a/flows-20251126T065320.123456Z-000042.csv",
            "/store/date=2025-11-26/hour=6/exporter=a/b/flows-20251126T065320.123456Z-000042.parquet",
            "/other/.lock",
        ] {
            assert!(!is_of_store(Path::new("/store"), Path::new(path)), "{path}");
        }
    }

    #[test]
    fn names_of_exporters_fit_into_a_folder_name() {
        assert_eq!(exporter_name("probe.example"), "probe.example");
        assert_eq!(exporter_name("../../etc/passwd"), "-..-etc-passwd");
        assert_eq!(exporter_name("…"), "-");
        assert_eq!(exporter_name(".."), "probe");
        assert_eq!(exporter_name(&"x".repeat(300)).len(), LONGEST);
        let six = of_address("2001:db8::1".parse().expect("an address"));
        assert_eq!(six, "2001-db8--1");
        assert_eq!(
            of_address("::ffff:192.0.2.1".parse().expect("an address")),
            "192.0.2.1"
        );
        assert!(is_exporter(&six) && is_exporter(&exporter_name("../x")));
    }
}
