//! The limit for captures at XDP: a program that drops every packet and does nothing else.

use ringtap_filter::ebpf::{Assembler, Helper, Reg};
use ringtap_sys::bpf::{self, Feature, Kernel, Link, Program, ProgramKind, XdpMode};

use crate::netns::Side;

const XDP_DROP: i32 = 1;

/// Drops all packets that an end of a pair receives, in its driver, until it is dropped itself.
#[derive(Debug)]
#[must_use = "packets are dropped as long as it lives"]
pub struct XdpDrop {
    _link: Link,
}

impl XdpDrop {
    /// Attaches the program. Needs [`crate::Need::Root`] and Linux 5.9.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the program or another XDP program is attached.
    ///
    /// # Panics
    /// Panics if the device does not exist.
    pub fn on(side: &Side) -> bpf::Result<Self> {
        Self::after(side, None)
    }

    /// Attaches a program that first calls a helper without arguments, such as one that reads a
    /// clock.
    ///
    /// # Errors
    /// Returns an error as [`XdpDrop::on`] does, or if the kernel has no such helper.
    ///
    /// # Panics
    /// The same as for [`XdpDrop::on`].
    pub fn after(side: &Side, helper: Option<Helper>) -> bpf::Result<Self> {
        let mut asm = Assembler::new();
        if let Some(helper) = helper {
            asm.call(helper);
        }
        asm.mov32(Reg::R0, XDP_DROP);
        asm.exit();
        let code = asm.finish().expect("there are no jumps");
        Ok(Self {
            _link: attached(side, "xdp_drop", &code)?,
        })
    }
}

/// Attaches a program to the driver of an end of a pair.
pub(super) fn attached(side: &Side, name: &str, code: &[u64]) -> bpf::Result<Link> {
    let kernel = Kernel::running();
    // Packets of several buffers come from Linux 5.18 on.
    let frags = Feature::XdpFrags.check(&kernel).is_ok();
    let program = Program::load(&kernel, name, ProgramKind::Xdp { frags }, code)?;
    let index = side.namespace.netlink().index(&side.device);
    let index = index.expect("the pair has this end");
    side.run(|| Link::xdp(&program, &kernel, index, XdpMode::Native))
}
