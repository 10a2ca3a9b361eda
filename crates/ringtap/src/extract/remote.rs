//! Packets of another host's recorder, by HTTP from `ringtap web --record` there.
//!
//! Data in: the answer to `GET /api/v1/packets`, by hyper and rustls. Data out: its bytes, as a stream that is
//! read like a file. An answer that its server cuts is an error, so that nobody takes it for whole.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use hyper::client::conn::http1;
use hyper::{Request, Response, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use ringtap_record::archive::Window;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use crate::cli::RemoteArgs;
use crate::exit::{Ends, USAGE};
use crate::rights;

/// The authorities that are trusted unless `--tls-ca` names others: those of Debian, and of Fedora.
const AUTHORITIES: [&str; 2] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
];
/// How long a connection may take, and how long a server may search before it answers.
const CONNECTING: Duration = Duration::from_secs(10);
const SEARCHING: Duration = Duration::from_secs(120);
/// Pieces of an answer that wait until packets of other hosts are older: less than half a megabyte each.
const PIECES: usize = 512;
/// The longest error of a server that is read, in bytes.
const ERROR: usize = 16 << 10;
/// The longest file with a token, in bytes.
const TOKEN: u64 = 4096;

/// An answer that cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoteError {
    /// It is no address of a recorder.
    #[error("--dir {given}: expected https://HOST or http://HOST, perhaps with a port")]
    Address { given: String },
    /// The beginning of the window is not known.
    #[error("--dir {given}: specify --from: another host's recorder is asked for a day at most")]
    NoBegin { given: String },
    /// The token cannot be read.
    #[error("{}: {source}", path.display())]
    Token { path: PathBuf, r#source: io::Error },
    /// The certificates of authorities cannot be read.
    #[error("{}: {reason}", path.display())]
    Authorities { path: PathBuf, reason: pem::Error },
    /// Encrypted connections are not possible.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
    /// There is no connection.
    #[error("{address}: {source}")]
    Connect {
        address: String,
        r#source: io::Error,
    },
    /// The server does not speak HTTP.
    #[error("{address}: {reason}")]
    Http {
        address: String,
        reason: hyper::Error,
    },
    /// The server refuses the request.
    #[error("{address}: {status}: {text}")]
    Refused {
        address: String,
        status: StatusCode,
        text: String,
    },
}

impl Ends for RemoteError {
    fn exit_status(&self) -> u8 {
        match self {
            Self::Address { .. } | Self::NoBegin { .. } => USAGE,
            _ => 1,
        }
    }
}

/// The recorders of other hosts, before any is asked.
pub(super) struct Remotes {
    addresses: Vec<Address>,
    token: Option<String>,
    tls: Option<TlsConnector>,
}

#[derive(Clone, Debug)]
struct Address {
    given: String,
    host: String,
    port: u16,
    is_encrypted: bool,
}

/// Returns whether a folder of the command line is the address of another host.
pub(super) fn is_remote(folder: &Path) -> bool {
    let text = folder.to_string_lossy();
    text.starts_with("https://") || text.starts_with("http://")
}

impl Remotes {
    /// Parses the addresses among the folders, and reads the files that a connection needs. Call it before
    /// privileges are given up.
    pub(super) fn new(folders: &[PathBuf], args: &RemoteArgs) -> Result<Self, RemoteError> {
        let remote = folders.iter().filter(|folder| is_remote(folder));
        let addresses = remote.map(|folder| Address::parse(&folder.to_string_lossy()));
        let addresses: Vec<Address> = addresses.collect::<Result<_, _>>()?;
        let is_encrypted = addresses.iter().any(|address| address.is_encrypted);
        Ok(Self {
            token: token(args)?,
            tls: is_encrypted.then(|| connector(args)).transpose()?,
            addresses,
        })
    }

    /// Returns whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Asks each recorder for the packets, and returns its address with them.
    pub(super) fn ask(
        &self,
        filter: Option<&str>,
        window: Window,
        devices: &[String],
    ) -> Result<Vec<(String, Answer)>, RemoteError> {
        let mut answers = Vec::new();
        for address in &self.addresses {
            let path = path(address, filter, window, devices)?;
            answers.push((address.given.clone(), self.answer(address, &path)?));
        }
        Ok(answers)
    }

