//! Functions that libpcap does not have: those that WinPcap added, for local devices and files, and
//! ringtap's own. Their header is `ringtap/pcap-ext.h`.

mod buffers;
mod ebpf;
mod engine;
pub(crate) mod live_dump;
mod mode;
mod queue;
mod remote;
mod sampling;
mod sources;
mod stats;
