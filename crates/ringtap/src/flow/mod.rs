//! `ringtap flow`: a source, a meter, and where its records go.
//!
//! Data in: packets of files or of a capture. Data out: records, through [`outlets`]; at the end or
//! each interval the tables of [`talkers`] on standard output, and counters on standard error.

mod collect;
mod error;
mod feeder;
mod files;
mod heavy;
mod live;
mod outlets;
mod outputs;
mod plan;
mod probe;
mod readers;
mod summary;
mod talkers;
mod threads;

use std::process::ExitCode;

use ringtap_capture::Filter;
use ringtap_sys::privileges::{self, Capability, User};

use crate::cli::FlowArgs;
use crate::input;
use crate::notice::notice;
pub(crate) use collect::{Listen, Network};
use error::{FlowError, setup};
pub(crate) use outputs::Collector;

/// Runs the command.
pub(crate) fn run(mut args: FlowArgs) -> ExitCode {
    let list = args.file_list.as_deref();
    let listed = input::add_lists(&mut args.read, &mut args.filter, list);
    match listed
        .map_err(FlowError::from)
        .and_then(|()| try_run(&args))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            notice(&error);
            ExitCode::from(error.exit_status())
        }
    }
}

fn try_run(args: &FlowArgs) -> Result<(), FlowError> {
    outputs::check(&args.records)?;
    // Where nobody has the name, that is told before files are made.
    user(args)?;
    if let Some(listen) = &args.collect {
        return collect::run(args, listen);
    }
    let expression = args.filter.join(" ");
    let filter = (!expression.trim().is_empty())
        .then(|| Filter::new(expression).with_extensions(args.extended));
    match &args.interface {
        Some(device) => live::run(args, device, filter.as_ref()),
        None => files::run(args, filter.as_ref()),
    }
}

/// Gives up what the run needs no more, and has `open` open its outputs: as the user where one is
/// named, else before the capability to write anywhere goes. `keep` is what the source does need.
fn relinquish_around<T>(
    args: &FlowArgs,
    keep: &[Capability],
    open: impl FnOnce() -> Result<T, FlowError>,
) -> Result<T, FlowError> {
    let relinquish = |user: Option<&User>| {
        let given_up = privileges::relinquish(user, keep);
        given_up.map_err(|source| setup("give up privileges", source))
    };
    match user(args)? {
        Some(user) => {
            relinquish(Some(&user))?;
            open()
        }
        None => {
            let opened = open()?;
            relinquish(None)?;
            Ok(opened)
        }
    }
}

/// Who to become, if that was asked for.
fn user(args: &FlowArgs) -> Result<Option<User>, FlowError> {
    let user = args.capture.user.as_deref().map(User::by_name).transpose();
    user.map_err(|source| setup("find the user of -Z", source))
}