    fn answer(&self, address: &Address, path: &str) -> Result<Answer, RemoteError> {
        let connect = |source| address.failed(source);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(connect)?;
        let stream = connected(address).map_err(connect)?;
        let entered = runtime.enter();
        let stream = tokio::net::TcpStream::from_std(stream).map_err(connect)?;
        drop(entered);
        let response = runtime.block_on(async {
            match self.tls.as_ref().filter(|_| address.is_encrypted) {
                None => self.request(address, path, stream).await,
                Some(tls) => {
                    let name = ServerName::try_from(address.host.clone());
                    let name = name.map_err(|error| connect(io::Error::other(error)))?;
                    let stream = timeout(CONNECTING, tls.connect(name, stream)).await;
                    let stream = stream.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                    let stream = stream.map_err(connect)?;
                    self.request(address, path, stream).await
                }
            }
        })?;
        let stream = Body::new(response.into_body()).into_data_stream().boxed();
        Answer::begin(runtime, stream).map_err(connect)
    }

    async fn request(
        &self,
        address: &Address,
        path: &str,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Response<hyper::body::Incoming>, RemoteError> {
        let failed = |reason| RemoteError::Http {
            address: address.given.clone(),
            reason,
        };
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(failed)?;
        // It works while the answer is read.
        tokio::spawn(connection);
        let mut request = Request::get(path).header(header::HOST, address.authority());
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Body::empty());
        let request = request.map_err(|error| address.failed(io::Error::other(error)))?;
        let late = |_| address.failed(io::ErrorKind::TimedOut.into());
        let response = timeout(SEARCHING, sender.send_request(request)).await;
        let response = response.map_err(late)?.map_err(failed)?;
        let status = response.status();
        if status == StatusCode::OK {
            return Ok(response);
        }
        let text = axum::body::to_bytes(Body::new(response.into_body()), ERROR).await;
        Err(RemoteError::Refused {
            address: address.given.clone(),
            status,
            text: reason(&text.unwrap_or_default()),
        })
    }
}

/// Returns the reason in a server's answer: the text of its JSON.
fn reason(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Problem {
        error: String,
    }
    let parsed: Result<Problem, _> = serde_json::from_slice(body);
    let text = parsed.map_or_else(
        |_| String::from_utf8_lossy(body).into_owned(),
        |one| one.error,
    );
    // It is a stranger's text on a terminal.
    text.chars().filter(|c| !c.is_control()).take(500).collect()
}

impl Address {
    /// Returns the error of a connection.
    fn failed(&self, source: io::Error) -> RemoteError {
        RemoteError::Connect {
            address: self.given.clone(),
            source,
        }
    }

