//! `libpcap.so.1`: the functions of libpcap 1.10 and those that 1.11 adds, for programs that were made
//! for it.
//!
//! What it is: the symbols of libpcap with their C types over [`ringtap_capture`], behind a boundary
//! that no panic crosses. What it is not: it has no filter compiler, ring or file format of its own.
//!
//! Data in: handles, strings and structures of C. Data out: the same, return codes, messages.
//!
//! # Pointers
//!
//! C hands in what the manual pages say. The argument types tell what is relied on: `Option<&T>` is
//! null or points to a `T`, [`text::CText`] is null or a string. Null gives an error where libpcap
//! crashes. A handle that was closed is not known again, as in libpcap.
//!
//! # Threads
//!
//! A handle belongs to one thread at a time. `pcap_breakloop` may be called by any thread and by
//! signal handlers while another reads.

mod backlog;
mod borrowed_block;
mod boundary;
mod bpf;
mod compile;
mod counters;
mod devices;
mod dump;
mod env;
mod ext;
mod follow;
mod handle;
mod handle_registry;
mod info;
mod inject;
mod link_types;
mod live;
mod memory;
mod messages;
mod names;
mod nameto;
mod offline;
mod options;
mod read;
mod setfilter;
mod settings;
mod status;
mod stdio;
mod text;
mod types;
mod wait;
