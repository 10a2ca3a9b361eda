//! `ringtap profile`: measures the cost of a captured packet, component by component.
//!
//! Reports of `ringtap_profile` go in. Tables or JSON on standard output come out, and a chart.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringtap_capture::{CaptureOptions, Device, Direction, ENGINES, Filter, LinkType, Mode};
use ringtap_profile::traffic::Traffic;
use ringtap_profile::{Plan, Report, chart, text, trials};

use crate::cli::ProfileArgs;
use crate::exit::{self, Ends, RunError, USAGE};
use crate::input::is_same_file;
use crate::notice::notice;
use crate::output;
use crate::setup::{SetupError, spawn};
use crate::signals::Requests;
use crate::values::CpuList;

/// How often signals are checked.
const LOOK: Duration = Duration::from_millis(50);
/// For generated packets only arrivals are profiled, since the other end sends.
const GENERATED: Direction = Direction::In;

/// The unsuccessful end of `ringtap profile`.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Profile(ringtap_profile::Error),
    #[error(transparent)]
    Run(RunError),
    #[error("cannot write {}: {source}", path.display())]
    Chart { path: PathBuf, r#source: io::Error },
    #[error("{}: is both read and written; writing would destroy it", path.display())]
    SameFile { path: PathBuf },
    #[error("no engine could be profiled")]
    Nothing,
    #[error("{device}: cannot profile, since it is not an interface; name one")]
    Any { device: String },
}

impl<E: Into<RunError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Run(error.into())
    }
}

impl From<ringtap_profile::Error> for Failure {
    fn from(error: ringtap_profile::Error) -> Self {
        match error {
            ringtap_profile::Error::Capture(error) => error.into(),
            other => Self::Profile(other),
        }
    }
}

impl Ends for Failure {
    fn exit_status(&self) -> u8 {
        match self {
            Self::Run(error) => error.exit_status(),
            Self::Any { .. } | Self::SameFile { .. } => USAGE,
            _ => 1,
        }
    }
}

fn describe(error: &ringtap_profile::Error) -> String {
    match error {
        ringtap_profile::Error::Capture(error) => crate::filter::describe(error),
        other => other.to_string(),
    }
}

/// Runs the command.
pub(crate) fn run(args: &ProfileArgs) -> ExitCode {
    exit::code(try_run(args))
}

