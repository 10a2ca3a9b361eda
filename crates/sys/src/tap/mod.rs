//! The tap ring: memory that a kernel program fills with packets and the application maps.
//!
//! This module defines the layout of that memory ([`layout`]), the application's side of the
//! protocol ([`Ring`], [`Control`], [`Doorbell`]) and the clock that stamps records ([`Clock`]). It
//! does not create the programs. They must keep the producer's side of the protocol, below; a
//! program that breaks it corrupts the records.
//!
//! # The ring
//!
//! Each CPU has one value of an array map. It has four parts, each of whole pages:
//!
//! | part | application may | holds |
//! |---|---|---|
//! | producer | read | number of records published, busy flag, counters, slots, marks |
//! | consumer | write | the tail |
//! | data | read | records, as large as the ring |
//! | slack | read | the end of a record that begins before the end of the data |
//!
//! *Positions* count bytes since the ring was created and never wrap; the place in the data is the
//! position modulo the ring's size. A record that begins before the end of the data continues into
//! the slack, so that it lies in one piece. The next record begins where it would have ended. A
//! record fits if head + length − tail is at most the ring's size: the whole ring is usable.
//!
//! # Producer's side
//!
//! `busy` ensures that only one program works with a ring at a time. That is a program on the
//! ring's CPU, or, for one record, one on another CPU whose own ring is full. For each record, in
//! this order:
//!
//! 1. exchange `busy` for 1. If it was not 0, another program is at work. If that one runs on
//!    another CPU, wait for it, within bounds; otherwise (a kernel in which programs interrupt one
//!    another) count the packet and leave. If the ring is not this CPU's, or if it may be in a poll
//!    (see below), take it by compare-and-exchange of 0; wait only if it is this CPU's;
//! 2. read the clock, check for room, write the record;
//! 3. write the slot of the record's number: its end, captured bytes so far; if the record ends in
//!    another chunk than it began in, also the mark of that chunk;
//! 4. exchange `published` for the record's number;
//! 5. store 0 to `busy`;
//! 6. load `waiting` of [`Control`]; if it is set, add the record's length to `gathered`, and ring
//!    if this addition makes the sum reach `wanted`.
//!
//! Where the packets of one poll of a driver share a stamp, the first of them sets `busy` to a
//! number that no earlier poll had. Another program on this CPU sets it back at the end of the
//! poll. Numbers are 2 or more, so that this program does not touch a ring that another CPU writes
//! to. The clock is read once, after `busy` was set. It is read again, for another number, after a
//! record of this poll went to another ring.
//!
//! The true head, number and captured bytes are kept in memory that is not mapped. A process that
//! corrupts its tail only loses its own packets, because room is tested by an unsigned comparison
//! and every address is masked.
//!
//! # Why the order holds
//!
//! *Records are whole.* Exchanges of BPF order everything before them before everything after them,
//! on every architecture. So a reader that loads `published` = n with acquire sees records and
//! slots up to n. A slot is written again 64 records later, after `published` ≥ n + 63 was stored.
//! The reader loads the slot, fences, loads `published` again, and starts over if that has been
//! reached. Marks between tail and head are not written again before the tail moves.
//!
//! *Records are not overwritten while they are read.* The reader stores the tail with release,
//! after its last load of the record. The producer loads the tail, and the result decides whether
//! it writes: a store is never moved before a decision that it depends on.
//!
//! *No wake-up is lost.* The producer exchanges `published` (P1), then loads `waiting` (P2). The
//! reader stores `waiting` (C1), fences, then loads `published` of all rings (C2). Either P2 sees
//! C1: then the producer adds its record to `gathered`. Or P1 comes before C2: then the reader
//! counts the record itself, and adds the bytes that it found to `gathered`. So each record is
//! counted at least once. Exactly one addition takes the sum over `wanted`, and it either rings or
//! keeps the reader from sleeping. A record that is counted twice makes a wake-up early, never
//! late.
//!
//! *No record is overtaken.* A reader loads the heads of all rings and then finds `busy` = 0 in
//! ring B. Every record that B publishes from then on is stamped after all records below those
//! heads, because the producer exchanges `busy` before it reads the clock. The same holds if the
//! reader finds another number in `busy` than at first: that poll began after the heads were
//! loaded.
//!
//! # On AArch64
//!
//! This processor may reorder any two accesses to different addresses. It orders what the arguments
//! above need as follows:
//!
//! - *Exchanges of programs.* The kernel compiles them, and additions that return the old value, as
//!   its own `xchg()`: to `swpal`, `casal` and `ldaddal`, or to a loop of `ldxr` and `stlxr` with
//!   `dmb ish` behind it. Each is a full barrier in the kernel's memory model. An addition that
//!   returns nothing becomes `stadd`, which orders nothing: it only counts.
//! - *Giving a ring back.* Step 5 is a plain store. The exchange of `published` before it orders it
//!   after the record. A packet that does not become a record has no such exchange. Then the
//!   program exchanges `busy` for 0, so that a program on another CPU reads the new counters.
//! - *Room.* The program branches on the tail before it writes. The processor makes no store visible
//!   before the branches in front of it are decided. The reader stores the tail by `stlr`, which
//!   comes after its loads of the record.
//! - *The clock.* Its counter is a register, which barriers of memory do not order. The kernel reads
//!   it behind `isb`, and an `isb` takes effect only when the branches in front of it are decided.
//!   The program branches on the value that the exchange of `busy` returned. So it reads the clock
//!   after that exchange.
//! - *The reader.* It loads `published` and `busy` by `ldar` in this order, and its fences are
//!   `dmb`: after it stores `waiting`, and between a slot and the second load of `published`.

mod clock;
mod control;
mod doorbell;
pub mod layout;
mod ring;

pub use clock::{Clock, WallClock};
pub use control::Control;
pub use doorbell::Doorbell;
pub use layout::Geometry;
pub use ring::{Counters, Position, Ring, RingWatch, Stretch, Taken};
