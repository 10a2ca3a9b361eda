//! The numbers of a recorder: a file that it writes once a second, and the command that prints it.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use ringtap_record::archive::{Archive, STATUS, Usage};
use ringtap_sys::output::Access;
use serde::{Deserialize, Serialize};

use super::copier::CopyCounts;
use super::device::{Device, Numbers};
use super::error::RecorderError;
use super::folder::{is_locked, read_files};
use crate::cli::StatusArgs;
use crate::exit::RunError;
use crate::losses::JsonDropped;
use crate::notice::{Fields, counted, notice, summary, warning};
use crate::rights::{self, Needs, Rights};
use crate::setup::lock;

/// The step of the file's size: the text is filled with spaces.
const STEP: usize = 16 << 10;
/// The longest status that is read.
const LONGEST: u64 = 4 << 20;
/// The characters of a failure's message that are kept.
const LONGEST_FAILURE: usize = 1024;

/// The numbers of a recorder, as it writes them and others read them. Their names are part of the command line's
/// contract; those with a default are not in the files of earlier versions.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    #[serde(default)]
    version: String,
    process: u32,
    pub(super) running: bool,
    /// Seconds since the epoch.
    pub(super) started: f64,
    pub(super) updated: f64,
    #[serde(default)]
    folder: PathBuf,
    pub(super) budget: u64,
    pub(super) bytes: u64,
    pub(super) files: u64,
    pub(super) chunks: u64,
    pub(super) packets: u64,
    /// Packets that were cut while these files were written, and their bytes on the wire.
    #[serde(default)]
    pub(super) cut_packets: u64,
    #[serde(default)]
    pub(super) cut_bytes: u64,
    /// Entries that the catalogue does not have.
    #[serde(default)]
    pub(super) unlisted_entries: u64,
    /// The catalogue's generation.
    pub(crate) catalogue: Option<u32>,
    /// Seconds since the epoch.
    pub(super) oldest: Option<f64>,
    pub(super) newest: Option<f64>,
    /// How many days of packets the budget holds at the present rate.
    pub(super) days: Option<f64>,
    pub(super) removed_files: u64,
    pub(super) incident_bytes: u64,
    /// Copies that triggers made since the start, and those that could not be made.
    #[serde(default)]
    pub(super) incidents: u64,
    #[serde(default)]
    pub(super) failed_incidents: u64,
    /// Triggers that were not obeyed, since too many copies waited.
    #[serde(default)]
    pub(super) ignored_triggers: u64,
    pub(super) devices: Vec<DeviceReport>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct DeviceReport {
    pub(super) device: String,
    engine: String,
    /// The reason why nothing is recorded at present.
    pub(super) failure: Option<String>,
    pub(super) received: Option<u64>,
    pub(super) recorded: u64,
    pub(super) bytes: u64,
    pub(super) dropped: JsonDropped,
    /// Packets that the disk did not take.
    pub(super) dropped_by_writer: u64,
    /// Packets that cut-offs left out, and their bytes on the wire.
    #[serde(default)]
    pub(super) cut_packets: u64,
    #[serde(default)]
    pub(super) cut_bytes: u64,
    /// Packets of which only the headers were kept, and the captured bytes after these.
    #[serde(default)]
    shortened_packets: u64,
    #[serde(default)]
    shortened_bytes: u64,
    /// Flows that the table of cut-offs lost: more of them is kept.
    #[serde(default)]
    pub(super) evicted_flows: u64,
    /// Chunks that wait for the disk, and those for which there is memory.
    pub(super) queue: Option<(u64, u64)>,
}

/// The report of a recorder that runs, and where its numbers come from.
pub(super) struct Status {
    report: Report,
    numbers: Vec<Arc<Numbers>>,
    /// How often each device's counters had been read when it was last known to be alive.
    ticks: Vec<u64>,
    /// Devices of which it was reported that the disk is too slow.
    slow: Vec<bool>,
    copies: Arc<CopyCounts>,
}

/// Returns the beginning of a message, which may have a long name of a file.
fn beginning(text: &str) -> String {
    text.chars().take(LONGEST_FAILURE).collect()
}

fn now() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}

