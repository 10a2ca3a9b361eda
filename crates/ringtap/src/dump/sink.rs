//! Where the packets of a run go: selection, then the file, then the printed lines.

use ringtap_capture::{Block, Interface, Item, Packet, Timestamp};

use super::error::DumpError;
use super::file::CaptureFile;
use super::printed::Printed;
use super::select::{Selector, Verdict};

/// The outputs of a run, shared by its sources.
pub(crate) struct Sink {
    pub(crate) selector: Selector,
    pub(crate) file: Option<CaptureFile>,
    pub(crate) printed: Option<Printed>,
    /// The interfaces of the present source.
    interfaces: Vec<Interface>,
}

impl Sink {
    pub(crate) fn new(
        selector: Selector,
        file: Option<CaptureFile>,
        printed: Option<Printed>,
    ) -> Self {
        Self {
            selector,
            file,
            printed,
            interfaces: Vec::new(),
        }
    }

    /// A source begins; `complete` tells whether no filter chooses from what it holds.
    pub(crate) fn begin_source(&mut self, complete: bool) {
        self.interfaces.clear();
        let complete = complete && self.selector.takes_all();
        if let Some(file) = &mut self.file {
            file.next_source();
            file.complete = complete;
        }
    }

    /// The source's interfaces as they are known by now.
    pub(crate) fn interfaces(&mut self, known: &[Interface]) -> Result<(), DumpError> {
        if let Some(new) = known.get(self.interfaces.len()..) {
            self.interfaces.extend_from_slice(new);
        }
        match &mut self.file {
            Some(file) => file.describe(known),
            None => Ok(()),
        }
    }

    /// What a file holds beside packets and interfaces.
    pub(crate) fn meta(&mut self, item: &Item<'_>) -> Result<(), DumpError> {
        match (&mut self.file, item) {
            (Some(file), Item::Section(section)) => file.section(section),
            (Some(file), item) => file.meta(item),
            (None, _) => Ok(()),
        }
    }

    /// Writes and prints the packets of a block that the selection takes.
    pub(crate) fn block(&mut self, block: &Block<'_>) -> Result<(), DumpError> {
        let Self {
            selector,
            file,
            printed,
            interfaces,
            ..
        } = self;
        match (file, printed) {
            (Some(file), None) => file.block(block, selector, None),
            (Some(file), Some(printed)) => {
                let mut see = |packet: &Packet<'_>| printed.packet(packet, interfaces);
                file.block(block, selector, Some(&mut see))?;
                printed.flush()
            }
            (None, Some(printed)) => {
                for mut packet in block.packets() {
                    if selector.judge(&mut packet) == Verdict::Take {
                        printed.packet(&packet, interfaces)?;
                    }
                }
                printed.flush()
            }
            // They are counted.
            (None, None) => {
                for mut packet in block.packets() {
                    selector.judge(&mut packet);
                }
                Ok(())
            }
        }
    }

    /// How the file has failed since something was written to it; told once.
    pub(crate) fn check(&self) -> Result<(), DumpError> {
        self.file.as_ref().map_or(Ok(()), CaptureFile::check)
    }

    /// Whether anything was taken, or the file was begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.selector.taken() > 0 || self.file.as_ref().is_some_and(CaptureFile::has_begun)
    }

    /// Takes nothing any more that was captured at `now` or later.
    pub(crate) fn end_at(&mut self, now: Timestamp) {
        self.selector.end_at(now);
    }

    /// Whether nothing that may follow would be taken: the count is reached, or the end of a live
    /// capture has passed, or all files are written.
    pub(crate) fn is_done(&self) -> bool {
        self.selector.is_done() || self.file.as_ref().is_some_and(CaptureFile::has_ended)
    }

    /// What has to happen from time to time also when no packet comes.
    pub(crate) fn tick(&mut self, now: i64) -> Result<(), DumpError> {
        let captured = self.selector.taken();
        match &mut self.file {
            Some(file) => file.end_of_window(now, captured),
            None => Ok(()),
        }
    }
}
