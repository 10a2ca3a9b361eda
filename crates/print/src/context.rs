//! What a decoder works with: the line it writes, the options, and the memory of the printer.

use std::collections::BTreeMap;

use super::app::Initiators;
use super::line::{Address, Line};
use super::options::PrintOptions;
use super::tcp::sequences::Sequences;

/// Headers that may be nested in one packet (tunnels, quoted packets); the rest is not shown.
const MAX_DEPTH: u8 = 16;

/// The names of interfaces by their index.
pub(crate) type InterfaceNames = BTreeMap<u32, String>;

/// Handed from decoder to decoder while one packet is printed.
pub(crate) struct Context<'p> {
    /// The line under construction.
    pub(crate) line: &'p mut Line,
    pub(crate) options: &'p PrintOptions,
    pub(crate) sequences: &'p mut Sequences,
    /// Who began recent key exchanges.
    pub(crate) initiators: &'p mut Initiators,
    /// Names of interfaces by their index, for cooked captures.
    pub(crate) interfaces: &'p InterfaceNames,
    depth: u8,
}

impl<'p> Context<'p> {
    pub(crate) fn new(
        line: &'p mut Line,
        options: &'p PrintOptions,
        sequences: &'p mut Sequences,
        initiators: &'p mut Initiators,
        interfaces: &'p InterfaceNames,
    ) -> Self {
        Self {
            line,
            options,
            sequences,
            initiators,
            interfaces,
            depth: 0,
        }
    }

    /// True from `-v` on.
    pub(crate) fn verbose(&self) -> bool {
        self.options.verbose > 0
    }

    /// True from `-vv` on.
    pub(crate) fn very_verbose(&self) -> bool {
        self.options.verbose > 1
    }

    /// Names the layer that is being read now, for the note about missing bytes.
    pub(crate) fn enter(&mut self, protocol: &'static str) {
        self.line.protocol = protocol;
    }

    /// Goes one encapsulation deeper; false when that is too deep.
    pub(crate) fn descend(&mut self) -> bool {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.line.str(" [nested too deep]");
            return false;
        }
        true
    }

    /// Comes back from [`Self::descend`].
    pub(crate) fn ascend(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }
}

/// The network header above a transport header, as the transport layer needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    pub(crate) source: Address,
    /// The destination for the checksum: with a routing header, the final one.
    pub(crate) destination: Address,
    /// The destination as it stands in the header.
    pub(crate) shown_destination: Address,
    /// The time to live, or hop limit.
    pub(crate) hop_limit: u8,
    /// A fragment: checksums cannot be verified.
    pub(crate) fragmented: bool,
    /// The addresses are not on the line yet; the transport layer prints them with its ports.
    pub(crate) endpoints: bool,
}

impl Network {
    /// Writes `source.port > destination.port: `, or the ports alone where the addresses stand
    /// already.
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
