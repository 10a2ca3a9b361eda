//! Decides which requests are allowed, by their host name, the page that makes them, and the token.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};

use crate::cli::ServingArgs;

/// The path of the requests that change something: they are sent by POST.
pub(super) const REQUEST: &str = "/api/v1/trigger";

/// The rules for requests.
#[derive(Debug)]
pub(crate) struct Guard {
    token: Option<String>,
    names: Vec<String>,
    has_tls: bool,
}

/// Why a request is refused.
pub(super) type Refusal = (StatusCode, &'static str);

impl Guard {
    pub(super) fn new(args: &ServingArgs, token: Option<String>) -> Self {
        let mut names = args.server_name.clone();
        names.push("localhost".to_owned());
        let has_tls = args.tls_cert.is_some();
        Self {
            token,
            names,
            has_tls,
        }
    }

    /// Returns the address to open.
    pub(super) fn address(&self, listening: SocketAddr) -> String {
        let at = match listening.ip() {
            ip if ip.is_unspecified() => format!("port {} of all addresses", listening.port()),
            _ if self.has_tls => format!("https://{listening}/"),
            _ => format!("http://{listening}/"),
        };
        match &self.token {
            Some(_) => format!("{at} (open it with #token=TOKEN behind the address)"),
            None => at,
        }
    }

    /// Checks a request.
    pub(super) fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        let is_request = method == Method::POST && uri.path() == REQUEST;
        if method != Method::GET && method != Method::HEAD && !is_request {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "only GET is supported"));
        }
        if uri.authority().is_some() {
            return Err((StatusCode::BAD_REQUEST, "this is no proxy"));
        }
        let host = text(headers, header::HOST.as_str()).unwrap_or_default();
        if !self.serves(host) {
            let text = "the host name is not one of this server; use its address, or --server-name";
            return Err((StatusCode::MISDIRECTED_REQUEST, text));
        }
        let origin = text(headers, header::ORIGIN.as_str());
        let is_own = |origin: &str| {
            let rest = origin.strip_prefix("http://");
            rest.or_else(|| origin.strip_prefix("https://")) == Some(host)
        };
        if origin.is_some_and(|origin| !is_own(origin)) {
            return Err((StatusCode::FORBIDDEN, "the request comes from another site"));
        }
        let path = uri.path();
        let is_data = path.starts_with("/api/") || path == "/metrics";
        if !is_data {
            return Ok(());
        }
        let site = text(headers, "sec-fetch-site");
        if site.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
            return Err((StatusCode::FORBIDDEN, "the request comes from another site"));
        }
        self.check_token(uri, headers)
    }

    fn check_token(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(token) = &self.token else {
            return Ok(());
        };
        let bearer = text(headers, header::AUTHORIZATION.as_str());
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
        let parameters = uri.query().unwrap_or_default().split('&');
        let mut in_query = parameters.filter_map(|one| one.strip_prefix("token="));
        let given = bearer.or_else(|| in_query.next()).unwrap_or_default();
        match is_equal(given.trim(), token) {
            true => Ok(()),
            false => Err((
                StatusCode::UNAUTHORIZED,
                "the token is missing or wrong; open the page with #token=TOKEN",
            )),
        }
    }

    /// Whether a value of the header `Host` is one of this server: an address, which no name server of a
    /// stranger can give to a page, or a known name.
    fn serves(&self, host: &str) -> bool {
        let is_address = host.parse::<SocketAddr>().is_ok()
            || host.parse::<IpAddr>().is_ok()
            || host
                .strip_prefix('[')
                .and_then(|host| host.strip_suffix(']'))
                .is_some_and(|host| host.parse::<IpAddr>().is_ok());
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        is_address
            || self
                .names
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name))
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    // A value that is no text is none of ours.
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// Compares in a time that does not depend on the first difference.
fn is_equal(given: &str, token: &str) -> bool {
    let (given, token) = (given.as_bytes(), token.as_bytes());
    let pairs = given.iter().zip(token);
    let difference = pairs.fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == token.len() && difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(token: Option<&str>) -> Guard {
        Guard {
            token: token.map(str::to_owned),
            names: vec!["localhost".into(), "probe.example".into()],
            has_tls: false,
        }
    }

    fn ask(guard: &Guard, path: &str, headers: &[(&'static str, &str)]) -> Result<(), u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let checked = guard.check(&Method::GET, &path.parse().unwrap(), &map);
        checked.map_err(|(status, _)| status.as_u16())
    }

    #[test]
    fn names_of_strangers_are_refused() {
        let guard = guard(None);
        for (host, expected) in [
            ("127.0.0.1:8877", Ok(())),
            ("[::1]:8877", Ok(())),
            ("localhost:8877", Ok(())),
            ("Probe.Example", Ok(())),
            ("evil.example:8877", Err(421)),
            ("localhost.evil.example", Err(421)),
            ("", Err(421)),
        ] {
            assert_eq!(
                ask(&guard, "/api/v1/status", &[("host", host)]),
                expected,
                "{host}"
            );
        }
    }

    #[test]
    fn other_sites_are_refused() {
        let guard = guard(None);
        let host = ("host", "127.0.0.1:8877");
        let own = ("origin", "http://127.0.0.1:8877");
        let other = ("origin", "http://evil.example");
        assert_eq!(ask(&guard, "/api/v1/status", &[host, own]), Ok(()));
        assert_eq!(ask(&guard, "/api/v1/status", &[host, other]), Err(403));
        assert_eq!(ask(&guard, "/", &[host, ("origin", "null")]), Err(403));
        let cross = ("sec-fetch-site", "cross-site");
        assert_eq!(ask(&guard, "/metrics", &[host, cross]), Err(403));
        assert_eq!(
            ask(&guard, "/", &[host, cross]),
            Ok(()),
            "a link to the page"
        );
    }

    #[test]
    fn data_need_the_token() {
        let guard = guard(Some("abc123"));
        let host = ("host", "192.0.2.1:8877");
        assert_eq!(ask(&guard, "/", &[host]), Ok(()));
        assert_eq!(ask(&guard, "/healthz", &[host]), Ok(()));
        assert_eq!(ask(&guard, "/metrics", &[host]), Err(401));
        assert_eq!(ask(&guard, "/api/v1/status", &[host]), Err(401));
        let wrong = ("authorization", "Bearer abc124");
        assert_eq!(ask(&guard, "/api/v1/status", &[host, wrong]), Err(401));
        let right = ("authorization", "Bearer abc123");
        assert_eq!(ask(&guard, "/api/v1/status", &[host, right]), Ok(()));
        assert_eq!(
            ask(&guard, "/api/v1/events?a=b&token=abc123", &[host]),
            Ok(())
        );
        assert_eq!(
            ask(&guard, "/api/v1/events?token=abc1234", &[host]),
            Err(401)
        );
    }
}
