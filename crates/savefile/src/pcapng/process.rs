//! Processes: the option of packet blocks and the custom block with which ringtap records them.
//!
//! The option (custom, binary, 2989) holds the enterprise number and a tag ([`ProcessTag`]). The block (custom,
//! 0x0BAD) holds the enterprise number, a tag, and options with codes of its own: 2 the command line, 3 the path
//! of the executable, 4 the path of the control group, 5 the container's name, 6 its image, 7 the namespace and name of
//! its pod. It precedes the first packet of the process.

use ringtap_packet::process::{
    PROCESS_ENTERPRISE, PROCESS_TAG_BYTES, PacketProcess, ProcessDescription, ProcessTag,
};

use crate::ByteOrder;
use crate::pcapng::options::{code, encode, encode_end};
use crate::pcapng::section::finish_block;
use crate::pcapng::{BLOCK_HEADER, RawBlock, block_type};

const COMMAND_LINE: u16 = 2;
const EXECUTABLE: u16 = 3;
const CGROUP: u16 = 4;
const CONTAINER: u16 = 5;
const IMAGE: u16 = 6;
const POD: u16 = 7;
/// Bytes of the enterprise number.
const ENTERPRISE: usize = 4;
/// Bytes of both options of a packet with their heads, and of the end mark after them.
pub(crate) const OPTIONS_ROOM: usize = 4 + 8 + 4 + ENTERPRISE + PROCESS_TAG_BYTES + 4;

/// Returns the tag in the value of a custom option.
pub(crate) fn tag_of(order: ByteOrder, value: &[u8]) -> Option<ProcessTag<'_>> {
    let is_it = order.u32_at(value, 0)? == PROCESS_ENTERPRISE
        && value.len() == ENTERPRISE + PROCESS_TAG_BYTES;
    ProcessTag::parse(value.get(ENTERPRISE..).filter(|_| is_it)?)
}

/// Appends the options of a packet of the process, without the end mark.
pub(crate) fn encode_options(process: &PacketProcess<'_>, order: ByteOrder, out: &mut Vec<u8>) {
    let [a, b, c, d] = order.of_u32(process.pid);
    let [e, f, g, h] = order.of_u32(process.tid);
    let ids = [a, b, c, d, e, f, g, h];
    encode(code::EPB_PROCESSID_THREADID, &ids, order, out);
    if let Some(tag) = &process.tag {
        let mut value = [0; ENTERPRISE + PROCESS_TAG_BYTES];
        value[..ENTERPRISE].copy_from_slice(&order.of_u32(PROCESS_ENTERPRISE));
        value[ENTERPRISE..].copy_from_slice(tag.as_bytes());
        encode(code::CUSTOM_BINARY, &value, order, out);
    }
}

/// A custom block that describes a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessBlock<'a> {
    /// The process.
    pub tag: ProcessTag<'a>,
    /// Its description.
    pub description: ProcessDescription,
}

impl<'a> ProcessBlock<'a> {
    /// Returns the description of a process in a custom block. `None` for other blocks.
    #[must_use]
    pub fn parse(block: &RawBlock<'a>) -> Option<Self> {
        let is_custom = block.block_type() == block_type::CUSTOM;
        let (body, order) = (block.body(), block.byte_order());
        if !is_custom || order.u32_at(body, 0)? != PROCESS_ENTERPRISE {
            return None;
        }
        let tag = ProcessTag::parse(body.get(ENTERPRISE..)?)?;
        let mut description = ProcessDescription::default();
        for option in &block.options_at(ENTERPRISE + PROCESS_TAG_BYTES) {
            let text = || String::from_utf8_lossy(option.value).into_owned();
            match option.code {
                COMMAND_LINE => description.command_line = option.value.to_vec(),
                EXECUTABLE => description.executable = text(),
                CGROUP => description.cgroup = text(),
                CONTAINER => description.container.name = text(),
                IMAGE => description.container.image = text(),
                POD => description.container.pod = text(),
                _ => {}
            }
        }
        Some(Self { tag, description })
    }

    /// Replaces `out` by the block, in this machine's byte order.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let order = ByteOrder::NATIVE;
        out.clear();
        out.extend_from_slice(&order.of_u32(block_type::CUSTOM));
        out.resize(BLOCK_HEADER, 0);
        out.extend_from_slice(&order.of_u32(PROCESS_ENTERPRISE));
        out.extend_from_slice(self.tag.as_bytes());
        let start = out.len();
        let parts = [
            (COMMAND_LINE, self.description.command_line.as_slice()),
            (EXECUTABLE, self.description.executable.as_bytes()),
            (CGROUP, self.description.cgroup.as_bytes()),
            (CONTAINER, self.description.container.name.as_bytes()),
            (IMAGE, self.description.container.image.as_bytes()),
            (POD, self.description.container.pod.as_bytes()),
        ];
        for (code, value) in parts {
            if !value.is_empty() {
                encode(code, value, order, out);
            }
        }
        encode_end(start, out);
        finish_block(0, order, out);
    }
}

#[cfg(test)]
mod tests {
    use ringtap_packet::process::{ContainerNames, ProcessFacts};

    use super::*;

    #[test]
    fn a_block_comes_back() {
        let bytes = ProcessFacts {
            pid: 7,
            comm: b"curl",
            ..ProcessFacts::default()
        }
        .encode();
        let written = ProcessBlock {
            tag: ProcessTag::parse(&bytes).expect("a tag"),
            description: ProcessDescription {
                command_line: b"curl\0-s\0".to_vec(),
                cgroup: "/system.slice/ssh.service".to_owned(),
                executable: String::new(),
                container: ContainerNames {
                    name: "web".to_owned(),
                    image: "localhost/web:1".to_owned(),
                    pod: "shop/web-0".to_owned(),
                },
            },
        };
        let mut out = Vec::new();
        written.encode(&mut out);
        let block = RawBlock::built(&out).expect("whole");
        assert_eq!(ProcessBlock::parse(&block), Some(written));
        out[8] ^= 1;
        let block = RawBlock::built(&out).expect("whole");
        assert_eq!(ProcessBlock::parse(&block), None, "of another enterprise");
        for len in 0..out.len() {
            assert_eq!(RawBlock::built(&out[..len]), None);
        }
    }
}
