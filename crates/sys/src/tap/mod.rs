//! The tap ring: packets that a program in the kernel leaves in memory that the application maps.
//!
//! What it is: the layout of that memory ([`layout`]), the application's side of the protocol
//! ([`Ring`], [`Control`], [`Doorbell`]) and the clock that stamps records ([`Clock`]). What it is
//! not: it writes no program. Whoever does keeps the producer's side of the protocol, below; a
//! program that breaks it makes nonsense of the records, as whoever scribbles into any shared
//! memory does.
//!
//! # The ring
//!
//! One value of an array map for each CPU, with four parts, each of whole pages:
//!
//! | part | application may | holds |
//! |---|---|---|
//! | producer | read | number of records published, busy flag, counters, slots, marks |
//! | consumer | write | the tail |
//! | data | read | records, as large as the ring |
//! | slack | read | the end of a record that begins before the end of the data |
//!
//! *Positions* are bytes since the ring was made and never wrap; a position's place in the data is
//! its remainder by the ring's size. A record that begins before the end of the data goes on into
//! the slack, so that every record lies in one piece; the next record begins where it would have
//! ended. A record fits where head + length − tail is at most the ring's size: the whole ring is
//! usable.
//!
//! # Producer's side
//!
//! At most one program works with a ring at a time, which `busy` sees to: that of the ring's CPU, or that of
//! another CPU whose own ring is full, for one record. For each record, in this order:
//!
//! 1. exchange `busy` for 1; where it was not 0, another program is at work: one on another CPU is waited
//!    for, within bounds, else (a kernel in which programs interrupt one another) count and leave. A ring that
//!    is not this CPU's, or may be in a poll (see below), is taken by compare-and-exchange of 0, and never
//!    waited for unless it is this CPU's;
//! 2. read the clock, test for room, write the record;
//! 3. write the slot of the record's number: its end, captured bytes so far; where the record ends
//!    in another chunk than it began in, the mark of that chunk;
//! 4. exchange `published` for the record's number;
//! 5. store 0 to `busy`;
//! 6. load `waiting` of [`Control`]; where it is set, add the record's length to `gathered`, and
//!    ring where the sum reaches `wanted` by that.
//!
//! Where the packets of one poll of a driver share a stamp, `busy` is taken for the first of them, for a
//! number that no poll before had, and given back at the end of the poll, by another program on this CPU;
//! numbers are 2 or more, so that it leaves a ring alone that another CPU writes to. The clock is read after it was
//! taken, once; and again, for another number, after a record of this poll went to another ring.
//!
//! The true head, number and captured bytes are kept in memory that is not mapped; a process that
//! spoils its tail loses packets of its own and nothing else, since room is tested by an unsigned
//! comparison and every address is masked.
//!
//! # Why the order holds
//!
//! *Records are whole.* Exchanges of BPF order everything before them before everything after them,
//! on every architecture. So a reader that loads `published` = n with acquire sees records and slots
//! up to n. A slot is written again 64 records later, which comes after `published` ≥ n + 63 is
//! stored; the reader loads the slot, fences, loads `published` again, and starts over where it has
//! come that far. Marks between tail and head are not written again before the tail moves.
//!
//! *Records are not overwritten while they are read.* The reader stores the tail with release, after
//! its last load of the record. The producer loads the tail and decides by it whether to write:
//! stores do not pass a decision that they hang on.
//!
//! *No wake-up is lost.* The producer exchanges `published` (P1), then loads `waiting` (P2). The
//! reader stores `waiting` (C1), fences, then loads `published` of all rings (C2). Either P2 sees
//! C1, then the producer adds its record to `gathered`; or P1 comes before C2, then the reader counts
//! the record itself, and adds what it found to `gathered` in turn. So each record is counted at
//! least once, and whichever addition takes the sum over `wanted`, there is exactly one, either rings
//! or keeps the reader from sleeping. A record counted twice makes a wake-up early, never late.
//!
//! *No record is overtaken.* A reader that finds `busy` = 0 in ring B, after it has loaded the heads
//! of all rings, knows that what B publishes from then on is stamped after every record below those
//! heads: the producer exchanges `busy` before it reads the clock. So does a reader that finds another
//! number in `busy` than it found first: that poll has begun after it had loaded the heads.

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
