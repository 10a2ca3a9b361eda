//! The receiver of an answer, and packets as pcapng in memory.

use ringtap_capture::{Interface, LinkType, Packet};
use ringtap_packet::MAX_SNAPLEN;
use ringtap_savefile::{Options, PcapngWriter, RawBlock, Section, WriteError};

use super::error::ExtractError;

/// Takes an answer's packets.
pub(crate) trait Sink {
    /// Takes the interfaces that are known now.
    ///
    /// # Errors
    /// The output failed.
    fn interfaces(&mut self, known: &[Interface]) -> Result<(), ExtractError>;

    /// Takes the description of a process that the next packets name.
    ///
    /// # Errors
    /// The output failed.
    fn process(&mut self, described: &RawBlock<'_>) -> Result<(), ExtractError>;

    /// Takes packets in order of time, with the options of their blocks.
    ///
    /// # Errors
    /// The output failed.
    fn take<'d>(
        &mut self,
        packets: impl Iterator<Item = (Packet<'d>, Options<'d>)> + Clone,
    ) -> Result<(), ExtractError>;
}

/// Packets as pcapng, in pieces of which the taker decides what to do. It returns an error to end the extraction.
pub(crate) struct Encoded<T> {
    writer: PcapngWriter<Vec<u8>>,
    interfaces: usize,
    has_begun: bool,
    taker: T,
}

/// The size of a piece, in bytes.
const PIECE: usize = 128 << 10;

impl<T: FnMut(Vec<u8>) -> Result<(), ExtractError>> Encoded<T> {
    /// Begins a file.
    ///
    /// # Errors
    /// The file's header cannot be encoded.
    pub(crate) fn new(taker: T) -> Result<Self, ExtractError> {
        let section = Section {
            application: Some(concat!("ringtap ", env!("CARGO_PKG_VERSION")).to_owned()),
            ..Section::default()
        };
        Ok(Self {
            writer: PcapngWriter::new(Vec::new(), &section).map_err(encode)?,
            interfaces: 0,
            has_begun: false,
            taker,
        })
    }

    /// Completes the file. It has an interface at least, since many programs reject one without.
    ///
    /// # Errors
    /// That of the taker.
    pub(crate) fn finish(mut self) -> Result<(), ExtractError> {
        if self.interfaces == 0 {
            self.interfaces(&[Interface::new(LinkType::ETHERNET, MAX_SNAPLEN)])?;
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), ExtractError> {
        self.writer.flush().map_err(encode)?;
        let bytes = std::mem::take(self.writer.sink_mut());
        match bytes.is_empty() {
            true => Ok(()),
            false => (self.taker)(bytes),
        }
    }
}

fn encode(source: WriteError) -> ExtractError {
    ExtractError::Encode { source }
}

impl<T: FnMut(Vec<u8>) -> Result<(), ExtractError>> Sink for Encoded<T> {
    fn interfaces(&mut self, known: &[Interface]) -> Result<(), ExtractError> {
        for interface in known.get(self.interfaces..).unwrap_or_default() {
            self.writer.add_interface(interface).map_err(encode)?;
            self.interfaces += 1;
        }
        Ok(())
    }

    fn process(&mut self, described: &RawBlock<'_>) -> Result<(), ExtractError> {
        self.writer.write_block(described).map_err(encode)
    }

    fn take<'d>(
        &mut self,
        packets: impl Iterator<Item = (Packet<'d>, Options<'d>)> + Clone,
    ) -> Result<(), ExtractError> {
        for (packet, options) in packets {
            self.writer
                .write_packet_with_options(&packet, &options)
                .map_err(encode)?;
            if self.writer.sink_mut().len() >= PIECE {
                self.flush()?;
            }
        }
        // A client that waits for the first packets gets them at once.
        match std::mem::replace(&mut self.has_begun, true) {
            false => self.flush(),
            true => Ok(()),
        }
    }
}
