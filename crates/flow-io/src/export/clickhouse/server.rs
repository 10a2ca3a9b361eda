//! A server of ClickHouse: one insert at a time, and what its answer means.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::{CollectorAddress, OutputError};

/// The longest time for an insert.
const INSERT: Duration = Duration::from_secs(60);
/// The most bytes of an answer that are read.
const ANSWER: u64 = 4096;
/// The certificates that the host trusts, as Debian and Fedora have them.
const AUTHORITIES: [&str; 2] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
];
/// The header with the number of an error.
const CODE: &str = "X-ClickHouse-Exception-Code";
/// Errors that go away by themselves: a file that cannot be written or opened, a timeout, too many simultaneous queries,
/// a timeout of a socket, a network error, no coordinator, an aborted query, no memory, a table that is read-only while it
/// has no coordinator, no room, too many parts, too few replicas, an earlier write without a quorum, an unknown status of
/// an insert, a cancelled query, a failed system call, an object store, the coordinator.
const PASSING: [u32; 20] = [
    75, 76, 159, 202, 209, 210, 225, 236, 241, 242, 243, 252, 285, 286, 319, 394, 425, 499, 998,
    999,
];
/// Errors of the rows themselves: input that cannot be parsed, fewer bytes than expected, incorrect data.
const OF_BATCH: [u32; 3] = [27, 33, 117];
/// The error of a setting that the server does not know.
const UNKNOWN_SETTING: u32 = 115;

/// The result of an insert.
pub(super) enum Answer {
    /// The server has the batch.
    Taken,
    /// The server does not take the batch unless somebody changes something: the table, the rights, or, if it
    /// `is_of_batch`, the batch itself.
    Refused { error: io::Error, is_of_batch: bool },
    /// The server cannot be reached, or takes no batch now.
    Away(io::Error),
    /// The server has no tokens: the batch is to be sent again without one.
    WithoutTokens,
}

/// A server, and the table that records go to.
pub(super) struct Server {
    agent: Agent,
    url: String,
    user: Option<String>,
    password: Option<String>,
    has_tokens: bool,
}

impl Server {
    /// Returns the server of an address, and its table.
    pub(super) fn new(address: &CollectorAddress) -> Result<(Self, &str), OutputError> {
        let (url, table) = address
            .0
            .clickhouse()
            .ok_or(OutputError::CollectorAddress)?;
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(INSERT))
            .timeout_connect(Some(Duration::from_secs(5)));
        if url.starts_with("https:") {
            let authorities = authorities().map_err(address.0.failed("read certificates"))?;
            let trusted = RootCerts::new_with_certs(&authorities);
            config = config.tls_config(TlsConfig::builder().root_certs(trusted).build());
        }
        let variable = |name| std::env::var(name).ok();
        let server = Self {
            agent: config.build().new_agent(),
            url: url.to_owned(),
            user: variable("CLICKHOUSE_USER"),
            password: variable("CLICKHOUSE_PASSWORD"),
            has_tokens: true,
        };
        Ok((server, table))
    }

    /// Sends a batch. At the end of a run it takes until `until` at most.
    pub(super) fn insert(
        &mut self,
        statement: &str,
        rows: &[u8],
        token: &str,
        until: Option<Instant>,
    ) -> Answer {
        let mut request = self.agent.post(&self.url).query("query", statement);
        if self.has_tokens {
            request = request.query("insert_deduplication_token", token);
        }
        for (name, value) in [
            ("X-ClickHouse-User", &self.user),
            ("X-ClickHouse-Key", &self.password),
        ] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        if let Some(until) = until {
            let left = until.saturating_duration_since(Instant::now());
            let left = left.max(Duration::from_secs(1)).min(INSERT);
            request = request.config().timeout_global(Some(left)).build();
        }
        match request.send(rows) {
            Ok(mut answer) if answer.status().is_success() => {
                // The connection can be used again once the answer is read.
                let _ = answer.body_mut().with_config().limit(ANSWER).read_to_vec();
                Answer::Taken
            }
            Ok(mut answer) => {
                let code = answer
                    .headers()
                    .get(CODE)
                    .and_then(|code| code.to_str().ok());
                let code = code.and_then(|code| code.parse().ok());
                let body = answer
                    .body_mut()
                    .with_config()
                    .limit(ANSWER)
                    .lossy_utf8(true);
                let text = body.read_to_string().unwrap_or_default();
                self.failed(answer.status().as_u16(), code, &text)
            }
            Err(ureq::Error::Io(error)) => Answer::Away(error),
            Err(error) => Answer::Away(io::Error::other(error)),
        }
    }

    fn failed(&mut self, status: u16, code: Option<u32>, text: &str) -> Answer {
        // Old servers have no header.
        let code = code.or_else(|| {
            let digits = text.strip_prefix("Code: ")?;
            digits
                .split(|c: char| !c.is_ascii_digit())
                .next()?
                .parse()
                .ok()
        });
        if code == Some(UNKNOWN_SETTING) && self.has_tokens {
            self.has_tokens = false;
            return Answer::WithoutTokens;
        }
        let line = text.lines().next().unwrap_or_default();
        let line: String = line.chars().filter(|c| !c.is_control()).take(200).collect();
        let error = |kind| io::Error::new(kind, format!("HTTP {status}: {line}"));
        let is_passing = match code {
            Some(code) => PASSING.contains(&code),
            None => status >= 500 || status == 429,
        };
        match is_passing {
            true => Answer::Away(error(ErrorKind::ResourceBusy)),
            false => Answer::Refused {
                error: error(ErrorKind::InvalidInput),
                is_of_batch: code.is_some_and(|code| OF_BATCH.contains(&code)),
            },
        }
    }
}

/// Reads the certificates that the host trusts.
fn authorities() -> io::Result<Vec<Certificate<'static>>> {
    let mut found = Err(ErrorKind::NotFound.into());
    for path in AUTHORITIES {
        found = std::fs::read(path);
        if found.is_ok() {
            break;
        }
    }
    let text = found?;
    let items = parse_pem(&text).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    Ok(items.collect())
}
