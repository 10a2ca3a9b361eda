//! `ringtap extract`: packets of a time, a host or a flow out of the folders of recorders.
//!
//! Data in: the catalogues, then only those chunks that may have packets of the answer, by their times and by
//! the indices of their files ([`merge`]). Data out: packets in order of time, to a file or as lines.

mod answer;
mod error;
mod merge;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jiff::tz::TimeZone;
use ringtap_capture::Filter;
use ringtap_record::archive::{Window, nanos, safe};

use crate::cli::ExtractArgs;
use crate::dump::{DumpError, settle};
use crate::expression;
use crate::notice::{counted, notice, raw};
use crate::record::{Names, catalogue, read_files};
use crate::rights::{self, Needs, Rights};
use crate::signals::Requests;
use crate::values::When;
use answer::Answer;
use error::ExtractError;
use merge::Merge;

/// Runs the command.
pub(crate) fn run(args: &ExtractArgs) -> ExitCode {
    match try_run(args) {
        Ok(code) => code,
        Err(error) => {
            notice(&error);
            ExitCode::from(error.exit_status())
        }
    }
}

fn try_run(args: &ExtractArgs) -> Result<ExitCode, ExtractError> {
    refuse_output(args)?;
    let mut named = read_files(&args.dir);
    named.inputs = rights::named(&args.filter_file);
    let to_file = args.write.iter().filter(|path| path.as_os_str() != "-");
    named.outputs = to_file.cloned().collect();
    let rights = Rights::begin(&args.rights, named, None)?;
    let filter = filter(args)?;
    let window = window(args)?;
    let names = args.dir.iter().map(|folder| Names::of(folder));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    let looks_up = filter.as_ref().is_some_and(Filter::looks_up_hosts);
    let needs = Needs {
        network: looks_up,
        ..Needs::default()
    };
    rights.relinquish(&[], needs)?;
    let requests = Requests::default();
    requests.watch(Vec::new())?;
    let mut merge = Merge::new(filter, window, !args.no_index);
    let devices: Vec<String> = args.interface.iter().map(|device| safe(device)).collect();
    for (folder, names) in args.dir.iter().zip(&names) {
        let listing = catalogue(names, window)?;
        merge.add(folder, listing, &devices);
    }
    // The first packets of each stream are read before the output is opened: a filter that does not fit is
    // found then.
    merge.prime()?;
    let mut answer = Answer::open(args)?;
    merge.run(&mut answer, &requests)?;
    let packets = answer.finish()?;
    if args.print.count_only {
        answer::print_count(packets)?;
    }
    let summary = merge.summary(packets);
    match args.json_stats {
        true => raw(format_args!("{}\n", summary.json())),
        false => notice(summary.words()),
    }
    if summary.damaged_chunks > 0 {
        notice(format_args!(
            "{} damaged: {} missing in the answer; ringtap record check shows where",
            counted(summary.damaged_chunks, "chunk"),
            counted(summary.damaged_packets, "packet")
        ));
    }
    Ok(match summary.is_whole() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Rejects an output in the folder of a recorder: it would count to the budget.
fn refuse_output(args: &ExtractArgs) -> Result<(), ExtractError> {
    let Some(path) = args.write.as_ref().filter(|path| path.as_os_str() != "-") else {
        return Ok(());
    };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let real = |path: &Path| path.canonicalize().ok();
    let folder = real(parent);
    let same = |dir: &&PathBuf| folder.is_some() && real(dir) == folder;
    match args.dir.iter().find(same) {
        Some(folder) => Err(ExtractError::InFolder {
            path: path.clone(),
            folder: folder.clone(),
        }),
        None => Ok(()),
    }
}

/// Returns the filter of the command line and that of `--flow`, both of which must match.
fn filter(args: &ExtractArgs) -> Result<Option<Filter>, ExtractError> {
    let expression = expression::read(&args.filter, args.filter_file.as_deref());
    let expression = expression.map_err(DumpError::from)?;
    let flow = args.flow.as_ref().map(|flow| flow.0.as_str());
    let both = match (expression.trim(), flow) {
        ("", None) => return Ok(None),
        ("", Some(flow)) => flow.to_owned(),
        (expression, None) => expression.to_owned(),
        (expression, Some(flow)) => format!("({expression}) and {flow}"),
    };
    Ok(Some(Filter::new(both).with_extensions(args.extended)))
}

/// Returns the window of time. Times of day are of today, or of yesterday if they are still to come today.
fn window(args: &ExtractArgs) -> Result<Window, ExtractError> {
    let now = jiff::Timestamp::now().to_zoned(TimeZone::system());
    let today = now.date();
    let settle = |date| settle(args.from.as_ref(), args.to.as_ref(), date);
    let mut range = settle(today).map_err(DumpError::Usage)?;
    let is_to_come = |when: &Option<When>| match when {
        Some(When::OfDay(time)) => *time > now.time(),
        _ => false,
    };
    let first = if args.from.is_some() {
        &args.from
    } else {
        &args.to
    };
    if is_to_come(first)
        && let Ok(yesterday) = today.yesterday()
    {
        range = settle(yesterday).map_err(DumpError::Usage)?;
    }
    let (from, to) = range;
    Ok(Window {
        from: from.map(nanos),
        to: to.map(nanos),
    })
}
