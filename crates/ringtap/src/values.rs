//! Values of the command line with their own syntax: sizes, times, CPU lists.

mod trigger;

use std::num::NonZero;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use ringtap_capture::{SampleMode, Timestamp, Who};
use ringtap_packet::MAX_SNAPLEN;
use ringtap_savefile::{Codec, CodecError};

pub(crate) use trigger::{Alarm, Condition, Trigger, trigger};

/// A number of bytes; K, M and G stand for powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

/// CPU numbers, sorted, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuList(pub(crate) Vec<usize>);

impl CpuList {
    /// Returns the CPUs of an option. Empty if it was not given.
    pub(crate) fn of(option: Option<&Self>) -> Vec<usize> {
        option.map(|list| list.0.clone()).unwrap_or_default()
    }
}

/// A priority of the scheduling policy `SCHED_FIFO`, 1 to 99.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FifoPriority(pub(crate) u8);

impl FifoPriority {
    /// Returns the next higher priority, if there is one.
    pub(crate) fn next_above(self) -> u8 {
        self.0.saturating_add(1).min(99)
    }
}

/// A sampling of one packet in N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) one_in: u32,
    /// Whether it is every N-th packet, not a random one.
    pub(crate) regular: bool,
}

impl Sample {
    /// Returns the sampling for the capture: N, and how packets are selected.
    pub(crate) fn of(option: Option<Self>) -> (Option<NonZero<u32>>, SampleMode) {
        let one_in = option.and_then(|sample| NonZero::new(sample.one_in));
        match option {
            Some(sample) if sample.regular => (one_in, SampleMode::Regular),
            _ => (one_in, SampleMode::Random),
        }
    }
}

/// Parses the facts about processes that are recorded.
pub(crate) fn who(text: &str) -> Result<Who, ValueError> {
    let mut who = Who::PID;
    for field in text.split(',') {
        match field {
            "all" => who = Who::ALL,
            "pid" => {}
            "comm" => who.comm = true,
            "uid" => who.uid = true,
            "cmdline" => who.command_line = true,
            "cgroup" => who.cgroup = true,
            _ => return Err(ValueError::Who),
        }
    }
    Ok(who)
}

/// A time of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    At(Timestamp),
    /// A time of day; the day is known later. Local time.
    OfDay(jiff::civil::Time),
}

impl When {
    /// Returns the point in time, on that day if the value has no date.
    pub(crate) fn on(self, date: jiff::civil::Date) -> Result<Timestamp, ValueError> {
        match self {
            Self::At(time) => Ok(time),
            Self::OfDay(time) => instant(local(date.to_datetime(time)).ok()),
        }
    }
}

