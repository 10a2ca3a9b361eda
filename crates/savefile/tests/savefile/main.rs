//! Tests of the crate's public interface: golden files, damage, streaming, compression, round
//! trips, writers.

mod collect;
mod compression;
mod damage;
mod golden;
mod read_ahead;
mod regressions;
mod roundtrip;
mod streaming;
mod visit;
mod writers;
