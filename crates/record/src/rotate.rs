//! Decides when one file ends and the next starts, and names the files: as `-C`, `-G` and `-W` of tcpdump.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use ringtap_savefile::Timestamp;

/// When one file of a recording ends and another starts.
///
/// With a time, strftime(3) completes the name of a recording. With a size, a number follows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RotationPlan {
    /// A file ends before a packet if it is larger than this, in bytes before compression.
    pub size: Option<u64>,
    /// A file ends this many seconds after it started.
    pub seconds: Option<u32>,
    /// With a size, the number of files, which are written in turn. With seconds alone, the number of files
    /// after which the capture ends.
    pub count: Option<u32>,
}

/// The state of a rotation.
#[derive(Clone, Debug)]
pub(crate) struct Rotation {
    name: PathBuf,
    pub(crate) plan: RotationPlan,
    zone: TimeZone,
    /// The number of the current file within its window, as its name has it.
    number: u32,
    /// The number of windows of time that have ended.
    windows: u32,
    /// When the current window started. `None` until it is known.
    pub(crate) began: Option<i64>,
    /// Whether the clock ended the window: packets that come late still belong to the next file.
    pub(crate) expired: bool,
}

impl RotationPlan {
    /// Returns whether an existing file is one that a recording called `name` will write, as far as the names
    /// are known: those with times are not. `is_same` decides whether a name leads to the file.
    pub fn will_write(&self, name: &Path, path: &Path, is_same: impl Fn(&Path) -> bool) -> bool {
        if self.seconds.is_some() || self.size.is_none() {
            return false;
        }
        let mut rotation = Rotation::new(name, *self);
        let whole = name.file_name().unwrap_or_default();
        let names = path.file_name().into_iter();
        let mut numbers = names.filter_map(|name| {
            let digits = name.as_bytes().strip_prefix(whole.as_bytes())?;
            let number = match std::str::from_utf8(digits).ok()? {
                "" => 0,
                digits => digits.parse().ok()?,
            };
            (number < self.count.unwrap_or(u32::MAX)).then_some(number)
        });
        let named = numbers.any(|number| {
            rotation.number = number;
            is_same(&rotation.name())
        });
        rotation.number = 0;
        named || is_same(&rotation.name())
    }
}

impl Rotation {
    pub(crate) fn new(name: &Path, plan: RotationPlan) -> Self {
        Self {
            name: name.to_owned(),
            plan,
            zone: TimeZone::system(),
            number: 0,
            windows: 0,
            began: None,
            expired: false,
        }
    }

    /// Returns the largest size at which another packet is added, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.plan.size.unwrap_or(u64::MAX)
    }

    /// Returns the first time, in seconds since the epoch, that no longer belongs to the current file.
    pub(crate) fn window_end(&self) -> Option<i64> {
        let seconds = self.plan.seconds?;
        Some(self.began?.saturating_add(seconds.into()))
    }

    /// Returns the name of the first file, which starts at that time.
    pub(crate) fn first(&mut self, now: Timestamp) -> PathBuf {
        self.began = Some(now.secs());
        self.name()
    }

    /// Returns the name of the file after one that ended before a packet of that time; the first file if
    /// there is none. `None` if the maximum number of files has been reached.
    pub(crate) fn next(&mut self, time: Timestamp) -> Option<PathBuf> {
        if self.began.is_none() {
            return Some(self.first(time));
        }
        let end = self.window_end();
        let in_time = end.is_none_or(|end| time.secs() < end);
        if !in_time || self.expired {
            self.expired = false;
            self.windows += 1;
            self.number = 0;
            self.began = end.map(|end| time.secs().max(end));
            if self.plan.size.is_none() && self.plan.count == Some(self.windows) {
                return None;
            }
            return Some(self.name());
        }
        self.number = self.number.wrapping_add(1);
        if self.plan.count.is_some_and(|count| self.number >= count) {
            self.number = 0;
        }
        Some(self.name())
    }

    /// Returns whether a window that has ended was the last.
    pub(crate) fn is_last_window(&self) -> bool {
        self.plan.size.is_none() && self.plan.count == Some(self.windows + 1)
    }

    fn name(&self) -> PathBuf {
        let mut name: OsString = match (self.plan.seconds, self.began) {
            (Some(_), Some(began)) => self.at(began).into_os_string(),
            _ => self.name.clone().into_os_string(),
        };
        let digits = self.digits();
        if self.plan.size.is_some() && (self.number > 0 || digits > 0) {
            let number = self.number;
            name.push(format!("{number:0digits$}"));
        }
        name.into()
    }

    /// Returns the number of digits in the numbers of a ring of files.
    fn digits(&self) -> usize {
        let last = self.plan.count.unwrap_or(0).saturating_sub(1);
        last.checked_ilog10().map_or(0, |log| log as usize + 1)
    }

    fn at(&self, secs: i64) -> PathBuf {
        let text = self.name.to_str();
        let named = text.and_then(|text| strftime(text, secs, &self.zone).ok());
        named.map_or_else(|| self.name.clone(), PathBuf::from)
    }
}

