//! `ringtap web`: the page, JSON and metrics over HTTP.
//!
//! The socket is bound, and the token made, before rights are given up. The server has one thread; it locks
//! the model for the time of one answer.

mod cost;
mod guard;
mod handlers;
mod packets;
mod page;
mod recorded;
mod server;
mod token;

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringtap_capture::{Filter, Waker};
use ringtap_filter::Tables;
use ringtap_look::api::PacketsFrom;
use ringtap_look::{Feed, Found, Saved, Store, WhenFull, queue};
use ringtap_sys::privileges::Capability;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::error::LookError;
use super::first::Looking;
use super::source::{self, Device, Files, Outcome};
use super::taps::Taps;
use super::{Model, atlas, filter, packets_of_files, tables};
use crate::cli::{LookArgs, ServingArgs, WebArgs};
use crate::notice::{announce, counted, counted_as, notice, raw, summary};
use crate::over_ip;
use crate::rights::{NamedFiles, Needs, Rights};
use crate::signals::Requests;
use crate::tls::{self, TlsError};
use guard::Guard;

/// How often the history is written.
const SAVE: Duration = Duration::from_secs(300);

/// The state that the handlers of requests share.
pub(crate) struct State {
    pub(crate) model: Model,
    pub(crate) taps: Arc<Taps>,
    /// Flows whose packets are shown.
    pub(crate) looking: Looking,
    /// Names of ports and protocols for filters.
    pub(crate) tables: Tables,
    pub(crate) guard: Guard,
    /// Changes when there is something new.
    pub(crate) ticks: watch::Receiver<u64>,
    pub(crate) cost: cost::Meter,
    pub(crate) recorder: Option<recorded::Recorder>,
}

/// Where packets or records come from.
enum Origin {
    Device(Box<Device>),
    /// Files that are opened once rights were given up.
    Named,
    Files(Box<Files>),
    Collector(Box<ringtap_flow_io::Collector>),
}

/// Serves until it is told to end.
pub(super) fn run(args: &WebArgs) -> Result<(), LookError> {
    let look = &args.look;
    let files = tls_files(&args.serving);
    let listener = listen(&args.serving)?;
    look.netns.enter()?;
    let rights = Rights::begin(&look.rights, named_files(args, files.as_ref()), None)?;
    let filter = filter(look);
    let origin = Origin::open(args, filter.as_ref(), &rights)?;
    let tls = files.as_ref().map(accept).transpose()?;
    let (renewed, tls) = watch::channel(tls);
    let token = token::token(&args.serving)?;
    let tables = tables();
    let (store, saved) = history(args)?;
    let recorder = recorded::Recorder::new(&args.recorded)?;
    let in_kernel = origin.kernel_cost(args)?;
    rights.relinquish(&origin.capabilities(), origin.needs(look, filter.as_ref()))?;
    let requests = Requests::default();
    let origin = match origin {
        Origin::Named => Origin::Files(Box::new(Files::open(look, filter.as_ref(), &requests)?)),
        other => other,
    };
    let packets_from = recorder.iter().map(|_| PacketsFrom::Recorder);
    let packets_from = packets_from.chain(origin.packets(look)).collect();
    let atlas = atlas::open(look)?;
    let model = Model::new(look, origin.describe(args), packets_from, atlas);
    if let Some(saved) = saved {
        model.lock().restore(saved);
    }
    let (ticks, ticked) = watch::channel(0);
    let (feed, inlet) = queue(origin.when_full());
    let taps = Arc::default();
    if let Origin::Device(device) = &origin {
        device.supply(&taps);
    }
    let state = Arc::new(State {
        model: model.clone(),
        looking: Looking::new(&taps),
        taps,
        tables,
        guard: Guard::new(&args.serving, token),
        ticks: ticked,
        cost: cost::Meter::new(in_kernel),
        recorder,
    });
    if let Some(files) = files {
        requests.at_hangup(move || renew(&files, &renewed));
    }
    requests.watch(origin.wakers())?;
    let thread = model.start(inlet, at_ticks(args, store, &state, ticks))?;
    let address = listener.local_addr();
    let server = server::start(listener, tls, Arc::clone(&state))?;
    origin.announce(args, &rights);
    if let Ok(address) = address {
        notice(format_args!("serving on {}", state.guard.address(address)));
    }
    let result = origin.run(look, feed, &state.taps, requests);
    server.stop();
    // Its end of the queue is gone with the source.
    let _ = thread.join();
    result.map(|outcome| report(args, &outcome))
}

