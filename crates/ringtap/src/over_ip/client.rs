//! A connection to a server whose packets are read.

use std::io::{self, Read};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConnection, StreamOwned};

use super::address::Remote;
use crate::tls::{self, ClientFiles};

/// How long a server may take to accept a connection, for each of its addresses, and to agree on the encryption.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection, perhaps with TLS.
pub(crate) enum Connection {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Connection {
    /// Connects to the server with this name.
    ///
    /// # Errors
    /// The name is unknown, or no address of it accepts the connection; a file of TLS cannot be used, or the server is
    /// not the one that is meant.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let remote = Remote::of(path).ok_or(io::ErrorKind::InvalidInput)?;
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for address in (remote.host.as_str(), remote.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    return match &remote.tls {
                        None => Ok(Self::Plain(stream)),
                        Some(files) => Self::encrypted(stream, &remote.host, files),
                    };
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn encrypted(mut stream: TcpStream, host: &str, files: &ClientFiles) -> io::Result<Self> {
        let config = tls::client(files).map_err(io::Error::other)?;
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(Arc::new(config), name);
        let mut connection = connection.map_err(io::Error::other)?;
        agree(&mut connection, &mut stream)?;
        stream.set_read_timeout(None)?;
        Ok(Self::Encrypted(Box::new(StreamOwned::new(
            connection, stream,
        ))))
    }

    /// Makes reading return at once if nothing has come.
    pub(crate) fn never_wait(&self) -> io::Result<()> {
        self.socket().set_nonblocking(true)
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Encrypted(stream) => &stream.sock,
        }
    }
}

/// Agrees on the encryption, in limited time, however slowly the server sends.
fn agree(connection: &mut ClientConnection, stream: &mut TcpStream) -> io::Result<()> {
    let limit = Instant::now() + PATIENCE;
    loop {
        while connection.wants_write() {
            connection.write_tls(stream)?;
        }
        if !connection.is_handshaking() {
            return Ok(());
        }
        let left = limit.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let came = connection
            .read_tls(stream)
            .map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
                _ => error,
            })?;
        if came == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Err(error) = connection.process_new_packets() {
            // The server gets the reason, too, if it still listens.
            let _ = connection.write_tls(stream);
            return Err(io::Error::other(error));
        }
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Encrypted(stream) => stream.read(buffer),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}
