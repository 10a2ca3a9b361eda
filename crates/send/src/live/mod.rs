//! Back-end `live`: the kernel repeats a frame, and a program varies it (`BPF_PROG_RUN` with
//! `BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18; Documentation/bpf/bpf_prog_run.rst).
//!
//! One system call makes thousands of frames, which a program redirects to the driver without a socket
//! buffer. It counts frames that were passed to the driver. Frames for which the driver has no room are
//! dropped there, and only the driver's own counters show them.

mod program;

use std::os::fd::AsFd;
use std::time::Duration;

use program::{Maps, state};
use ringtap_capture::hook::HookDevice;
use ringtap_sys::bpf::{
    self, Kernel, Link, Map, MapKind, MapSpec, Program, ProgramKind, ProgramRun, XdpMode,
};
use ringtap_sys::eventfd::Waker;
use ringtap_sys::netlink::Netlink;
use ringtap_sys::netns::Namespace;
use ringtap_sys::poll::{self, Interest};
use ringtap_sys::tap::WallClock;

use super::{BackEnd, BackEndKind, Refused, Result, SendError, Template};

/// The maximum number of frames of one system call: some 10 ms of work.
const CALL: usize = 1 << 16;
/// The number of frames that the kernel passes on at once.
const BATCH: u32 = 64;
/// The longest frame: a page less headroom and tailroom, on 4096-byte pages.
pub(crate) const LONGEST: usize = 3_400;
/// An Ethernet header with a tag.
const HEADER: usize = 18;
/// Error number of a call that a signal interrupted.
const EINTR: i32 = 4;

/// Frames made in the kernel.
pub(crate) struct LiveBackEnd {
    device: HookDevice,
    longest: usize,
    kernel: Kernel,
    /// Redirects a frame unchanged.
    plain: Loaded,
    generating: Option<Loaded>,
    template: Option<Template>,
}

/// A program with its memory.
struct Loaded {
    program: Program,
    maps: Maps,
    /// The number of the frame, as the program counts.
    number: u64,
    _anchor: Option<Anchor>,
}

/// Keeps a program attached where no packet comes: to the loopback device of a network namespace made for
/// that. The kernel calls attached XDP programs through a dispatcher that it rewrites. For each call of
/// `BPF_PROG_RUN` with a program that is not attached, it waits twice for an RCU grace period (tens of
/// milliseconds).
struct Anchor {
    // Dropped before its namespace.
    _link: Link,
    _namespace: Namespace,
}

impl Anchor {
    /// Attaches the program. `None` if that is not permitted (`CAP_SYS_ADMIN`): calls are then slow.
    fn hold(kernel: &Kernel, program: &Program) -> Option<Self> {
        /// Loopback is the first device of every namespace.
        const LOOPBACK: u32 = 1;
        let namespace = Namespace::new().ok()?;
        let attach = || Link::xdp(program, kernel, LOOPBACK, XdpMode::Generic);
        let link = namespace.run(attach).ok()?.ok()?;
        Some(Self {
            _link: link,
            _namespace: namespace,
        })
    }
}

impl LiveBackEnd {
    pub(crate) fn open(device: &HookDevice) -> Result<Self> {
        if let Some(reason) = obstacle(device)? {
            return Err(SendError::Unsuitable {
                device: device.name.clone(),
                back_end: "live",
                reason,
            });
        }
        let failed = SendError::of_interface(&device.name);
        let mut netlink = Netlink::open().map_err(&failed)?;
        let mtu = netlink.link(&device.name).map_err(failed)?.mtu;
        let mtu = usize::try_from(mtu).unwrap_or(usize::MAX);
        let kernel = Kernel::running();
        let maps = maps(&kernel, device, None)?;
        let plain = program::plain(&maps)?;
        Ok(Self {
            longest: mtu.saturating_add(HEADER).min(LONGEST),
            plain: Loaded::new(&kernel, device, maps, "ringtap_send", &plain)?,
            device: device.clone(),
            kernel,
            generating: None,
            template: None,
        })
    }
}

/// Returns why the kernel or the driver does not support it.
pub(crate) fn obstacle(device: &HookDevice) -> Result<Option<String>> {
    let features = Netlink::xdp_features(device.index);
    Ok(match features.map_err(SendError::of_interface(&device.name))? {
        None => Some("the kernel does not report whether the driver accepts redirected frames (Linux 6.3)".to_owned()),
        Some(features) if !features.takes_redirected => Some(
            "its driver does not accept redirected frames (a veth does once its other end has an XDP program or GRO)"
                .to_owned(),
        ),
        Some(_) => None,
    })
}