/// Returns the work that is due once a second.
fn at_ticks(
    args: &WebArgs,
    store: Option<Store>,
    state: &Arc<State>,
    ticks: watch::Sender<u64>,
) -> impl FnMut(bool) + Send + 'static {
    let mut keeper = store.map(|store| Keeper::new(store, &state.model));
    let alerts = args.recorded.record_alerts;
    let mut alerted = alerts.then(|| recorded::Alerted::new(state));
    move |is_last| {
        ticks.send_modify(|count| *count += 1);
        if let Some(alerted) = &mut alerted {
            alerted.tick();
        }
        if let Some(keeper) = &mut keeper {
            keeper.tick(is_last);
        }
    }
}

/// Returns the files of the command line.
fn named_files(args: &WebArgs, files: Option<&tls::Files>) -> NamedFiles {
    NamedFiles {
        inputs: atlas::inputs(&args.look),
        archives: recorded::folder(&args.recorded).into_iter().collect(),
        renewed: files.into_iter().flat_map(tls::Files::paths).collect(),
        ..NamedFiles::default()
    }
}

/// Returns the files of TLS; `None` without a certificate.
fn tls_files(args: &ServingArgs) -> Option<tls::Files> {
    Some(tls::Files {
        chain: args.tls_cert.clone()?,
        key: args.tls_key.clone()?,
        authorities: args.tls_client_ca.clone(),
    })
}

fn accept(files: &tls::Files) -> Result<TlsAcceptor, TlsError> {
    tls::acceptor(files, &[b"http/1.1"])
}

/// Reads the files of TLS again, for connections from now on.
fn renew(files: &tls::Files, renewed: &watch::Sender<Option<TlsAcceptor>>) {
    match accept(files) {
        Ok(acceptor) => {
            renewed.send_replace(Some(acceptor));
            notice("the certificate and its key were read again");
        }
        Err(error) => notice(format_args!("{error}; the certificate in use stays")),
    }
}

impl Origin {
    /// Opens what is opened with all rights.
    fn open(args: &WebArgs, filter: Option<&Filter>, rights: &Rights) -> Result<Self, LookError> {
        let look = &args.look;
        match (&look.source.interface, &args.collect) {
            (Some(device), _) => {
                let device = Device::open(look, device, filter, args.explain_capture, rights)?;
                Ok(Self::Device(Box::new(device)))
            }
            (_, Some(address)) => {
                let collector = source::bind(address, &args.allow, args.enterprise)?;
                Ok(Self::Collector(Box::new(collector)))
            }
            _ => Ok(Self::Named),
        }
    }

    fn capabilities(&self) -> Vec<Capability> {
        match self {
            Self::Device(device) => device.readers.required_capabilities(),
            _ => Vec::new(),
        }
    }

    fn needs(&self, look: &LookArgs, filter: Option<&Filter>) -> Needs {
        let looks_up = filter.is_some_and(Filter::looks_up_hosts);
        let connects = look.source.read.iter().any(|path| over_ip::is_server(path));
        Needs {
            devices: matches!(self, Self::Device(_)),
            network: (looks_up || connects) && matches!(self, Self::Named),
            serves: true,
            ..Needs::default()
        }
    }

    fn when_full(&self) -> WhenFull {
        match self {
            Self::Files(_) => WhenFull::Wait,
            _ => WhenFull::Drop,
        }
    }

    fn wakers(&self) -> Vec<Waker> {
        match self {
            Self::Device(device) => device.readers.wakers(),
            Self::Files(files) => vec![files.interrupt.clone()],
            _ => Vec::new(),
        }
    }

    /// Returns the source in a few words.
    fn describe(&self, args: &WebArgs) -> String {
        match self {
            Self::Device(device) => {
                let description = device.readers.first().describe();
                format!("{} (engine {})", description.device, description.engine)
            }
            Self::Collector(collector) => format!("collector udp:{}", collector.local_addr()),
            Self::Named | Self::Files(_) => {
                let names = args.look.source.read.iter();
                let names: Vec<String> = names.map(|path| path.display().to_string()).collect();
                names.join(" ")
            }
        }
    }

