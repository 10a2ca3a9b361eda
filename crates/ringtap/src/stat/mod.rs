//! `ringtap stat`: counts packets and bytes by filter in the kernel, or in the process if that is not
//! allowed.
//!
//! Data in: counters as `ringtap_capture::stat` reads them, once an interval. Data out: a table that is drawn
//! again each time ([`table`]), or lines ([`lines`]); a summary on standard error.

mod figure;
mod lines;
mod table;

use std::io::{self, ErrorKind, IsTerminal};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use ringtap_capture::stat::{Interval, StatOptions, Statistics};
use ringtap_capture::{Filter, Waker};
use ringtap_sys::poll::{self, Interest};
use ringtap_sys::privileges::Capability;
use ringtap_sys::ticker::Ticker;

use crate::cli::StatArgs;
use crate::exit::{self, Ends, RunError};
use crate::notice::{explain_refusal, notice, raw};
use crate::rights::{Entrusted, NamedFiles, Needs, Rights};
use crate::setup::setup;
use crate::signals::Requests;
use figure::Rows;

/// The unsuccessful end of `ringtap stat`.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// A failure that other commands have too.
    #[error(transparent)]
    Run(RunError),
    /// Without a filter there are no matching packets to steal.
    #[error("--mode steal: specify a filter for the packets to be stolen; '' is every packet")]
    StealsNothing,
    /// The interface was deleted or moved away, or the program was removed.
    #[error("{device}: the interface is gone, or the program was removed from it")]
    Gone { device: String },
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
            Self::StealsNothing => exit::USAGE,
            Self::Gone { .. } => 1,
        }
    }
}

/// How often a run with long intervals checks whether its device still exists.
const LOOK: Duration = Duration::from_secs(1);

/// Runs the command.
pub(crate) fn run(args: &StatArgs) -> ExitCode {
    exit::code(try_run(args))
}

fn try_run(args: &StatArgs) -> Result<(), Failure> {
    let filters: Vec<Filter> = args
        .filters
        .iter()
        .map(|text| Filter::new(text).with_extensions(args.extended))
        .collect();
    let options = StatOptions::default()
        .mode(args.mode)
        .direction(args.direction)
        .force(args.force)
        // Threads start after privileges are given up.
        .begins_later(true);
    if args.filters.is_empty() && options.mode == ringtap_capture::Mode::Steal {
        return Err(Failure::StealsNothing);
    }
    let rights = Rights::begin(&args.rights, NamedFiles::default(), None)?;
    let device = crate::devices::by_number(&args.interface);
    let device = device.as_ref().unwrap_or(&args.interface);
    let opened = Statistics::open(device, &filters, &options);
    let mut statistics = opened.inspect_err(|error| {
        if args.explain_capture {
            explain_refusal(error);
        }
    })?;
    rights.entrust(&mut statistics)?;
    rights.relinquish(&[], Needs::of_devices())?;
    statistics.begin();
    let waker = Waker::new().map_err(|source| setup("make a wake-up", source))?;
    let requests = Requests::default();
    requests.watch(vec![waker.clone()])?;
    // Programs that read the output may send a signal from now on.
    announce(args, &statistics);
    if args.explain_capture {
        raw(rights.explain());
    }
    let ticker = Ticker::every(args.interval);
    let ticker = ticker.map_err(|source| setup("start the timer", source))?;

    let run = StatRun {
        args,
        requests,
        waker,
        ticker,
    };
    let mut output = output(args, &statistics);
    let result = run.count(&mut statistics, &mut *output);
    let finished = output.finish().map_err(not_printed);
    summarise(args, &statistics);
    match result.and(finished) {
        // The reader has closed the pipe.
        Err(Failure::Run(RunError::Print(error))) if error.kind() == ErrorKind::BrokenPipe => {
            Ok(())
        }
        result => result,
    }
}

impl Entrusted for Statistics {
    fn capabilities(&self) -> Vec<Capability> {
        self.required_capabilities().to_vec()
    }

    fn put_back(&mut self) {
        self.detach();
    }
}

/// The display of intervals.
trait Output {
    /// Shows the counts since the last time. `totals` are the counts since the start.
    fn interval(&mut self, interval: &Interval, totals: &Interval) -> io::Result<()>;

    /// Restores the screen.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn output(args: &StatArgs, statistics: &Statistics) -> Box<dyn Output> {
    let rows = Rows::of(&args.filters, statistics);
    if args.json {
        return Box::new(lines::Json::new(rows));
    }
    if io::stdout().is_terminal() {
        return Box::new(table::Table::new(args, rows, statistics));
    }
    Box::new(lines::Plain::new(rows))
}

/// The state of a run while it counts.
struct StatRun<'a> {
    args: &'a StatArgs,
    requests: Requests,
    waker: Waker,
    ticker: Ticker,
}

impl StatRun<'_> {
    /// Shows an interval at each tick until the run is ended, or enough were shown. Then shows the counts
    /// since the last tick.
    fn count(&self, statistics: &mut Statistics, output: &mut dyn Output) -> Result<(), Failure> {
        let mut shown = 0;
        loop {
            let interests = [
                Interest::read(self.waker.as_fd()),
                Interest::read(self.ticker.as_fd()),
            ];
            let ready = poll::wait(interests, Some(LOOK));
            ready.map_err(|source| setup("wait for the timer", source))?;
            self.waker.take();
            if self.requests.take_report() {
                summarise(self.args, statistics);
            }
            let stop = self.requests.stop();
            let gone = !stop && !statistics.is_attached();
            if let Some(change) = statistics.look() {
                notice(&change);
            }
            if stop {
                statistics.settle();
            }
            if stop || gone || self.ticker.take() > 0 {
                show(statistics, output)?;
                shown += 1;
            }
            if gone {
                let device = statistics.describe().device.clone();
                return Err(Failure::Gone { device });
            }
            if stop || self.args.count.is_some_and(|count| shown >= count) {
                return Ok(());
            }
        }
    }
}

fn show(statistics: &mut Statistics, output: &mut dyn Output) -> Result<(), Failure> {
    statistics.read();
    let shown = output.interval(statistics.last(), statistics.totals());
    shown.map_err(not_printed)
}

fn not_printed(error: io::Error) -> Failure {
    RunError::Print(error).into()
}

/// Reports where it counts, and what is unexpected.
fn announce(args: &StatArgs, statistics: &Statistics) {
    let description = statistics.describe();
    if args.explain_capture {
        raw(description);
        return;
    }
    let filters = match args.filters.len() {
        0 => "all packets".to_owned(),
        1 => "1 filter".to_owned(),
        many => format!("{many} filters"),
    };
    notice(format_args!(
        "counting on {} ({}), {filters}",
        description.device,
        description.hooks()
    ));
    for note in &description.notes {
        notice(note);
    }
}

/// Reports the counts since the start on standard error.
fn summarise(args: &StatArgs, statistics: &Statistics) {
    let rows = Rows::of(&args.filters, statistics);
    let totals = statistics.totals();
    let mut text = format!("{:.3} seconds\n", totals.elapsed.as_secs_f64());
    for line in figure::summary(&rows, totals) {
        text.push_str(&line);
        text.push('\n');
    }
    raw(text);
}
