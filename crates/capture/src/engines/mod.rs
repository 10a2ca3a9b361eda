//! The table of engines, and the syntax with which a device selects one.

mod choice;
mod file;
mod filter_plan;
mod interface;
mod link;
mod mapped;
mod pace;
mod packet;
mod protocol;
mod tap;
pub(crate) mod trial;
mod xsk;

use ringtap_packet::LinkType;
use ringtap_sys::bpf::{Feature, Kernel};
use ringtap_sys::privileges::Capability;
use ringtap_sys::receive_stamps::Stamper;
use ringtap_sys::sched::present_cpus;
use ringtap_sys::tap::WallClock;

use crate::hook::HookDevice;
use crate::options::{CaptureOptions, OptionError};
use crate::readers::Readers;
use crate::{Error, Filter, Result, Source};
use trial::Trial;
pub(crate) use trial::verifier_log;

pub(crate) use tap::TapRecords;
pub(crate) use tap::drops::DropCounters;
pub(crate) use xsk::{SocketPackets, SocketRecords};

pub(crate) use file::check_first_interfaces;
pub use file::{FileSource, open_file, open_stream};
pub use mapped::MAP_FILE;

/// All interfaces.
const ANY: &str = "any";
/// The engine whose device needs no interface.
const DROPS: &str = "drop";

/// A request to capture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    options: &'a CaptureOptions,
    filter: Option<&'a Filter>,
    /// The number of readers, at least one.
    count: usize,
}

/// Opens a device.
type Open = fn(&Device<'_>, Request<'_>) -> Result<Readers>;

/// A way to capture live.
#[derive(Debug)]
pub struct Engine {
    /// The name that precedes the colon in a device.
    pub name: &'static str,
    /// Its description, in a few words.
    pub summary: &'static str,
    /// The capabilities that opening it needs.
    pub needs: &'static [Capability],
    /// Whether it captures on all interfaces at once, `any`.
    pub takes_any: bool,
    /// Whether it adds a header to packets of devices without one, or without a link type.
    pub makes_headers: bool,
    /// The link type of all its packets, if it is not that of the device.
    pub link_type: Option<LinkType>,
    /// How to test whether the kernel accepts its program, if it has one.
    trial: Option<Trial>,
    open: Open,
}

/// The features that the taps' programs use.
const TAP: [Feature; 4] = [
    Feature::Bpf,
    Feature::MappedArray,
    Feature::RingBuffer,
    Feature::FetchAtomics,
];
const TAP_AT_DROPS: [Feature; 6] = [
    Feature::Bpf,
    Feature::KernelTypes,
    Feature::MappedArray,
    Feature::RingBuffer,
    Feature::FetchAtomics,
    Feature::DropReasons,
];
const TAP_AT_XDP: [Feature; 7] = [
    Feature::Bpf,
    Feature::Xdp,
    Feature::MappedArray,
    Feature::RingBuffer,
    Feature::FetchAtomics,
    Feature::XdpLoadBytes,
    Feature::XdpFrags,
];

/// All engines. The first one is always available.
pub static ENGINES: [Engine; 5] = [
    Engine {
        name: "packet",
        summary: "AF_PACKET ring, both directions",
        needs: &[Capability::NET_RAW],
        takes_any: true,
        makes_headers: true,
        link_type: None,
        trial: None,
        open: packet::open,
    },
    Engine {
        name: "tcx",
        summary: "tap at the tcx hook",
        needs: &[Capability::BPF, Capability::NET_ADMIN, Capability::PERFMON],
        takes_any: true,
        makes_headers: false,
        link_type: None,
        trial: Some(Trial {
            load: tap::trial::tcx,
            features: &TAP,
        }),
        open: tap::open_tcx,
    },
    Engine {
        name: "xdp",
        summary: "tap at the XDP hook",
        needs: &[Capability::BPF, Capability::NET_ADMIN, Capability::PERFMON],
        takes_any: false,
        makes_headers: false,
        link_type: None,
        trial: Some(Trial {
            load: tap::trial::xdp,
            features: &TAP_AT_XDP,
        }),
        open: tap::open_xdp,
    },
    Engine {
        name: "xsk",
        summary: "AF_XDP socket",
        needs: &[
            Capability::BPF,
            Capability::NET_ADMIN,
            Capability::PERFMON,
            Capability::NET_RAW,
        ],
        takes_any: false,
        makes_headers: false,
        link_type: None,
        trial: Some(Trial {
            load: xsk::trial,
            features: &[Feature::Bpf, Feature::Xdp],
        }),
        open: xsk::open,
    },
    Engine {
        name: "drop",
        summary: "tap on packets that the kernel drops",
        needs: &[Capability::BPF, Capability::NET_ADMIN, Capability::PERFMON],
        takes_any: true,
        makes_headers: true,
        link_type: Some(LinkType::LINUX_SLL2),
        trial: Some(Trial {
            load: tap::drops::trial,
            features: &TAP_AT_DROPS,
        }),
        open: tap::drops::open,
    },
];

