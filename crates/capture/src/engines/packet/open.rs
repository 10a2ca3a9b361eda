//! Opens the engine: every value is decided before the first call that changes anything.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringtap_savefile::Interface;
use ringtap_sys::eventfd::Waker;
use ringtap_sys::netlink::Netlink;
use ringtap_sys::packet::{
    Fanout, Geometry, GeometryError, GeometryRequest, Instruction, LinkLayer, Ring, RingOptions,
    TimestampSource, page_size,
};
use ringtap_sys::privileges::Capability;
use ringtap_sys::{errno, kernel, memory};

use super::program::{accept, can_ignore_outgoing, cut_short, with_rules};
use super::state::State;
use super::{ActiveFilter, Aside, BLOCKS_BETWEEN_COUNTS, PacketSource};
use crate::describe::{Clock, FilterPlace, Memory, Note, UserSpaceReason};
use crate::engines::interface::{InterfaceLosses, Scope, Target};
use crate::engines::{Device, Request};
use crate::filter::{FilterTable, lower};
use crate::options::{CaptureOptions, MAX_SNAPLEN, Mode, OptionError};
use crate::readers::Readers;
use crate::{Description, Error, Filter, LinkType, Result, Source};

/// The least timeout of a ring, for immediate mode, where it means nothing.
const IMMEDIATE_MS: u16 = 1;
/// From this kernel on the ring's timer is a high-resolution one.
const HIGH_RESOLUTION_TIMER: (u32, u32) = (6, 18);
/// The longest jiffy that a kernel is built with.
const JIFFY: Duration = Duration::from_millis(10);

/// Opens a capture, for several readers with a socket each.
pub(crate) fn open(device: &Device<'_>, request: Request<'_>) -> Result<Readers> {
    let Request { filter, count, .. } = request;
    let mut options = request.options.clone();
    if count > 1 {
        options.fanout.get_or_insert_default();
        options.buffer /= count as u64;
        // A block that is not full yet is older then than the wait.
        options.timeout = options.timeout.min(options.wait.unwrap_or(options.timeout));
    }
    let mut bound = Vec::new();
    for _ in 0..count.max(1) {
        let mut opening = Opening::new(device, &options, filter)?;
        opening.bind(options.fanout)?;
        if let Some(fanout) = &mut options.fanout {
            fanout.group = opening.ring.fanout_group();
        }
        bound.push(opening);
    }
    // Until all have joined, each would get the share of the missing ones too.
    let started = bound
        .into_iter()
        .map(|opening| Ok(Box::new(opening.start()?) as Box<dyn Source>));
    let sources = started.collect::<Result<_>>()?;
    Ok(Readers { sources, tap: None })
}

/// The filter of a packet socket: the kernel's instructions, and the part that remains in user space.
pub(super) struct SocketFilter {
    pub(super) table: Option<FilterTable>,
    pub(super) place: FilterPlace,
    pub(super) instructions: Vec<Instruction>,
    /// Bytes of a packet that the ring hands out.
    pub(super) snaplen: u32,
}

impl SocketFilter {
    pub(super) fn new(
        filter: Option<&Filter>,
        (link_type, layer): (LinkType, LinkLayer),
        ifindex: u32,
        options: &CaptureOptions,
    ) -> Result<Self> {
        let snaplen = options.snaplen;
        let Some(filter) = filter else {
            let instructions = accept(snaplen);
            return Ok(Self {
                table: None,
                place: FilterPlace::None,
                instructions,
                snaplen,
            });
        };
        let program = filter.compile(link_type, snaplen)?;
        let lowered = lower(&program, layer, snaplen);
        // Where the kernel runs the filter, only packets of an older one come by here.
        let table = Some(FilterTable::of_few(&program, link_type, ifindex, snaplen));
        Ok(match lowered {
            Ok(instructions) => {
                let place = FilterPlace::Kernel {
                    instructions: instructions.len(),
                };
                Self {
                    table,
                    place,
                    instructions,
                    snaplen,
                }
            }
            Err(reason) => Self {
                table,
                place: FilterPlace::None,
                instructions: Vec::new(),
                snaplen,
            }
            .moved_to_user_space(reason),
        })
    }

    /// Returns the same filter for user space, on whole packets; the kernel accepts all.
    fn moved_to_user_space(self, reason: UserSpaceReason) -> Self {
        Self {
            table: self.table.map(FilterTable::made_native),
            place: FilterPlace::UserSpace { reason },
            instructions: accept(MAX_SNAPLEN),
            snaplen: MAX_SNAPLEN,
        }
    }

