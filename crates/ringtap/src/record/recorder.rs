//! Runs the recorder: opens devices and folder, gives up privileges, records until the end is requested.

use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ringtap_capture::{CaptureOptions, Description, Filter, Interface, Readers, Timestamp, Waker};
use ringtap_packet::MAX_SNAPLEN;
use ringtap_record::archive::{
    Archive, ArchiveOptions, Completed, LEAST_BUDGET, Repaired, Stream, safe,
};
use ringtap_record::{RecordOptions, RotationPlan};
use ringtap_savefile::Format;
use ringtap_sys::privileges::Capability;

use super::alerts::Alarms;
use super::control;
use super::copier::{Copier, CopyPlan};
use super::cutoff::Cutoffs;
use super::device::Device;
use super::error::RecorderError;
use super::folder::{Locked, Opener};
use super::incident::Incidents;
use super::indexer::Indexer;
use super::notify::Manager;
use super::status::{Status, StatusFile};
use super::trigger::{Fired, Watch, filter_of};
use crate::cli::RecorderArgs;
use crate::expression;
use crate::live::{self, LiveRun};
use crate::notice::{announce, counted, interrupted, notice, raw};
use crate::rights::{ArchiveFolder, Entrusted, NamedFiles, Needs, Rights, named};
use crate::setup::setup;
use crate::signals::Requests;
use crate::values::CpuList;

/// How long packets wait in the ring at most.
const TIMEOUT: Duration = Duration::from_millis(100);
/// How long packets wait in memory at most, before they are on their way to the disk.
const FLUSH: Duration = Duration::from_millis(400);
/// The share of the budget that a file has at most.
const SHARE: u64 = 32;
/// The sizes of files before compression, in bytes, unless one is given.
const FILES: std::ops::RangeInclusive<u64> = (1 << 20)..=(256 << 20);
/// The files for which the budget must have room: one that grows with its reserved room, and some that stay.
const LEAST_FILES: u64 = 4;
/// How often signals are looked at, and how often the status is written.
const LOOK: Duration = Duration::from_millis(100);
const STATUS: Duration = Duration::from_secs(1);

/// The values of the command line that are checked before anything is opened.
struct Plan<'a> {
    folder: &'a Path,
    budget: u64,
    file_size: u64,
    filter: Option<Filter>,
}

impl<'a> Plan<'a> {
    fn new(args: &'a RecorderArgs) -> Result<Self, RecorderError> {
        let devices = &args.interface;
        for (at, device) in devices.iter().enumerate() {
            if devices[..at]
                .iter()
                .any(|other| safe(other) == safe(device))
            {
                let device = device.clone();
                return Err(RecorderError::Twice { device });
            }
        }
        let count = devices.len() as u64;
        let budget = args.budget.as_ref().map_or(0, |size| size.0);
        let share = (budget / SHARE / count.max(1)).clamp(*FILES.start(), *FILES.end());
        let file_size = args.writing.file_size.as_ref().map_or(share, |size| size.0);
        let least = LEAST_BUDGET.max(LEAST_FILES * file_size) * count;
        if budget < least {
            return Err(RecorderError::Budget {
                given: budget,
                least,
                file_size,
                devices: count,
            });
        }
        Ok(Self {
            folder: args.dir.as_deref().unwrap_or(Path::new(".")),
            budget,
            file_size,
            filter: None,
        })
    }

    fn archive(&self, args: &RecorderArgs) -> ArchiveOptions {
        ArchiveOptions::default()
            .budget(self.budget)
            .keep_free(args.keep_free.as_ref().map_or(0, |size| size.0))
            .max_age(args.max_age)
            .index(!args.writing.no_index)
            .compressed(args.writing.compress.0.is_some())
    }