    /// Measures its programs in the kernel, where that is requested.
    fn kernel_cost(&self, args: &WebArgs) -> Result<Option<cost::InKernel>, LookError> {
        match self {
            Self::Device(device) if args.kernel_cost => {
                cost::InKernel::measure(device.readers.first()).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Returns where its packets can be downloaded from. Records of other exporters have none.
    fn packets(&self, look: &LookArgs) -> Option<PacketsFrom> {
        match self {
            Self::Device(_) => Some(PacketsFrom::Live),
            Self::Named | Self::Files(_) => packets_of_files(look),
            Self::Collector(_) => None,
        }
    }

    fn announce(&self, args: &WebArgs, rights: &Rights) {
        let Self::Device(device) = self else {
            return;
        };
        let description = device.readers.first().describe();
        if args.explain_capture {
            raw(&description);
            raw(rights.explain());
        } else {
            announce("metering", &description, device.options.direction);
        }
    }

    fn run(
        self,
        look: &LookArgs,
        feed: Feed,
        taps: &Arc<Taps>,
        requests: Requests,
    ) -> Result<Outcome, LookError> {
        match self {
            Self::Device(device) => device.run(look, feed, taps, requests),
            Self::Collector(collector) => source::collect(*collector, feed, &requests),
            Self::Files(files) => files.run(look, feed, taps),
            Self::Named => Ok(Outcome::default()),
        }
    }
}

/// Opens the files of the history, where there is a folder for them, and reads what is in them. A file that is
/// read has a history of its own.
fn history(args: &WebArgs) -> Result<(Option<Store>, Option<Saved>), LookError> {
    let folder = args.serving.dir.as_ref();
    let Some(folder) = folder.filter(|_| args.look.source.read.is_empty()) else {
        return Ok((None, None));
    };
    let (store, found) = Store::open(folder)?;
    let saved = match found {
        Found::Nothing => None,
        Found::History(saved) => Some(*saved),
        Found::Damaged(aside) => {
            let names = aside.iter().map(|path| path.display().to_string());
            let names = names.collect::<Vec<_>>().join(" and ");
            notice(format_args!(
                "the history is damaged and begins anew; the old files are kept as {names}"
            ));
            None
        }
    };
    Ok((Some(store), saved))
}

/// Writes the history now and then.
struct Keeper {
    store: Store,
    model: Model,
    saved: Instant,
    has_failed: bool,
}

impl Keeper {
    fn new(store: Store, model: &Model) -> Self {
        Self {
            store,
            model: model.clone(),
            saved: Instant::now(),
            has_failed: false,
        }
    }

    fn tick(&mut self, is_last: bool) {
        if self.saved.elapsed() < SAVE && !is_last {
            return;
        }
        self.saved = Instant::now();
        let saved = self.model.lock().saved();
        match self.store.save(&saved) {
            Ok(()) => self.has_failed = false,
            Err(error) if !self.has_failed => {
                self.has_failed = true;
                notice(error);
            }
            Err(_) => {}
        }
    }
}

fn listen(args: &ServingArgs) -> Result<TcpListener, LookError> {
    let address = args.listen;
    let failed = |source| LookError::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// Prints what was counted.
fn report(args: &WebArgs, outcome: &Outcome) {
    let (counters, stats) = (&outcome.counters, &outcome.stats);
    let dropped = crate::losses::JsonDropped::new(&stats.dropped, None);
    let object = serde_json::json!({
        "received": stats.received,
        "packets": counters.packets,
        "metered": counters.ip_packets,
        "bytes": counters.ip_bytes,
        "not_ip": counters.not_ip,
        "malformed": counters.malformed,
        "flows": counters.flows,
        "dropped": dropped,
    });
    if args.json_stats {
        summary(&object, format_args!("{object}\n"));
        return;
    }
    let mut text = counted(counters.packets, "packet") + "\n";
    text += &counted(counters.flows, "flow");
    text += "\n";
    if let Some(ring) = stats.dropped.ring {
        text += &counted_as(ring, "packets dropped in the ring");
        text += "\n";
    }
    summary(&object, text);
}
