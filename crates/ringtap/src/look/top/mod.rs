//! `ringtap top`: the live model in the terminal.
//!
//! The view has a thread of its own: it draws once a second and after keys, and otherwise sleeps. The terminal
//! is put back however the run ends ([`terminal`]).

mod app;
mod draw;
mod keep;
mod terminal;
mod units;

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyEventKind};
use ringtap_capture::Filter;
use ringtap_filter::Tables;
use ringtap_look::{WhenFull, queue};

use super::error::LookError;
use super::first::Looking;
use super::source::{Device, Files};
use super::taps::Taps;
use super::{Model, atlas, filter, tables};
use crate::cli::TopArgs;
use crate::notice::{announce, raw};
use crate::over_ip;
use crate::rights::{NamedFiles, Needs, Rights, Series};
use crate::setup::{setup, spawn};
use crate::signals::Requests;
use app::App;
use keep::Keeper;
use terminal::Screen;

/// How long the view sleeps when nothing happens.
const SLEEP: Duration = Duration::from_millis(250);
/// How long the view is waited for at the end.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it draws at least.
const REDRAW: Duration = Duration::from_secs(1);

/// Shows the traffic until it is told to end.
pub(super) fn run(args: &TopArgs) -> Result<(), LookError> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(LookError::NoTerminal);
    }
    let look = &args.look;
    let named = NamedFiles {
        inputs: atlas::inputs(look),
        series: Some(Series::of(&keep::pattern(&args.write_dir), true)),
        ..NamedFiles::default()
    };
    let rights = Rights::begin(&look.rights, named, None)?;
    let filter = filter(look);
    let device = look.source.interface.as_deref();
    let device = device.map(|device| Device::open(look, device, filter.as_ref(), false, &rights));
    let device = device.transpose()?;
    let tables = tables();
    let keep = device
        .as_ref()
        .map(|device| device.readers.required_capabilities());
    let needs = Needs {
        devices: device.is_some(),
        network: device.is_none()
            && (filter.as_ref().is_some_and(Filter::looks_up_hosts)
                || look.source.read.iter().any(|path| over_ip::is_server(path))),
        terminal: true,
        ..Needs::default()
    };
    rights.relinquish(&keep.unwrap_or_default(), needs)?;
    let atlas = atlas::open(look)?;
    let requests = Requests::default();
    let of_view = requests.clone();
    let view = |source: String| View {
        args,
        model: Model::new(look, source, Vec::new(), atlas),
        taps: Arc::default(),
        tables,
        requests: of_view,
    };
    match device {
        Some(device) => {
            let description = device.readers.first().describe();
            announce("metering", &description, device.options.direction);
            let view = view(format!(
                "{} (engine {})",
                description.device, description.engine
            ));
            device.supply(&view.taps);
            view.show(WhenFull::Drop, device.readers.wakers(), |feed, taps| {
                device.run(look, feed, &taps, requests)
            })
        }
        None => {
            let files = Files::open(look, filter.as_ref(), &requests)?;
            let names = look.source.read.iter();
            let names: Vec<String> = names.map(|path| path.display().to_string()).collect();
            let wakers = vec![files.interrupt.clone()];
            view(names.join(" ")).show(WhenFull::Wait, wakers, |feed, taps| {
                files.run(look, feed, &taps)
            })
        }
    }
}

/// The initial state of the view.
struct View<'a> {
    args: &'a TopArgs,
    model: Model,
    taps: Arc<Taps>,
    tables: Tables,
    requests: Requests,
}

impl View<'_> {
    /// Shows what `read` reads, which runs on this thread.
    fn show(
        self,
        when_full: WhenFull,
        wakers: Vec<ringtap_capture::Waker>,
        read: impl FnOnce(ringtap_look::Feed, Arc<Taps>) -> Result<super::source::Outcome, LookError>,
    ) -> Result<(), LookError> {
        let (feed, inlet) = queue(when_full);
        let ticks = Arc::new(AtomicU64::new(0));
        self.requests.watch(wakers)?;
        let count = Arc::clone(&ticks);
        let watching = self.requests.clone();
        let thread = self.model.start(inlet, move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            // The library that reads keys goes on for ever where the terminal has gone.
            if terminal::is_gone() {
                watching.ask_stop();
            }
        })?;
        self.requests.before_abort(terminal::leave_at_once);
        let screen = Screen::enter().map_err(|source| setup("set up the terminal", source))?;
        let taps = Arc::clone(&self.taps);
        let requests = self.requests.clone();
        let keeper = Keeper::new(&self.args.write_dir, self.args.files.access(), &self.taps);
        let app = App::new(
            self.model.clone(),
            self.tables,
            keeper,
            Looking::new(&self.taps),
        );
        let of_view = self.requests.clone();
        let view = spawn("view", move || {
            let shown = interact(screen, app, &of_view, &ticks);
            of_view.ask_stop();
            shown
        })?;
        let result = read(feed, taps);
        requests.ask_stop();
        let _ = thread.join();
        if !has_ended(&view) {
            // It waits for a terminal that has gone or takes nothing, and ends with the process.
            terminal::leave_at_once();
            return result.map(drop);
        }
        let shown = view.join();
        let notes = match shown {
            Ok(Ok(notes)) => notes,
            Ok(Err(source)) => return Err(setup("use the terminal", source).into()),
            Err(panic) => std::panic::resume_unwind(panic),
        };
        for note in notes {
            crate::notice::notice(note);
        }
        result.map(|outcome| {
            let counters = outcome.counters;
            raw(format_args!(
                "{}\n{}\n",
                crate::notice::counted(counters.packets, "packet"),
                crate::notice::counted(counters.flows, "flow")
            ));
        })
    }
}

/// Waits for the view, which sees the end within [`SLEEP`]; returns whether it has ended.
fn has_ended<T>(view: &JoinHandle<T>) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while !view.is_finished() && Instant::now() < deadline {
        thread::sleep(SLEEP / 25);
    }
    view.is_finished()
}

/// The life of the view's thread; returns what is left to be said.
fn interact(
    mut screen: Screen,
    mut app: App,
    requests: &Requests,
    ticks: &AtomicU64,
) -> io::Result<Vec<String>> {
    let mut drawn = None;
    let mut seen = u64::MAX;
    while !requests.stop() && !app.has_ended() {
        let now = ticks.load(Ordering::Relaxed);
        let is_due = drawn.is_none_or(|drawn: Instant| drawn.elapsed() >= REDRAW);
        if seen != now || is_due || app.take_change() {
            app.refresh();
            screen.draw(|frame| draw::draw(frame, &mut app))?;
            seen = now;
            drawn = Some(Instant::now());
        }
        if !event::poll(SLEEP)? {
            continue;
        }
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => app.key(key),
            Event::Resize(..) => app.change(),
            _ => {}
        }
    }
    drop(screen);
    Ok(app.finish())
}
