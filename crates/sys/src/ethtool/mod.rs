//! Reads an adapter's properties from its driver: driver, queues, rings, offloads, counters,
//! clocks.
//!
//! These are the `SIOCETHTOOL` requests that any user may make. The only change is
//! [`Ethtool::set_receive_offload`], needed for interfaces in namespaces of ringtap's own. If a
//! driver does not support a request, the result is `None` or an empty list, not an error.
//!
//! Data in: an interface name (not an alternative name, because the request holds 15 bytes). Data
//! out: plain structures.
//!
//! Source: `include/uapi/linux/ethtool.h`; ethtool(8) for the terms.

mod scratch;

use std::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::netlink::{NAME_MAX, Name};
use crate::{Error, Result, calls};
use scratch::Scratch;

/// The number of a request, and its name in errors.
type Command = (u32, &'static str);

const GLINK: Command = (0xa, "SIOCETHTOOL(ETHTOOL_GLINK)");
const GDRVINFO: Command = (0x03, "SIOCETHTOOL(ETHTOOL_GDRVINFO)");
const GRINGPARAM: Command = (0x10, "SIOCETHTOOL(ETHTOOL_GRINGPARAM)");
const GSTRINGS: Command = (0x1b, "SIOCETHTOOL(ETHTOOL_GSTRINGS)");
const GSTATS: Command = (0x1d, "SIOCETHTOOL(ETHTOOL_GSTATS)");
const SGRO: Command = (0x2c, "SIOCETHTOOL(ETHTOOL_SGRO)");
const GSSET_INFO: Command = (0x37, "SIOCETHTOOL(ETHTOOL_GSSET_INFO)");
const GFEATURES: Command = (0x3a, "SIOCETHTOOL(ETHTOOL_GFEATURES)");
const GCHANNELS: Command = (0x3c, "SIOCETHTOOL(ETHTOOL_GCHANNELS)");
const GET_TS_INFO: Command = (0x41, "SIOCETHTOOL(ETHTOOL_GET_TS_INFO)");
const GLINKSETTINGS: Command = (0x4c, "SIOCETHTOOL(ETHTOOL_GLINKSETTINGS)");
const STRINGS_STATISTICS: u32 = 1;
const STRINGS_FEATURES: u32 = 4;
/// The length of one string of a set, in bytes (`ETH_GSTRING_LEN`).
const STRING_LEN: usize = 32;
/// Bytes that are cleared before each request: more than any structure of fixed length has.
const CLEARED: usize = 4096;

/// The driver of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Driver {
    /// Its name.
    pub name: Name,
    /// Its version; most drivers report the kernel's.
    pub version: Name,
    /// The version of the adapter's firmware.
    pub firmware: Name,
    /// The adapter's place on its bus, such as `0000:00:03.0`.
    pub bus: Name,
}

/// The queues of each kind that are in use, and their maximum numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// Queues that only receive.
    pub rx: u32,
    /// Queues that only send.
    pub tx: u32,
    /// Queues for other purposes.
    pub other: u32,
    /// Queues that receive and send.
    pub combined: u32,
    /// Most queues that only receive.
    pub max_rx: u32,
    /// Most queues that only send.
    pub max_tx: u32,
    /// Most queues for other purposes.
    pub max_other: u32,
    /// Most queues that receive and send.
    pub max_combined: u32,
}

/// The sizes of the adapter's descriptor rings, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rings {
    /// Receive ring.
    pub rx: u32,
    /// Send ring.
    pub tx: u32,
    /// Largest receive ring.
    pub max_rx: u32,
    /// Largest send ring.
    pub max_tx: u32,
}

/// The speed and duplex mode of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkMode {
    /// Speed in Mbit/s, if known.
    pub speed: Option<u32>,
    /// Whether both directions work at once, if known.
    pub full_duplex: Option<bool>,
}

/// One offload or other feature of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// The kernel's name for the feature, such as `rx-gro`.
    pub name: Name,
    /// Whether it is on.
    pub active: bool,
    /// Whether it was asked for.
    pub requested: bool,
    /// Whether it can be switched.
    pub changeable: bool,
}

