//! PCAP over IP: captures read from a server (`-r tcp:HOST:PORT`) and served to clients
//! (`-w tcp-listen:ADDRESS:PORT`), also with TLS.
//!
//! The server side is [`Server`], the client side [`Connection`]. Addresses are checked when the command line is parsed.

mod address;
mod blocks;
mod client;
mod server;

use std::io;
use std::net::TcpListener;
use std::path::Path;

use tokio_rustls::TlsAcceptor;

pub(crate) use address::{files, is_listener, is_server, readable, writable};
pub(crate) use client::Connection;
pub(crate) use server::Server;

use crate::tls;
use address::Local;

/// An address on which clients may connect.
pub(crate) struct Listener {
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
}

impl Listener {
    /// Returns how an address of it begins.
    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "tls" } else { "tcp" }
    }
}

/// Listens on the address with this name. `None` if the name is that of a file. Ports below 1024 need a
/// privilege.
///
/// # Errors
/// The address is not one of this host, or is in use; a file of TLS cannot be used.
pub(crate) fn listen(path: &Path) -> io::Result<Option<Listener>> {
    let Some(Local { address, tls }) = Local::of(path) else {
        return Ok(None);
    };
    let tls = tls.map(|files| tls::acceptor(&files, &[])).transpose();
    let tls = tls.map_err(io::Error::other)?;
    let socket = TcpListener::bind(address)?;
    socket.set_nonblocking(true)?;
    Ok(Some(Listener { socket, tls }))
}
