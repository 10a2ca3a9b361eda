//! Packets of a recorder as a pcapng download, requests to the recorder, and its metrics.
//!
//! An answer has a thread of its own, which reads the recorder's files and puts pieces into a bounded queue; the
//! connection takes them out. The thread ends when the connection does. An answer that is not whole ends with
//! an error, so that the client sees it.

use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::{Query, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Json, Response};
use futures_util::stream::unfold;
use ringtap_capture::{Filter, LinkType};
use ringtap_packet::MAX_SNAPLEN;
use ringtap_record::archive::{Window, safe};
use serde::Deserialize;
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::State;
use super::handlers::{Problem, bad, problem};
use super::packets::pcapng;
use crate::cli::RecordedArgs;
use crate::extract::{Encoded, ExtractError, Merge};
use crate::look::error::LookError;
use crate::notice::notice;
use crate::record::{Names, RecorderError, Requester, catalogue, metrics, read_status};
use crate::rights::ArchiveFolder;

/// Answers at a time.
const ANSWERS: usize = 4;
/// Pieces of an answer that wait for its client.
const QUEUE: usize = 8;
/// How long an answer may take.
const TIME: Duration = Duration::from_secs(600);
/// The longest window, in nanoseconds: a day.
const RANGE: i64 = 86_400_000_000_000;
/// How old a running recorder's status may be, in seconds.
const FRESH: f64 = 10.0;
/// How many looks for the end share one look at the clock.
const LOOKS: u32 = 64;

/// The recorder whose packets are served.
#[derive(Debug)]
pub(crate) struct Recorder {
    folder: PathBuf,
    most: u64,
    places: Arc<Semaphore>,
    requester: Requester,
}

/// The packets that are asked for.
pub(super) struct Question {
    pub(super) filter: Option<String>,
    pub(super) window: Window,
    /// The interfaces. Empty for all.
    pub(super) devices: Vec<String>,
    /// A name for the file.
    pub(super) name: String,
}

/// Returns the folder of the command line, for the processes that open files.
pub(super) fn folder(args: &RecordedArgs) -> Option<ArchiveFolder> {
    let path = args.record.clone()?;
    Some(ArchiveFolder {
        path,
        is_written: false,
        is_asked: true,
    })
}

impl Recorder {
    /// Prepares the recorder of the command line. Call it before privileges are given up.
    pub(super) fn new(args: &RecordedArgs) -> Result<Option<Self>, LookError> {
        let Some(folder) = &args.record else {
            return Ok(None);
        };
        Ok(Some(Self {
            folder: folder.clone(),
            most: args.record_limit.0,
            places: Arc::new(Semaphore::new(ANSWERS)),
            requester: Requester::new(folder)?,
        }))
    }

    /// Requests a copy of the packets around this moment.
    pub(super) fn request(&self, name: &str) -> Result<(), RecorderError> {
        self.requester.request(name)
    }

    /// Returns the recorder's metrics. `None` if it has none.
    pub(super) fn metrics(&self) -> Option<String> {
        let (_, mut status) = read_status(&self.folder).ok()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        status.settle(now.unwrap_or_default().as_secs_f64() - FRESH);
        Some(metrics(status))
    }

    /// Answers with packets.
    pub(super) async fn answer(&self, question: Question) -> Result<Response, Problem> {
        let (Some(from), Some(to)) = (question.window.from, question.window.to) else {
            return Err(bad("specify from"));
        };
        if to <= from || to.saturating_sub(from) > RANGE {
            let text = "expected from before to, and a day between them at most";
            return Err(bad(text));
        }
        let place = Arc::clone(&self.places).try_acquire_owned();
        let busy = |_| {
            let text = format!("{ANSWERS} answers of the recorder are under way");
            problem(StatusCode::TOO_MANY_REQUESTS, text)
        };
        let place = place.map_err(busy)?;
        let (pieces, queue) = channel(QUEUE);
        let (began, begins) = oneshot::channel();
        let name = question.name.clone();
        let work = Work {
            folder: self.folder.clone(),
            most: self.most,
            question,
            pieces,
            end: Instant::now() + TIME,
            looks: Cell::new(0),
            _place: place,
        };
        let thread = std::thread::Builder::new().name("recorded".to_owned());
        let failed = StatusCode::INTERNAL_SERVER_ERROR;
        let thread = thread.spawn(move || work.run(began));
        thread.map_err(|error| problem(failed, error.to_string()))?;
        let begun = begins.await;
        begun.map_err(|_| problem(failed, "the search has failed"))??;
        let body = unfold(queue, |mut queue| async move {
            queue.recv().await.map(|piece| (piece, queue))
        });
        Ok(pcapng(&name, Body::from_stream(body)))
    }
}

/// An answer that is being made.
struct Work {
    folder: PathBuf,
    most: u64,
    question: Question,
    pieces: Sender<io::Result<Vec<u8>>>,
    end: Instant,
    looks: Cell<u32>,
    _place: OwnedSemaphorePermit,
}

impl Work {
    fn run(self, began: oneshot::Sender<Result<(), Problem>>) {
        let stop = || self.is_over();
        let mut merge = match self.prepare(&stop) {
            Ok(merge) => merge,
            Err(problem) => {
                // Without a receiver the client has gone.
                let _ = began.send(Err(problem));
                return;
            }
        };
        let _ = began.send(Ok(()));
        let sent = self.send(&mut merge, &stop);
        let failure = match sent {
            Err(ExtractError::Gone) => return,
            Err(error) => error.to_string(),
            Ok(()) if Instant::now() >= self.end => "the answer takes too long".to_owned(),
            Ok(()) if !merge.summary(0).is_whole() => {
                "something in the files is damaged".to_owned()
            }
            Ok(()) => return,
        };
        if !self.pieces.is_closed() {
            notice(format_args!("an answer of the recorder is cut: {failure}"));
            let _ = self.pieces.blocking_send(Err(io::Error::other(failure)));
        }
    }

