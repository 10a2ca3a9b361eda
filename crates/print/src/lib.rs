#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// `link` finds the network layer of a packet; `ip` and `arp` print it and pass the rest to `tcp`,
// `udp`, `icmp`, `icmp6`, the protocols of `routing` and the short forms of `small`. A decoder that
// needs a byte that was not captured returns `bytes::Truncated`; the line then ends with a note
// that names the layer. `docs/reference/output.md` describes the forms.
//
// Packets may be hostile: reads are checked, and chains (extension headers, options, DNS pointers,
// nested IP) and the line are limited. No byte of a packet reaches the terminal as a control
// character. After the first packets nothing is allocated.

mod access;
mod app;
mod arp;
mod bytes;
mod checksum;
mod context;
mod dns;
mod groups;
mod hex;
mod icmp;
mod icmp6;
mod ip;
mod json;
mod line;
mod link;
mod options;
mod process;
mod routing;
mod small;
mod tcp;
mod timestamp;
mod udp;
mod wireless;

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use ringtap_packet::process::{ProcessDescription, ProcessTable, ProcessTag};
use ringtap_packet::{DropNote, LinkType, Packet};

use app::Initiators;
use context::{Context, InterfaceNames};
use line::Line;
pub use options::{BytesDump, DumpForm, PrintOptions, TimestampFormat};
use tcp::sequences::Sequences;
use timestamp::Clock;

/// Prints packets, one call each, in the order in which they were captured.
#[derive(Debug)]
pub struct Printer {
    options: PrintOptions,
    clock: Clock,
    sequences: Sequences,
    initiators: Initiators,
    interfaces: InterfaceNames,
    processes: ProcessTable,
    /// Whether each line names the packet's interface.
    shows_interfaces: bool,
    line: Line,
    /// Line, dump and line end, so that the output gets one write per packet.
    staged: Vec<u8>,
    printed: u64,
}

impl Printer {
    /// Creates a printer. Local times are those in the zone of the system (`TZ`, `/etc/localtime`).
    #[must_use]
    pub fn new(options: PrintOptions) -> Self {
        Self {
            clock: Clock::new(options.timestamps, options.nanos),
            options,
            sequences: Sequences::default(),
            initiators: Initiators::default(),
            interfaces: InterfaceNames::new(),
            processes: ProcessTable::default(),
            shows_interfaces: false,
            line: Line::default(),
            staged: Vec::new(),
            printed: 0,
        }
    }

    /// Sets the name of the interface with this index, for live captures of `any`: a cooked header
    /// of version 2 contains only the index. A later name for the same index replaces the earlier
    /// one.
    pub fn name_interface(&mut self, index: u32, name: &str) {
        self.interfaces.insert(index, name.to_owned());
    }

    /// Prints interface and direction of each packet from now on, as for cooked headers: for captures of interfaces
    /// of several network namespaces.
    pub fn show_interfaces(&mut self) {
        self.shows_interfaces = true;
    }

    /// Sets the description of a process, for its packets from now on.
    pub fn describe_process(&mut self, tag: &ProcessTag<'_>, description: ProcessDescription) {
        self.processes.insert(tag, description);
    }

    /// Writes one packet, with a line end, by a single `write_all`.
    ///
    /// `interface` is the name of the interface it was captured on, if known.
    ///
    /// # Errors
    /// Returns the error of `out`.
    pub fn print<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        packet: &Packet<'_>,
        link_type: LinkType,
        interface: Option<&str>,
    ) -> io::Result<()> {
        self.print_with(out, packet, link_type, interface, None)
    }

    /// Writes one packet as [`Printer::print`], with the reason for which the kernel dropped it, if there is
    /// one: `drop NO_SOCKET at __udp4_lib_rcv+0x4bc eth0: ` comes before the packet.
    ///
    /// # Errors
    /// Returns the error of `out`.
    pub fn print_with<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        packet: &Packet<'_>,
        link_type: LinkType,
        interface: Option<&str>,
        dropped: Option<&DropNote<'_>>,
    ) -> io::Result<()> {
        self.printed += 1;
        self.staged.clear();
        self.line.clear();
        if self.options.json {
            json::object(
                &mut self.staged,
                packet,
                link_type,
                interface,
                dropped,
                &self.processes,
            )?;
        } else {
            self.text(packet, link_type, interface, dropped);
        }
        self.staged.push(b'\n');
        out.write_all(&self.staged)
    }

    fn text(
        &mut self,
        packet: &Packet<'_>,
        link_type: LinkType,
        interface: Option<&str>,
        dropped: Option<&DropNote<'_>>,
    ) {
        if self.options.number {
            line::put!(self.line, "{:5}  ", self.printed);
        }
        self.clock.print(&mut self.line, packet.timestamp);
        if let Some(note) = dropped {
            self.line.dropped(note);
        }
        if let Some(process) = packet.process.filter(|_| self.options.processes) {
            process::print(&mut self.line, &process, &self.processes);
        }
        if packet.data.is_empty() {
            line::put!(self.line, "[Invalid header: caplen==0");
            self.line
                .str(if packet.len == 0 { ", len==0]" } else { "]" });
            self.staged.extend_from_slice(self.line.text());
            return;
        }
        let mut cx = Context {
            line: &mut self.line,
            options: &self.options,
            sequences: &mut self.sequences,
            initiators: &mut self.initiators,
            interfaces: &self.interfaces,
            is_named: dropped.is_some(),
            header: 0,
            depth: 0,
        };
        if self.shows_interfaces && !cx.is_named {
            link::cooked::captured_on(&mut cx, interface.unwrap_or("?"), packet.flags);
            cx.is_named = true;
        }
        let header = link::print(&mut cx, packet, link_type, interface);
        self.staged.extend_from_slice(self.line.text());
        if let Some(dump) = self.options.dump {
            let from = if dump.link_header { 0 } else { header };
            let bytes = packet.data.get(from..).unwrap_or_default();
            hex::dump(&mut self.staged, dump.form, bytes);
        }
    }
}
