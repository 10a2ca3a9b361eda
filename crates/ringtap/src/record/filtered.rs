//! Copies of those packets of a window that a filter accepts. [`Archive::copy`] copies whole windows.

use std::io;
use std::path::Path;
use std::sync::Arc;

use ringtap_capture::{Filter, Packet};
use ringtap_record::archive::{Archive, Copied, INCIDENTS, Window};
use ringtap_record::{Host, Output, RecordOptions, Recording};
use ringtap_savefile::{Codec, Format, Item, Options, RawBlock};
use ringtap_sys::output::Access;

use super::error::RecorderError;
use crate::extract::{ExtractError, Merge, Sink};
use crate::rights;

/// The step in which a copy reserves room, and what it has beyond packets, in bytes.
const STEP: u64 = 256 << 10;
/// The memory for packets that wait for the disk, in bytes.
const MEMORY: u64 = 8 << 20;

/// A copy's file, which may take so many bytes.
struct Copy {
    access: Access,
    room: u64,
}

impl Host for Copy {
    fn open(&self, path: &Path) -> io::Result<Output> {
        rights::write(path, self.access, true)
    }

    fn admit(&self, _: &Path, end: u64) -> io::Result<()> {
        match end <= self.room {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                "the copy is larger than the window",
            )),
        }
    }
}

struct Written {
    recording: Recording,
    packets: u64,
}

impl Sink for Written {
    fn interfaces(&mut self, known: &[ringtap_capture::Interface]) -> Result<(), ExtractError> {
        Ok(self.recording.describe(known)?)
    }

    fn process(&mut self, described: &RawBlock<'_>) -> Result<(), ExtractError> {
        Ok(self.recording.meta(&Item::Other(*described))?)
    }

    fn take<'d>(
        &mut self,
        packets: impl Iterator<Item = (Packet<'d>, Options<'d>)> + Clone,
    ) -> Result<(), ExtractError> {
        self.packets += packets.clone().count() as u64;
        let packets = packets.map(Ok::<_, ringtap_record::RecordError>);
        self.recording.write_packets(packets)?;
        Ok(())
    }
}

/// Copies the packets of a window that a filter accepts, of all devices, into one file of the folder of
/// incidents.
pub(super) fn copy(
    archive: &Archive,
    window: Window,
    prefix: &str,
    (filter, codec, access): (&Filter, Option<Codec>, Access),
) -> Result<Copied, ExtractError> {
    let folder = archive.folder();
    let failed = |error| ExtractError::Folder(RecorderError::folder(folder)(error));
    let listing = archive.listing(window).map_err(failed)?;
    let mut merge = Merge::new(Some(filter.clone()), window, true);
    merge.add(folder, listing, &[]);
    // More than the packets of the window it cannot have.
    let room = merge.bytes() + 2 * STEP;
    let failed = |error| ExtractError::Folder(RecorderError::folder(folder)(error));
    archive.reserve_copy(room).map_err(failed)?;
    let end = if codec.is_some() { ".zst" } else { "" };
    let path = folder.join(INCIDENTS).join(format!("{prefix}.pcapng{end}"));
    let written = write(&mut merge, &path, (codec, access, room));
    let taken = rights::read(&path).and_then(|file| file.metadata());
    let taken = taken.map_or(0, |metadata| {
        use std::os::unix::fs::MetadataExt as _;
        metadata.len().max(metadata.blocks() * 512)
    });
    let packets = match written {
        Ok(packets) => packets,
        Err(error) => {
            // A part without its reason would take the room of others.
            let _ = rights::remove(&path);
            archive.give_back_copy(room);
            return Err(error);
        }
    };
    archive.give_back_copy(room.saturating_sub(taken + STEP));
    let summary = merge.summary(packets);
    let mut copied = Copied {
        files: vec![path],
        packets,
        bytes: taken,
        missing: summary.damaged_chunks + summary.files_gone,
        ..Copied::default()
    };
    copied.cut.packets = summary.cut_packets;
    copied.cut.bytes = summary.cut_bytes;
    Ok(copied)
}

fn write(
    merge: &mut Merge,
    path: &Path,
    (codec, access, room): (Option<Codec>, Access, u64),
) -> Result<u64, ExtractError> {
    let options = RecordOptions::default()
        .format(Format::Pcapng)
        .codec(codec)
        .memory(MEMORY)
        .reserve(Some(STEP));
    let host = Arc::new(Copy { access, room });
    let never = || false;
    merge.prime(&never)?;
    let mut sink = Written {
        recording: Recording::create(path, options, host)?,
        packets: 0,
    };
    let run = merge.run(&mut sink, &never);
    let finished = sink.recording.finish();
    run?;
    finished?;
    Ok(sink.packets)
}