    fn recording(&self, args: &RecorderArgs) -> RecordOptions {
        let writing = &args.writing;
        let cpus = CpuList::of(writing.write_cpu.as_ref());
        let processors = match cpus.len() {
            0 => thread::available_parallelism().map_or(1, usize::from),
            some => some,
        };
        let workers = writing.compress_threads.map_or(processors, usize::from);
        let mut rotation = RotationPlan::default();
        rotation.size = Some(self.file_size);
        let seconds = writing.file_time.as_secs().max(1);
        rotation.seconds = Some(u32::try_from(seconds).unwrap_or(u32::MAX));
        let step = (self.file_size / 8).clamp(256 << 10, 16 << 20);
        RecordOptions::default()
            .format(Format::Pcapng)
            .live(true)
            .snaplen(Some(args.capture.snaplen.unwrap_or(MAX_SNAPLEN)))
            .codec(writing.compress.0)
            .workers(workers)
            .memory(writing.write_buffer.0)
            .cpus(cpus)
            .flush(FLUSH)
            .durable(true)
            .reserve(Some(step.next_multiple_of(4096)))
            .rotation(Some(rotation))
    }
}

fn capture_options(args: &RecorderArgs) -> CaptureOptions {
    let capture = &args.capture;
    let mut options = CaptureOptions::default()
        .snaplen(capture.snaplen.unwrap_or(MAX_SNAPLEN))
        .timeout(TIMEOUT)
        .wait(Some(TIMEOUT))
        .promiscuous(!capture.no_promiscuous)
        .direction(capture.direction)
        .who(capture.who)
        .cooked(!args.netns.is_all())
        .all_namespaces(args.netns.is_all())
        .cpus(CpuList::of(capture.cpu.as_ref()));
    if let Some(buffer) = &capture.buffer {
        options.buffer = buffer.0;
    }
    options
}

/// A device that is open.
struct Opened {
    name: String,
    readers: Readers,
    description: Description,
    interfaces: Vec<Interface>,
}

/// The triggers and cut-offs of a device, which see each packet before it is recorded.
type Watches = (Option<Watch>, Option<Cutoffs>);

/// The socket for requests, and the conditions that occur.
type Asked = (UnixDatagram, Receiver<Fired>);

/// The devices, for what needs privileges until the end.
struct Devices<'a>(&'a mut [Opened]);

impl Entrusted for Devices<'_> {
    fn capabilities(&self) -> Vec<Capability> {
        let all = self
            .0
            .iter()
            .flat_map(|device| device.readers.required_capabilities());
        let mut capabilities = Vec::new();
        for capability in all {
            if !capabilities.contains(&capability) {
                capabilities.push(capability);
            }
        }
        capabilities
    }

    fn has_to_look(&self) -> bool {
        self.0.iter().any(|device| device.readers.has_to_look())
    }

    fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.0.iter().find_map(|device| device.readers.watched())
    }

    fn look(&mut self) {
        for device in self.0.iter_mut() {
            device.readers.look();
            if let Err(error) = device.readers.look_at_chain() {
                interrupted(&error);
            }
        }
    }

    fn entrusted(&mut self) {
        for device in self.0.iter_mut() {
            device.readers.entrusted();
        }
    }

    fn put_back(&mut self) {
        for device in self.0.iter_mut() {
            device.readers.close();
        }
    }
}

/// Runs the recorder.
pub(super) fn run(args: &RecorderArgs) -> Result<(), RecorderError> {
    let mut plan = Plan::new(args)?;
    let named = NamedFiles {
        inputs: named(&args.expression.filter_file),
        archives: vec![ArchiveFolder {
            path: plan.folder.to_owned(),
            is_written: true,
            is_asked: false,
        }],
        ..NamedFiles::default()
    };
    let manager = Manager::connect();
    let rights = Rights::begin(&args.rights, named, None)?;
    let expression = expression::read(&args.expression)?;
    plan.filter = expression::filter(expression, args.expression.extended);
    let options = rights.name_containers(capture_options(args));
    let mut opened = open_devices(args, &options, plan.filter.as_ref())?;
    let placed = options.place_thread();
    placed.map_err(|source| setup("place the capture threads", source))?;
    let (sender, fired) = channel();
    let mut watches = Vec::new();
    let alarms = Alarms::of(&args.triggers.trigger)?;
    for one in &opened {
        let watch = Watch::new(&args.triggers, &one.name, &one.interfaces, sender.clone())?;
        watches.push((watch, Cutoffs::new(&args.cuts, &one.interfaces)?));
    }
    // Everything that can be rejected was. Only now is anything written.
    let access = args.files.access();
    let locked = Locked::open(plan.folder, access)?;
    let socket = control::listen(plan.folder)?;
    rights.entrust(&mut Devices(&mut opened))?;
    rights.relinquish(&[], Needs::of_devices())?;
    if args.explain_capture {
        for device in &opened {
            raw(device.readers.first().describe());
        }
        raw(rights.explain());
    }
    record(
        args,
        &plan,
        (&options, opened),
        locked,
        (watches, (socket, fired), manager),
        (&alarms, &sender),
    )
}