/// The interface's time-stamping abilities, and its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamping {
    /// `SOF_TIMESTAMPING_…` (`include/uapi/linux/net_tstamp.h`).
    pub capabilities: u32,
    /// The number of the adapter's clock (`/dev/ptpN`).
    pub clock: Option<u32>,
    /// The kinds of sent packets that can be stamped, a bit for each `HWTSTAMP_TX_…`.
    pub tx_types: u32,
    /// The kinds of received packets that can be stamped, a bit for each `HWTSTAMP_FILTER_…`.
    pub rx_filters: u32,
}

impl Timestamping {
    /// Returns whether the adapter can stamp received packets in hardware
    /// (`SOF_TIMESTAMPING_RX_HARDWARE`).
    #[must_use]
    pub fn can_stamp_received(self) -> bool {
        self.capabilities & 1 << 2 != 0
    }

    /// Returns whether the adapter can stamp every received packet, not only those of a time
    /// protocol (`HWTSTAMP_FILTER_ALL`).
    #[must_use]
    pub fn can_stamp_all(self) -> bool {
        self.can_stamp_received() && self.rx_filters & 1 << 1 != 0
    }
}

/// One of the adapter's own counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistic {
    /// The driver's name for the counter.
    pub name: Name,
    /// Its value; only the driver knows the unit.
    pub value: u64,
}

/// A client of `SIOCETHTOOL` for one network namespace: that of the thread that opened it, even if
/// it is used in another.
#[derive(Debug)]
pub struct Ethtool {
    socket: OwnedFd,
    scratch: Scratch,
}

impl Ethtool {
    /// Opens a client for the network namespace of the calling thread. Needs no privilege.
    ///
    /// # Errors
    /// The socket or its memory cannot be created.
    pub fn open() -> Result<Self> {
        let scratch = Scratch::new()?;
        let (kind, what) = (libc::SOCK_DGRAM, "for SIOCETHTOOL");
        let socket = calls::socket(libc::AF_UNIX, kind, 0, "socket(AF_UNIX)", what)?;
        Ok(Self { socket, scratch })
    }

    /// Returns the driver (`ETHTOOL_GDRVINFO`).
    ///
    /// # Errors
    /// There is no such interface, or the driver fails.
    pub fn driver(&mut self, interface: &Name) -> Result<Option<Driver>> {
        let answer = self.request(GDRVINFO, interface, &[])?;
        Ok(answer.map(|bytes| Driver {
            name: string(bytes, 4),
            version: string(bytes, 36),
            firmware: string(bytes, 68),
            bus: string(bytes, 100),
        }))
    }

    /// Returns whether the link is up (`ETHTOOL_GLINK`); `None` if the driver does not report it.
    ///
    /// # Errors
    /// The same as [`driver`](Self::driver).
    pub fn link(&mut self, interface: &Name) -> Result<Option<bool>> {
        let answer = self.request(GLINK, interface, &[])?;
        Ok(answer.map(|bytes| number(bytes, 4) != 0))
    }

    /// Switches generic receive offload on or off (`ETHTOOL_SGRO`). Returns whether the driver
    /// supports that. One end of a veth pair needs it on to take frames without a socket buffer.
    /// Needs `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// The same as [`driver`](Self::driver); `EPERM` if the privilege is missing.
    pub fn set_receive_offload(&mut self, interface: &Name, on: bool) -> Result<bool> {
        let answer = self.request(SGRO, interface, &[on.into()])?;
        Ok(answer.is_some())
    }

    /// Returns the queues (`ETHTOOL_GCHANNELS`).
    ///
    /// # Errors
    /// The same as [`driver`](Self::driver).
    pub fn channels(&mut self, interface: &Name) -> Result<Option<Channels>> {
        let answer = self.request(GCHANNELS, interface, &[])?;
        Ok(answer.map(|bytes| Channels {
            max_rx: number(bytes, 4),
            max_tx: number(bytes, 8),
            max_other: number(bytes, 12),
            max_combined: number(bytes, 16),
            rx: number(bytes, 20),
            tx: number(bytes, 24),
            other: number(bytes, 28),
            combined: number(bytes, 32),
        }))
    }

