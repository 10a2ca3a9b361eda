//! `ringtap explain-loss`: where packets are lost between the wire and the programs, and what helps.
//!
//! Data in: two readings of the kernel's counters ([`counters`]), an interval apart. Data out: their differences
//! by layer, with the meaning of the largest ([`report`]); [`known`] has the meanings.

mod counters;
mod known;
mod report;
mod sockets;

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Instant;

use ringtap_sys::poll::{self, Interest};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cli::ExplainLossArgs;
use crate::exit::{self, Ends, RunError};
use crate::notice::notice;
use crate::output;
use crate::rights::{NamedFiles, Needs, Rights};
use crate::setup::{SetupError, setup};
use counters::ReadError;
use report::{Report, SocketLoss};

/// The most sockets that are listed.
const SOCKETS: usize = 10;

/// The unsuccessful end of `ringtap explain-loss`.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// Counters could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A failure that other commands have too.
    #[error(transparent)]
    Run(RunError),
}

impl<E: Into<RunError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Run(error.into())
    }
}

impl Ends for Failure {
    fn exit_status(&self) -> u8 {
        match self {
            Self::Run(error) => error.exit_status(),
            Self::Read(_) => 1,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &ExplainLossArgs) -> ExitCode {
    exit::code(try_run(args))
}

fn try_run(args: &ExplainLossArgs) -> Result<(), Failure> {
    let rights = Rights::begin(&args.rights, NamedFiles::default(), None)?;
    let named = args.interface.as_deref();
    let numbered = named.and_then(crate::devices::by_number);
    let device = numbered.as_deref().or(named);
    let begin = Instant::now();
    let before = (counters::read(device)?, sockets::read());
    let seconds = args.interval.as_secs_f64();
    notice(format_args!(
        "watching the counters of lost packets for {seconds} s"
    ));
    wait(args)?;
    let after = (counters::read(device)?, sockets::read());
    let time = begin.elapsed();
    // Only kernel text was read so far; names of other users' processes need privileges.
    let sockets = socket_losses(&before.1, &after.1);
    rights.relinquish(&[], Needs::default())?;
    let report = Report::new((&before.0, &after.0), sockets, time);
    let text = if args.json {
        serde_json::to_string(&report).unwrap_or_default() + "\n"
    } else {
        report.text(args.verbose)
    };
    Ok(output::print(text).map_err(RunError::Print)?)
}

/// Waits for the end of the interval, or a signal. Signals come through a pipe: privileges are still to be given
/// up, before which no thread may start.
fn wait(args: &ExplainLossArgs) -> Result<(), SetupError> {
    let failed = |source| setup("watch for signals", source);
    let (reader, writer) = UnixStream::pair().map_err(failed)?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let writer = writer.try_clone().map_err(failed)?;
        signal_hook::low_level::pipe::register(signal, writer).map_err(failed)?;
    }
    let end = Instant::now() + args.interval;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let waited = poll::wait([Interest::read(reader.as_fd())], Some(left));
        let [signal] = waited.map_err(|source| setup("wait", source))?;
        if signal.readable || left.is_zero() {
            return Ok(());
        }
    }
}

type Sockets = std::collections::HashMap<u64, sockets::Socket>;

/// Returns the sockets that dropped most.
fn socket_losses(before: &Sockets, after: &Sockets) -> Vec<SocketLoss> {
    let mut lost: Vec<(u64, &sockets::Socket)> = after
        .values()
        .map(|socket| {
            let earlier = before.get(&socket.inode).map_or(0, |socket| socket.drops);
            (socket.drops.saturating_sub(earlier), socket)
        })
        .filter(|(lost, _)| *lost > 0)
        .collect();
    lost.sort_by_key(|(lost, socket)| (std::cmp::Reverse(*lost), socket.inode));
    let most = lost.into_iter().take(SOCKETS);
    most.map(|(lost, socket)| SocketLoss::new(socket, lost, sockets::owner(socket.inode).unzip()))
        .collect()
}