fn open_devices(
    args: &RecorderArgs,
    options: &CaptureOptions,
    filter: Option<&Filter>,
) -> Result<Vec<Opened>, RecorderError> {
    let mut opened = Vec::new();
    for name in &args.interface {
        let numbered = crate::devices::by_number(name);
        let device = numbered.as_deref().unwrap_or(name);
        let readers = live::open(device, options, filter, (1, args.explain_capture))?;
        opened.push(Opened {
            name: device.to_owned(),
            description: readers.first().describe(),
            interfaces: readers.first().interfaces().to_vec(),
            readers,
        });
    }
    Ok(opened)
}

/// Opens the archive, and records until the end is requested. Privileges were given up.
fn record(
    args: &RecorderArgs,
    plan: &Plan<'_>,
    (options, mut opened): (&CaptureOptions, Vec<Opened>),
    locked: Locked,
    (watches, asked, mut manager): (Vec<Watches>, Asked, Manager),
    (alarms, sender): (&Alarms, &Sender<Fired>),
) -> Result<(), RecorderError> {
    let access = args.files.access();
    // It ends with the run.
    let _lock = locked.lock;
    let files = Arc::new(Opener(access));
    let (archive, repaired) = Archive::open(
        plan.folder,
        locked.directory,
        &locked.found,
        locked.incidental.bytes(),
        files,
        plan.archive(args),
    )?;
    report_repairs(plan.folder, &repaired);
    let archive = Arc::new(archive);
    let mut status = StatusFile::open(plan.folder, access)?;
    let (indexer, complete) = Indexer::start(Arc::clone(&archive), access)?;
    let requests = Requests::default();
    let wakers: Vec<Waker> = opened
        .iter()
        .flat_map(|device| device.readers.wakers())
        .collect();
    requests.watch(wakers)?;
    let recording = (plan, plan.recording(args));
    let shared = (&archive, &complete, &requests);
    let devices = devices(recording, &opened, (watches, alarms, sender), shared)?;
    drop(complete);
    if !args.explain_capture {
        for device in &opened {
            announce("recording", &device.description, options.direction);
        }
    }
    let copier = Copier::start(&archive, copy_plan(args), locked.incidental)?;
    let counts = copier.counts();
    let names = opened_names(&opened);
    let mut report = Status::new((plan.folder, plan.budget), &names, &devices, counts);
    let mut incidents = Incidents::new(asked, &args.triggers, copier);
    manager.ready();
    let result = run_devices(&mut opened, devices, (options, &requests), |is_time| {
        if requests.take_report() {
            incidents.signalled();
        }
        incidents.look(&archive, false);
        if is_time {
            report.report_pace();
            archive.tick(Timestamp::now());
            report.update(&archive);
            status.write(&report);
            manager.tell(report.failure());
        }
        manager.feed(|| report.is_alive());
    });
    manager.stopping();
    incidents.end(&archive, || manager.extend());
    indexer.finish();
    report.update(&archive);
    report.end();
    status.write(&report);
    report.print_end(args.json_stats);
    result
}