/// Returns the link type for an interface, by its hardware type (`ARPHRD_ETHER` … of linux/if_arp.h). The
/// engine may use a cooked header.
pub(crate) fn link_type(hardware_type: u16) -> LinkType {
    link::link_of(hardware_type).0
}

/// The environment of captures: the kernel's `bpf(2)`, the wall clock, adapters that stamp packets. The
/// default is the real one. Tests use others to simulate other kernels, a clock that is set, and missing
/// adapters.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Host {
    /// `bpf(2)`, possibly restricted.
    pub kernel: Kernel,
    /// The wall clock, or a substitute.
    pub wall: WallClock,
    /// The source of the adapter's stamps, for the taps.
    pub stamper: Stamper,
    /// Reports the numbers of all processors, also of those that are offline, ascending; each gets a ring of a tap.
    pub processors: Processors,
    /// The kinds of interfaces whose packets come through the queues of their members, for engine xsk. On
    /// kernels without bonds, tests use bridges instead.
    pub aggregates: &'static [&'static str],
}

/// Returns processor numbers.
#[doc(hidden)]
pub type Processors = fn() -> Vec<usize>;

fn present_processors() -> Vec<usize> {
    present_cpus().map_or_else(|_| vec![0], |cpus| cpus.as_slice().to_vec())
}

impl Default for Host {
    fn default() -> Self {
        Self {
            kernel: Kernel::default(),
            wall: WallClock::default(),
            stamper: Stamper::default(),
            processors: present_processors,
            aggregates: &["bond", "team"],
        }
    }
}

/// A device as the user names it: `eth0`, `packet:eth0`, `any`.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
    /// The whole text.
    pub given: &'a str,
    /// The engine that it names.
    pub engine: Option<&'static Engine>,
    /// The interface's name, or `any`. It may hold colons of its own. Without a name, engine `drop` captures on
    /// all interfaces.
    pub name: &'a str,
    /// Its network namespace, if it is not the current one.
    host: Option<&'a Host>,
    /// Why an engine was chosen, if it names none.
    choice: Option<&'a str>,
}

impl<'a> Device<'a> {
    /// Parses the text. The part before the first colon is an engine if one has that name. Otherwise the
    /// whole text is the interface's name: alternative names and old-style aliases (`eth0:1`) contain colons.
    ///
    /// # Errors
    ///
    /// [`Error::EmptyDevice`] if no interface is named.
    pub fn parse(given: &'a str) -> Result<Self> {
        let prefixed = given.split_once(':').and_then(|(prefix, name)| {
            let engine = ENGINES.iter().find(|engine| engine.name == prefix)?;
            Some((engine, name))
        });
        let (engine, name) = match prefixed {
            Some((engine, name)) => (Some(engine), name),
            None => (None, given),
        };
        let name = match (name, engine) {
            ("", Some(engine)) if engine.name == DROPS => ANY,
            ("", _) => return Err(Error::EmptyDevice),
            (name, _) => name,
        };
        Ok(Self {
            given,
            engine,
            name,
            host: None,
            choice: None,
        })
    }

    /// Finds the device of programs, which must be up. Errors contain the user's text.
    fn find_up(&self) -> Result<HookDevice> {
        let device = || self.given.to_owned();
        let found = HookDevice::find(self.name).map_err(|error| match error {
            Error::NoSuchDevice { .. } => Error::NoSuchDevice { device: device() },
            other => other,
        })?;
        if !found.is_up {
            return Err(Error::InterfaceDown { device: device() });
        }
        Ok(found)
    }

    pub(crate) fn host(&self) -> Host {
        self.host.cloned().unwrap_or_default()
    }

    pub(crate) fn choice(&self) -> Option<String> {
        self.choice.map(str::to_owned)
    }

    /// Converts the error for an unknown device whose text looks like an unknown engine's.
    fn blame_engine(&self, error: Error) -> Error {
        match (error, self.engine, self.given.split_once(':')) {
            (Error::NoSuchDevice { device }, None, Some((engine, _))) => Error::UnknownEngine {
                device,
                engine: engine.to_owned(),
                known: ENGINES.iter().map(|engine| engine.name).collect(),
            },
            (error, _, _) => error,
        }
    }
}

