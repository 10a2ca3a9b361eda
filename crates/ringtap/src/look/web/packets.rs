//! Packets of a host, a flow or a filter as a pcapng download: those from now on, those of the files, or those of
//! a recorder ([`recorded`](super::recorded)).

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Query, State as Shared};
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::stream::unfold;
use ringtap_capture::Timestamp;
use ringtap_record::archive::{Window, nanos};
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::super::taps::{Encoded, TapError, Tapped};
use super::State;
use super::handlers::{Problem, bad, file, problem, unlisted_flow};
use super::recorded::{self, Question};

/// Seconds of a download, and at most.
const SECONDS: u64 = 10;
const MOST_SECONDS: u64 = 3600;
/// The time before and after a flow for which a recorder is asked too, in nanoseconds.
const MARGIN: i64 = 1_000_000_000;
/// The time before now that a recorder is asked for, unless the request has one: 15 minutes in nanoseconds.
const QUARTER: i64 = 900_000_000_000;

#[derive(Deserialize)]
pub(super) struct PacketsQuery {
    host: Option<String>,
    flow: Option<String>,
    filter: Option<String>,
    seconds: Option<u64>,
    from: Option<String>,
    to: Option<String>,
    /// Names of interfaces, with commas between them.
    interface: Option<String>,
}

pub(super) async fn packets(
    Shared(state): Shared<Arc<State>>,
    Query(query): Query<PacketsQuery>,
) -> Result<Response, Problem> {
    let is_past = query.from.is_some() || query.to.is_some() || query.seconds.is_none();
    if let Some(recorder) = state.recorder.as_ref().filter(|_| is_past) {
        let question = question(&state, &query)?;
        return recorder.answer(question).await;
    }
    if query.from.is_some() || query.to.is_some() || query.interface.is_some() {
        let text = "from, to and interface need a recorder (--record DIR)";
        return Err(problem(StatusCode::CONFLICT, text));
    }
    let (expression, name) = expression(&state, &query)?;
    let seconds = query.seconds.unwrap_or(SECONDS).clamp(1, MOST_SECONDS);
    let tapped = state
        .taps
        .open(&expression, Duration::from_secs(seconds), None);
    let tapped = tapped.map_err(|failed| {
        let status = match failed {
            TapError::Filter(_) => StatusCode::BAD_REQUEST,
            TapError::NoPackets => StatusCode::CONFLICT,
            TapError::TooMany => StatusCode::TOO_MANY_REQUESTS,
        };
        problem(status, failed.to_string())
    })?;
    let encoder = tapped
        .encoder()
        .map_err(|failed| problem(StatusCode::INTERNAL_SERVER_ERROR, failed.to_string()))?;
    let body = Body::from_stream(unfold(Some((tapped, encoder)), step));
    Ok(pcapng(&name, body))
}

/// Returns an answer with packets.
pub(super) fn pcapng(name: &str, body: Body) -> Response {
    file(
        "application/x-pcapng",
        &format!("ringtap-{name}.pcapng"),
        body,
    )
}

/// Returns the packets that a recorder is asked for. Without times they are those of the flow's time, or of the
/// last quarter of an hour.
fn question(state: &State, query: &PacketsQuery) -> Result<Question, Problem> {
    let (filter, name) = match (&query.host, &query.flow, &query.filter) {
        (None, None, None) => (None, "packets".to_owned()),
        _ => {
            let (filter, name) = expression(state, query)?;
            (Some(filter).filter(|text| !text.trim().is_empty()), name)
        }
    };
    let parsed = |text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => recorded::time(text).map(Some).ok_or_else(|| {
            bad("expected a time, such as 2026-01-31T03:12:00Z or seconds since 1970")
        }),
    };
    let (mut from, mut to) = (parsed(&query.from)?, parsed(&query.to)?);
    let flow = query
        .flow
        .as_ref()
        .filter(|_| from.is_none() && to.is_none());
    if let Some(detail) = flow.and_then(|id| state.model.lock().flow(id)) {
        let nanos = |ms: u64| {
            i64::try_from(ms)
                .unwrap_or(i64::MAX)
                .saturating_mul(1_000_000)
        };
        from = Some(nanos(detail.flow.first_ms).saturating_sub(MARGIN));
        to = Some(nanos(detail.flow.last_ms).saturating_add(MARGIN));
    }
    let to = to.unwrap_or_else(|| nanos(Timestamp::now()));
    let window = Window {
        from: Some(from.unwrap_or(to.saturating_sub(QUARTER))),
        to: Some(to),
    };
    let devices = query.interface.as_deref().unwrap_or_default().split(',');
    let devices = devices.filter(|device| !device.is_empty());
    Ok(Question {
        filter,
        window,
        devices: devices.map(str::to_owned).collect(),
        name,
    })
}

/// Returns the filter that is asked for, and a name for the file.
fn expression(state: &State, query: &PacketsQuery) -> Result<(String, String), Problem> {
    match (&query.host, &query.flow, &query.filter) {
        (Some(host), None, None) => {
            let host: Result<IpAddr, _> = host.parse();
            let host = host.map_err(|_| bad("parameter host: no address"))?;
            let name = host.to_string().replace(':', "-");
            Ok((ringtap_look::filter_of_host(host), name))
        }
        (None, Some(id), None) => {
            let expression = state.model.lock().filter_of_flow(id);
            Ok((expression.ok_or_else(unlisted_flow)?, "flow".to_owned()))
        }
        (None, None, Some(filter)) => Ok((filter.clone(), "packets".to_owned())),
        _ => Err(bad("specify one of host, flow and filter")),
    }
}

type Step = Option<(Result<Vec<u8>, io::Error>, Option<(Tapped, Encoded)>)>;

/// Returns the next bytes: at first those of the header, at the end of the time none.
async fn step(state: Option<(Tapped, Encoded)>) -> Step {
    let (mut tapped, mut encoder) = state?;
    loop {
        let bytes = match encoder.take() {
            Ok(bytes) => bytes,
            Err(failed) => return Some((Err(failed), None)),
        };
        if !bytes.is_empty() {
            return Some((Ok(bytes), Some((tapped, encoder))));
        }
        let until = Instant::from_std(tapped.until);
        let packets = timeout_at(until, tapped.next()).await;
        let packets = match packets {
            Ok(packets) => packets?,
            Err(_) => tapped.try_next()?,
        };
        if let Err(failed) = encoder.push(&packets) {
            return Some((Err(failed), None));
        }
    }
}