fn copy_plan(args: &RecorderArgs) -> CopyPlan {
    CopyPlan {
        filter: args.triggers.trigger_filter.as_deref().map(filter_of),
        codec: args.writing.compress.0,
        access: args.files.access(),
    }
}

/// Starts the recording of each device.
fn devices(
    (plan, options): (&Plan<'_>, RecordOptions),
    opened: &[Opened],
    (watches, alarms, sender): (Vec<Watches>, &Alarms, &Sender<Fired>),
    (archive, complete, requests): (&Arc<Archive>, &Sender<Completed>, &Requests),
) -> Result<Vec<Device>, RecorderError> {
    let mut devices = Vec::new();
    for (one, watch) in opened.iter().zip(watches) {
        let completed = complete.clone();
        // Without a receiver the run is over.
        let complete = Box::new(move |file: Completed| drop(completed.send(file)));
        let stream = Stream::new(Arc::clone(archive), &one.name, complete, Box::new(notice));
        let woken = requests.clone();
        let mut device = Device::new(
            &one.name,
            (Arc::clone(archive), stream),
            (options.clone(), TIMEOUT),
            plan.filter.is_none(),
            Arc::new(move || woken.wake()),
            watch,
        );
        let begun = device.begin(&one.interfaces);
        begun.map_err(|error| RecorderError::folder(plan.folder)(std::io::Error::other(error)))?;
        device.raise(alarms.meter(&one.name, &one.interfaces, sender.clone())?);
        devices.push(device);
    }
    Ok(devices)
}

fn opened_names(opened: &[Opened]) -> Vec<(String, &'static str)> {
    let names = opened.iter();
    names
        .map(|device| (device.name.clone(), device.description.engine))
        .collect()
}

/// Records each device on a thread of its own. When one ends, the others end too. The calling thread runs
/// `look` often, with true once a second.
fn run_devices(
    opened: &mut [Opened],
    devices: Vec<Device>,
    (options, requests): (&CaptureOptions, &Requests),
    mut look: impl FnMut(bool),
) -> Result<(), RecorderError> {
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut result = Ok(());
        for (one, mut device) in opened.iter_mut().zip(devices) {
            let thread = thread::Builder::new().name(format!("record {}", one.name));
            let own = requests.clone();
            let work = move || {
                let live = LiveRun::new(&one.readers, own.clone(), options);
                let read = match one.readers.sources.first_mut() {
                    Some(source) => live.read(&mut **source, &mut device),
                    None => Ok(()),
                };
                own.ask_stop();
                device.finish(one.readers.stats().unwrap_or_default());
                read
            };
            match thread.spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    requests.ask_stop();
                    result = Err(setup("start a thread", error).into());
                }
            }
        }
        let mut looked: Option<Instant> = None;
        while threads.iter().any(|thread| !thread.is_finished()) {
            if looked.is_none_or(|looked| looked.elapsed() >= STATUS) {
                looked = Some(Instant::now());
                look(true);
            } else {
                look(false);
            }
            thread::sleep(LOOK);
        }
        for thread in threads {
            let ended = thread.join();
            let ended = ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            result = result.and(ended);
        }
        result
    })
}

/// Reports what a crash had left.
fn report_repairs(folder: &Path, repaired: &Repaired) {
    let folder = folder.display();
    if repaired.ended > 0 {
        notice(format_args!(
            "{folder}: the last run was cut; {} ended, with {} that the catalogue did not have",
            counted(repaired.ended, "file"),
            counted(repaired.packets, "packet")
        ));
    }
    if repaired.unknown > 0 {
        notice(format_args!(
            "{folder}: {} that the catalogue did not have",
            counted(repaired.unknown, "file")
        ));
    }
    if repaired.missing > 0 {
        notice(format_args!(
            "{folder}: {} of the catalogue {} missing",
            counted(repaired.missing, "file"),
            if repaired.missing == 1 { "is" } else { "are" }
        ));
    }
    if repaired.damaged > 0 {
        notice(format_args!(
            "{folder}: the catalogue is damaged in {}",
            counted(repaired.damaged, "place")
        ));
    }
}