/// The reason why a value of the command line is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ValueError {
    #[error(
        "expected a whole number of bytes above 0, such as 4096, or with a unit, 512K, 64M or 1G (powers of 1024)"
    )]
    Size,
    #[error(
        "expected a whole number above 0: alone it is millions of bytes, with K, M or G powers of 1024; for half a \
         million bytes write 500K"
    )]
    FileSize,
    #[error("expected a whole number of {unit} from {least}{}", up_to(*most))]
    Whole {
        unit: &'static str,
        least: u64,
        most: Option<u64>,
    },
    #[error("expected a number of bytes from 0 to {MAX_SNAPLEN}")]
    Snaplen,
    #[error("expected a number of milliseconds from 1 to 2147483647")]
    Milliseconds,
    #[error("expected a time from 1ms to 24h such as 500ms, 1s, 2.5s or 5m")]
    Interval,
    #[error("expected 0, or a time from 1ms to 24h such as 500ms, 1s, 2.5s or 5m")]
    Linger,
    #[error("expected a number from 0.000001 to 1e15, such as 1000 or 2.5, without a unit")]
    Positive,
    #[error("expected a number from 1 to {THREADS_MAX}, or auto")]
    Threads,
    #[error(
        "expected a whole number from 1, such as 100 (one packet in 100, at random), or every:100"
    )]
    Sample,
    #[error("expected CPU numbers such as 0 or 0,2-3")]
    CpuList,
    #[error("expected fifo:N with N from 1 to 99")]
    Priority,
    #[error("expected an age such as 90m, 12h or 7d")]
    Age,
    #[error(
        "expected zstd:1 to zstd:19, or none: other codecs have no chunks that can be read alone"
    )]
    RecorderCodec,
    #[error(
        "expected NAME='FILTER', NAME='rate FILTER > 50k/s', NAME='loss > 0', or NAME='alert', 'alert new-host', 'alert scan > 100', 'alert rate > 500M'; letters, digits and ._- in the name"
    )]
    Trigger,
    #[error("expected a size, such as 64K, or a filter with a size: 'port 443=8K'")]
    Cutoff,
    #[error("expected all, or some of pid, comm, uid, cmdline and cgroup, such as --who=pid,comm")]
    Who,
    #[error("expected a size from 1M to 4G")]
    RecorderFile,
    #[error("expected an age such as 12h or 30d, or a size from 16M such as 200G")]
    Retain,
    #[error("expected a name of letters, digits and _, such as flows or db.flows")]
    TableName,
    #[error(
        "expected a flow such as '10.0.0.1:5 > 10.0.0.2:443 tcp', or '[2001:db8::1]:5 > [2001:db8::2]:443 udp'"
    )]
    Flow,
    #[error(
        "expected a time such as 2026-01-31T12:00:00Z, 2026-01-31T12:00:00 (local time), 12:00:00 \
         (of the day of the first packet) or 1769860800.5 (seconds since the epoch)"
    )]
    Time,
}

fn up_to(most: Option<u64>) -> String {
    most.map_or(String::new(), |most| format!(" to {most}"))
}

/// Returns the parser of words that each stand for a value.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static>(
    words: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let known = PossibleValuesParser::new(words.iter().map(|(word, _)| *word));
    known.map(move |given| {
        let found = words.iter().find(|(word, _)| *word == given);
        // Other words are rejected before.
        found.unwrap_or(&words[0]).1
    })
}

/// Returns a whole number within bounds. Without an upper bound, the limit is that of its type.
pub(crate) fn whole<T: TryFrom<u64>>(
    unit: &'static str,
    least: u64,
    most: Option<u64>,
) -> impl Fn(&str) -> Result<T, ValueError> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok();
        let number = number.filter(|number| (least..=most.unwrap_or(u64::MAX)).contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or(ValueError::Whole { unit, least, most })
    }
}

impl FromStr for Size {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let shift = match unit.to_ascii_uppercase().as_str() {
            "" | "B" => 0,
            "K" | "KB" | "KIB" => 10,
            "M" | "MB" | "MIB" => 20,
            "G" | "GB" | "GIB" => 30,
            "T" | "TB" | "TIB" => 40,
            _ => return Err(ValueError::Size),
        };
        let number: u64 = number.parse().map_err(|_| ValueError::Size)?;
        number
            .checked_mul(1 << shift)
            .filter(|&n| n > 0)
            .map(Size)
            .ok_or(ValueError::Size)
    }
}

impl FromStr for CpuList {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        ringtap_capture::parse_cpu_list(text)
            .map(CpuList)
            .map_err(|_| ValueError::CpuList)
    }
}

impl FromStr for FifoPriority {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let number = text.strip_prefix("fifo:").and_then(|n| n.parse().ok());
        number
            .filter(|n| (1..=99).contains(n))
            .map(FifoPriority)
            .ok_or(ValueError::Priority)
    }
}

/// A codec, or none regardless of the file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compress(pub(crate) Option<Codec>);

/// Parses a codec's name and level, or `none`.
pub(crate) fn codec(text: &str) -> Result<Compress, CodecError> {
    match text {
        "none" => Ok(Compress(None)),
        _ => text.parse().map(Some).map(Compress),
    }
}

/// Parses a file size as tcpdump does: millions of bytes, or powers of 1024 with a unit.
pub(crate) fn file_size(text: &str) -> Result<u64, ValueError> {
    const MILLION: u64 = 1_000_000;
    match text.parse::<u64>() {
        Ok(millions) => millions
            .checked_mul(MILLION)
            .filter(|&size| size > 0)
            .ok_or(ValueError::FileSize),
        Err(_) => match text.parse() {
            Ok(Size(bytes)) => Ok(bytes),
            Err(_) => Err(ValueError::FileSize),
        },
    }
}

