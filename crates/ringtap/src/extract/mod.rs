//! `ringtap extract`: packets of a time, a host or a flow out of the folders of recorders.
//!
//! Data in: the catalogues, then only those chunks that may have packets of the answer, by their times and by
//! the indices of their files ([`merge`]). Data out: packets in order of time, to a file or as lines.

mod answer;
mod error;
mod merge;
mod processes;
mod remote;
mod sink;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jiff::tz::TimeZone;
use ringtap_capture::Filter;
use ringtap_record::archive::{Window, nanos, safe};

use crate::cli::ExtractArgs;
use crate::dump::{DumpError, settle};
use crate::exit;
use crate::expression;
use crate::notice::{counted, notice, raw};
use crate::record::{Names, catalogue, read_files};
use crate::rights::{self, Needs, Rights};
use crate::signals::Requests;
use crate::values::When;
use answer::Answer;
pub(crate) use error::ExtractError;
pub(crate) use merge::Merge;
use merge::Summary;
use remote::Remotes;
pub(crate) use sink::{Encoded, Sink};

/// Runs the command.
pub(crate) fn run(args: &ExtractArgs) -> ExitCode {
    exit::code_or(try_run(args))
}

fn try_run(args: &ExtractArgs) -> Result<ExitCode, ExtractError> {
    refuse_output(args)?;
    let (remote, local): (Vec<PathBuf>, Vec<PathBuf>) = args
        .dir
        .iter()
        .cloned()
        .partition(|dir| remote::is_remote(dir));
    let mut named = read_files(&local);
    named.inputs = rights::named(&args.expression.filter_file);
    for path in [&args.remote.token_file, &args.remote.tls_ca] {
        named.inputs.extend(path.iter().cloned());
    }
    let to_file = args.write.iter().filter(|path| path.as_os_str() != "-");
    named.outputs = to_file.cloned().collect();
    let rights = Rights::begin(&args.rights, named, None)?;
    let question = question(args)?;
    let filter = expression::filter(question.clone(), args.expression.extended);
    let window = window(args)?;
    let remotes = Remotes::new(&remote, &args.remote)?;
    let names = local.iter().map(|folder| Names::of(folder));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    let looks_up = filter.as_ref().is_some_and(Filter::looks_up_hosts);
    let needs = Needs {
        network: looks_up || !remotes.is_empty(),
        ..Needs::default()
    };
    rights.relinquish(&[], needs)?;
    let requests = Requests::default();
    requests.watch(Vec::new())?;
    let mut merge = Merge::new(filter, window, !args.no_index).with_progress();
    let devices: Vec<String> = args.interface.iter().map(|device| safe(device)).collect();
    let text = (!question.is_empty()).then_some(question.as_str());
    for (address, answer) in remotes.ask(text, window, &args.interface)? {
        merge.add_remote(address, Box::new(answer));
    }
    for (folder, names) in local.iter().zip(&names) {
        let listing = catalogue(names, window)?;
        merge.add(folder, listing, &devices);
    }
    // The first packets of each stream are read before the output is opened: a filter that does not fit is
    // found then.
    let stop = || requests.stop();
    merge.prime(&stop)?;
    let mut answer = Answer::open(args)?;
    merge.run(&mut answer, &stop)?;
    let packets = answer.finish()?;
    if args.print.count_only {
        answer::print_count(packets)?;
    }
    Ok(report(args, &merge.summary(packets)))
}

/// Prints the summary. Returns the exit status.
fn report(args: &ExtractArgs, summary: &Summary) -> ExitCode {
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
    match summary.is_whole() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
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

/// Returns the filter of the command line and that of `--flow`, both of which must match. It is empty if there is
/// none.
fn question(args: &ExtractArgs) -> Result<String, ExtractError> {
    let expression = expression::read(&args.expression)?;
    let flow = args.flow.as_ref().map(|flow| flow.0.as_str());
    Ok(match (expression.trim(), flow) {
        ("", None) => String::new(),
        ("", Some(flow)) => flow.to_owned(),
        (expression, None) => expression.to_owned(),
        (expression, Some(flow)) => format!("({expression}) and {flow}"),
    })
}

/// Returns the window of time. Times of day are of today, or of yesterday if they are still to come today.
fn window(args: &ExtractArgs) -> Result<Window, ExtractError> {
    let now = jiff::Timestamp::now().to_zoned(TimeZone::system());
    let today = now.date();
    let (from, to) = (args.from.as_ref(), args.to.as_ref());
    let settle = |date| settle(from, to, date).map_err(DumpError::Usage);
    let mut range = settle(today)?;
    if matches!(from.or(to), Some(When::OfDay(time)) if *time > now.time())
        && let Ok(yesterday) = today.yesterday()
    {
        range = settle(yesterday)?;
    }
    let (from, to) = range;
    Ok(Window {
        from: from.map(nanos),
        to: to.map(nanos),
    })
}
