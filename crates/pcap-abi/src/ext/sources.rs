//! WinPcap's names of sources, for local devices and files: `pcap_open`, `pcap_findalldevs_ex`,
//! `pcap_createsrcstr`, `pcap_parsesrcstr`.

use std::ffi::{CString, c_int, c_void};
use std::path::Path;
use std::ptr;

use super::remote;
use crate::boundary::export;
use crate::devices::{self, Device};
use crate::handle::Pcap;
use crate::live::open_live;
use crate::offline::pcap_open_offline;
use crate::state::settings::Settings;
use crate::text::{CText, ErrBuf, say, told};
use crate::types::{PcapIf, code};

/// `PCAP_SRC_*`.
const FILE: c_int = 2;
const LOCAL: c_int = 3;
const REMOTE: c_int = 4;
/// `PCAP_OPENFLAG_*`.
const PROMISCUOUS: c_int = 1;
const MAX_RESPONSIVENESS: c_int = 16;
/// `PCAP_BUF_SIZE`: size of a source's name, and of each of its parts, in bytes.
const ROOM: usize = 1024;
const FILE_PREFIX: &[u8] = b"file://";
const DEVICE_PREFIX: &[u8] = b"rpcap://";

/// The parts of a source's name.
#[derive(Debug, PartialEq, Eq)]
struct Parts<'a> {
    kind: c_int,
    host: &'a [u8],
    port: &'a [u8],
    name: &'a [u8],
}

fn parse(source: &[u8]) -> Parts<'_> {
    let plain = |kind, name| Parts {
        kind,
        host: &[],
        port: &[],
        name,
    };
    if let Some(path) = source.strip_prefix(FILE_PREFIX) {
        return plain(FILE, path);
    }
    let Some(rest) = source.strip_prefix(DEVICE_PREFIX) else {
        return plain(LOCAL, source);
    };
    let Some(slash) = rest.iter().position(|byte| *byte == b'/') else {
        return plain(LOCAL, rest);
    };
    let (host, name) = (&rest[..slash], &rest[slash + 1..]);
    let (host, port) = match host {
        // An IPv6 address is in brackets.
        [b'[', inner @ ..] => match inner.iter().position(|byte| *byte == b']') {
            Some(end) => (
                &inner[..end],
                inner[end + 1..].strip_prefix(b":").unwrap_or(&[]),
            ),
            None => (host, &[][..]),
        },
        _ => match host.iter().position(|byte| *byte == b':') {
            Some(colon) => (&host[..colon], &host[colon + 1..]),
            None => (host, &[][..]),
        },
    };
    Parts {
        kind: if host.is_empty() { LOCAL } else { REMOTE },
        host,
        port,
        name,
    }
}

fn create(kind: c_int, host: &[u8], port: &[u8], name: &[u8]) -> Result<Vec<u8>, &'static str> {
    let text = match kind {
        FILE => [FILE_PREFIX, name].concat(),
        LOCAL => [DEVICE_PREFIX, name].concat(),
        REMOTE => {
            let is_v6 = host.contains(&b':');
            let (open, close): (&[u8], &[u8]) = if is_v6 { (b"[", b"]") } else { (b"", b"") };
            let colon: &[u8] = if port.is_empty() { b"" } else { b":" };
            [DEVICE_PREFIX, open, host, close, colon, port, b"/", name].concat()
        }
        _ => return Err("The interface type is not valid"),
    };
    if text.len() < ROOM {
        Ok(text)
    } else {
        Err("The source's name is too long")
    }
}

/// Writes a string into C's buffer of [`ROOM`] bytes; does nothing for null.
fn put(text: &[u8], to: Option<&mut [u8; ROOM]>) {
    if let Some(to) = to {
        let len = text.len().min(ROOM - 1);
        to[..len].copy_from_slice(&text[..len]);
        to[len] = 0;
    }
}

fn open(source: &[u8], mut settings: Settings, errbuf: ErrBuf<'_>) -> *mut Pcap {
    let parts = parse(source);
    let Ok(name) = CString::new(parts.name) else {
        return ptr::null_mut();
    };
    match parts.kind {
        FILE => pcap_open_offline(CText::of(&name), errbuf),
        LOCAL => {
            settings.device = name;
            open_live(settings, errbuf)
        }
        _ => {
            say(errbuf, remote::NOT_SUPPORTED);
            ptr::null_mut()
        }
    }
}

