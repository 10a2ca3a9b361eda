//! Meters the flows of capture files, one file after the other, in the time of their packets.

use std::path::PathBuf;
use std::time::Instant;

use ringtap_capture::{FileSource, Filter, Item, Next, ReadOptions, Source, Stats};

use super::error::FlowError;
use super::folders::Folders;
use super::plan;
use super::probe::Probe;
use super::summary::Summary;
use crate::cli::FlowArgs;
use crate::input::{self, Interruption, is_same_file};
use crate::over_ip;
use crate::rights::{self, Needs, Rights};
use crate::setup::{setup, waker};
use crate::signals::Requests;

/// Meters the files.
pub(crate) fn run(
    args: &FlowArgs,
    filter: Option<&Filter>,
    rights: &Rights,
) -> Result<(), FlowError> {
    plan::refuse_live_options(args)?;
    let written = |path: &&PathBuf| args.records.write.iter().any(|to| is_same_file(path, to));
    if let Some(path) = args.source.read.iter().find(written) {
        return Err(FlowError::SameFile { path: path.clone() });
    }
    // Before the files are opened.
    let needs = Needs {
        network: !args.records.export.is_empty()
            || args.source.read.iter().any(|path| over_ip::is_server(path))
            || filter.is_some_and(Filter::looks_up_hosts),
        ..Needs::default()
    };
    let folders = Folders::open(args)?;
    rights.relinquish(&[], needs)?;
    let interrupt = waker()?;
    let requests = Requests::default();
    let mut sources = Vec::new();
    let mut options = ReadOptions::default();
    options.map = Some(rights::MAP_WITH_LEASE);
    let mut paths = args.source.read.clone();
    if args.source.is_list {
        input::sort_by_time(&mut paths);
    }
    for path in &paths {
        let interruption = Interruption::new(&interrupt, &requests);
        sources.push(input::open_with(path, &options, filter, interruption)?);
    }
    if let Some(cpus) = &args.capture.cpu {
        let placed = ringtap_sys::sched::set_affinity(&cpus.0);
        placed.map_err(|source| setup("choose processors", source))?;
    }
    let mut probe = Probe::new(args, 1, folders)?;
    requests.watch(vec![interrupt])?;
    let started = Instant::now();
    let mut result = Ok(());
    for source in &mut sources {
        result = pump(source, &mut probe, &requests);
        if result.is_err() || requests.stop() {
            break;
        }
        probe.interfaces.next_source();
    }
    if result.is_err() && !probe.has_started {
        // The filter does not fit the input: nothing was done that a summary could report.
        return result;
    }
    let finished = probe.finish();
    probe.summarise(Summary {
        engine: "file",
        elapsed: started.elapsed(),
        readers: Vec::new(),
        stats: Stats::default(),
    });
    result.and(finished)
}

fn pump(source: &mut FileSource, probe: &mut Probe, requests: &Requests) -> Result<(), FlowError> {
    probe.interfaces.learn(source.interfaces());
    while !requests.stop() {
        if probe.has_started && probe.drain(source)? {
            continue;
        }
        let described = match source.next() {
            // The filter fits its interface: outputs may be started.
            Ok(Next::Block(block)) => {
                probe.start()?;
                probe.block(&block)?;
                false
            }
            Ok(Next::Meta(Item::Interface(_))) => true,
            Ok(Next::Meta(item)) => {
                probe.meta(&item);
                false
            }
            Ok(Next::End) => {
                probe.start()?;
                break;
            }
            Ok(_) => false,
            // The stream was cut here, by request.
            Err(_) if requests.stop() => break,
            Err(error) => return Err(error.into()),
        };
        if described {
            probe.interfaces.learn(source.interfaces());
        }
    }
    Ok(())
}
