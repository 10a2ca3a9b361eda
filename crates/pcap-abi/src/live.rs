//! Live captures as handles: `pcap_activate`, `pcap_open_live`, and functions for live captures
//! only.

use std::ffi::{c_int, c_uint};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use ringtap_capture::devices;
use ringtap_capture::{
    CaptureOptions, Change, Direction, Error, LinkType, Polling, Precision, Source, TimestampSource,
};

use crate::borrowed_block::BorrowedBlock;
use crate::boundary::export;
use crate::env::Defaults;
use crate::handle::{Kind, Opened, Pcap, lock};
use crate::messages;
use crate::state::live::{COOKED_V1, COOKED_V2, Live, plain_name};
use crate::state::reading::Reading;
use crate::state::settings::Settings;
use crate::status::text_of;
use crate::text::{CText, ErrBuf, say};
use crate::types::{MAXIMUM_SNAPLEN, code};

/// `PCAP_TSTAMP_*`.
const HOST_LOWPREC: c_int = 1;
const ADAPTER: c_int = 3;
const ADAPTER_UNSYNCED: c_int = 4;
/// `DLT_EN10MB`, `DLT_DOCSIS`.
const ETHERNET: c_int = 1;
const DOCSIS: c_int = 143;

/// The default size of the packet buffer, in bytes. It is twice libpcap's, so that blocks can be
/// twice as large, with half the wake-ups. A larger one would make every start slower: the kernel
/// clears it, and maps it page by page.
const BUFFER: u64 = 4 << 20;
/// The time after which a block that is not full is delivered, if the timeout is 0. Such a program wants as
/// few wake-ups as possible. libpcap waits until the block is full, which can take days if there are few
/// packets.
const HAND_OVER: Duration = Duration::from_secs(1);
/// The same if the timeout is negative, which leaves it to the library.
const HAND_OVER_SOON: Duration = Duration::from_millis(10);
/// The length of one wait in a capture without a timeout.
const LONG: Duration = Duration::from_secs(3600);

/// The reason why a handle cannot be activated: the code, and a message in addition to the code's
/// text.
type Refusal = (c_int, String);

fn options(settings: &Settings, defaults: &Defaults) -> CaptureOptions {
    let snaplen = snaplen(settings.snaplen).cast_unsigned();
    let asked = u32::try_from(settings.timeout)
        .ok()
        .filter(|&timeout| timeout > 0);
    let asked = asked.or(defaults.timeout.filter(|&timeout| timeout > 0));
    let timeout = asked.map(|timeout| Duration::from_millis(timeout.min(65_535).into()));
    let hand_over = if settings.timeout < 0 {
        HAND_OVER_SOON
    } else {
        HAND_OVER
    };
    let mut options = CaptureOptions::default()
        .snaplen(snaplen)
        .timeout(timeout.unwrap_or(hand_over))
        .wait(Some(timeout.unwrap_or(LONG)))
        .immediate(settings.immediate || defaults.immediate == Some(true))
        .promiscuous(settings.promiscuous)
        .buffer(match u64::try_from(settings.buffer) {
            Ok(bytes) if bytes > 0 => bytes,
            _ => defaults.buffer.unwrap_or(BUFFER),
        })
        .protocol(
            u16::try_from(settings.protocol)
                .ok()
                .filter(|&protocol| protocol != 0),
        );
    if let Some(bytes) = settings.min_to_copy.or(defaults.min_to_copy) {
        options.min_to_copy = bytes;
    }
    match settings.timestamp {
        Some(ADAPTER | ADAPTER_UNSYNCED) => options.timestamp = TimestampSource::Adapter,
        Some(HOST_LOWPREC) => options.precision = Precision::Coarse,
        _ => {}
    }
    options
}

/// Returns the snapshot length; a value out of range means the largest.
fn snaplen(asked: c_int) -> c_int {
    if (1..=MAXIMUM_SNAPLEN).contains(&asked) {
        asked
    } else {
        MAXIMUM_SNAPLEN
    }
}

fn activate(handle: &Pcap) -> Result<(), Refusal> {
    let settings = lock(&handle.settings).clone();
    let Ok(given) = settings.device.to_str() else {
        return Err((code::NO_SUCH_DEVICE, String::new()));
    };
    if settings.monitor {
        return Err((code::RFMON_NOTSUP, String::new()));
    }
    let defaults = Defaults::read();
    let device = defaults.device(given);
    let options = options(&settings, &defaults);
    let source = ringtap_capture::open(&device, &options, None);
    let source = source.map_err(|error| refusal(&error))?;
    start(handle, source, &settings, (device, options))
}

