//! The answers to requests: JSON of `/api/v1`, events, metrics, the page.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Query, Request, State as Shared};
use axum::http::{HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use futures_util::stream::{Stream, unfold};
use ringtap_look::api::Flows;
use ringtap_look::{FlowFilter, FlowQuery, FlowSort, Kind, Measure, Split, Window};
use serde::{Deserialize, Serialize};

use super::{State, guard, packets, page, recorded};

/// Rows of an answer, and at most.
const ROWS: usize = 200;
const MOST_ROWS: usize = 1000;
/// How often events are sent where there are none.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The page's security policy: it may load its own files and send requests to this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

type App = Shared<Arc<State>>;

/// An error of a request, as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    #[serde(skip)]
    status: StatusCode,
    error: String,
    /// The place in a filter, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<usize>,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(self)).into_response()
    }
}

/// Returns the answer to a request that failed.
pub(super) fn problem(status: StatusCode, error: impl Into<String>) -> Problem {
    Problem {
        status,
        error: error.into(),
        position: None,
    }
}

/// Returns the answer to a request that is wrong.
pub(super) fn bad(error: impl Into<String>) -> Problem {
    problem(StatusCode::BAD_REQUEST, error)
}

/// Returns an answer with a file, which browsers save by this name.
pub(super) fn file(kind: &'static str, name: &str, content: impl IntoResponse) -> Response {
    let saved = format!("attachment; filename=\"{name}\"");
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_DISPOSITION, saved),
    ];
    (headers, content).into_response()
}

type Answer = Result<Response, Problem>;

/// Returns all routes.
pub(super) fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/api/v1/status", get(status))
        .route("/api/v1/events", get(events))
        .route("/api/v1/series", get(series))
        .route("/api/v1/top", get(top))
        .route("/api/v1/hosts", get(hosts))
        .route("/api/v1/hosts/{address}", get(host))
        .route("/api/v1/flows", get(flows))
        .route("/api/v1/flows.csv", get(flows_csv))
        .route("/api/v1/flows/{id}", get(flow))
        .route("/api/v1/matrix", get(matrix))
        .route("/api/v1/losses", get(losses))
        .route("/api/v1/cost", get(cost))
        .route("/api/v1/alerts", get(alerts))
        .route("/api/v1/packets", get(packets::packets))
        .route(guard::REQUEST, post(recorded::trigger))
        .route("/api/v1/openapi.json", get(openapi))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .fallback(get(files))
        .layer(from_fn_with_state(Arc::clone(&state), guarded))
        .with_state(state)
}

/// Checks a request, and adds the headers that all answers have.
async fn guarded(Shared(state): App, request: Request, next: Next) -> Response {
    let checked = state
        .guard
        .check(request.method(), request.uri(), request.headers());
    let is_page = !request.uri().path().starts_with("/api/");
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err((status, text)) => problem(status, text).into_response(),
    };
    let caching = if is_page { "no-cache" } else { "no-store" };
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", caching),
    ] {
        let name = HeaderName::from_static(name);
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn files(uri: Uri) -> Response {
    page::file(uri.path())
}

async fn healthz() -> &'static str {
    "ok\n"
}

