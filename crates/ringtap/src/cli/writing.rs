//! Options for written files: permissions; for captures also compression, rotation, the queue to the disk.

use std::ffi::OsString;

use clap::Args;
use ringtap_savefile::Codec;
use ringtap_sys::output::{Access, Group};

use crate::values::{self, CpuList, Size};

#[derive(Debug, Args)]
pub(crate) struct WriteArgs {
    /// Write packets to the file as they are delivered; without it, within a second. Printed lines never wait
    #[arg(short = 'U', long = "packet-buffered")]
    pub(crate) packet_buffered: bool,
    /// Compression of the file: zlib:0 to zlib:9, zstd:1 to zstd:19, lz4, or none; without it the file name
    /// decides (.gz, .zst, .lz4)
    #[arg(long, value_name = "CODEC", value_parser = values::codec, requires = "write")]
    pub(crate) compress: Option<values::Compress>,
    /// Start another file before a packet if the file is larger than this: millions of bytes, or powers of
    /// 1024 with K, M, G. Uncompressed bytes count
    #[arg(short = 'C', value_name = "SIZE", value_parser = values::file_size, requires = "write")]
    pub(crate) file_size: Option<u64>,
    /// Start another file after this many seconds; the name is completed by strftime(3)
    #[arg(short = 'G', value_name = "SECONDS", requires = "write",
          value_parser = values::whole::<u32>("seconds", 1, None))]
    pub(crate) rotate_seconds: Option<u32>,
    /// With -C: use this many files in turn; with -G alone: stop after this many
    #[arg(short = 'W', value_name = "COUNT", value_parser = values::whole::<u32>("files", 1, None))]
    pub(crate) file_count: Option<u32>,
    /// Run COMMAND FILE for each complete file, during the capture
    #[arg(short = 'z', value_name = "COMMAND")]
    pub(crate) postrotate: Option<OsString>,
    /// Number of threads that compress; without it, one for each available processor that does not capture
    #[arg(long, value_name = "N", value_parser = values::whole::<u16>("threads", 1, Some(256)))]
    pub(crate) compress_threads: Option<u16>,
    /// Memory for data that waits to be compressed and written; without it, an eighth of the free memory, at
    /// least 64M and at most 512M
    #[arg(long, value_name = "SIZE")]
    pub(crate) write_buffer: Option<Size>,
    /// CPUs of the threads that compress and write, such as 1 or 2-3
    #[arg(long, value_name = "LIST")]
    pub(crate) write_cpu: Option<CpuList>,
}

/// The permissions of files that a command creates. An existing file keeps its owner and mode.
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// Create files that this group may also read (mode 0640), by name or number; without it only their owner
    /// may (0600)
    #[arg(long, value_name = "NAME", value_parser = Group::by_name, conflicts_with = "umask")]
    pub(crate) group: Option<Group>,
    /// Create files with mode 0666 less the umask, as a shell does
    #[arg(long)]
    pub(crate) umask: bool,
}

impl FileArgs {
    /// Returns who may read the files.
    pub(crate) fn access(&self) -> Access {
        match self.group {
            Some(group) => Access::Group(group),
            None if self.umask => Access::Umask,
            None => Access::Owner,
        }
    }
}

impl WriteArgs {
    /// Returns the requested codec, or the one of the file name's ending.
    pub(crate) fn codec(&self, name: &std::path::Path) -> Option<Codec> {
        match self.compress {
            Some(values::Compress(codec)) => codec,
            None => name
                .extension()
                .and_then(|extension| extension.to_str())
                .and_then(Codec::of_extension),
        }
    }
}