/// Parses a snapshot length in bytes. 0 is the maximum.
pub(crate) fn snaplen(text: &str) -> Result<u32, ValueError> {
    match text.parse() {
        Ok(0) => Ok(MAX_SNAPLEN),
        Ok(n) if n <= MAX_SNAPLEN => Ok(n),
        _ => Err(ValueError::Snaplen),
    }
}

/// Parses `N` or `every:N`.
pub(crate) fn sample(text: &str) -> Result<Sample, ValueError> {
    let regular = text.strip_prefix("every:");
    let one_in = regular.unwrap_or(text).parse();
    match one_in {
        Ok(one_in) if one_in > 0 => Ok(Sample {
            one_in,
            regular: regular.is_some(),
        }),
        _ => Err(ValueError::Sample),
    }
}

/// Parses a rate or factor.
pub(crate) fn positive(text: &str) -> Result<f64, ValueError> {
    let number: Option<f64> = text.parse().ok();
    // NaN is in no range.
    number
        .filter(|number| (1e-6..=1e15).contains(number))
        .ok_or(ValueError::Positive)
}

/// Parses a timeout in milliseconds.
pub(crate) fn milliseconds(text: &str) -> Result<Duration, ValueError> {
    let ms: u32 = text.parse().map_err(|_| ValueError::Milliseconds)?;
    if ms == 0 || i32::try_from(ms).is_err() {
        return Err(ValueError::Milliseconds);
    }
    Ok(Duration::from_millis(ms.into()))
}

/// The shortest and the longest interval.
const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(86_400);

/// The maximum number of metering threads.
const THREADS_MAX: u16 = 256;

/// Parses a number of threads. `auto` is the number of processors that the process may use.
pub(crate) fn threads(text: &str) -> Result<u16, ValueError> {
    if text == "auto" {
        let processors = std::thread::available_parallelism();
        let processors = processors.map_or(1, NonZero::get);
        return Ok(u16::try_from(processors).map_or(THREADS_MAX, |count| count.min(THREADS_MAX)));
    }
    let threads = text.parse().ok();
    let threads = threads.filter(|count| (1..=THREADS_MAX).contains(count));
    threads.ok_or(ValueError::Threads)
}

/// Parses a time that may be 0, else as [`interval`].
pub(crate) fn linger(text: &str) -> Result<Duration, ValueError> {
    match text {
        "0" | "0s" => Ok(Duration::ZERO),
        _ => interval(text).map_err(|_| ValueError::Linger),
    }
}

/// Parses an interval: a decimal number and its unit, seconds without one.
pub(crate) fn interval(text: &str) -> Result<Duration, ValueError> {
    let digits = |c: char| c.is_ascii_digit() || c == '.';
    let (number, unit) = text.split_at(text.find(|c| !digits(c)).unwrap_or(text.len()));
    let seconds_per_unit = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(ValueError::Interval),
    };
    let number: f64 = number.parse().map_err(|_| ValueError::Interval)?;
    Duration::try_from_secs_f64(number * seconds_per_unit)
        .ok()
        .filter(|interval| INTERVALS.contains(interval))
        .ok_or(ValueError::Interval)
}

/// Parses an age: as [`interval`], but of any length, and also in days.
pub(crate) fn age(text: &str) -> Result<Duration, ValueError> {
    let seconds = match text.strip_suffix('d') {
        Some(days) => days.parse::<f64>().ok().map(|days| days * 86_400.0),
        None => match text.split_at(text.len() - text.len().min(1)) {
            (hours, "h") => hours.parse::<f64>().ok().map(|hours| hours * 3600.0),
            _ => return interval(text).map_err(|_| ValueError::Age),
        },
    };
    let age = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let sensible = Duration::from_secs(1)..=Duration::from_secs(100 * 366 * 86_400);
    age.filter(|age| sensible.contains(age))
        .ok_or(ValueError::Age)
}

/// A limit of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retain {
    Age(Duration),
    Size(Size),
}

