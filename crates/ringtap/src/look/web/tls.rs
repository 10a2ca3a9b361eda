//! TLS: the server's certificate and key, and the authorities whose clients are served.
//!
//! Certificates are checked by rustls and webpki. A certificate that its authority has revoked stays valid here until it
//! expires: give clients certificates of a short life, or of an authority of their own.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

use crate::cli::WebArgs;

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

/// Returns what accepts connections with TLS; `None` without a certificate.
///
/// # Errors
/// A file cannot be read, or its content cannot be used.
pub(super) fn acceptor(args: &WebArgs) -> Result<Option<TlsAcceptor>, TlsError> {
    let (Some(chain), Some(key)) = (&args.tls_cert, &args.tls_key) else {
        return Ok(None);
    };
    let unusable = |path: &Path| {
        let path = path.display().to_string();
        move |reason| TlsError::Unusable { path, reason }
    };
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(unusable(chain))?;
    let builder = match &args.tls_client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(unusable(path))?;
            }
            let roots = Arc::new(roots);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            let verifier = verifier.map_err(|reason| TlsError::Authorities {
                path: path.display().to_string(),
                reason,
            })?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|reason| TlsError::Pem {
        path: key.display().to_string(),
        reason,
    })?;
    let config = builder.with_single_cert(certificates(chain)?, secret);
    let mut config = config.map_err(unusable(chain))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |reason| TlsError::Pem {
        path: path.display().to_string(),
        reason,
    };
    let all = CertificateDer::pem_file_iter(path).map_err(failed)?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(failed)?;
    if all.is_empty() {
        let path = path.display().to_string();
        return Err(TlsError::Empty { path });
    }
    Ok(all)
}