/// Returns seconds since the epoch.
pub(super) fn seconds(nanos: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "microseconds are enough")]
    let nanos = nanos as f64;
    (nanos / 1e3).round() / 1e6
}

impl Status {
    pub(super) fn new(
        (folder, budget): (&Path, u64),
        names: &[(String, &'static str)],
        devices: &[Device],
        copies: Arc<CopyCounts>,
    ) -> Self {
        let reports = names.iter().map(|(device, engine)| DeviceReport {
            device: device.clone(),
            engine: (*engine).to_owned(),
            ..DeviceReport::default()
        });
        let report = Report {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process: std::process::id(),
            running: true,
            started: now(),
            updated: now(),
            folder: folder.to_owned(),
            budget,
            catalogue: Some(0),
            devices: reports.collect(),
            ..Report::default()
        };
        Self {
            report,
            numbers: devices.iter().map(Device::numbers).collect(),
            ticks: vec![0; devices.len()],
            slow: vec![false; devices.len()],
            copies,
        }
    }

    /// Takes the present numbers.
    pub(super) fn update(&mut self, archive: &Archive) {
        let usage = archive.usage();
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let report = &mut self.report;
        report.updated = now();
        report.bytes = usage.bytes;
        report.files = usage.files;
        report.chunks = usage.chunks;
        report.packets = usage.packets;
        report.cut_packets = usage.cut.packets;
        report.cut_bytes = usage.cut.bytes;
        report.unlisted_entries = usage.unlisted;
        report.catalogue = Some(usage.generation);
        report.oldest = usage.times.map(|(oldest, _)| seconds(oldest));
        report.newest = usage.times.map(|(_, newest)| seconds(newest));
        report.days = days(&usage, report.budget);
        report.removed_files = usage.removed;
        report.incident_bytes = usage.incidents;
        report.incidents = load(&self.copies.made);
        report.failed_incidents = load(&self.copies.failed);
        report.ignored_triggers = load(&self.copies.ignored);
        for (device, numbers) in report.devices.iter_mut().zip(&self.numbers) {
            let stats = *lock(&numbers.stats);
            device.failure = lock(&numbers.failure).as_deref().map(beginning);
            device.received = stats.received;
            device.recorded = load(&numbers.packets).saturating_sub(load(&numbers.lost));
            device.bytes = load(&numbers.bytes);
            device.dropped = JsonDropped::new(&stats.dropped, stats.dropped.sampling);
            device.dropped_by_writer = load(&numbers.lost);
            let cuts = *lock(&numbers.cuts);
            device.cut_packets = cuts.cut.packets;
            device.cut_bytes = cuts.cut.bytes;
            device.shortened_packets = cuts.shortened.packets;
            device.shortened_bytes = cuts.shortened.bytes;
            device.evicted_flows = cuts.evicted;
            device.queue = lock(&numbers.gauge).as_ref().map(|gauge| gauge.depth());
        }
    }

    /// Returns whether the thread of each device has worked since the last call that returned true.
    pub(super) fn is_alive(&mut self) -> bool {
        let ticks = self.numbers.iter();
        let ticks: Vec<u64> = ticks.map(|one| one.ticks.load(Ordering::Relaxed)).collect();
        let is_alive = ticks.iter().zip(&self.ticks).all(|(now, then)| now > then);
        if is_alive {
            self.ticks = ticks;
        }
        is_alive
    }

    /// Reports devices for whose packets the disk is too slow, or no longer.
    pub(super) fn report_pace(&mut self) {
        for ((device, numbers), is_slow) in self
            .report
            .devices
            .iter()
            .zip(&self.numbers)
            .zip(&mut self.slow)
        {
            let depth = lock(&numbers.gauge).as_ref().map(|gauge| gauge.depth());
            let (waiting, room) = depth.unwrap_or((0, 1));
            let name = &device.device;
            if !*is_slow && waiting + 1 >= room && room > 1 {
                *is_slow = true;
                warning(
                    &Fields::default().with("interface", name),
                    format_args!(
                        "{name}: the disk is too slow: all memory for packets that wait is used (--write-buffer)"
                    ),
                );
            } else if *is_slow && waiting < room / 2 {
                *is_slow = false;
                notice(format_args!("{name}: the disk is fast enough again"));
            }
        }
    }

    /// Returns the reason why a device is not recorded at present.
    pub(super) fn failure(&self) -> Option<&str> {
        let mut devices = self.report.devices.iter();
        devices.find_map(|one| one.failure.as_deref())
    }

    /// Notes that the run is over.
    pub(super) fn end(&mut self) {
        self.report.running = false;
    }

    /// Prints the counters of the run.
    pub(super) fn print_end(&self, json: bool) {
        if json {
            summary(&self.report, format_args!("{}\n", self.json()));
            return;
        }
        for device in &self.report.devices {
            let text = format_args!("{}: {}\n", device.device, device.words());
            summary(device, text);
        }
    }

    fn json(&self) -> String {
        serde_json::to_string(&self.report).unwrap_or_default()
    }
}

impl DeviceReport {
    fn words(&self) -> String {
        let mut parts = vec![format!("{} recorded", counted(self.recorded, "packet"))];
        if self.cut_packets > 0 {
            parts.push(format!("{} cut", self.cut_packets));
        }
        parts.extend(self.dropped.words());
        if self.dropped_by_writer > 0 {
            parts.push(format!("{} lost by the writer", self.dropped_by_writer));
        }
        parts.join(", ")
    }
}

/// Returns how many days of packets the budget holds at the rate of those that are kept.
fn days(usage: &Usage, budget: u64) -> Option<f64> {
    const DAY: f64 = 86_400.0;
    let (oldest, newest) = usage.times?;
    let span = seconds(newest) - seconds(oldest);
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let share = usage.stored as f64 / budget.max(1) as f64;
    (span >= 1.0 && share > 0.0).then(|| (span / share / DAY * 1e4).round() / 1e4)
}

/// The file with the status. It keeps its size, so that it takes no further room.
pub(super) struct StatusFile {
    file: File,
    size: usize,
}

impl StatusFile {
    pub(super) fn open(folder: &Path, access: Access) -> Result<Self, RecorderError> {
        let path = folder.join(STATUS);
        let opened =
            rights::write(&path, access, true).and_then(ringtap_sys::output::Output::into_file);
        let file = opened.map_err(RecorderError::folder(&path))?;
        let len = file.metadata().map_or(0, |metadata| metadata.len());
        let size = usize::try_from(len).unwrap_or(0).next_multiple_of(STEP);
        Ok(Self { file, size })
    }

    pub(super) fn write(&mut self, status: &Status) {
        let mut text = status.json().into_bytes();
        self.size = self.size.max(text.len().next_multiple_of(STEP));
        text.resize(self.size, b' ');
        // A disk that takes nothing is reported by the writer of the packets.
        let _ = self.file.write_all_at(&text, 0);
    }
}

/// Returns the process of a status.
pub(super) fn process(text: &str) -> Option<u32> {
    let report: Report = serde_json::from_str(text.trim_end()).ok()?;
    Some(report.process)
}

/// Prints the status of the recorder of a folder. The exit status is 1 if none runs.
pub(super) fn print(args: &StatusArgs) -> Result<ExitCode, RecorderError> {
    let folder = std::slice::from_ref(&args.dir);
    let rights = Rights::begin(&args.rights, read_files(folder), None)?;
    // The sandbox has no locks.
    let is_locked = is_locked(&args.dir);
    rights.relinquish(&[], Needs::default())?;
    let (text, mut status) = read(&args.dir)?;
    // After a crash the file says otherwise.
    status.running &= is_locked;
    let is_running = status.running;
    let printed = match (args.json, args.openmetrics) {
        (true, _) => print_json(&text, status.running),
        (_, true) => io::stdout().write_all(super::metrics::text(status).as_bytes()),
        _ => io::stdout().write_all(status.lines().as_bytes()),
    };
    printed.map_err(RunError::Print)?;
    Ok(match is_running {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Reads the status of a recorder: the text, and its parts.
pub(crate) fn read(folder: &Path) -> Result<(String, Report), RecorderError> {
    let path = folder.join(STATUS);
    let mut text = String::new();
    let file = rights::read(&path);
    let read = file.and_then(|file| file.take(LONGEST).read_to_string(&mut text));
    read.map_err(RecorderError::folder(&path))?;
    text.truncate(text.trim_end().len());
    let invalid = |error: serde_json::Error| io::Error::new(io::ErrorKind::InvalidData, error);
    let parsed = serde_json::from_str(&text).map_err(invalid);
    let parsed = parsed.map_err(RecorderError::folder(&path))?;
    Ok((text, parsed))
}

fn print_json(text: &str, running: bool) -> io::Result<()> {
    let mut value: serde_json::Value = serde_json::from_str(text)?;
    if let Some(field) = value.get_mut("running") {
        *field = running.into();
    }
    writeln!(io::stdout(), "{value}")
}

impl Report {
    /// Takes a recorder for ended if its status is older than this time, in seconds since 1970.
    pub(crate) fn settle(&mut self, oldest: f64) {
        self.running &= self.updated >= oldest;
    }

    fn lines(&self) -> String {
        let mut text = match self.running {
            true => format!("recording (process {})\n", self.process),
            false => "not recording\n".to_owned(),
        };
        let percent = u128::from(self.bytes) * 100 / u128::from(self.budget.max(1));
        text += &format!(
            "{} of {} bytes of the budget ({percent} %), {}, {}\n",
            self.bytes,
            self.budget,
            counted(self.files, "file"),
            counted(self.packets, "packet")
        );
        if let (Some(oldest), Some(newest)) = (self.oldest, self.newest) {
            text += &format!("from {} to {}\n", time(oldest), time(newest));
        }
        if let Some(days) = self.days {
            text += &format!("the budget holds {days} days at this rate\n");
        }
        if self.cut_packets > 0 {
            let packets = counted(self.cut_packets, "packet");
            text += &format!("{packets} of {} bytes cut in this time\n", self.cut_bytes);
        }
        if self.unlisted_entries > 0 {
            text += &format!(
                "the catalogue does not have {} entries, because the disk took none\n",
                self.unlisted_entries
            );
        }
        if self.incident_bytes > 0 {
            text += &format!("{} bytes in incidents\n", self.incident_bytes);
        }
        if self.failed_incidents > 0 {
            let copies = counted(self.failed_incidents, "incident");
            text += &format!("{copies} NOT COPIED since the start\n");
        }
        if self.ignored_triggers > 0 {
            let triggers = counted(self.ignored_triggers, "trigger");
            text += &format!("{triggers} NOT OBEYED since the start: too many copies waited\n");
        }
        for device in &self.devices {
            text += &device.line();
        }
        text
    }
}

impl DeviceReport {
    fn line(&self) -> String {
        let mut parts = vec![format!("{} recorded", counted(self.recorded, "packet"))];
        if self.cut_packets > 0 {
            let (packets, bytes) = (self.cut_packets, self.cut_bytes);
            parts.push(format!("{packets} cut ({bytes} bytes)"));
        }
        if self.shortened_packets > 0 {
            parts.push(format!("{} as headers", self.shortened_packets));
        }
        if self.evicted_flows > 0 {
            let flows = counted(self.evicted_flows, "flow");
            parts.push(format!("{flows} evicted from the table of cut-offs"));
        }
        let lost = self
            .dropped
            .by_key()
            .into_iter()
            .filter_map(|(place, lost)| {
                let lost = lost.filter(|lost| *lost > 0)?;
                Some(format!("{lost} dropped ({place})"))
            });
        parts.extend(lost);
        if self.dropped_by_writer > 0 {
            parts.push(format!("{} lost by the writer", self.dropped_by_writer));
        }
        if let Some((waiting, room)) = self.queue {
            parts.push(format!("queue {waiting} of {room} chunks"));
        }
        let failure = self.failure.as_ref();
        parts.extend(failure.map(|failure| format!("NOT RECORDING: {failure}")));
        format!(
            "{} (engine {}): {}\n",
            self.device,
            self.engine,
            parts.join(", ")
        )
    }
}

/// Returns a time in local time.
fn time(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "times fit")]
    let micros = (seconds * 1e6) as i64;
    let time = jiff::Timestamp::from_microsecond(micros).unwrap_or_default();
    let time = time.to_zoned(jiff::tz::TimeZone::system());
    time.strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string()
}