/// Parses a limit of a store. A capital letter at the end is a unit of a size.
pub(crate) fn retain(text: &str) -> Result<Retain, ValueError> {
    if text.ends_with(|c: char| c.is_ascii_uppercase()) {
        let size: Size = text.parse().map_err(|_| ValueError::Retain)?;
        return match size.0 >= 16 << 20 {
            true => Ok(Retain::Size(size)),
            false => Err(ValueError::Retain),
        };
    }
    age(text).map(Retain::Age).map_err(|_| ValueError::Retain)
}

/// Parses the name of a table in a database.
pub(crate) fn table_name(text: &str) -> Result<String, ValueError> {
    let is_word = |part: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !part.is_empty() && part.chars().all(is_plain)
    };
    let fits = text.len() <= 128 && text.split('.').count() <= 2 && text.split('.').all(is_word);
    fits.then(|| text.to_owned()).ok_or(ValueError::TableName)
}

/// Parses the codec of a recorder.
pub(crate) fn recorder_codec(text: &str) -> Result<Compress, ValueError> {
    match codec(text) {
        Ok(Compress(given @ (None | Some(Codec::Zstd(_))))) => Ok(Compress(given)),
        _ => Err(ValueError::RecorderCodec),
    }
}

/// Parses the size of a recorder's files.
pub(crate) fn recorder_file(text: &str) -> Result<Size, ValueError> {
    let size: Size = text.parse().map_err(|_| ValueError::RecorderFile)?;
    let sensible = (1 << 20)..=(4 << 30);
    Some(size)
        .filter(|size| sensible.contains(&size.0))
        .ok_or(ValueError::RecorderFile)
}

/// How much is kept of each flow, of all or of those that a filter accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cutoff {
    pub(crate) filter: Option<String>,
    pub(crate) bytes: u64,
}

/// Parses `64K` or `FILTER=8K`.
pub(crate) fn cutoff(text: &str) -> Result<Cutoff, ValueError> {
    let (filter, size) = match text.rsplit_once('=') {
        Some((filter, size)) => (Some(filter.trim().to_owned()), size.trim()),
        None => (None, text.trim()),
    };
    if filter.as_ref().is_some_and(String::is_empty) {
        return Err(ValueError::Cutoff);
    }
    let size: Size = size.parse().map_err(|_| ValueError::Cutoff)?;
    let bytes = size.0;
    Ok(Cutoff { filter, bytes })
}

/// The filter expression for a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlowFilter(pub(crate) String);

/// Parses a flow, `10.0.0.1:5 > 10.0.0.2:443 tcp`. IPv6 addresses with a port are in brackets. The port and
/// the protocol may be missing.
pub(crate) fn flow(text: &str) -> Result<FlowFilter, ValueError> {
    let (source, rest) = text.split_once('>').ok_or(ValueError::Flow)?;
    let mut words = rest.split_whitespace();
    let destination = words.next().ok_or(ValueError::Flow)?;
    let protocol = match words.next().map(str::to_ascii_lowercase) {
        None => None,
        Some(name) if matches!(name.as_str(), "tcp" | "udp" | "sctp" | "icmp" | "icmp6") => {
            Some(name)
        }
        Some(_) => return Err(ValueError::Flow),
    };
    if words.next().is_some() {
        return Err(ValueError::Flow);
    }
    let ends = [endpoint(source.trim())?, endpoint(destination)?];
    if ends[0].0.is_ipv4() != ends[1].0.is_ipv4() {
        return Err(ValueError::Flow);
    }
    let way = |from: usize, to: usize| {
        let mut parts = Vec::new();
        for (direction, (address, port)) in [("src", ends[from]), ("dst", ends[to])] {
            parts.push(format!("{direction} host {address}"));
            parts.extend(port.map(|port| format!("{direction} port {port}")));
        }
        parts.join(" and ")
    };
    let both = format!("(({}) or ({}))", way(0, 1), way(1, 0));
    Ok(FlowFilter(match protocol {
        Some(protocol) => format!("{protocol} and {both}"),
        None => both,
    }))
}

