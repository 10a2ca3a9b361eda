//! The pcap-filter language: expression in, validated classic-BPF program out.
#![forbid(unsafe_code)]