    /// Returns the descriptor rings (`ETHTOOL_GRINGPARAM`).
    ///
    /// # Errors
    /// The same as [`driver`](Self::driver).
    pub fn rings(&mut self, interface: &Name) -> Result<Option<Rings>> {
        let answer = self.request(GRINGPARAM, interface, &[])?;
        Ok(answer.map(|bytes| Rings {
            max_rx: number(bytes, 4),
            max_tx: number(bytes, 16),
            rx: number(bytes, 20),
            tx: number(bytes, 32),
        }))
    }

    /// Returns speed and duplex mode (`ETHTOOL_GLINKSETTINGS`).
    ///
    /// # Errors
    /// The same as [`driver`](Self::driver).
    pub fn link_mode(&mut self, interface: &Name) -> Result<Option<LinkMode>> {
        // The length of the mode masks is negotiated: the first reply holds it, negated.
        let Some(bytes) = self.request(GLINKSETTINGS, interface, &[])? else {
            return Ok(None);
        };
        let words = bytes[MASK_WORDS_AT].cast_signed().unsigned_abs();
        let mut request = [0; 3];
        request[MASK_WORDS_AT / 4 - 1] = u32::from_ne_bytes([0, 0, 0, words]);
        let Some(bytes) = self.request(GLINKSETTINGS, interface, &request)? else {
            return Ok(None);
        };
        // SPEED_UNKNOWN is all ones, DUPLEX_UNKNOWN 255.
        Ok(Some(LinkMode {
            speed: Some(number(bytes, 4)).filter(|speed| !matches!(*speed, 0 | u32::MAX)),
            full_duplex: match bytes[8] {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            },
        }))
    }

    /// Returns the offloads and other features (`ETHTOOL_GFEATURES`), in the kernel's order.
    ///
    /// # Errors
    /// The same as [`driver`](Self::driver).
    pub fn features(&mut self, interface: &Name) -> Result<Vec<Feature>> {
        let names = self.strings(interface, STRINGS_FEATURES)?;
        let blocks = u32::try_from(names.len().div_ceil(32)).unwrap_or(u32::MAX);
        let answer = self.request(GFEATURES, interface, &[blocks])?;
        let Some(bytes) = answer else {
            return Ok(Vec::new());
        };
        // Each block holds 32 features in four words: available, requested, active, never changed.
        let bit = |at: usize, word: usize| {
            number(bytes, 8 + at / 32 * 16 + word * 4) >> (at % 32) & 1 != 0
        };
        let features = names.into_iter().enumerate().map(|(at, name)| Feature {
            name,
            active: bit(at, 2),
            requested: bit(at, 1),
            changeable: bit(at, 0) && !bit(at, 3),
        });
        Ok(features
            .filter(|feature| !feature.name.as_bytes().is_empty())
            .collect())
    }

    /// Returns the adapter's own counters (`ETHTOOL_GSTATS`), in the driver's order.
    ///
    /// # Errors
    /// The same as [`driver`](Self::driver); `EFAULT` if there are more than about a hundred thousand.
    pub fn statistics(&mut self, interface: &Name) -> Result<Vec<Statistic>> {
        let names = self.strings(interface, STRINGS_STATISTICS)?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let answer = self.request(GSTATS, interface, &[count])?;
        let Some(bytes) = answer else {
            return Ok(Vec::new());
        };
        // The number of counters may have changed since the driver named them.
        let present = number(bytes, 4) as usize;
        let values = bytes[8..].chunks_exact(8).take(present);
        let values = values.map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
        Ok(names
            .into_iter()
            .zip(values)
            .map(|(name, value)| Statistic { name, value })
            .collect())
    }