fn start(
    handle: &Pcap,
    mut source: Box<dyn Source>,
    settings: &Settings,
    (device, options): (String, CaptureOptions),
) -> Result<(), Refusal> {
    let description = source.describe();
    let is_loopback = description.loopback;
    let natural = source
        .interfaces()
        .first()
        .map_or(LinkType::NULL, |one| one.link_type);
    let mut dlt = natural.to_dlt().cast_signed();
    let link_types = match dlt {
        ETHERNET if !is_loopback => vec![ETHERNET, DOCSIS],
        COOKED_V2 => vec![COOKED_V1, COOKED_V2],
        _ => Vec::new(),
    };
    if dlt == COOKED_V2 && source.change(Change::LinkType(LinkType::LINUX_SLL)).is_ok() {
        dlt = COOKED_V1;
    }
    // A polled tap rings for every packet, so a tap only does it for programs that poll.
    let polling = source.polling().filter(|_| description.engine == "packet");
    let poll_fd = polling.map(Polling::fd).transpose();
    let poll_fd = poll_fd.map_err(|error| refusal(&error))?;
    let memory = description.memory;
    let timeout = options.wait.unwrap_or(options.timeout).min(options.timeout);
    let live = Live {
        link_types,
        buffer: memory.map_or(0, |memory| {
            c_int::try_from(memory.block_size).unwrap_or(c_int::MAX)
        }),
        descriptor: poll_fd.unwrap_or(-1),
        selectable: AtomicI32::new(poll_fd.unwrap_or(-1)),
        is_readable_for_others: description.engine != "packet",
        select_timeout: poll_fd.is_none().then(|| timeval(timeout)),
        returns_on_timeout: settings.returns_on_timeout && options.wait != Some(LONG),
        has_no_timeout: options.wait == Some(LONG),
        device,
        companion: source.companion(),
        sender: Mutex::new(None),
        last: Mutex::default(),
        options: Mutex::new(options),
        engine: description.engine,
    };
    let opened = Opened {
        kind: Kind::Live(Box::new(live)),
        snapshot: snaplen(settings.snaplen),
        precision: settings.precision,
        link_type_bits: 0,
    };
    let waker = source.waker();
    handle.open(
        opened,
        dlt,
        Some(Reading::new(BorrowedBlock::new(source), waker)),
    );
    Ok(())
}

fn timeval(duration: Duration) -> libc::timeval {
    libc::timeval {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_usec: duration.subsec_micros().into(),
    }
}

/// Returns libpcap's code for an error, and its message if libpcap has one.
fn refusal(error: &Error) -> Refusal {
    let plain = |code| (code, String::new());
    match error {
        Error::NoSuchDevice { .. } | Error::EmptyDevice | Error::InterfaceGone { .. } => {
            plain(code::NO_SUCH_DEVICE)
        }
        Error::InterfaceDown { .. } => plain(code::IFACE_NOT_UP),
        Error::NotPermitted { source, .. } if source.call.starts_with("socket") => {
            let text = "Attempt to create packet socket failed - CAP_NET_RAW may be required";
            (code::PERM_DENIED, text.to_owned())
        }
        Error::NotPermitted { .. } => (code::PERM_DENIED, error.to_string()),
        Error::NoAdapterClock { .. } => plain(code::CANTSET_TSTAMP_TYPE),
        Error::System(source) => (
            code::ERROR,
            format!("{}: {}", source.call, messages::of_os(&source.source)),
        ),
        other => (code::ERROR, other.to_string()),
    }
}

/// Returns the types of timestamps that a device supports.
pub(crate) fn timestamp_types(settings: &Settings) -> Vec<c_int> {
    const RX_HARDWARE: u32 = 1 << 2;
    const RAW_HARDWARE: u32 = 1 << 6;
    let name = settings.device.to_string_lossy();
    let clock = devices::timestamping(plain_name(&name)).ok().flatten();
    let wanted = RX_HARDWARE | RAW_HARDWARE;
    if clock.is_some_and(|clock| clock.capabilities & wanted == wanted) {
        vec![0, ADAPTER_UNSYNCED]
    } else {
        vec![0]
    }
}

/// Makes the capture deliver packets of another supported link type. Waiting packets with the
/// former header are lost.
pub(crate) fn change_link_type(handle: &Pcap, dlt: c_int) -> Result<(), String> {
    let wanted = match dlt {
        COOKED_V1 => LinkType::LINUX_SLL,
        COOKED_V2 => LinkType::LINUX_SLL2,
        // Another name for the same packets.
        _ => return Ok(()),
    };
    if handle.live().is_none() || handle.dlt() == dlt {
        return Ok(());
    }
    let Some(mut guard) = handle.try_reading() else {
        return Err(
            "The link-layer header type can't be changed while packets are read".to_owned(),
        );
    };
    let Some(reading) = &mut *guard else {
        return Ok(());
    };
    let changed = reading.borrowed.source().change(Change::LinkType(wanted));
    changed.map_err(|error| error.to_string())?;
    // The copied packets have the former header, too.
    reading.backlog.clear();
    Ok(())
}

