//! The page, which is part of the program.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

/// The files of the page: path, type, content.
const FILES: [(&str, &str, &[u8]); 4] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_bytes!("../../../ui/dist/index.html"),
    ),
    (
        "/app.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../../../ui/dist/app.js"),
    ),
    (
        "/app.css",
        "text/css; charset=utf-8",
        include_bytes!("../../../ui/dist/app.css"),
    ),
    (
        "/icon.svg",
        "image/svg+xml",
        include_bytes!("../../../ui/dist/icon.svg"),
    ),
];

/// Returns a file of the page.
pub(super) fn file(path: &str) -> Response {
    let path = if path == "/index.html" { "/" } else { path };
    match FILES.iter().find(|(name, ..)| *name == path) {
        Some((_, kind, content)) => {
            let kind = HeaderValue::from_static(kind);
            ([(header::CONTENT_TYPE, kind)], *content).into_response()
        }
        None => {
            super::handlers::problem(StatusCode::NOT_FOUND, "there is no such page").into_response()
        }
    }
}
