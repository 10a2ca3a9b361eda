//! TLS: a server's certificate and key, and the authorities whose clients are served; and the same of a client.
//!
//! Certificates are checked by rustls and webpki. A certificate that its authority has revoked stays valid here until it
//! expires: give clients certificates of a short life, or of an authority of their own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, ServerConfig};

use crate::rights;

/// A file of TLS that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// It cannot be read, or is not in PEM.
    #[error("{path}: {reason}")]
    Pem { path: String, reason: pem::Error },
    /// It has no certificate.
    #[error("{path}: no certificate found; expected PEM with BEGIN CERTIFICATE")]
    Empty { path: String },
    /// Certificate and key do not fit together, or are of a kind that is not supported.
    #[error("{path}: {reason}")]
    Unusable { path: String, reason: rustls::Error },
    /// The authorities cannot be used.
    #[error("{path}: {reason}")]
    Authorities {
        path: String,
        reason: rustls::server::VerifierBuilderError,
    },
}

/// The files of a server with TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
    /// The authorities of clients; without them every client is served.
    pub(crate) authorities: Option<PathBuf>,
}

/// The files of a client with TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientFiles {
    /// The authorities of servers.
    pub(crate) authorities: PathBuf,
    /// The client's own certificate and key.
    pub(crate) own: Option<(PathBuf, PathBuf)>,
}

impl Files {
    /// Returns their paths.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let known = [
            Some(&self.chain),
            Some(&self.key),
            self.authorities.as_ref(),
        ];
        known.map(Option::<&PathBuf>::cloned).into_iter().flatten()
    }
}

/// Returns what accepts connections with TLS, for one of these protocols (ALPN) if there are any. The files are read
/// with the privileges of the user who started the program, now and later.
///
/// # Errors
/// A file cannot be read, or its content cannot be used.
pub(crate) fn acceptor(files: &Files, protocols: &[&[u8]]) -> Result<TlsAcceptor, TlsError> {
    let (chain, key) = (&files.chain, &files.key);
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(unusable(chain))?;
    let builder = match &files.authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(roots(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            let verifier = verifier.map_err(|reason| TlsError::Authorities {
                path: path.display().to_string(),
                reason,
            })?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let config = builder.with_single_cert(certificates(chain)?, secret(key)?);
    let mut config = config.map_err(unusable(chain))?;
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Returns the settings of a client.
///
/// # Errors
/// The same as for [`acceptor`].
pub(crate) fn client(files: &ClientFiles) -> Result<ClientConfig, TlsError> {
    let path = &files.authorities;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(unusable(path))?;
    let builder = builder.with_root_certificates(roots(path)?);
    match &files.own {
        None => Ok(builder.with_no_client_auth()),
        Some((chain, key)) => builder
            .with_client_auth_cert(certificates(chain)?, secret(key)?)
            .map_err(unusable(chain)),
    }
}

fn unusable(path: &Path) -> impl FnOnce(rustls::Error) -> TlsError + use<> {
    let path = path.display().to_string();
    move |reason| TlsError::Unusable { path, reason }
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(unusable(path))?;
    }
    Ok(roots)
}

fn secret(key: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_reader(opened(key)?).map_err(|reason| damaged(key, reason))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all = CertificateDer::pem_reader_iter(opened(path)?);
    let all = all.collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|reason| damaged(path, reason))?;
    if all.is_empty() {
        let path = path.display().to_string();
        return Err(TlsError::Empty { path });
    }
    Ok(all)
}

fn opened(path: &Path) -> Result<File, TlsError> {
    rights::read_blocking(path).map_err(|error| damaged(path, pem::Error::Io(error)))
}

fn damaged(path: &Path, reason: pem::Error) -> TlsError {
    let path = path.display().to_string();
    TlsError::Pem { path, reason }
}