/// A name that cannot be completed with a time.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NameError(jiff::Error);

/// Checks that a name can be completed with a time, as [`RotationPlan::seconds`] requires.
///
/// # Errors
/// It contains a conversion that strftime(3) does not have.
pub fn check_name(name: &Path) -> Result<(), NameError> {
    match name.to_str() {
        Some(text) => strftime(text, 0, &TimeZone::UTC).map(drop),
        None => Ok(()),
    }
}

fn strftime(text: &str, secs: i64, zone: &TimeZone) -> Result<String, NameError> {
    let time = jiff::Timestamp::from_second(secs).unwrap_or_default();
    let time = time.to_zoned(zone.clone());
    jiff::fmt::strtime::format(text, &time).map_err(NameError)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotation(size: Option<u64>, seconds: Option<u32>, count: Option<u32>) -> Rotation {
        let name = if seconds.is_some() { "f-%s" } else { "f" };
        let plan = RotationPlan {
            size,
            seconds,
            count,
        };
        Rotation::new(Path::new(name), plan)
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp::new(secs, 500)
    }

    fn names(rotation: &mut Rotation, times: &[i64]) -> Vec<String> {
        let mut names = vec![rotation.first(at(100)).display().to_string()];
        for &time in times {
            let next = rotation.next(at(time));
            names.push(next.map_or("-".into(), |name| name.display().to_string()));
        }
        names
    }

    #[test]
    fn sizes_are_numbered_from_the_second_file_on() {
        let mut files = rotation(Some(10), None, None);
        assert_eq!(names(&mut files, &[100; 3]), ["f", "f1", "f2", "f3"]);
    }

    #[test]
    fn a_ring_of_files_has_leading_zeros_and_begins_again() {
        let mut ten = rotation(Some(10), None, Some(10));
        let all = names(&mut ten, &[100; 10]);
        assert_eq!((&*all[0], &*all[9], &*all[10]), ("f0", "f9", "f0"));
        let mut eleven = rotation(Some(10), None, Some(11));
        let all = names(&mut eleven, &[100; 11]);
        assert_eq!((&*all[0], &*all[10], &*all[11]), ("f00", "f10", "f00"));
        let mut one = rotation(Some(10), None, Some(1));
        assert_eq!(names(&mut one, &[100; 2]), ["f", "f", "f"]);
    }

    #[test]
    fn windows_begin_with_the_packet_that_ends_the_one_before() {
        let mut windows = rotation(None, Some(10), None);
        assert_eq!(
            names(&mut windows, &[110, 135, 145]),
            ["f-100", "f-110", "f-135", "f-145"]
        );
        assert_eq!(windows.window_end(), Some(155));
    }

    #[test]
    fn windows_end_with_their_count() {
        let mut two = rotation(None, Some(10), Some(2));
        assert_eq!(names(&mut two, &[110, 120]), ["f-100", "f-110", "-"]);
    }

    #[test]
    fn numbers_begin_again_with_each_window() {
        let mut both = rotation(Some(10), Some(10), Some(3));
        assert_eq!(
            names(&mut both, &[101, 102, 103, 110, 111]),
            ["f-1000", "f-1001", "f-1002", "f-1000", "f-1100", "f-1101"]
        );
    }

    #[test]
    fn names_are_tried_beforehand() {
        assert!(check_name(Path::new("/a/%Y-%m-%d/%H%M%S.pcap")).is_ok());
        assert!(check_name(Path::new("100%!")).is_err());
    }
}
