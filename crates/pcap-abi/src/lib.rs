//! `libpcap.so.1`: the functions of libpcap 1.10 and those added in 1.11, for programs that were
//! built for libpcap.
//!
//! This crate exports libpcap's symbols, with their C types, on top of [`ringtap_capture`], with a boundary
//! that no panic crosses. Filter compiler, rings and file formats are in other crates.
//!
//! Data in: handles, strings and structures of C. Data out: the same, with return codes and
//! messages.
//!
//! # Pointers
//!
//! C must pass what libpcap's manual pages require. The argument types state the requirements:
//! `Option<&T>` is null or points to a `T`, `text::CText` is null or a string. A null pointer
//! returns an error where libpcap would crash. As in libpcap, a closed handle must not be used.
//!
//! # Threads
//!
//! Only one thread may use a handle at a time. But any thread and any signal handler may call
//! `pcap_breakloop` while another thread reads.

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
mod lock;
mod memory;
mod messages;
mod names;
mod nameto;
mod offline;
mod options;
mod read;
mod setfilter;
mod settings;
mod state;
mod status;
mod stdio;
mod text;
mod types;
mod wait;
