//! `ringtap record`: a capture that runs for ever, in a folder with a budget ([`ringtap_record::archive`]).
//!
//! Data in: blocks of each device, on a thread of its own ([`device`]). Data out: files of the archive. The
//! main thread looks after the archive and triggers ([`trigger`], [`incident`]), writes the status, and reports to
//! the service manager ([`notify`]). Further threads make indices ([`indexer`]) and copy what triggers ask for
//! ([`copier`]).

mod alerts;
mod check;
mod control;
mod copier;
mod cutoff;
mod device;
mod error;
mod filtered;
mod folder;
mod incident;
mod indexer;
mod metrics;
mod notify;
mod recorder;
mod status;
mod trigger;

use std::process::ExitCode;

use crate::cli::{RecorderAction, RecorderArgs};
use crate::exit;
pub(crate) use control::{Requester, send as send_request, sending as request_socket};
pub(crate) use error::RecorderError;
pub(crate) use folder::{Names, catalogue, read_files};
pub(crate) use metrics::text as metrics;
pub(crate) use status::read as read_status;

/// Runs the command.
pub(crate) fn run(args: &RecorderArgs) -> ExitCode {
    let result = match &args.action {
        None => recorder::run(args).map(|()| ExitCode::SUCCESS),
        Some(RecorderAction::Status(status)) => status::print(status),
        Some(RecorderAction::Check(check)) => check::run(check),
        Some(RecorderAction::Trigger(request)) => control::request(request),
    };
    exit::code_or(result)
}