    /// Returns whether the client has gone, or the time is over.
    fn is_over(&self) -> bool {
        let looks = self.looks.get();
        self.looks.set((looks + 1) % LOOKS);
        self.pieces.is_closed() || (looks == 0 && Instant::now() >= self.end)
    }

    /// Finds the files, and reads their first packets.
    fn prepare(&self, stop: &dyn Fn() -> bool) -> Result<Merge, Problem> {
        let unavailable =
            |error: RecorderError| problem(StatusCode::SERVICE_UNAVAILABLE, error.to_string());
        let (asked, window) = (&self.question, self.question.window);
        let filter = asked.filter.as_deref();
        let filter = filter.map(|text| Filter::new(text).with_extensions(true));
        let names = Names::by_status(&self.folder).map_err(unavailable)?;
        let listing = catalogue(&names, window).map_err(unavailable)?;
        let devices: Vec<String> = asked.devices.iter().map(|device| safe(device)).collect();
        let mut merge = Merge::new(filter.clone(), window, true);
        merge.add(&self.folder, listing, &devices);
        if merge.bytes() > self.most {
            let text = format!(
                "the files have {} bytes of this time, and {} may be read at a time; ask for less time",
                merge.bytes(),
                self.most
            );
            return Err(problem(StatusCode::PAYLOAD_TOO_LARGE, text));
        }
        let primed = merge.prime(stop);
        primed.map_err(|error| bad(error.to_string()))?;
        if let Some(filter) = filter.filter(|_| !merge.has_packets()) {
            let tried = filter.compile(LinkType::ETHERNET, MAX_SNAPLEN);
            tried.map_err(|error| bad(crate::filter::describe(&error)))?;
        }
        Ok(merge)
    }

    fn send(&self, merge: &mut Merge, stop: &dyn Fn() -> bool) -> Result<(), ExtractError> {
        let mut sent = 0;
        let mut encoded = Encoded::new(|piece: Vec<u8>| {
            sent += piece.len() as u64;
            if sent > self.most {
                return Err(ExtractError::TooLong { most: self.most });
            }
            let taken = self.pieces.blocking_send(Ok(piece));
            taken.map_err(|_| ExtractError::Gone)
        })?;
        merge.run(&mut encoded, stop)?;
        encoded.finish()
    }
}

#[derive(Deserialize)]
pub(super) struct TriggerQuery {
    name: String,
}

/// Has the recorder copy the packets around this moment.
pub(super) async fn trigger(
    Shared(state): Shared<Arc<State>>,
    Query(query): Query<TriggerQuery>,
) -> Result<Response, Problem> {
    let none = || problem(StatusCode::NOT_FOUND, "there is no recorder (--record DIR)");
    let recorder = state.recorder.as_ref().ok_or_else(none)?;
    if query.name.is_empty() || query.name != safe(&query.name) {
        let text = "expected a name of at most 32 letters, digits, '.', '_', '-' and '@'";
        return Err(bad(text));
    }
    let sent = recorder.request(&query.name);
    sent.map_err(|error| problem(StatusCode::CONFLICT, error.to_string()))?;
    let accepted = serde_json::json!({ "trigger": query.name });
    Ok((StatusCode::ACCEPTED, Json(accepted)).into_response())
}

/// Parses a time: seconds since 1970, or a date with time and zone (RFC 3339). Returns nanoseconds.
pub(super) fn time(text: &str) -> Option<i64> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return i64::try_from(time.as_nanosecond()).ok();
    }
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.is_empty() || !is_number(seconds) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let seconds: i64 = seconds.parse().ok()?;
    let nanos: i64 = format!("{fraction:0<9}").parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// Requests copies for alerts that are new.
pub(super) struct Alerted {
    state: Arc<State>,
    seen: u64,
}

impl Alerted {
    pub(super) fn new(state: &Arc<State>) -> Self {
        Self {
            state: Arc::clone(state),
            seen: 0,
        }
    }

    pub(super) fn tick(&mut self) {
        let Some(recorder) = &self.state.recorder else {
            return;
        };
        let alerts = self.state.model.lock().alerts(self.seen).alerts;
        for alert in alerts.iter().rev() {
            self.seen = self.seen.max(alert.seq);
            if let Err(error) = recorder.request(&format!("alert-{}", alert.kind)) {
                notice(format_args!("alert {}: {error}", alert.kind));
            }
        }
    }
}

/// Joins two texts of metrics into one.
pub(super) fn joined(first: &str, second: &str) -> String {
    let first = first.strip_suffix("# EOF\n").unwrap_or(first);
    format!("{first}{second}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_dates() {
        assert_eq!(time("1"), Some(1_000_000_000));
        assert_eq!(time("1795651383.841274"), Some(1_795_651_383_841_274_000));
        assert_eq!(time("1970-01-01T00:00:02Z"), Some(2_000_000_000));
        for bad in [
            "",
            "x",
            "-1",
            "1e9",
            ".5",
            "1.0000000001",
            "99999999999999999999",
        ] {
            assert_eq!(time(bad), None, "{bad}");
        }
    }

    #[test]
    fn metrics_have_one_end() {
        assert_eq!(joined("a 1\n# EOF\n", "b 2\n# EOF\n"), "a 1\nb 2\n# EOF\n");
    }
}