    /// Attaches the filter with the capture's own rules; in user space if the kernel rejects programs of its
    /// size.
    pub(super) fn attach(
        self,
        ring: &mut Ring,
        scope: Scope,
        options: &CaptureOptions,
    ) -> Result<Self> {
        let ignored = ring.ignores_outgoing();
        let program = with_rules(scope, options, ignored, &self.instructions);
        let program = cut_short(program, options.study);
        let Err(error) = ring.set_filter(&program) else {
            ring.set_snaplen(self.snaplen);
            return Ok(self);
        };
        let too_large = [errno::E2BIG, errno::ENOMEM, errno::EINVAL];
        match (error.errno(), &self.place) {
            (Some(errno), FilterPlace::Kernel { .. }) if too_large.contains(&errno) => {
                let instructions = program.len();
                self.moved_to_user_space(UserSpaceReason::Refused {
                    instructions,
                    errno,
                })
                .attach(ring, scope, options)
            }
            _ => Err(error.into()),
        }
    }
}

/// A capture that is being opened.
struct Opening {
    ring: Ring,
    waker: Waker,
    netlink: Netlink,
    target: Target,
    given: String,
    choice: Option<String>,
    options: CaptureOptions,
    plan: SocketFilter,
    interface: Interface,
    layer: LinkLayer,
    notes: Vec<Note>,
    /// The filter as requested.
    wanted: Option<Filter>,
}

impl Opening {
    fn new(device: &Device<'_>, options: &CaptureOptions, filter: Option<&Filter>) -> Result<Self> {
        options.validate()?;
        if options.who.is_some() {
            let engine = "packet";
            return Err(OptionError::WhoAtEngine { engine }.into());
        }
        if options.mode == Mode::Steal {
            let engine = "packet";
            return Err(OptionError::CannotSteal { engine }.into());
        }
        let given = device.given.to_owned();
        let mut netlink = Netlink::open().map_err(Error::interface(&given))?;
        let target = Target::find(&mut netlink, device.name, device.given)?;
        if target.ifindex() == 0 && options.timestamp == TimestampSource::Adapter {
            return Err(OptionError::AdapterClockOfAny.into());
        }
        let (link_type, layer) = target.link_layer();
        let plan = SocketFilter::new(filter, (link_type, layer), target.ifindex(), options)?;
        let (geometry, larger) = geometry(options, &plan, &target)?;
        let name = target.name();
        let ring = Ring::open(
            &ring_options(&name, &target, layer, options, None),
            geometry,
        )
        .map_err(|error| explain(error, &given))?;
        let notes = notes(options, &target, &ring, larger);
        let waker = Waker::new()?;
        let options = options.clone();
        let mut interface = target.description(link_type, options.snaplen);
        interface.filter = filter.map(Filter::for_file);
        Ok(Self {
            ring,
            waker,
            netlink,
            target,
            given,
            choice: device.choice(),
            options,
            plan,
            interface,
            layer,
            notes,
            wanted: filter.cloned(),
        })
    }

    /// Starts to receive, with a filter that rejects everything.
    fn bind(&mut self, fanout: Option<Fanout>) -> Result<()> {
        let name = self.target.name();
        let options = ring_options(&name, &self.target, self.layer, &self.options, fanout);
        self.ring
            .bind(&options)
            .map_err(|error| explain(error, &self.given))
    }

    /// Lets packets in.
    fn start(mut self) -> Result<PacketSource> {
        let (scope, options) = (self.target.scope(), self.options);
        let plan = self.plan.attach(&mut self.ring, scope, &options)?;
        let endpoint = self.ring.endpoint();
        Ok(PacketSource {
            ring: self.ring,
            waker: self.waker,
            choice: self.choice,
            scope,
            link: (self.interface.link_type, self.layer),
            retire_timeout: Duration::from_millis(retire_timeout_ms(&options).into()),
            interfaces: [self.interface],
            filter: ActiveFilter {
                table: plan.table,
                place: plan.place,
                stale_blocks: 0,
                last_is_stale: None,
            },
            state: State::Up,
            companion: Arc::new(Aside {
                endpoint,
                losses: Mutex::new(InterfaceLosses::new(self.netlink, &self.target)),
                is_sampled: options.sample.is_some_and(|one_in| one_in.get() > 1),
            }),
            wanted: self.wanted,
            blocks_until_count: BLOCKS_BETWEEN_COUNTS,
            has_delivered: false,
            options,
            notes: self.notes,
        })
    }
}

fn ring_options<'a>(
    name: &'a str,
    target: &Target,
    link: LinkLayer,
    options: &CaptureOptions,
    fanout: Option<Fanout>,
) -> RingOptions<'a> {
    RingOptions {
        device: name,
        ifindex: target.ifindex(),
        link,
        snaplen: options.snaplen,
        retire_timeout_ms: retire_timeout_ms(options),
        immediate: options.immediate,
        promiscuous: options.promiscuous,
        ignore_outgoing: can_ignore_outgoing(target.scope(), options.direction),
        timestamp: options.timestamp,
        busy_poll: options.busy_poll,
        fanout,
    }
}

fn retire_timeout_ms(options: &CaptureOptions) -> u16 {
    if options.immediate {
        IMMEDIATE_MS
    } else {
        options.timeout_ms()
    }
}

