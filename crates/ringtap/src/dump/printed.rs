//! Prints packets: lines are gathered per block, so that a block costs one write.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use ringtap_capture::{Interface, Packet};
use ringtap_print::{BytesDump, PrintOptions, Printer, TimestampFormat};
use ringtap_savefile::{Options, ProcessBlock};

use super::error::DumpError;
use crate::cli::PrintArgs;

/// Lines are written when this many bytes have come together, in bytes.
const ENOUGH: usize = 64 << 10;

/// Printed packets on their way to standard output.
pub(crate) struct Printed {
    printer: Printer,
    /// The number of interfaces that were examined.
    known: usize,
    lines: Vec<u8>,
    out: File,
    /// The number of packets whose lines were written.
    written: u64,
    /// The number of packets whose lines wait.
    waiting: u64,
}

impl Printed {
    /// Prepares standard output. `who` prints processes, `nanos` nanoseconds.
    pub(crate) fn new(args: &PrintArgs, who: bool, nanos: Option<bool>) -> Result<Self, DumpError> {
        let out = io::stdout().as_fd().try_clone_to_owned().map(File::from);
        let out = out.map_err(|source| failed(0, source))?;
        Ok(Self {
            printer: Printer::new(options(args, who, nanos)),
            known: 0,
            lines: Vec::with_capacity(2 * ENOUGH),
            out,
            written: 0,
            waiting: 0,
        })
    }

    /// Sets the name of a system interface, for packets that contain only its number.
    pub(crate) fn name_interface(&mut self, index: u32, name: &str) {
        self.printer.name_interface(index, name);
    }

    /// Takes over the description of a process.
    pub(crate) fn process(&mut self, process: ProcessBlock<'_>) {
        self.printer
            .describe_process(&process.tag, process.description);
    }

    /// Prints a packet of one of these interfaces, with what its options tell of it.
    pub(crate) fn packet(
        &mut self,
        packet: &Packet<'_>,
        options: &Options<'_>,
        interfaces: &[Interface],
    ) -> Result<(), DumpError> {
        if interfaces.len() > self.known {
            self.learn(interfaces);
        }
        if let Some(interface) = interfaces.get(packet.interface as usize) {
            let name = interface.name.as_deref();
            let note = options.drop_note();
            let printed = self.printer.print_with(
                &mut self.lines,
                packet,
                interface.link_type,
                name,
                note.as_ref(),
            );
            printed.map_err(|source| failed(self.written, source))?;
            self.waiting += 1;
        }
        if self.lines.len() >= ENOUGH {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Prints the interface of each packet from now on, if one of them is of another network namespace, with which its
    /// name begins.
    #[cold]
    fn learn(&mut self, interfaces: &[Interface]) {
        self.known = interfaces.len();
        let is_elsewhere =
            |one: &Interface| one.name.as_ref().is_some_and(|name| name.contains('/'));
        if interfaces.iter().any(is_elsewhere) {
            self.printer.show_interfaces();
        }
    }

    /// Writes the waiting lines.
    pub(crate) fn flush(&mut self) -> Result<(), DumpError> {
        let result = self.out.write_all(&self.lines);
        result.map_err(|source| failed(self.written, source))?;
        self.lines.clear();
        self.written += std::mem::take(&mut self.waiting);
        Ok(())
    }
}

/// Returns the error of a line behind those of this number of packets.
fn failed(packets: u64, source: io::Error) -> DumpError {
    DumpError::Print { packets, source }
}

fn options(args: &PrintArgs, who: bool, nanos: Option<bool>) -> PrintOptions {
    let mut options = PrintOptions::default();
    options.link_header = args.link_header;
    options.dump = BytesDump::from_counts(args.hex, args.hex_ascii, args.ascii);
    options.verbose = args.verbose;
    options.quiet = args.quiet;
    options.skip_checksums = args.no_checksums;
    options.timestamps = TimestampFormat::from_count(args.time);
    options.nanos = nanos.unwrap_or(false);
    options.absolute_seq = args.absolute_seq;
    options.json = args.json;
    options.number = args.number;
    options.processes = who || args.verbose > 0;
    options
}