/// Requests the descriptor for select(2) and returns it, or -1.
pub(crate) fn make_selectable(handle: &Pcap, live: &Live) -> c_int {
    if live.selectable() < 0
        && let Some(mut guard) = handle.try_reading()
        && let Some(reading) = &mut *guard
    {
        reading.set_aside();
        let source = reading.borrowed.source();
        if let Some(polling) = source.polling() {
            let made = polling.fd().unwrap_or(-1);
            if !reading.backlog.is_empty() {
                polling.settle(true);
            }
            live.selectable.store(made, Ordering::Release);
        }
    }
    live.selectable()
}

fn set_direction(handle: &Pcap, direction: Direction) -> c_int {
    let busy = "The direction can't be changed while packets are read";
    handle.change(busy, |reading| {
        // Waiting packets may have any direction.
        reading.set_aside();
        let change = Change::Direction(direction);
        reading.direction = match reading.borrowed.source().change(change) {
            Ok(()) => None,
            Err(Error::FixedAtOpening { .. }) => Some(direction),
            Err(error) => return Err(error.to_string()),
        };
        Ok(())
    })
}

/// Activates a handle; leaves code and message for C.
fn activate_and_tell(handle: &Pcap) -> c_int {
    if let Err(code) = handle.not_activated() {
        return code;
    }
    handle.say("");
    match activate(handle) {
        Ok(()) => 0,
        Err((status, message)) => {
            let text = text_of(status).unwrap_or_default().to_string_lossy();
            handle.say(if message.is_empty() {
                text.as_ref()
            } else {
                &message
            });
            status
        }
    }
}

/// Returns the message of [`pcap_open_live`], which names the device.
fn message_of(handle: &Pcap, device: &str, status: c_int) -> String {
    let text = text_of(status).unwrap_or_default().to_string_lossy();
    match status {
        code::ERROR => format!("{device}: {}", handle.text()),
        code::NO_SUCH_DEVICE | code::PERM_DENIED | code::PROMISC_PERM_DENIED => {
            format!("{device}: {text} ({})", handle.text())
        }
        _ => format!("{device}: {text}"),
    }
}

/// Returns a handle that captures, or null with a message.
pub(crate) fn open_live(settings: Settings, errbuf: ErrBuf<'_>) -> *mut Pcap {
    let name = settings.device.to_string_lossy().into_owned();
    let handle = Pcap::new(settings);
    let status = activate_and_tell(&handle);
    if status < 0 {
        say(errbuf, message_of(&handle, &name, status));
        return std::ptr::null_mut();
    }
    say(errbuf, "");
    handle.hand_out()
}

export! {
    /// Starts capturing. Returns 0, a warning above 0, or an error code.
    fn pcap_activate(handle: Option<&Pcap>) -> c_int {
        handle.map_or(code::ERROR, activate_and_tell)
    } else code::ERROR;

    /// Opens a device and starts capturing.
    fn pcap_open_live(
        device: CText<'_>,
        snaplen: c_int,
        promiscuous: c_int,
        timeout: c_int,
        errbuf: ErrBuf<'_>,
    ) -> *mut Pcap {
        let device = device.get().unwrap_or(c"any").to_owned();
        let settings = Settings {
            device,
            snaplen,
            promiscuous: promiscuous != 0,
            timeout,
            ..Settings::default()
        };
        open_live(settings, errbuf)
    } else std::ptr::null_mut();

    /// Sets the direction of the packets: 0 both, 1 in, 2 out.
    fn pcap_setdirection(handle: Option<&Pcap>, direction: c_uint) -> c_int {
        let Some(handle) = handle else { return code::ERROR };
        let opened = match handle.activated() {
            Ok(opened) => opened,
            Err(code) => return code,
        };
        let direction = match direction {
            0 => Direction::Both,
            1 => Direction::In,
            2 => Direction::Out,
            _ => return handle.fail("Invalid direction"),
        };
        match opened.kind {
            Kind::Dead => {
                handle.fail("The packet direction cannot be set on a pcap_open_dead pcap_t")
            }
            Kind::Offline(_) => handle.fail("Setting direction is not supported on savefiles"),
            Kind::Live(_) => set_direction(handle, direction),
        }
    } else code::ERROR;
}
