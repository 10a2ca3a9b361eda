//! The range of times that `--from` and `--to` select.

use std::path::{Path, PathBuf};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use ringtap_capture::{Next, ReadOptions, Source as _, Timestamp};

use super::error::{DumpError, UsageError};
use super::plan::{Input, Plan};
use crate::cli::RangeArgs;
use crate::input::of_opened;
use crate::over_ip;
use crate::rights;
use crate::values::When;

impl Plan {
    /// Sets the range. Times of day are on the day of a file's first packet, or today in a live capture.
    pub(crate) fn settle_range(&mut self, range: &RangeArgs) -> Result<(), DumpError> {
        let times = [&range.from, &range.to].into_iter().flatten();
        let date = match times.clone().any(|time| matches!(time, When::OfDay(_))) {
            true => date(&self.input)?,
            false => Date::default(),
        };
        let (from, to) =
            settle(range.from.as_ref(), range.to.as_ref(), date).map_err(DumpError::Usage)?;
        (self.selection.from, self.selection.to) = (from, to);
        Ok(())
    }
}

/// The first time of a range, and the first one after it.
type Range = (Option<Timestamp>, Option<Timestamp>);

/// Returns the range of two times; times of day are on that date.
pub(crate) fn settle(
    from: Option<&When>,
    to: Option<&When>,
    date: Date,
) -> Result<Range, UsageError> {
    let settled = |when: Option<&When>| when.map(|when| when.on(date)).transpose();
    let (Ok(begin), Ok(mut end)) = (settled(from), settled(to)) else {
        return Err(UsageError::NoSuchTime);
    };
    if let (Some(begin), Some(When::OfDay(time))) = (begin, to)
        && end.is_some_and(|end| end <= begin)
    {
        // After midnight.
        let tomorrow = date.tomorrow().ok();
        end = tomorrow.and_then(|date| When::OfDay(*time).on(date).ok());
    }
    if let (Some(begin), Some(end)) = (begin, end)
        && end <= begin
    {
        return Err(UsageError::EmptyRange);
    }
    Ok((begin, end))
}

fn date(input: &Input) -> Result<Date, DumpError> {
    let first = match input {
        Input::Live { .. } => None,
        Input::Files(paths) => {
            let stream = |path: &&PathBuf| path.as_os_str() == "-" || over_ip::is_server(path);
            if paths.iter().any(|path| stream(&path)) {
                return Err(DumpError::Usage(UsageError::DateOfStream));
            }
            let first = paths.iter().filter_map(|path| first_time(path));
            first.min()
        }
    };
    let instant = first.and_then(|time| jiff::Timestamp::new(time.secs(), 0).ok());
    let instant = instant.unwrap_or_else(jiff::Timestamp::now);
    Ok(instant.to_zoned(TimeZone::system()).date())
}

/// Returns the time of a file's first packet. `None` without a packet or a file, which is reported when it is
/// read.
pub(crate) fn first_time(path: &Path) -> Option<Timestamp> {
    if !rights::look(path).ok()?.is_file() {
        return None;
    }
    let opened = rights::read(path);
    let mut source = of_opened(path, opened, &ReadOptions::default(), None).ok()?;
    loop {
        match source.next().ok()? {
            Next::Block(block) => return block.packets().next().map(|packet| packet.timestamp),
            Next::End => return None,
            _ => {}
        }
    }
}