/// Parses an address with or without a port.
fn endpoint(text: &str) -> Result<(std::net::IpAddr, Option<u16>), ValueError> {
    if let Ok(address) = text.parse::<std::net::SocketAddr>() {
        return Ok((address.ip(), Some(address.port())));
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse();
    address
        .map(|address| (address, None))
        .map_err(|_| ValueError::Flow)
}

/// Parses a point in time: RFC 3339, a local date and time, a time of day, or decimal seconds since the
/// epoch.
pub(crate) fn time(text: &str) -> Result<When, ValueError> {
    if let Some(time) = epoch_seconds(text) {
        return Ok(When::At(time));
    }
    // A date has a hyphen; a time without a hyphen would be taken for a date.
    if !text.contains('-') && text.contains(':') && !text.contains(['T', 't', 'Z', 'z', '+']) {
        return text.parse().map(When::OfDay).map_err(|_| ValueError::Time);
    }
    let found = text.parse::<jiff::Timestamp>();
    instant(found.or_else(|_| local(text.parse()?)).ok()).map(When::At)
}

fn local(time: jiff::civil::DateTime) -> Result<jiff::Timestamp, jiff::Error> {
    Ok(time.to_zoned(jiff::tz::TimeZone::system())?.timestamp())
}

fn instant(found: Option<jiff::Timestamp>) -> Result<Timestamp, ValueError> {
    let nanos = found.and_then(|time| i64::try_from(time.as_nanosecond()).ok());
    nanos.map(Timestamp::from_nanos).ok_or(ValueError::Time)
}

fn epoch_seconds(text: &str) -> Option<Timestamp> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty()
        || !whole
            .bytes()
            .chain(fraction.bytes())
            .all(|b| b.is_ascii_digit())
    {
        return None;
    }
    if fraction.len() > 9 {
        return None;
    }
    let nanos: u32 = format!("{fraction:0<9}").parse().ok()?;
    Some(Timestamp::new(whole.parse().ok()?, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!("4096".parse(), Ok(Size(4096)));
        assert_eq!("2k".parse(), Ok(Size(2048)));
        assert_eq!("64MiB".parse(), Ok(Size(64 << 20)));
        assert_eq!("2T".parse(), Ok(Size(2 << 40)));
        for bad in ["", "0", "K", "1P", "-1", "1.5M", "99999999999G"] {
            assert_eq!(bad.parse::<Size>(), Err(ValueError::Size), "{bad}");
        }
    }

    #[test]
    fn cutoffs_have_a_size_and_perhaps_a_filter() {
        let parsed = |text| cutoff(text).map(|one| (one.filter, one.bytes));
        assert_eq!(parsed("64K"), Ok((None, 64 << 10)));
        let filter = Some("tcp[13] & 2 = 2".to_owned());
        assert_eq!(parsed("tcp[13] & 2 = 2=8K"), Ok((filter, 8 << 10)));
        for bad in ["", "0", "=8K", "port 443", "port 443=", "port 443=x"] {
            assert_eq!(cutoff(bad), Err(ValueError::Cutoff), "{bad}");
        }
    }

    #[test]
    fn flows_become_filters() {
        let filter = |text| flow(text).map(|flow| flow.0);
        assert_eq!(
            filter("10.0.0.1:5 > 10.0.0.2 tcp").as_deref(),
            Ok(
                "tcp and ((src host 10.0.0.1 and src port 5 and dst host 10.0.0.2) or (src host 10.0.0.2 and \
                dst host 10.0.0.1 and dst port 5))"
            )
        );
        assert!(filter("[2001:db8::1]:5 > 2001:db8::2 udp").is_ok());
        for bad in [
            "",
            "10.0.0.1",
            "10.0.0.1 > ",
            "10.0.0.1 > ::1",
            "a > b",
            "10.0.0.1 > 10.0.0.2 gre",
        ] {
            assert_eq!(filter(bad), Err(ValueError::Flow), "{bad}");
        }
    }

    #[test]
    fn ages_may_be_days() {
        assert_eq!(age("7d"), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(age("90m"), Ok(Duration::from_secs(5400)));
        assert_eq!(age("48h"), Ok(Duration::from_secs(48 * 3600)));
        for bad in ["", "d", "-1d", "soon", "0d", "1000000d"] {
            assert_eq!(age(bad), Err(ValueError::Age), "{bad}");
        }
    }

    #[test]
    fn file_sizes_are_millions_without_a_unit() {
        assert_eq!(file_size("1"), Ok(1_000_000));
        assert_eq!(file_size("1k"), Ok(1024));
        assert_eq!(file_size("2M"), Ok(2 << 20));
        for bad in ["0", "", "0.5", "1x", "-1", "99999999999999999"] {
            assert_eq!(file_size(bad), Err(ValueError::FileSize), "{bad}");
        }
    }

    #[test]
    fn whole_numbers_say_what_they_count() {
        let seconds = whole::<u32>("seconds", 1, None);
        assert_eq!(seconds("5"), Ok(5));
        for bad in ["", "0", "5s", "-1", "1.5", "4294967296"] {
            let error = seconds(bad).unwrap_err().to_string();
            assert_eq!(error, "expected a whole number of seconds from 1", "{bad}");
        }
        let threads = whole::<u16>("threads", 1, Some(64));
        let error = threads("65").unwrap_err().to_string();
        assert_eq!(error, "expected a whole number of threads from 1 to 64");
    }

    #[test]
    fn snaplen_zero_is_the_largest() {
        assert_eq!(snaplen("0"), Ok(MAX_SNAPLEN));
        assert_eq!(snaplen("96"), Ok(96));
        assert_eq!(snaplen("262145"), Err(ValueError::Snaplen));
    }

    #[test]
    fn intervals_have_units() {
        let millis = |text| interval(text).map(|interval| interval.as_millis());
        assert_eq!(millis("500ms"), Ok(500));
        assert_eq!(millis("1"), Ok(1_000));
        assert_eq!(millis("2.5s"), Ok(2_500));
        assert_eq!(millis("24h"), Ok(86_400_000));
        for bad in [
            "", "s", "0", "0.5ms", "25h", "-1s", "1d", "1 s", "1e3s", "..s", "NaN",
        ] {
            assert_eq!(interval(bad), Err(ValueError::Interval), "{bad}");
        }
        assert_eq!(linger("0"), Ok(Duration::ZERO));
        assert_eq!(linger("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(linger("1e9"), Err(ValueError::Linger));
    }

    #[test]
    fn times_in_four_forms() {
        let at = |secs, nanos| Ok(When::At(Timestamp::new(secs, nanos)));
        assert_eq!(time("1769860800.5"), at(1_769_860_800, 500_000_000));
        assert_eq!(time("2026-01-31T12:00:00Z"), at(1_769_860_800, 0));
        assert_eq!(
            time("2026-01-31T13:00:00.25+01:00"),
            at(1_769_860_800, 250_000_000)
        );
        assert!(matches!(time("2026-01-31T12:00:00"), Ok(When::At(_))));
        assert!(matches!(time("2026-01-31 12:00:00"), Ok(When::At(_))));
        let noon = jiff::civil::time(12, 0, 0, 500_000_000);
        assert_eq!(time("12:00:00.5"), Ok(When::OfDay(noon)));
        let date = jiff::civil::date(2026, 1, 31);
        assert_eq!(When::OfDay(noon).on(date), {
            let local = date
                .to_datetime(noon)
                .to_zoned(jiff::tz::TimeZone::system());
            let local = local.unwrap().timestamp().as_nanosecond();
            Ok(Timestamp::from_nanos(i64::try_from(local).unwrap()))
        });
        for bad in ["", "yesterday", "1.0000000001", "25:00:00", "12:00Z", "-5"] {
            assert_eq!(time(bad), Err(ValueError::Time), "{bad}");
        }
    }

    #[test]
    fn priorities_are_fifo() {
        assert_eq!("fifo:50".parse(), Ok(FifoPriority(50)));
        for bad in ["50", "fifo:0", "fifo:100", "rr:5"] {
            assert_eq!(
                bad.parse::<FifoPriority>(),
                Err(ValueError::Priority),
                "{bad}"
            );
        }
    }
}
