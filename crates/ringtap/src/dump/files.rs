//! Passes files to the outputs, one by one.

use std::path::{Path, PathBuf};
use std::time::Instant;

use ringtap_capture::index::{Search, path_for};
use ringtap_capture::{FileSource, Filter, Item, Next, Source, Stats};
use ringtap_record::RecordError;
use ringtap_savefile::Format;

use super::error::DumpError;
use super::plan::Plan;
use super::progress::Progress;
use super::sink::Sink;
use super::{explain, index, is_same_file, open_outputs, print_count, report};
use crate::cli::DumpArgs;
use crate::exit::{self, Ends as _};
use crate::input::{self, Interruption};
use crate::rights::Rights;
use crate::setup::waker;
use crate::signals::Requests;

/// Reads the files to the outputs, and reports the counters at the end.
pub(crate) fn run(
    args: &DumpArgs,
    plan: &Plan,
    paths: &[PathBuf],
    filter: Option<&Filter>,
    rights: &mut Rights,
) -> Result<(), DumpError> {
    refuse_same_file(args, plan, paths)?;
    let interrupt = waker()?;
    let requests = Requests::default();
    let mut passed_over = 0;
    let mut sources = Vec::new();
    let search = (!args.range.no_index).then_some(Search {
        from: plan.selection.from,
        to: plan.selection.to,
    });
    for path in paths {
        if let Some(search) = search.as_ref().filter(|_| !input::may_be_silent(path)) {
            let (source, used) = input::open_indexed(path, filter, search)?;
            passed_over += index::tell(&used);
            sources.push(source);
        } else {
            let interruption = Interruption::new(&interrupt, &requests);
            sources.push(input::open(path, filter, interruption)?);
        }
    }
    let fine = |source: &FileSource| source.reader().format() == Format::Pcapng;
    refuse_link_types(plan, paths, &sources)?;
    let plan = &Plan {
        nano: plan.nano.or(sources.iter().any(fine).then_some(true)),
        ..plan.clone()
    };
    let (mut sink, after) = open_outputs(args, plan, false, None, rights)?;
    requests.watch(vec![interrupt])?;
    let inputs: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let mut progress = Progress::new(&inputs, plan.output.file.is_some() && !plan.output.print);

    let started = Instant::now();
    let mut packets = passed_over;
    let mut whole = true;
    let mut result = Ok(());
    for source in &mut sources {
        explain(args, source);
        sink.begin_source(filter.is_none());
        result = pump(source, &mut sink, &requests, &progress);
        packets += source.stats()?.received.unwrap_or(0);
        progress.next_file(source.reader().input_offset());
        if result.is_err() || requests.stop() || sink.is_done() {
            whole = false;
            break;
        }
    }
    drop(progress);
    if !sink.has_begun() && is_refusal(&result) {
        // Nothing was done that a summary could report.
        return result;
    }
    // Packets that were read ahead and not needed are in the sum.
    let stats = Stats {
        received: whole.then_some(packets),
        ..Stats::default()
    };
    let mut summary = sink.selector.summary("file", started.elapsed(), stats);
    let finished = sink.finish();
    summary.correct(&result, &finished);
    print_count(args, summary.captured)?;
    report(&summary, args.report.json_stats);
    let done = after.wait();
    result.and(finished.map(drop)).and(done)
}

/// Rejects inputs that one pcap file cannot hold together. A pcapng file may describe interfaces without
/// packets, so its link types are checked when packets come.
fn refuse_link_types(
    plan: &Plan,
    paths: &[PathBuf],
    sources: &[FileSource],
) -> Result<(), DumpError> {
    if plan.output.file.is_none() || plan.output.writing.format != Format::Pcap {
        return Ok(());
    }
    let pcap = |source: &FileSource| source.reader().format() == Format::Pcap;
    let link_type = |source: &FileSource| source.interfaces().first().map(|it| it.link_type);
    let known = paths.iter().zip(sources).filter(|(_, source)| pcap(source));
    let mut known = known.filter_map(|(path, source)| Some((path, link_type(source)?)));
    let Some((first, expected)) = known.next() else {
        return Ok(());
    };
    match known.find(|(_, found)| *found != expected) {
        Some((path, found)) => Err(DumpError::LinkTypes {
            path: path.clone(),
            found,
            first: first.clone(),
            expected,
        }),
        None => Ok(()),
    }
}

/// Returns whether the command line is what is wrong.
fn is_refusal(result: &Result<(), DumpError>) -> bool {
    let error = result.as_ref().err();
    error.is_some_and(|error| error.exit_status() == exit::USAGE)
}

/// Rejects an output that is also an input, or an input's index.
fn refuse_same_file(args: &DumpArgs, plan: &Plan, paths: &[PathBuf]) -> Result<(), DumpError> {
    let Some(output) = &plan.output.file else {
        return Ok(());
    };
    let index = args.range.index.then(|| path_for(output));
    let rotation = plan.output.writing.rotation;
    let written = |path: &&PathBuf| {
        if let Some(rotation) = rotation {
            return rotation.will_write(output, path, |name| is_same_file(path, name));
        }
        is_same_file(path, output) || index.as_ref().is_some_and(|i| is_same_file(path, i))
    };
    match paths.iter().find(written) {
        Some(path) => Err(RecordError::SameFile { path: path.clone() }.into()),
        None => Ok(()),
    }
}

/// Returns the arguments with the files of lists: those after `-r`, and that of `-V`.
pub(crate) fn with_lists(mut args: DumpArgs) -> Result<DumpArgs, DumpError> {
    let list = args.source.file_list.as_deref();
    let words = &mut args.expression.filter;
    args.source.is_list = input::add_lists(&mut args.source.read, words, list)?;
    Ok(args)
}

fn pump(
    source: &mut FileSource,
    sink: &mut Sink,
    requests: &Requests,
    progress: &Progress,
) -> Result<(), DumpError> {
    sink.interfaces(source.interfaces())?;
    while !requests.stop() && !sink.is_done() {
        let described = match source.next() {
            Ok(Next::Block(block)) => {
                sink.block(&block)?;
                false
            }
            Ok(Next::Meta(Item::Interface(_))) => true,
            Ok(Next::Meta(item)) => {
                sink.meta(&item)?;
                false
            }
            Ok(Next::End) => break,
            Ok(_) => false,
            // The stream was cut here, by request.
            Err(_) if requests.stop() => break,
            Err(error) => return Err(error.into()),
        };
        if described {
            // A filter that does not fit is found before the output is started.
            source.extend_filter()?;
            sink.interfaces(source.interfaces())?;
        }
        progress.at(source.reader().input_offset());
    }
    Ok(())
}