    /// Returns the time-stamping abilities (`ETHTOOL_GET_TS_INFO`).
    ///
    /// # Errors
    /// The same as [`driver`](Self::driver).
    pub fn timestamping(&mut self, interface: &Name) -> Result<Option<Timestamping>> {
        let answer = self.request(GET_TS_INFO, interface, &[])?;
        Ok(answer.map(|bytes| Timestamping {
            capabilities: number(bytes, 4),
            // -1 means that there is no clock.
            clock: Some(number(bytes, 8)).filter(|clock| clock.cast_signed() >= 0),
            tx_types: number(bytes, 12),
            rx_filters: number(bytes, 28),
        }))
    }

    /// Returns a set of strings (`ETHTOOL_GSSET_INFO`, `ETHTOOL_GSTRINGS`).
    fn strings(&mut self, interface: &Name, set: u32) -> Result<Vec<Name>> {
        let mask = 1_u64 << set;
        let (low, high) = halves(mask);
        let answer = self.request(GSSET_INFO, interface, &[0, low, high])?;
        // The kernel clears the bits of sets that the driver lacks.
        let count = answer.filter(|bytes| halves(mask) == (number(bytes, 8), number(bytes, 12)));
        let count = count.map_or(0, |bytes| number(bytes, 16));
        if count == 0 {
            return Ok(Vec::new());
        }
        let answer = self.request(GSTRINGS, interface, &[set, count])?;
        let Some(bytes) = answer else {
            return Ok(Vec::new());
        };
        let present = number(bytes, 8).min(count) as usize;
        let strings = bytes[12..].chunks_exact(STRING_LEN).take(present);
        Ok(strings.map(|bytes| string(bytes, 0)).collect())
    }

    /// Makes a request of 32-bit words, the command and these; returns `None` if the driver does not
    /// support it.
    fn request(
        &mut self,
        (command, call): Command,
        interface: &Name,
        words: &[u32],
    ) -> Result<Option<&[u8]>> {
        let words = std::iter::once(&command).chain(words);
        let request: Vec<u8> = words.flat_map(|word| word.to_ne_bytes()).collect();
        let data = self.scratch.fill(&request, CLEARED);
        // SAFETY: ifreq holds integers and pointers, for which zero is valid.
        let mut header: libc::ifreq = unsafe { zeroed() };
        let name = interface.as_bytes();
        if name.is_empty() || name.len() > NAME_MAX {
            let source = std::io::Error::from_raw_os_error(libc::ENODEV);
            return Err(Error::new(call, interface.to_string(), source));
        }
        for (to, from) in header.ifr_name.iter_mut().zip(name) {
            *to = libc::c_char::from_ne_bytes([*from]);
        }
        header.ifr_ifru.ifru_data = data;
        // SAFETY: the request points to a live ifreq with a terminated name, whose data points to
        // the scratch memory. The kernel writes its reply there only; a longer reply hits the guard
        // page.
        let result = unsafe {
            libc::ioctl(
                self.socket.as_raw_fd(),
                libc::SIOCETHTOOL as _,
                &raw mut header,
            )
        };
        if result == 0 {
            return Ok(Some(self.scratch.bytes()));
        }
        let error = Error::last(call, interface.to_string());
        match error.errno() {
            Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOTTY) => Ok(None),
            _ => Err(error),
        }
    }
}

/// The offset of the masks' length in `struct ethtool_link_settings`, in bytes.
const MASK_WORDS_AT: usize = 15;

fn number(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    u32::from_ne_bytes(word.unwrap_or_default())
}

/// Reads a string of at most 32 bytes; a shorter one ends with a zero byte.
fn string(bytes: &[u8], at: usize) -> Name {
    let field = bytes.get(at..at + STRING_LEN).unwrap_or_default();
    let end = field
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(field.len());
    Name::new(field[..end].trim_ascii())
}

/// Splits a 64-bit word of the machine's byte order into two 32-bit words in memory.
fn halves(word: u64) -> (u32, u32) {
    let bytes = word.to_ne_bytes();
    (number(&bytes, 0), number(&bytes, 4))
}
