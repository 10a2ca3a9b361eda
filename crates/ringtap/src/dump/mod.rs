//! `ringtap dump`: a source, a selection, and the destination of packets.

mod after;
mod error;
mod files;
mod index;
mod listing;
mod live;
mod placement;
mod plan;
mod printed;
mod processes;
mod program;
mod progress;
mod range;
mod select;
mod sink;
mod summary;

use std::io::{self, IsTerminal, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ringtap_capture::index::path_for;
use ringtap_capture::{Filter, Source};
use ringtap_record::{RecordOptions, Recording};

use crate::cli::DumpArgs;
use crate::exit;
use crate::expression;
use crate::input::{self, is_same_file};
use crate::notice::{counted, raw};
use crate::over_ip::{self, Server};
use crate::rights::{self, NamedFiles, Needs, Rights, Series};
use crate::setup::setup;
use after::After;

use plan::{Input, Plan};

pub(crate) use error::DumpError;
pub(crate) use index::Index;
pub(crate) use printed::Printed;
pub(crate) use processes::{Key as ProcessKey, Waiting as WaitingProcesses, key as process_key};
pub(crate) use range::{first_time, settle};
use select::Selector;
use sink::Sink;
use summary::Summary;

/// Runs the command.
pub(crate) fn run(args: DumpArgs) -> ExitCode {
    exit::code(files::with_lists(args).and_then(try_run))
}

fn try_run(mut args: DumpArgs) -> Result<(), DumpError> {
    let command = args.writing.postrotate.clone();
    let mut rights = Rights::begin(&args.rights, named_files(&args), command)?;
    let filter = filter(&args)?;
    if !args.source.read.is_empty() {
        // Nothing that is opened needs a privilege.
        let needs = Needs {
            network: filter.as_ref().is_some_and(Filter::looks_up_hosts)
                || args.source.read.iter().any(|path| over_ip::is_server(path)),
            ..Needs::default()
        };
        rights.relinquish(&[], needs)?;
        if args.source.is_list {
            input::sort_by_time(&mut args.source.read);
        }
    }
    let args = &args;
    if args.list_interfaces {
        return listing::interfaces();
    }
    if args.list_link_types {
        return listing::link_types(args.source.interface.as_deref());
    }
    let mut plan = Plan::new(args, io::stdout().is_terminal()).map_err(DumpError::Usage)?;
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
                options: &rights.name_containers((**options).clone()),
                threads: *threads,
            };
            live::run(args, &plan, &request, filter.as_ref(), &mut rights)
        }
        Input::Files(paths) if args.range.index && args.write.is_none() => {
            index::of_files(args, paths)
        }
        Input::Files(paths) => files::run(args, &plan, paths, filter.as_ref(), &mut rights),
    }
}

/// Returns the filter on the command line or in a file. `None` if there is none.
fn filter(args: &DumpArgs) -> Result<Option<Filter>, DumpError> {
    let extended = args.expression.extended;
    let mut expression = expression::read(&args.expression)?;
    if let Some(session) = &args.capture.session.exclude_ssh {
        expression = session.connection()?.left_out_of(&expression, extended);
    }
    let filter = expression::filter(expression, extended);
    let has_files = !args.source.read.is_empty() || args.source.file_list.is_some();
    Ok(filter.map(|filter| {
        filter
            .with_optimizer(!args.no_optimize)
            .with_processes(args.capture.who.is_some() || has_files)
    }))
}

/// Returns whether the name is standard output or an address to listen on.
pub(crate) fn is_stream(name: &Path) -> bool {
    name.as_os_str() == "-" || over_ip::is_listener(name)
}

/// Returns the files of the command line.
fn named_files(args: &DumpArgs) -> NamedFiles {
    let mut files = NamedFiles::default();
    let inputs = args.source.read.iter().chain(&args.expression.filter_file);
    files.inputs = rights::named(inputs);
    let writing = &args.writing;
    let Some(name) = args.write.as_ref().filter(|name| !is_stream(name)) else {
        if args.range.index {
            files.outputs = args.source.read.iter().map(|path| path_for(path)).collect();
        }
        return files;
    };
    let by_time = writing.rotate_seconds.is_some();
    if by_time || writing.file_size.is_some() {
        files.series = Some(Series::of(name, by_time));
    } else {
        files.outputs = vec![name.clone()];
    }
    files
}

/// Opens the outputs, after privileges were given up.
fn open_outputs(
    args: &DumpArgs,
    plan: &Plan,
    live: bool,
    listener: Option<over_ip::Listener>,
    rights: &mut Rights,
) -> Result<(Sink, After), DumpError> {
    let inputs = match &plan.input {
        Input::Files(paths) => paths.clone(),
        Input::Live { .. } => Vec::new(),
    };
    let commands = rights.take_commands();
    let mut after = After::new(args.range.index, commands, args.files.access(), inputs);
    if let Some(listener) = listener {
        let server = Server::start(listener);
        after.serve(server.map_err(|source| setup("serve clients", source))?);
    }
    let host = Arc::new(after.clone());
    let create = |path| Recording::create(path, options(plan, live), host);
    let file = plan.output.file.as_deref().map(create).transpose()?;
    if let (Some(path), Some(file)) = (&plan.output.file, &file)
        && plan.output.print
        && file.is_standard_output()
    {
        let path = path.clone();
        return Err(DumpError::Standard { path });
    }
    if let (Some(path), None) = (&plan.output.file, &plan.output.writing.rotation) {
        after.prepare(path)?;
    }
    let printed = plan
        .output
        .print
        .then(|| {
            Printed::new(
                &args.print,
                args.capture.who.is_some(),
                args.capture.wants_nano(),
            )
        })
        .transpose()?;
    let sink = Sink::new(Selector::new(&plan.selection), file, printed);
    Ok((sink, after))
}

fn options(plan: &Plan, live: bool) -> RecordOptions {
    let mut options = plan.output.writing.clone();
    options.nano = plan.nano;
    options.live = live;
    options.snaplen = match live {
        true => Some(plan.snaplen),
        false => plan.selection.snaplen,
    };
    options
}

/// Prints the number of packets, if requested.
fn print_count(args: &DumpArgs, packets: u64) -> Result<(), DumpError> {
    if !args.print.count_only {
        return Ok(());
    }
    let printed = writeln!(io::stdout(), "{}", counted(packets, "packet"));
    printed.map_err(|source| DumpError::Print { packets: 0, source })
}

/// Prints the summary, in the requested form.
fn report(summary: &Summary, json: bool) {
    let mut text = Vec::new();
    let written = if json {
        summary.write_json(&mut text)
    } else {
        summary.write_text(&mut text)
    };
    if written.is_ok() {
        crate::notice::summary(&summary.json(), String::from_utf8_lossy(&text));
    }
}

/// Prints how the source captures, if requested.
fn explain(args: &DumpArgs, source: &dyn Source) {
    if args.report.explain_capture {
        raw(source.describe());
    }
}