fn try_run(args: &ProfileArgs) -> Result<(), Failure> {
    let (plan, engines) = decide(args)?;
    let baseline = args
        .output
        .baseline
        .as_deref()
        .map(ringtap_profile::report::read)
        .transpose()?;
    // Before anything is measured: a failed write would waste the measurement.
    let svg = args.output.svg.as_deref();
    let chart = svg
        .map(|path| output::open(path, args.output.files.access()).map_err(not_written(path)))
        .transpose()?;
    if let (Some(baseline), Some(path)) = (args.output.baseline.as_deref(), svg)
        && is_same_file(baseline, path)
    {
        let path = path.to_owned();
        return Err(Failure::SameFile { path });
    }
    let stop = watch_for_end()?;
    let mut reports = Vec::new();
    for engine in &engines {
        match profile(&plan, *engine, args, &stop) {
            Ok(report) => reports.push(report),
            // If one engine is unavailable, the others still run.
            Err(error) if args.compare => {
                let engine = engine.unwrap_or_default();
                notice(format_args!("{engine}: left out: {}", describe(&error)));
            }
            Err(error) => return Err(error.into()),
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    if reports.is_empty() {
        return Err(Failure::Nothing);
    }
    // First: if the chart cannot be written, the measurements are still printed.
    print(args, &reports, baseline.as_deref()).map_err(RunError::Print)?;
    if let (Some(path), Some(chart)) = (svg, chart) {
        let drawn = draw(&reports, baseline.as_deref())?;
        let written = chart
            .emptied()
            .and_then(|mut file| file.write_all(drawn.as_bytes()));
        written.map_err(not_written(path))?;
    }
    Ok(())
}

fn not_written(path: &Path) -> impl Fn(io::Error) -> Failure {
    move |source| Failure::Chart {
        path: path.to_owned(),
        source,
    }
}

fn profile(
    plan: &Plan,
    engine: Option<&str>,
    args: &ProfileArgs,
    stop: &AtomicBool,
) -> ringtap_profile::Result<Report> {
    let mut plan = plan.clone();
    // Packets in our own namespaces belong to nobody else, so AF_XDP may take them.
    if engine == Some("xsk") && plan.device.is_none() {
        plan.options.mode = Mode::Steal;
    }
    if engine == Some("xdp") && plan.options.direction == Direction::Both {
        plan.options.direction = Direction::In;
    }
    let mut report = ringtap_profile::run(&plan, engine, stop)?;
    if args.try_settings || args.try_interface {
        trials::try_all(&plan, &mut report, args.try_interface, stop);
    }
    Ok(report)
}

/// Returns the plan and the engines. `None` stands for the engine that a capture chooses by itself.
fn decide(args: &ProfileArgs) -> Result<(Plan, Vec<Option<&'static str>>), Failure> {
    let device = args.interface.as_deref().map(Device::parse).transpose()?;
    if let Some(device) = device.filter(|device| device.name == "any") {
        return Err(Failure::Any {
            device: device.given.to_owned(),
        });
    }
    let filter = args.filter.join(" ");
    let filter = (!filter.is_empty()).then(|| Filter::new(filter));
    if let Some(filter) = &filter {
        // An invalid filter is reported before anything is set up; the interface's own link type is checked
        // later.
        filter.compile(LinkType::ETHERNET, args.capture.snaplen)?;
    }
    let plan = Plan {
        device: device.map(|device| device.name.to_owned()),
        options: options(args, device.is_none()),
        filter,
        duration: args.duration,
        rate: args.rate,
        traffic: Traffic {
            size: args.traffic.size,
            per_second: args.traffic.pps,
            flows: args.traffic.flows,
            ..Traffic::default()
        },
        steps: !args.no_steps,
        work: args.work,
    };
    let steals = args.capture.mode == Mode::Steal || device.is_none();
    let engines = if args.compare {
        // Dropped packets are others than those of the device.
        let all = ENGINES.iter().filter(|engine| engine.link_type.is_none());
        let all = all.map(|engine| engine.name);
        // AF_XDP takes packets away from the host: only with consent.
        all.filter(|name| *name != "xsk" || steals)
            .map(Some)
            .collect()
    } else {
        let named = device
            .and_then(|device| device.engine)
            .map(|engine| engine.name);
        vec![named.or(args.engine)]
    };
    Ok((plan, engines))
}

fn options(args: &ProfileArgs, generates: bool) -> CaptureOptions {
    let capture = &args.capture;
    let mut options = CaptureOptions::default()
        .snaplen(capture.snaplen)
        .timeout(capture.timeout)
        .promiscuous(!capture.no_promiscuous)
        .direction(if generates {
            GENERATED
        } else {
            capture.direction
        })
        .precision(capture.timestamp)
        .mode(capture.mode)
        .force(capture.force)
        .cpus(CpuList::of(capture.cpu.as_ref()));
    if let Some(buffer) = capture.buffer {
        options.buffer = buffer.0;
    }
    if let Some(bytes) = capture.min_to_copy {
        options.min_to_copy = u32::try_from(bytes.0).unwrap_or(u32::MAX);
    }
    options
}

/// Returns a flag that a signal sets.
fn watch_for_end() -> Result<std::sync::Arc<AtomicBool>, SetupError> {
    let requests = Requests::default();
    requests.watch_for_end(Vec::new())?;
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let seen = std::sync::Arc::downgrade(&stop);
    spawn("end", move || {
        while let Some(stop) = seen.upgrade() {
            if requests.stop() {
                stop.store(true, Ordering::Relaxed);
                return;
            }
            drop(stop);
            std::thread::sleep(LOOK);
        }
    })?;
    Ok(stop)
}

fn draw(reports: &[Report], baseline: Option<&[Report]>) -> ringtap_profile::Result<String> {
    let before = baseline
        .into_iter()
        .flatten()
        .map(|report| (format!("{}, before", report.engine), report));
    let now = reports.iter().map(|report| {
        let name = if baseline.is_some() {
            format!("{}, now", report.engine)
        } else {
            report.engine.clone()
        };
        (name, report)
    });
    let bars: Vec<_> = before.chain(now).collect();
    let first = &reports[0];
    let caption = format!("What a packet costs: {}, {}", first.device, first.traffic);
    chart::draw(&bars, &caption)
}

fn print(args: &ProfileArgs, reports: &[Report], baseline: Option<&[Report]>) -> io::Result<()> {
    let mut output = io::stdout().lock();
    if args.output.json {
        serde_json::to_writer_pretty(&mut output, reports)?;
        return writeln!(output);
    }
    for (number, report) in reports.iter().enumerate() {
        if number > 0 {
            writeln!(output)?;
        }
        let before = baseline.and_then(|all| {
            let same = all.iter().find(|before| before.engine == report.engine);
            same.or(all.first())
        });
        output.write_all(text::profile(report, before).as_bytes())?;
    }
    if reports.len() > 1 {
        writeln!(output)?;
        output.write_all(text::comparison(reports).as_bytes())?;
    }
    output.flush()
}