/// Returns the filled maps; the sizes are those of the template.
fn maps(kernel: &Kernel, device: &HookDevice, template: Option<&Template>) -> Result<Maps> {
    let failed = |source| SendError::of_bpf(&device.name, source);
    let array = |name, value_size| {
        let kind = MapKind::Array {
            mmapable: false,
            inner: false,
        };
        Map::create(kernel, &MapSpec::new(name, kind, value_size, 1))
    };
    let sizes = template.map_or_else(|| vec![0; program::SIZE_BYTES], program::sizes);
    let bytes = u32::try_from(sizes.len()).unwrap_or(u32::MAX);
    let maps = Maps {
        state: array("gen_state", state::BYTES).map_err(failed)?,
        sizes: array("gen_sizes", bytes).map_err(failed)?,
        device: Map::create(kernel, &MapSpec::new("gen_device", MapKind::DevMap, 4, 1))
            .map_err(failed)?,
    };
    maps.sizes.update(0, &sizes).map_err(failed)?;
    let index = device.index.to_ne_bytes();
    maps.device.update(0, &index).map_err(failed)?;
    Ok(maps)
}

impl Loaded {
    fn new(
        kernel: &Kernel,
        device: &HookDevice,
        maps: Maps,
        name: &str,
        code: &[u64],
    ) -> Result<Self> {
        let kind = ProgramKind::Xdp { frags: false };
        let program = Program::load(kernel, name, kind, code);
        let program = program.map_err(|source| SendError::of_bpf(&device.name, source))?;
        Ok(Self {
            _anchor: Anchor::hold(kernel, &program),
            program,
            maps,
            number: 0,
        })
    }

    /// Lets the kernel make this many frames. Returns how many it made.
    fn run(&mut self, frame: &[u8], count: usize) -> std::result::Result<usize, Refused> {
        let count = count.min(CALL);
        let outcome = self.program.run(&ProgramRun {
            data: frame,
            repeat: u32::try_from(count).unwrap_or(1),
            live_frames: true,
            batch_size: BATCH,
            ..ProgramRun::default()
        });
        let made = self.made()?;
        match outcome {
            Ok(_) => Ok(made),
            // A signal ends the call early.
            Err(error) if error.errno() == Some(EINTR) && made > 0 => Ok(made),
            Err(error) if error.errno() == Some(EINTR) => Err(Refused::NoRoom),
            Err(error) => Err(failed(error)),
        }
    }

    /// Returns how many frames the program has seen since the last call.
    fn made(&mut self) -> std::result::Result<usize, Refused> {
        let mut value = [0; state::BYTES as usize];
        self.maps.state.lookup(0, &mut value).map_err(failed)?;
        let number = value.first_chunk().copied().map_or(0, u64::from_ne_bytes);
        let made = number.wrapping_sub(self.number);
        self.number = number;
        Ok(usize::try_from(made).unwrap_or(usize::MAX))
    }
}

fn failed(error: bpf::Error) -> Refused {
    Refused::Failed(match error {
        bpf::Error::Call { error, .. } => error,
        other => ringtap_sys::Error::new("bpf(2)", "", std::io::Error::other(other)),
    })
}

impl BackEnd for LiveBackEnd {
    fn kind(&self) -> BackEndKind {
        BackEndKind::Live
    }

    fn batch(&self) -> usize {
        CALL
    }

    /// Makes one system call for each run of identical frames.
    fn send(&mut self, frames: &[&[u8]]) -> std::result::Result<usize, Refused> {
        let Some(first) = frames.first() else {
            return Ok(0);
        };
        Refused::check(first.len(), self.longest)?;
        let is_same = |frame: &&&[u8]| std::ptr::eq(**frame, *first);
        let same = frames.iter().take_while(is_same).count();
        self.plain.run(first, same)
    }

    fn prepare(&mut self, template: &Template) -> Result<()> {
        let device = &self.device;
        let maps = maps(&self.kernel, device, Some(template))?;
        let mut value = [0; state::BYTES as usize];
        let first = template.marked(0);
        value[..8].copy_from_slice(&first.to_ne_bytes());
        let updated = maps.state.update(0, &value);
        updated.map_err(|source| SendError::of_bpf(&device.name, source))?;
        let code = program::generating(template, &maps, WallClock::default().from_tai())?;
        let mut loaded = Loaded::new(&self.kernel, device, maps, "ringtap_gen", &code)?;
        loaded.number = first;
        self.generating = Some(loaded);
        self.template = Some(template.clone());
        Ok(())
    }

    fn generate(&mut self, _first: u64, count: usize) -> std::result::Result<usize, Refused> {
        let longest = self.template.as_ref().map_or(0, Template::longest);
        Refused::check(longest, self.longest)?;
        match (&mut self.generating, &self.template) {
            (Some(loaded), Some(template)) => loaded.run(&template.frame, count),
            _ => Ok(0),
        }
    }

    fn wait(&mut self, waker: &Waker, limit: Duration) -> Result<()> {
        let limit = limit.min(Duration::from_millis(1));
        poll::wait([Interest::read(waker.as_fd())], Some(limit))?;
        Ok(())
    }

    fn tolerance(&self) -> Duration {
        // A call costs some 30 µs before its first frame.
        Duration::from_millis(1)
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "packets count when they are passed to the driver; its own counters show later drops"
                .to_owned(),
        ]
    }
}