fn find(source: &[u8]) -> Result<Vec<Device>, String> {
    let parts = parse(source);
    match parts.kind {
        FILE => files(parts.name),
        LOCAL => {
            let mut all = devices::all()?;
            for device in &mut all {
                let what = device
                    .description
                    .take()
                    .unwrap_or_else(|| device.name.clone());
                let what = [b"Network adapter '", &what[..], b"' on local host"].concat();
                device.description = Some(what);
                device.name = [DEVICE_PREFIX, &device.name].concat();
            }
            Ok(all)
        }
        _ => Err(remote::NOT_SUPPORTED.to_owned()),
    }
}

/// Returns the capture files of a folder.
fn files(folder: &[u8]) -> Result<Vec<Device>, String> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let folder = Path::new(std::ffi::OsStr::from_bytes(folder));
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
        let options = ringtap_capture::ReadOptions::default();
        if !is_file || ringtap_capture::open_file(&path, &options, None).is_err() {
            continue;
        }
        let name = path.into_os_string().into_vec();
        let what = [b"File '", &name[..], b"' on local host"].concat();
        found.push(Device::plain([FILE_PREFIX, &name].concat(), what));
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

export! {
    /// Opens a device or a file by its source's name, and starts capturing.
    fn pcap_open(
        source: CText<'_>,
        snaplen: c_int,
        flags: c_int,
        timeout: c_int,
        _authentication: *const c_void,
        errbuf: ErrBuf<'_>,
    ) -> *mut Pcap {
        let settings = Settings {
            snaplen,
            timeout,
            promiscuous: flags & PROMISCUOUS != 0,
            immediate: flags & MAX_RESPONSIVENESS != 0,
            returns_on_timeout: true,
            ..Settings::default()
        };
        open(source.bytes(), settings, errbuf)
    } else ptr::null_mut();

    /// Lists all local devices for `rpcap://`, or the capture files of a folder for
    /// `file://FOLDER`; `pcap_freealldevs` frees the list.
    fn pcap_findalldevs_ex(
        source: CText<'_>,
        _authentication: *const c_void,
        devices: Option<&mut *mut PcapIf>,
        errbuf: ErrBuf<'_>,
    ) -> c_int {
        devices::hand_out(|| find(source.bytes()), devices, errbuf)
    } else code::ERROR;

    /// Writes a source's name, made from its parts, into a buffer of 1024 bytes.
    fn pcap_createsrcstr(
        source: Option<&mut [u8; ROOM]>,
        kind: c_int,
        host: CText<'_>,
        port: CText<'_>,
        name: CText<'_>,
        errbuf: ErrBuf<'_>,
    ) -> c_int {
        let created = create(kind, host.bytes(), port.bytes(), name.bytes());
        let Some(text) = told(created, errbuf) else { return code::ERROR };
        put(&text, source);
        0
    } else code::ERROR;

    /// Writes the parts of a source's name into buffers of 1024 bytes; a buffer may be null.
    fn pcap_parsesrcstr(
        source: CText<'_>,
        kind: Option<&mut c_int>,
        host: Option<&mut [u8; ROOM]>,
        port: Option<&mut [u8; ROOM]>,
        name: Option<&mut [u8; ROOM]>,
        _errbuf: ErrBuf<'_>,
    ) -> c_int {
        let parts = parse(source.bytes());
        if let Some(kind) = kind {
            *kind = parts.kind;
        }
        put(parts.host, host);
        put(parts.port, port);
        put(parts.name, name);
        0
    } else code::ERROR;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_and_put_together() {
        for (text, kind, host, port, name) in [
            ("file:///tmp/x.pcap", FILE, "", "", "/tmp/x.pcap"),
            ("rpcap://eth0", LOCAL, "", "", "eth0"),
            (
                "rpcap://10.0.0.1:2002/eth0",
                REMOTE,
                "10.0.0.1",
                "2002",
                "eth0",
            ),
            (
                "rpcap://[fe80::1]:2002/eth0",
                REMOTE,
                "fe80::1",
                "2002",
                "eth0",
            ),
            ("rpcap://host/eth0", REMOTE, "host", "", "eth0"),
        ] {
            let (host, port, name) = (host.as_bytes(), port.as_bytes(), name.as_bytes());
            assert_eq!(
                parse(text.as_bytes()),
                Parts {
                    kind,
                    host,
                    port,
                    name
                },
                "{text}"
            );
            assert_eq!(create(kind, host, port, name).unwrap(), text.as_bytes());
        }
        assert_eq!(parse(b"eth0").kind, LOCAL);
        assert!(create(9, b"", b"", b"x").is_err());
        assert!(create(FILE, b"", b"", &[b'x'; 2000]).is_err());
    }
}