    fn parse(given: &str) -> Result<Self, RemoteError> {
        let invalid = || RemoteError::Address {
            given: given.to_owned(),
        };
        let uri: Uri = given.parse().map_err(|_| invalid())?;
        let host = uri.host().filter(|host| !host.is_empty());
        let is_plain = uri.query().is_none() && matches!(uri.path(), "" | "/");
        let is_encrypted = uri.scheme_str() == Some("https");
        let default = if is_encrypted { 443 } else { 80 };
        let host = host.filter(|_| is_plain).ok_or_else(invalid)?;
        Ok(Self {
            given: given.to_owned(),
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(default),
            is_encrypted,
        })
    }

    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

fn connected(address: &Address) -> io::Result<TcpStream> {
    let places = (address.host.as_str(), address.port).to_socket_addrs()?;
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for place in places {
        match TcpStream::connect_timeout(&place, CONNECTING) {
            Ok(stream) => {
                stream.set_nonblocking(true)?;
                return Ok(stream);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn token(args: &RemoteArgs) -> Result<Option<String>, RemoteError> {
    let Some(path) = &args.token_file else {
        return Ok(None);
    };
    let mut text = String::new();
    let read =
        rights::read_blocking(path).and_then(|file| file.take(TOKEN).read_to_string(&mut text));
    read.map_err(|source| RemoteError::Token {
        path: path.clone(),
        source,
    })?;
    Ok(Some(text.trim().to_owned()))
}

fn connector(args: &RemoteArgs) -> Result<TlsConnector, RemoteError> {
    let known = AUTHORITIES.iter().map(PathBuf::from);
    let path = args.tls_ca.clone();
    let path = path.or_else(|| known.into_iter().find(|path| path.exists()));
    let path = path.unwrap_or_else(|| PathBuf::from(AUTHORITIES[0]));
    let failed = |reason| RemoteError::Authorities {
        path: path.clone(),
        reason,
    };
    let file = rights::read_blocking(&path).map_err(|error| failed(pem::Error::Io(error)))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_reader_iter(file) {
        let certificate = certificate.map_err(failed)?;
        // One of the system's that is not usable is none.
        let _ = roots.add(certificate);
    }
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(RemoteError::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Returns the path of the request.
fn path(
    address: &Address,
    filter: Option<&str>,
    window: Window,
    devices: &[String],
) -> Result<String, RemoteError> {
    let begin = window.from.ok_or_else(|| RemoteError::NoBegin {
        given: address.given.clone(),
    })?;
    let seconds = |nanos: i64| {
        let nanos = nanos.max(0);
        format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
    };
    let mut path = format!("/api/v1/packets?from={}", seconds(begin));
    if let Some(to) = window.to {
        path += &format!("&to={}", seconds(to));
    }
    if let Some(filter) = filter {
        path += &format!("&filter={}", encoded(filter));
    }
    if !devices.is_empty() {
        path += &format!("&interface={}", encoded(&devices.join(",")));
    }
    Ok(path)
}

/// Returns a text as a part of a query (RFC 3986, section 2.1).
fn encoded(text: &str) -> String {
    let mut query = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                query.push(char::from(byte));
            }
            // Writing to a text does not fail.
            _ => drop(write!(query, "%{byte:02X}")),
        }
    }
    query
}

/// The packets of another host, as they come.
pub(super) struct Answer {
    pieces: Receiver<io::Result<Bytes>>,
    piece: Bytes,
}

type Pieces = BoxStream<'static, Result<Bytes, axum::Error>>;

impl Answer {
    /// Reads an answer on a thread of its own: a server drops clients that let it wait, and the packets of other
    /// hosts may be older for a while.
    fn begin(runtime: Runtime, mut stream: Pieces) -> io::Result<Self> {
        let (sender, pieces) = sync_channel(PIECES);
        let work = move || {
            while let Some(piece) = runtime.block_on(stream.next()) {
                if sender.send(piece.map_err(io::Error::other)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("remote".to_owned());
        thread.spawn(work)?;
        Ok(Self {
            pieces,
            piece: Bytes::new(),
        })
    }
}

impl Read for Answer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.pieces.recv() {
                Ok(piece) => self.piece = piece?,
                Err(_) => return Ok(0),
            }
        }
        let count = self.piece.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let parsed = |text| Address::parse(text).map(|one| (one.authority(), one.is_encrypted));
        let has = |text, authority: &str, is_encrypted| {
            let found = parsed(text).expect(text);
            assert_eq!(found, (authority.to_owned(), is_encrypted), "{text}");
        };
        has("https://a.example", "a.example:443", true);
        has("https://a.example:8877/", "a.example:8877", true);
        has("http://[::1]:8877", "[::1]:8877", false);
        for bad in [
            "https://",
            "https:///x",
            "https://a/b",
            "https://a?b=c",
            "https://a b",
        ] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_question_has_filter_and_times() {
        let address = Address::parse("https://a").expect("an address");
        let window = Window {
            from: Some(1_500_000_000),
            to: None,
        };
        let devices = ["eth0".to_owned(), "any".to_owned()];
        let question = path(&address, Some("host a & b"), window, &devices).expect("a path");
        let expected =
            "/api/v1/packets?from=1.500000000&filter=host%20a%20%26%20b&interface=eth0%2Cany";
        assert_eq!(question, expected);
        assert!(path(&address, None, Window::default(), &[]).is_err());
    }

    #[test]
    fn a_server_s_text_has_no_control_characters() {
        assert_eq!(reason(b"{\"error\":\"a\\u001b[1m\"}"), "a[1m");
        assert_eq!(reason(b"plain\n"), "plain");
    }
}