/// Returns the ring's size, and whether it exceeds the request because packets need more.
fn geometry(
    options: &CaptureOptions,
    plan: &SocketFilter,
    target: &Target,
) -> Result<(Geometry, bool)> {
    let request = |buffer| GeometryRequest {
        buffer,
        snaplen: plan.snaplen.min(target.largest_packet()),
        headroom: if options.immediate {
            Ring::IMMEDIATE_HEADROOM
        } else {
            Ring::HEADROOM
        },
    };
    // The kernel would rather end other processes than fail; at most half of the free memory is requested.
    let fits = |bytes: u64| options.buffer <= bytes / 2;
    let buffer = if memory::free().is_some_and(fits) {
        options.buffer
    } else {
        let available = available_memory().map_or(u64::MAX, |bytes| bytes / 2);
        options.buffer.min(available)
    };
    match Geometry::new(&request(buffer), page_size()) {
        Err(GeometryError::BufferTooSmall { least, .. }) => {
            Ok((Geometry::new(&request(least), page_size())?, true))
        }
        Err(GeometryError::BufferTooLarge { most, .. }) => {
            Ok((Geometry::new(&request(most), page_size())?, false))
        }
        result => Ok((result?, false)),
    }
}

/// Returns the memory that the system can provide without swapping (proc(5), `MemAvailable`), in bytes.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn notes(options: &CaptureOptions, target: &Target, ring: &Ring, larger: bool) -> Vec<Note> {
    let (requested, obtained) = (options.buffer, ring.geometry().bytes());
    let mut notes = Vec::new();
    if larger {
        notes.push(Note::LargerBuffer {
            requested,
            obtained,
        });
    } else if requested - obtained >= u64::from(ring.geometry().block_size()) {
        notes.push(Note::SmallerBuffer {
            requested,
            obtained,
        });
    }
    if options.promiscuous && target.ifindex() == 0 {
        notes.push(Note::NotPromiscuous);
    }
    notes
}

/// Converts a failed call to an error for the caller.
pub(crate) fn explain(source: ringtap_sys::Error, device: &str) -> Error {
    let device = device.to_owned();
    let adapter = source.call == "ioctl(SIOCSHWTSTAMP)";
    match source.errno() {
        Some(errno::EPERM | errno::EACCES) => {
            let raw = source.call == "socket(AF_PACKET)";
            let needed = if raw { "CAP_NET_RAW" } else { "CAP_NET_ADMIN" };
            Error::NotPermitted {
                device,
                needed,
                source,
            }
        }
        Some(errno::EOPNOTSUPP | errno::EINVAL | errno::ERANGE) if adapter => {
            Error::NoAdapterClock { device, source }
        }
        Some(errno::ENETDOWN) => Error::InterfaceDown { device },
        Some(errno::ENODEV | errno::ENXIO) => Error::InterfaceGone { device },
        _ => Error::System(source),
    }
}

/// Returns the maximum time that a packet waits in the ring: none if each has a slot.
fn delivery_bound(options: &CaptureOptions, retire_timeout: Duration) -> Duration {
    if options.immediate {
        return Duration::ZERO;
    }
    if kernel::version() >= HIGH_RESOLUTION_TIMER {
        // The timer runs from the block's opening on: a packet waits for one period at most.
        return retire_timeout;
    }
    let jiffies = retire_timeout.as_millis().div_ceil(JIFFY.as_millis()) + 1;
    JIFFY * u32::try_from(jiffies).unwrap_or(u32::MAX)
}

/// Returns how the capture works.
pub(super) fn describe(source: &PacketSource) -> Description {
    let geometry = source.ring.geometry();
    let any = source.scope == Scope::Any;
    let vlan = match source.link.0 {
        LinkType::ETHERNET => "put back at byte 12 where the kernel took them out",
        LinkType::LINUX_SLL2 => "put back before the payload where the kernel took them out",
        _ => "as the interface shows them",
    };
    let mut blind = vec![
        "packets that an XDP program or the adapter took before the network stack",
        "segments before receive offload joined them, or after send offload divides them",
    ];
    match source.scope {
        Scope::Loopback => blind.push("the second copy of each packet on loopback"),
        Scope::Any => blind.push("link-layer headers, and inner tags of doubly tagged packets"),
        Scope::Interface => {}
    }
    Description {
        engine: "packet",
        choice: source.choice.clone(),
        device: source.ring.device().to_owned(),
        link_types: vec![source.link.0],
        hook: "AF_PACKET (after ingress XDP, before tc ingress; after tc egress)",
        clock: Clock::Live(source.options.timestamp),
        vlan,
        memory: Some(Memory {
            block_size: geometry.block_size(),
            blocks: geometry.blocks(),
            requested: source.options.buffer,
        }),
        snaplen: Some(source.options.snaplen),
        loopback: source.scope == Scope::Loopback,
        promiscuous: source.options.promiscuous && !any,
        direction: source.options.direction,
        delivery_bound: Some(delivery_bound(&source.options, source.retire_timeout)),
        filter: source.filter.place.clone(),
        fanout_group: source.ring.fanout_group(),
        required_capabilities: if source.ring.must_undo() {
            &[Capability::NET_ADMIN]
        } else {
            &[]
        },
        notes: source.notes.clone(),
        blind,
    }
}