/// Opens a live capture on `device`: `eth0`, `packet:eth0`, `any`. It captures packets from its return on,
/// and never those that `filter` rejects.
///
/// A device without an engine is captured by the tap at tcx if kernel and privileges allow it, else by the
/// AF_PACKET ring, which needs CAP_NET_RAW. [`crate::Description::choice`] has the reason.
///
/// # Errors
///
/// An invalid option value, before any system call; then a failed system call.
pub fn open(
    device: &str,
    options: &CaptureOptions,
    filter: Option<&Filter>,
) -> Result<Box<dyn Source>> {
    open_on(&Host::default(), device, options, filter)
}

/// The same as [`open`], with another kernel or clock.
///
/// # Errors
///
/// The same errors as [`open`].
#[doc(hidden)]
pub fn open_on(
    host: &Host,
    device: &str,
    options: &CaptureOptions,
    filter: Option<&Filter>,
) -> Result<Box<dyn Source>> {
    let request = Request {
        options,
        filter,
        count: 1,
    };
    let mut readers = open_with(host, device, request)?;
    Ok(readers.sources.swap_remove(0))
}

/// Opens `device` for at most `count` threads, each with its own reader. The engine shares the packets
/// between them. An AF_PACKET capture has a socket for each, to which the kernel gives packets by flow, or as
/// [`CaptureOptions::fanout`] specifies. A tap has a ring per processor, and each reader gets some of them.
/// Captures that cannot be shared have one reader: `tcx:any`, a tap with one ring, AF_XDP sockets.
///
/// Each reader yields its packets in order of time. [`CaptureOptions::buffer`] is the memory of all together.
/// A reader that had no packets for [`CaptureOptions::wait`] has yielded all packets from before.
///
/// # Errors
///
/// The same errors as [`open`]; [`crate::OptionError::SharedTap`] if an engine without fanout groups is asked
/// for one.
pub fn open_readers(
    device: &str,
    options: &CaptureOptions,
    filter: Option<&Filter>,
    count: usize,
) -> Result<Readers> {
    let request = Request {
        options,
        filter,
        count,
    };
    open_with(&Host::default(), device, request)
}

fn open_with(host: &Host, device: &str, request: Request<'_>) -> Result<Readers> {
    request.options.validate()?;
    let mut device = Device::parse(device)?;
    device.host = Some(host);
    check_namespaces(&device, request.options)?;
    let filter = request.filter.map(|filter| filter.on_device(device.name));
    let request = Request {
        filter: filter.as_ref(),
        ..request
    };
    let opened = match device.engine {
        Some(engine) => (engine.open)(&device, request)
            .map_err(|error| trial::explain(error, engine, &host.kernel, device.given)),
        None => choice::open(&device, request),
    };
    opened.map_err(|error| device.blame_engine(error))
}

/// Checks that a device can be captured in all network namespaces, if that is wanted. Dropped packets come from all
/// anyway.
fn check_namespaces(device: &Device<'_>, options: &CaptureOptions) -> Result<()> {
    let engine = device.engine.map_or("tcx", |engine| engine.name);
    if !options.all_namespaces || engine == DROPS {
        return Ok(());
    }
    if device.name != ANY {
        let device = device.given.to_owned();
        return Err(OptionError::NamespacesOfOne { device }.into());
    }
    match engine {
        "tcx" => Ok(()),
        engine => Err(OptionError::NamespacesAtEngine { engine }.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (Option<&str>, &str) {
        let device = Device::parse(text).unwrap();
        (device.engine.map(|engine| engine.name), device.name)
    }

    #[test]
    fn devices_are_taken_apart() {
        assert_eq!(parse("eth0"), (None, "eth0"));
        assert_eq!(parse("any"), (None, "any"));
        assert_eq!(parse("packet:eth0"), (Some("packet"), "eth0"));
        assert_eq!(parse("packet:any"), (Some("packet"), "any"));
        assert_eq!(parse("packet:eth0:1"), (Some("packet"), "eth0:1"));
        assert_eq!(parse("xsk:packet:x"), (Some("xsk"), "packet:x"));
        assert_eq!(parse("eth0:1"), (None, "eth0:1"));
        assert_eq!(parse("packet"), (None, "packet"));
        assert_eq!(parse(":"), (None, ":"));
        assert_eq!(parse("drop:"), (Some("drop"), "any"));
        assert_eq!(parse("drop:eth0"), (Some("drop"), "eth0"));
        assert_eq!(parse("drop"), (None, "drop"));
        for text in ["", "packet:", "xdp:"] {
            assert!(
                matches!(Device::parse(text), Err(Error::EmptyDevice)),
                "{text:?}"
            );
        }
    }

    #[test]
    fn options_are_checked_before_anything_else() {
        let options = CaptureOptions {
            snaplen: 0,
            ..CaptureOptions::default()
        };
        assert!(matches!(open("", &options, None), Err(Error::Option(_))));
        assert!(matches!(
            open_readers("", &options, None, 2),
            Err(Error::Option(_))
        ));
    }
}
