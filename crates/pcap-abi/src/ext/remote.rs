//! Functions for remote-capture daemons that connect to their clients. libpcap without remote
//! captures has had them since 1.11, and they fail.

use std::ffi::{c_char, c_int, c_void};

use crate::boundary::export;
use crate::text::{CText, ErrBuf, say};
use crate::types::code;

/// The message of all remote functions.
pub(super) const NOT_SUPPORTED: &str = "Remote capture is not supported";

/// `INVALID_SOCKET`.
const NO_SOCKET: c_int = -1;

export! {
    /// Waits for a daemon: not supported.
    fn pcap_remoteact_accept(
        _address: CText<'_>,
        _port: CText<'_>,
        _hosts: CText<'_>,
        _connecting: *mut c_char,
        _authentication: *const c_void,
        errbuf: ErrBuf<'_>,
    ) -> c_int {
        say(errbuf, NOT_SUPPORTED);
        NO_SOCKET
    } else NO_SOCKET;

    /// Waits for a daemon, possibly by TLS: not supported.
    fn pcap_remoteact_accept_ex(
        _address: CText<'_>,
        _port: CText<'_>,
        _hosts: CText<'_>,
        _connecting: *mut c_char,
        _authentication: *const c_void,
        _by_tls: c_int,
        errbuf: ErrBuf<'_>,
    ) -> c_int {
        say(errbuf, NOT_SUPPORTED);
        NO_SOCKET
    } else NO_SOCKET;

    /// Lists the connected daemons: not supported.
    fn pcap_remoteact_list(
        _hosts: *mut c_char,
        _separator: c_char,
        _size: c_int,
        errbuf: ErrBuf<'_>,
    ) -> c_int {
        say(errbuf, NOT_SUPPORTED);
        code::ERROR
    } else code::ERROR;

    /// Closes a daemon's connection: not supported.
    fn pcap_remoteact_close(_host: CText<'_>, errbuf: ErrBuf<'_>) -> c_int {
        say(errbuf, NOT_SUPPORTED);
        code::ERROR
    } else code::ERROR;

    /// Stops waiting for daemons; does nothing.
    fn pcap_remoteact_cleanup() {} else ();
}
