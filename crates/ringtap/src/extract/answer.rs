//! The destination of the packets: a file, or lines, or only their number.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use ringtap_capture::{Interface, LinkType, Packet};
use ringtap_packet::MAX_SNAPLEN;
use ringtap_record::{Host, Output, RecordError, RecordOptions, Recording, automatic_memory};
use ringtap_savefile::{Codec, Format, Item, Options, ProcessBlock, RawBlock};
use ringtap_sys::output::Access;

use super::error::ExtractError;
use super::sink::Sink;
use crate::cli::ExtractArgs;
use crate::dump::{DumpError, Printed};
use crate::notice::{counted, notice};
use crate::output;

/// The destination of the packets.
pub(super) struct Answer {
    file: Option<Recording>,
    printed: Option<Printed>,
    interfaces: Vec<Interface>,
    packets: u64,
}

/// Opens the file with the privileges of the user.
struct Outputs(Access);

impl Host for Outputs {
    fn open(&self, path: &Path) -> io::Result<Output> {
        output::open(path, self.0)
    }

    fn note(&self, note: &ringtap_record::Note) {
        notice(note);
    }
}

impl Answer {
    /// Opens the output of the command line.
    pub(super) fn open(args: &ExtractArgs) -> Result<Self, ExtractError> {
        let host = Arc::new(Outputs(args.files.access()));
        let create = |path: &Path| Recording::create(path, options(args, path), host);
        let file = args.write.as_deref().map(create).transpose()?;
        let prints = (file.is_none() && !args.print.count_only) || args.print.print;
        let printed = match prints {
            true => Some(Printed::new(&args.print, args.who, None)?),
            false => None,
        };
        Ok(Self {
            file,
            printed,
            interfaces: Vec::new(),
            packets: 0,
        })
    }

    /// Completes the output, and returns the number of packets.
    pub(super) fn finish(mut self) -> Result<u64, ExtractError> {
        if let Some(mut file) = self.file.take() {
            if self.interfaces.is_empty() {
                // Many programs reject a file without an interface.
                file.describe(&[Interface::new(LinkType::ETHERNET, MAX_SNAPLEN)])?;
            }
            file.finish()?;
        }
        Ok(self.packets)
    }
}

impl Sink for Answer {
    fn interfaces(&mut self, known: &[Interface]) -> Result<(), ExtractError> {
        if let Some(new) = known.get(self.interfaces.len()..) {
            self.interfaces.extend_from_slice(new);
        }
        if let Some(file) = &mut self.file {
            file.describe(known)?;
        }
        Ok(())
    }

    fn process(&mut self, described: &RawBlock<'_>) -> Result<(), ExtractError> {
        if let (Some(printed), Some(process)) = (&mut self.printed, ProcessBlock::parse(described))
        {
            printed.process(process);
        }
        match &mut self.file {
            Some(file) => Ok(file.meta(&Item::Other(*described))?),
            None => Ok(()),
        }
    }

    fn take<'d>(
        &mut self,
        packets: impl Iterator<Item = (Packet<'d>, Options<'d>)> + Clone,
    ) -> Result<(), ExtractError> {
        self.packets += packets.clone().count() as u64;
        if let Some(printed) = &mut self.printed {
            for (packet, options) in packets.clone() {
                printed.packet(&packet, &options, &self.interfaces)?;
            }
            printed.flush()?;
        }
        if let Some(file) = &mut self.file {
            file.write_packets(packets.map(Ok::<_, RecordError>))?;
        }
        Ok(())
    }
}

fn options(args: &ExtractArgs, path: &Path) -> RecordOptions {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let stem = match name.rsplit_once('.') {
        Some((stem, end)) if Codec::of_extension(end).is_some() => stem,
        _ => name,
    };
    let by_name = match stem.to_ascii_lowercase().ends_with(".pcap") {
        true => Format::Pcap,
        false => Format::Pcapng,
    };
    let extension = name.rsplit_once('.').map(|(_, end)| end);
    let codec = match args.compress {
        Some(given) => given.0,
        None => extension.and_then(Codec::of_extension),
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    RecordOptions::default()
        .format(args.format.unwrap_or(by_name))
        .codec(codec)
        .workers(processors)
        .memory(automatic_memory())
}

/// Prints the number of packets.
pub(super) fn print_count(packets: u64) -> Result<(), ExtractError> {
    let printed = writeln!(io::stdout(), "{}", counted(packets, "packet"));
    let printed = printed.map_err(|source| DumpError::Print { packets: 0, source });
    Ok(printed?)
}