async fn openapi() -> Response {
    let kind = HeaderValue::from_static("application/json");
    let text = include_str!("../../../../../docs/reference/web-openapi.json");
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

async fn status(Shared(state): App) -> Response {
    Json(state.model.lock().status()).into_response()
}

async fn events(Shared(state): App) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<>> {
    let ticks = state.ticks.clone();
    let stream = unfold(
        (state, ticks, true),
        |(state, mut ticks, is_first)| async move {
            if is_first {
                ticks.mark_unchanged();
            } else if ticks.changed().await.is_err() {
                return None;
            }
            let status = state.model.lock().status();
            let event = Event::default().event("status").json_data(&status);
            let mut event = event.unwrap_or_default();
            if is_first {
                event = event.retry(Duration::from_secs(2));
            }
            Some((Ok(event), (state, ticks, false)))
        },
    );
    Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

/// Parses a parameter that may be missing.
fn parse<T: Default>(
    name: &str,
    text: Option<&String>,
    parse: fn(&str) -> Option<T>,
) -> Result<T, Problem> {
    let Some(text) = text else {
        return Ok(T::default());
    };
    let unknown = || {
        bad(format!(
            "parameter {name}: {text:?} is not one of its values"
        ))
    };
    parse(text).ok_or_else(unknown)
}

#[derive(Deserialize)]
struct SeriesQuery {
    by: Option<String>,
    from: Option<u64>,
    to: Option<u64>,
}

async fn series(Shared(state): App, Query(query): Query<SeriesQuery>) -> Answer {
    let split = parse("by", query.by.as_ref(), Split::parse)?;
    let series = state.model.lock().series(split, query.from, query.to);
    Ok(Json(series).into_response())
}

#[derive(Deserialize)]
struct TopQuery {
    of: Option<String>,
    window: Option<String>,
    by: Option<String>,
    limit: Option<usize>,
}

async fn top(Shared(state): App, Query(query): Query<TopQuery>) -> Answer {
    let kind = parse("of", query.of.as_ref(), Kind::parse)?;
    let window = parse("window", query.window.as_ref(), Window::parse)?;
    let measure = parse("by", query.by.as_ref(), Measure::parse)?;
    let limit = query.limit.unwrap_or(ROWS);
    let top = state.model.lock().top(kind, window, measure, limit);
    Ok(Json(top).into_response())
}

#[derive(Deserialize)]
struct HostsQuery {
    search: Option<String>,
    by: Option<String>,
    limit: Option<usize>,
}

async fn hosts(Shared(state): App, Query(query): Query<HostsQuery>) -> Answer {
    let measure = parse("by", query.by.as_ref(), Measure::parse)?;
    let search = query.search.unwrap_or_default();
    let limit = query.limit.unwrap_or(ROWS);
    let hosts = state.model.lock().host_list(&search, measure, limit);
    Ok(Json(hosts).into_response())
}

#[derive(Deserialize)]
struct HostQuery {
    window: Option<String>,
}

async fn host(
    Shared(state): App,
    Path(address): Path<String>,
    Query(query): Query<HostQuery>,
) -> Answer {
    let window = parse("window", query.window.as_ref(), Window::parse)?;
    let parsed: Result<IpAddr, _> = address.parse();
    let address = parsed.map_err(|_| bad(format!("{address:?} is no address")))?;
    let unlisted = || problem(StatusCode::NOT_FOUND, format!("{address} is not listed"));
    let host = state.model.lock().host(address, window);
    Ok(Json(host.ok_or_else(unlisted)?).into_response())
}

#[derive(Deserialize)]
pub(super) struct FlowsQuery {
    filter: Option<String>,
    sort: Option<String>,
    order: Option<String>,
    offset: Option<usize>,
    limit: Option<usize>,
    ended: Option<String>,
}

impl FlowsQuery {
    fn query(&self, state: &State, most: usize) -> Result<FlowQuery, Problem> {
        let expression = self.filter.as_deref().unwrap_or_default();
        let filter = FlowFilter::new(expression, &state.tables).map_err(|invalid| Problem {
            position: Some(invalid.span.start),
            ..bad(invalid.to_string())
        })?;
        let order = self.order.as_deref().unwrap_or("desc");
        if !["asc", "desc"].contains(&order) {
            return Err(bad("parameter order: asc or desc"));
        }
        Ok(FlowQuery {
            filter,
            sort: parse("sort", self.sort.as_ref(), FlowSort::parse)?,
            ascending: order == "asc",
            offset: self.offset.unwrap_or(0),
            limit: self.limit.unwrap_or(ROWS.min(most)).min(most),
            ended: self.ended.as_deref().unwrap_or("1") != "0",
        })
    }
}

async fn flows(Shared(state): App, Query(query): Query<FlowsQuery>) -> Answer {
    let query = query.query(&state, MOST_ROWS)?;
    let flows = state.model.lock().flow_list(&query);
    Ok(Json(flows).into_response())
}

async fn flows_csv(Shared(state): App, Query(query): Query<FlowsQuery>) -> Answer {
    let mut query = query.query(&state, usize::MAX)?;
    query.limit = usize::MAX;
    let flows = state.model.lock().flow_list(&query);
    Ok(file("text/csv; charset=utf-8", "flows.csv", csv(&flows)))
}

/// Returns flows as CSV. A field from a packet is quoted, and one that a spreadsheet would take for a formula
/// begins with an apostrophe.
fn csv(flows: &Flows) -> String {
    let mut text = String::from(
        "first_ms,last_ms,protocol,source,source_port,destination,destination_port,application,\
         basis,name,packets,bytes,reverse_packets,reverse_bytes,rtt_ns,retransmissions,flags,vlan,\
         ended,end_reason\r\n",
    );
    let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    for flow in &flows.flows {
        let fields = [
            flow.first_ms.to_string(),
            flow.last_ms.to_string(),
            quoted(&flow.protocol),
            quoted(&flow.source),
            number(flow.source_port.map(u64::from)),
            quoted(&flow.destination),
            number(flow.destination_port.map(u64::from)),
            quoted(flow.application.as_deref().unwrap_or_default()),
            flow.basis.unwrap_or_default().to_owned(),
            quoted(flow.name.as_deref().unwrap_or_default()),
            flow.packets.to_string(),
            flow.bytes.to_string(),
            flow.reverse_packets.to_string(),
            flow.reverse_bytes.to_string(),
            number(flow.rtt_ns),
            flow.retransmissions.to_string(),
            flow.flags.clone().unwrap_or_default(),
            number(flow.vlan.map(u64::from)),
            u8::from(flow.ended).to_string(),
            flow.end_reason.unwrap_or_default().to_owned(),
        ];
        text.push_str(&fields.join(","));
        text.push_str("\r\n");
    }
    text
}

fn quoted(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let apostrophe = if is_formula { "'" } else { "" };
    if is_formula || text.contains([',', '"', '\r', '\n']) {
        return format!("\"{apostrophe}{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

async fn flow(Shared(state): App, Path(id): Path<String>) -> Answer {
    let detail = state.model.lock().flow(&id);
    let mut detail = detail.ok_or_else(unlisted_flow)?;
    let looking = &state.looking;
    detail.first_bytes = looking.packets(&state.model, &id, &detail.flow.source);
    Ok(Json(detail).into_response())
}

/// Returns the answer to a request for a flow that is not known.
pub(super) fn unlisted_flow() -> Problem {
    problem(StatusCode::NOT_FOUND, "the flow is not listed any more")
}

#[derive(Deserialize)]
struct LimitQuery {
    limit: Option<usize>,
}

async fn matrix(Shared(state): App, Query(query): Query<LimitQuery>) -> Response {
    let limit = query.limit.unwrap_or(20);
    Json(state.model.lock().matrix(limit)).into_response()
}

async fn losses(Shared(state): App) -> Response {
    Json(state.model.lock().losses()).into_response()
}

#[derive(Deserialize)]
struct SinceQuery {
    since: Option<u64>,
}

async fn alerts(Shared(state): App, Query(query): Query<SinceQuery>) -> Response {
    let since = query.since.unwrap_or(0);
    Json(state.model.lock().alerts(since)).into_response()
}

async fn cost(Shared(state): App) -> Response {
    let packets = state.model.lock().status().totals.packets;
    Json(state.cost.read(packets)).into_response()
}

async fn metrics(Shared(state): App) -> Response {
    let mut text = ringtap_look::metrics(&state.model.lock());
    let recorder = state.recorder.as_ref();
    if let Some(more) = recorder.and_then(recorded::Recorder::metrics) {
        text = recorded::joined(&text, &more);
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_spreadsheet_would_run_is_text() {
        assert_eq!(quoted("a.example"), "a.example");
        assert_eq!(quoted("=cmd|' /C calc'!A0"), "\"'=cmd|' /C calc'!A0\"");
        assert_eq!(quoted("a,\"b"), "\"a,\"\"b\"");
    }
}
