//! The pcap format (draft-ietf-opsawg-pcap, pcap-savefile(5)): file header and packet records.

mod header;
mod records;

pub(crate) use header::{
    FILE_HEADER, FileHeader, MAGIC_MICROS, MAGIC_NANOS, fcs_bits, is_pcap, link_type_field,
};
pub(crate) use records::UsualRecords;
pub(crate) use records::{PcapRecords, RECORD_HEADER, Stop, walk, walk_giving};
