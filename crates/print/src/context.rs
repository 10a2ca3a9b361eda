//! The context of a decoder: the line that it writes, the options, and the printer's memory.

use std::collections::BTreeMap;

use super::app::Initiators;
use super::line::{Address, Line};
use super::options::PrintOptions;
use super::tcp::sequences::Sequences;

/// The most nested headers that are printed of a packet (tunnels, quoted packets).
const MAX_DEPTH: u8 = 16;

/// The names of interfaces by their index.
pub(crate) type InterfaceNames = BTreeMap<u32, String>;

/// The state passed from decoder to decoder while a packet is printed.
pub(crate) struct Context<'p> {
    /// The line under construction.
    pub(crate) line: &'p mut Line,
    pub(crate) options: &'p PrintOptions,
    pub(crate) sequences: &'p mut Sequences,
    /// The initiators of recent key exchanges.
    pub(crate) initiators: &'p mut Initiators,
    /// Names of interfaces by their index, for cooked captures.
    pub(crate) interfaces: &'p InterfaceNames,
    /// Whether the line already names the packet's interface.
    pub(crate) is_named: bool,
    /// The length of the link-layer headers read so far, in bytes; headers in tunnels do not count.
    pub(crate) header: usize,
    /// The number of nested packets around the one that is printed.
    pub(crate) depth: u8,
}

impl Context<'_> {
    /// Returns whether `-v` or more is set.
    pub(crate) fn verbose(&self) -> bool {
        self.options.verbose > 0
    }

    /// Returns whether `-vv` or more is set.
    pub(crate) fn very_verbose(&self) -> bool {
        self.options.verbose > 1
    }

    /// Names the layer being read, for the note about missing bytes.
    pub(crate) fn enter(&mut self, protocol: &'static str) {
        self.line.protocol = protocol;
    }

    /// Enters a nested packet; returns false if it is too deep.
    pub(crate) fn descend(&mut self) -> bool {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.line.str(" [nested too deep]");
            return false;
        }
        true
    }

    /// Leaves a nested packet, after [`Self::descend`].
    pub(crate) fn ascend(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }
}

/// The network header, as the transport layer needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    pub(crate) source: Address,
    /// The destination for the checksum: with a routing header, the final one.
    pub(crate) destination: Address,
    /// The destination in the header.
    pub(crate) shown_destination: Address,
    /// The time to live, or hop limit.
    pub(crate) hop_limit: u8,
    /// Whether it is a fragment: checksums cannot be verified.
    pub(crate) fragmented: bool,
    /// Whether the addresses are not on the line yet; the transport layer prints them with its
    /// ports.
    pub(crate) endpoints: bool,
}

impl Network {
    /// Writes `source.port > destination.port: `, or only the ports if the addresses are already
    /// printed.
    pub(crate) fn ports(&self, line: &mut Line, source: u16, destination: u16) {
        if self.endpoints {
            line.endpoint(self.source, source);
            line.str(" > ");
            line.endpoint(self.shown_destination, destination);
        } else {
            line.number(source);
            line.str(" > ");
            line.number(destination);
        }
        line.str(": ");
    }

    /// Writes `source > destination: `.
    pub(crate) fn addresses(&self, line: &mut Line) {
        line.address(self.source);
        line.str(" > ");
        line.address(self.shown_destination);
        line.str(": ");
    }
}
