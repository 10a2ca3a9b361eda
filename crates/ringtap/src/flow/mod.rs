//! `ringtap flow`: a source, a meter, and the outputs of its records.
//!
//! Packets of files or of a capture go in. Records come out, through [`outlets`]. The tables of [`talkers`]
//! go to standard output, at the end or at each interval; counters go to standard error.

mod collect;
mod error;
mod feeder;
mod files;
mod folders;
mod labels;
mod live;
pub(crate) mod outlets;
pub(crate) mod plan;
pub(crate) mod probe;
mod readers;
mod schema;
mod summary;
mod talkers;
mod threads;

use std::process::ExitCode;

use ringtap_flow::schema::Group;

use crate::cli::{FlowAction, FlowArgs};
use crate::exit;
use crate::expression;
use crate::input;
use crate::rights::{self, NamedFiles, Rights};
use error::FlowError;
#[cfg(test)]
pub(crate) use schema::markdown as schema_table;

/// Runs the command.
pub(crate) fn run(mut args: FlowArgs) -> ExitCode {
    if let Some(FlowAction::Schema(args)) = &args.action {
        return schema::run(args);
    }
    let list = args.source.file_list.as_deref();
    let listed = input::add_lists(&mut args.source.read, &mut args.filter, list);
    if let Some(who) = &args.meter.who
        && !args.records.fields.has_any_of(Group::Process)
    {
        args.records.fields = args.records.fields.with(who.fields);
    }
    let ran = listed.map_err(FlowError::from).and_then(|is_list| {
        args.source.is_list = is_list;
        try_run(&args)
    });
    exit::code(ran)
}

fn try_run(args: &FlowArgs) -> Result<(), FlowError> {
    outlets::check(args)?;
    let rights = Rights::begin(&args.rights, named_files(args), None)?;
    if let Some(address) = &args.collect {
        return collect::run(args, address, &rights);
    }
    let filter = expression::filter(args.filter.join(" "), args.extended);
    let knows_processes = args.source.interface.is_none() || plan::who(args).is_some();
    let filter = filter.map(|filter| filter.with_processes(knows_processes));
    match &args.source.interface {
        Some(device) => live::run(args, device, filter.as_ref(), &rights),
        None => files::run(args, filter.as_ref(), &rights),
    }
}

/// Returns the files of the command line.
fn named_files(args: &FlowArgs) -> NamedFiles {
    let records = &args.records;
    let databases = records.mmdb.iter().chain(&records.oui);
    let inputs: Vec<_> = args.source.read.iter().chain(databases).cloned().collect();
    NamedFiles {
        inputs: rights::named(&inputs),
        outputs: rights::named(&args.records.write),
        store: args.store.store.clone(),
        ..NamedFiles::default()
    }
}
