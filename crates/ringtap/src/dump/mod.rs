//! `ringtap dump`: a source, a selection, and where the packets go.

mod after;
mod command;
mod error;
mod file;
mod files;
mod fill;
mod index;
mod listing;
mod live;
mod placement;
mod plan;
mod printed;
mod program;
mod progress;
mod range;
mod rotate;
mod select;
mod sink;
mod summary;
mod writer;

use std::io::{self, IsTerminal, Write as _};
use std::process::ExitCode;

use ringtap_capture::{Filter, Source};
use ringtap_sys::privileges::{self, Capability, User};

use crate::cli::DumpArgs;
use crate::expression;
use crate::input::is_same_file;
use crate::notice::{notice, raw};
use after::After;
use command::Commands;
use error::DumpError;
use file::{CaptureFile, Settings};
use plan::{Input, Plan};
use printed::Printed;
pub(crate) use range::first_time;
use select::Selector;
use sink::Sink;
use summary::Summary;

/// Runs the command.
pub(crate) fn run(args: DumpArgs) -> ExitCode {
    match files::with_lists(args).and_then(|args| try_run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            notice(&error);
            ExitCode::from(error.exit_status())
        }
    }
}

fn try_run(args: &DumpArgs) -> Result<(), DumpError> {
    if args.list_interfaces {
        return listing::interfaces();
    }
    if args.list_link_types {
        return listing::link_types(args.interface.as_deref());
    }
    let mut plan = Plan::new(args, io::stdout().is_terminal()).map_err(DumpError::Usage)?;
    let filter = filter(args)?;
    if args.dump_program > 0 {
        return program::print(args, filter.as_ref());
    }
    plan.settle_range(&args.range)?;
    match &plan.input {
        Input::Live {
            device,
            options,
            threads,
        } => {
            if let Some(name) = &args.link_type {
                listing::check_link_type(device.as_deref(), name)?;
            }
            let request = live::Request {
                device: device.as_deref(),
                options,
                threads: *threads,
            };
            live::run(args, &plan, &request, filter.as_ref())
        }
        Input::Files(paths) if args.range.index && args.write.is_none() => {
            index::of_files(args, paths)
        }
        Input::Files(paths) => files::run(args, &plan, paths, filter.as_ref()),
    }
}

/// The filter of the words on the command line or of a file; nothing where there is none.
fn filter(args: &DumpArgs) -> Result<Option<Filter>, DumpError> {
    let expression = expression::read(&args.filter, args.filter_file.as_deref())?;
    let filter = (!expression.trim().is_empty()).then(|| Filter::new(expression));
    Ok(filter.map(|filter| {
        filter
            .with_optimizer(!args.no_optimize)
            .with_extensions(args.extended)
    }))
}

/// Gives up what the run needs no more, in the order that `-Z` asks for: files are created as the
/// user where one is named, else before the capability to write anywhere goes.
fn open_outputs(
    args: &DumpArgs,
    plan: &Plan,
    live: bool,
    keep: &[Capability],
) -> Result<(Sink, After), DumpError> {
    let mut keep = keep.to_vec();
    if plan.output.writing.rotation.is_some() && args.capture.user.is_none() {
        // Files that are created later are created by the right that creates the first.
        keep.push(Capability::DAC_OVERRIDE);
    }
    let keep = &keep[..];
    let user = user(args)?;
    if user.is_some() {
        relinquish(user.as_ref(), keep)?;
    }
    let commands = plan.output.writing.command.clone().map(Commands::new);
    let after = After::new(args.range.index, commands, args.files.access());
    let file = match &plan.output.file {
        Some((path, format)) => {
            let settings = settings(plan, *format, live);
            Some(CaptureFile::create(path, settings, after.clone())?)
        }
        None => None,
    };
    if let (Some((path, _)), Some(file)) = (&plan.output.file, &file)
        && plan.output.print
        && file.is_standard_output()
    {
        let path = path.clone();
        return Err(DumpError::Standard { path });
    }
    if let (Some((path, _)), None) = (&plan.output.file, &plan.output.writing.rotation) {
        after.prepare(path)?;
    }
    if user.is_none() {
        relinquish(None, keep)?;
    }
    let printed = plan
        .output
        .print
        .then(|| Printed::new(&args.print, &args.capture))
        .transpose()?;
    let sink = Sink::new(Selector::new(&plan.selection), file, printed);
    Ok((sink, after))
}

/// Who to become, if that was asked for.
fn user(args: &DumpArgs) -> Result<Option<User>, DumpError> {
    let user = args.capture.user.as_deref().map(User::by_name).transpose();
    user.map_err(|source| setup("find the user of -Z", source))
}

fn settings(plan: &Plan, format: crate::cli::FileFormat, live: bool) -> Settings {
    let snaplen = if live {
        Some(plan.snaplen)
    } else {
        plan.selection.snaplen
    };
    Settings {
        format,
        nano: plan.nano,
        live,
        snaplen,
        inputs: match &plan.input {
            Input::Files(paths) => paths.clone(),
            Input::Live { .. } => Vec::new(),
        },
        writing: plan.output.writing.clone(),
    }
}

fn relinquish(user: Option<&User>, keep: &[Capability]) -> Result<(), DumpError> {
    privileges::relinquish(user, keep).map_err(|source| setup("give up privileges", source))
}

fn setup(
    what: &'static str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> DumpError {
    DumpError::Setup {
        what,
        source: source.into(),
    }
}

/// Prints how many packets there were, where that was asked for.
fn print_count(args: &DumpArgs, packets: u64) -> Result<(), DumpError> {
    if !args.print.count_only {
        return Ok(());
    }
    let plural = if packets == 1 { "" } else { "s" };
    let printed = writeln!(io::stdout(), "{packets} packet{plural}");
    printed.map_err(|source| DumpError::Print { packets: 0, source })
}

/// Prints the summary, in the form that was asked for.
fn report(summary: &Summary, json: bool) {
    let mut text = Vec::new();
    let written = if json {
        summary.write_json(&mut text)
    } else {
        summary.write_text(&mut text)
    };
    if written.is_ok() {
        raw(String::from_utf8_lossy(&text));
    }
}

/// Prints how the source captures, where that was asked for.
fn explain(args: &DumpArgs, source: &dyn Source) {
    if args.report.explain_capture {
        raw(source.describe());
    }
}
