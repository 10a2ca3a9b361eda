//! The experiments: one module each, one entry each in the table here.
//!
//! A body begins a figure ([`Session::figure`]: the axis of its cases, and the metrics), then
//! measures cases on it ([`Session::case`], [`Session::versus`]). A case is a closure that gets the
//! contender whose turn it is, and returns a value for each metric. Tables, CSV, JSON, drawings and
//! the report are made from that. [`crate::stage`] runs live captures under a load.

mod affinity;
mod buffers;
mod clock;
mod copy;
mod delay;
mod deliver;
mod dump;
mod filter;
mod flow;
mod history;
mod idle;
mod libpcap;
mod live;
mod look;
mod monitor;
mod pace;
mod packzip;
mod processes;
mod profile;
mod read;
mod realtime;
mod record;
mod search;
mod send;
mod stat;
mod tap;
mod timestamp;
mod wakeup;
mod who;

use std::time::Duration;

use crate::session::{Done, Session};

/// An experiment.
pub(crate) struct Experiment {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// Its purpose, for lists.
    pub(crate) purpose: &'static str,
    /// The documents' finding and the measured quantity: the caption of its charts.
    pub(crate) caption: &'static str,
    /// The seconds that it may take, in full and `--quick`: no case begins later, and no round that
    /// would end later. With `all`, the time that one experiment leaves goes to the next. Alone it may take twice
    /// as much.
    pub(crate) seconds: (u64, u64),
    /// Rounds of each case without `--quick`: five where a goal is decided, three where a curve is
    /// drawn.
    pub(crate) rounds: usize,
    /// Its body.
    pub(crate) body: fn(&mut Session) -> Done,
}

impl Experiment {
    /// Returns the time that it may take.
    pub(crate) fn budget(&self, quick: bool) -> Duration {
        let (full, short) = self.seconds;
        Duration::from_secs(if quick { short } else { full })
    }
}

/// The experiments that `all` leaves out, because they take much room or time.
pub(crate) const ALONE: [&str; 3] = ["history", "record", "who"];

pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "send",
        purpose: "sending at top speed over frame sizes, against trafgen and tcpreplay",
        caption: "Risso and Degioanni (2001, figure 4) found the greatest packet rate at 88 bytes, the \
                  sender's processor never full, and a Fast Ethernet nearly full from 400 bytes on. Here: \
                  packets that arrive at the other end of a veth pair, counted in its driver, over the \
                  size of frames; one sender on one processor.",
        seconds: (195, 30),
        rounds: 5,
        body: send::run,
    },
    Experiment {
        name: "tap",
        purpose: "the tap at XDP and tcx, against tcpdump and a program that only drops",
        caption: "Risso and Degioanni (2001, figure 5) had nearly every packet pass tap and filter on \
                  Windows, and about half of them on FreeBSD. Here: frames made in the kernel at top speed \
                  on one processor, the capture on the other, written to /dev/null; loss and the reader's \
                  processor time beside the rate. The tap steals where the case says so, tcpdump copies.",
        seconds: (195, 45),
        rounds: 5,
        body: tap::run,
    },
    Experiment {
        name: "deliver",
        purpose: "packets delivered to an application that does nothing, by frame size, against libpcap's programs",
        caption: "Risso and Degioanni (2001, figure 6): WinPcap delivered nearly all, FreeBSD lost most before \
                  the filter and some 20 % of the rest. Deri (2004): 2.5 % by libpcap and 75.7 % by PF_RING of \
                  175,000 packets a second. Here: frames of the kernel's making at top speed on one processor, \
                  on the other a reader that looks at each packet and throws it away; peers write to /dev/null.",
        seconds: (110, 35),
        rounds: 3,
        body: deliver::run,
    },
    Experiment {
        name: "monitor",
        purpose: "statistics mode against capturing only to count",
        caption: "Risso and Degioanni (2001, section 5.5): counting in the kernel costs as little as a filter \
                  that rejects all, far less than a void application. Here: ringtap stat at tcx, a reader that \
                  counts what it captures, and tcpdump writing to /dev/null.",
        seconds: (55, 20),
        rounds: 3,
        body: monitor::run,
    },
    Experiment {
        name: "filter",
        purpose: "the cost of a filter by its instructions: interpreter, native code, eBPF",
        caption: "Degioanni and others (2003, figures 4 and 7): cycles grow linearly with the instructions of \
                  the filter (3, 21, 50), and native code is 3.1 to 5 times as fast; filtering and copying are \
                  15 % of the whole. Here: one packet in cache; eBPF in the kernel, \
                  less a program that only returns.",
        seconds: (30, 12),
        rounds: 5,
        body: filter::run,
    },
    Experiment {
        name: "copy",
        purpose: "the cost of copying a byte, by packet size",
        caption: "Degioanni and others (2003, figure 5): 540 to 10,500 cycles a packet for the first copy, 364 to \
                  8,664 for the second; small packets cost more a byte in the first, large ones in the second. \
                  Here: the tap at tcx with its copy less the tap without; ringtap has no second copy.",
        seconds: (60, 15),
        rounds: 5,
        body: copy::run,
    },
    Experiment {
        name: "timestamp",
        purpose: "the share of the timestamp in the kernel's time for a packet, by clock",
        caption: "Degioanni and others (2003, sections 4.3.4 and 5.3): 1,800 cycles of 5,680 for a stamp; the \
                  processor's counter saved 27 % of the whole. Here: the tap with each of its clocks, the kernel's \
                  time for a packet from making it to the ring.",
        seconds: (40, 15),
        rounds: 5,
        body: timestamp::run,
    },
    Experiment {
        name: "wakeup",
        purpose: "system calls and sleeps over min-to-copy, timeout and the application's load",
        caption: "Degioanni and others (2003, section 4.3.3): 33,500 cycles for a call that reads, 10 a packet when \
                  3,200 come at once. Braun and others (2010, figure 11): with 64-byte packets more load on the \
                  application captures more, since it calls poll() less. Here: calls and sleeps of the reader \
                  counted in the kernel.",
        seconds: (105, 40),
        rounds: 3,
        body: wakeup::run,
    },
    Experiment {
        name: "affinity",
        purpose: "the reader on the receiving processor, on the other, or as the scheduler likes",
        caption: "Braun and others (2010, section 4.1): with load on the application, kernel and reader on two \
                  processors of one pair (A:B) capture best, and any fixed place beats the scheduler. Here: frames \
                  of 64 bytes over their rate; the receiver's processor is A. Then A:A beyond what that \
                  processor can do, where receiving goes before reading, as by interrupts.",
        seconds: (165, 35),
        rounds: 5,
        body: affinity::run,
    },
    Experiment {
        name: "processes",
        purpose: "one, two and three captures of the same packets at once",
        caption: "Braun and others (2010, figure 9): of 1,270,000 packets a second each further capture costs all of \
                  them packets; Linux suffered more than FreeBSD, PF_RING least. Here: the same rate, all readers on \
                  one processor; shares are the mean of the captures.",
        seconds: (60, 35),
        rounds: 3,
        body: processes::run,
    },
    Experiment {
        name: "buffers",
        purpose: "the ring's size against bursts and against the cost of caches",
        caption: "The documents disagree: Schneider and others found large buffers to help, Braun and others (2010, \
                  section 4.2) found no gain beyond a limit and harm from too large ones; bursts need room. Here: \
                  the ring's size at top speed with a reader that keeps up, and with bursts and a reader that is \
                  slower than they are.",
        seconds: (115, 40),
        rounds: 3,
        body: buffers::run,
    },
    Experiment {
        name: "realtime",
        purpose: "a capture beside programs that compute: real-time priority, busy polling, own processor",
        caption: "Deri (2004) captured 550,789 packets a second of 64 bytes with real-time interrupts, and 1.1 instead \
                  of 0.65 million with one processor that only polls. Here: a program that computes on each \
                  processor, and what helps the capture against it.",
        seconds: (60, 25),
        rounds: 3,
        body: realtime::run,
    },
    Experiment {
        name: "profile",
        purpose: "whether ringtap profile puts a known load into the right component",
        caption: "Degioanni and others (2003, figures 4, 5 and 6) gave cycles of filters of 3, 21 and 50 \
                  instructions, of copies by the byte, and of each component. Here: filters of so many \
                  instructions, copies of so many bytes and an application that works for so long, as the \
                  profiler's two methods tell them, and the filter run alone; packets of 60 bytes at top speed, of \
                  1514 bytes 300,000 a second, the tap at XDP.",
        seconds: (170, 80),
        rounds: 3,
        body: profile::run,
    },
    Experiment {
        name: "flow",
        purpose: "a capture in the page cache metered, against softflowd and nfpcapd",
        caption: "Deri's slides (2004) give 376,453 packets a second of 64 bytes metered by nProbe on \
                  PF_RING with real-time interrupts, against 550,789 that were only captured. Here: a file \
                  in the page cache metered on one processor.",
        seconds: (190, 35),
        rounds: 5,
        body: flow::run,
    },
    Experiment {
        name: "look",
        purpose: "live traffic metered by ringtap web with three browsers, against ringtap flow",
        caption: "No experiment of the documents. Frames made in the kernel at top speed, metered by ringtap \
                  web, which feeds its model and three browsers, and by ringtap flow.",
        seconds: (240, 60),
        rounds: 5,
        body: look::run,
    },
    Experiment {
        name: "who",
        purpose: "processes of packets: whether they are right, and what they cost the tap and the host",
        caption: "No experiment of the documents. Processes that write their own number into what they send, and exit \
                  at once; 200,000 sockets open at once; the tap at tcx with processes against without; connections \
                  of the host with and without a capture.",
        seconds: (240, 60),
        rounds: 5,
        body: who::run,
    },
    Experiment {
        name: "read",
        purpose: "a capture in the page cache read, filtered, written to /dev/null",
        caption: "No experiment of the documents. A file in the page cache read, filtered and written to \
                  /dev/null, against tcpdump.",
        seconds: (38, 15),
        rounds: 5,
        body: read::run,
    },
    Experiment {
        name: "dump68",
        purpose: "the first 68 bytes of packets to a file over the offered load, against all peers",
        caption: "Risso and Degioanni (2001, figure 7) saw noticeable losses on all systems when 68 bytes of \
                  each packet were saved at high rates. Here: the part of offered packets that is in the \
                  file, and the load of the processor that captures, over the load that another processor \
                  offers; beside, what the file system takes of plain data.",
        seconds: (280, 40),
        rounds: 5,
        body: dump::headers,
    },
    Experiment {
        name: "dumpall",
        purpose: "whole packets to a file over the offered load, against all peers",
        caption: "Risso and Degioanni (2001, figure 8) saw a worsening that is not negligible when whole \
                  packets were saved instead of 68 bytes. Here: the part of offered packets that is in the \
                  file, and the load of the processor that captures, over the load that another processor \
                  offers; beside, what the file system takes of plain data.",
        seconds: (320, 45),
        rounds: 5,
        body: dump::whole,
    },
    Experiment {
        name: "history",
        purpose: "a day of flows on the disk, asked by SQL, against nfdump, DuckDB and ClickHouse's engine",
        caption: "Deri (2003) has nProbe's records kept and asked by nfdump's kind of tools. Here: a day of flows in \
                  the store of ringtap flow, and the same in files of nfcapd; the time and the memory of three \
                  questions, against nfdump, and against DuckDB and chDB on the store's own files.",
        seconds: (900, 180),
        rounds: 5,
        body: history::run,
    },
    Experiment {
        name: "record",
        purpose: "the recorder against rings of files, a minute out of an hour on disk, its limits",
        caption: "Maier and others (2008, section 5) record at a gigabit, keep the first 10 to 20 KB of connections, \
                  and measure how long queries take. Here: packets captured into a ring of files with their \
                  processor time, against dumpcap, tcpdump and netsniff-ng; one host's minute from a cold cache, \
                  against tcpdump on all files; the folder's size, memory and kills.",
        seconds: (420, 180),
        rounds: 5,
        body: record::run,
    },
    Experiment {
        name: "packzip",
        purpose: "packets compressed while they are captured, against tcpdump piped to gzip and zstd",
        caption: "Braun and others (2010, figures 10 and 11) had packzip compress what it captured, in packets \
                  of 64, 256 and 512 bytes, at levels 0 to 9. Here: the part of packets sent at top speed that \
                  is in the compressed file, over the level of compression.",
        seconds: (602, 50),
        rounds: 3,
        body: packzip::run,
    },
    Experiment {
        name: "search",
        purpose: "one host searched in 2 GB of captured packets, by an index and without",
        caption: "No experiment of the documents. A capture of 2 GB in the page cache, made of the corpus' \
                  packets, in which one host has 20 packets in one place: the time to find them, by ringtap's \
                  index and without it, against tcpdump.",
        seconds: (35, 15),
        rounds: 5,
        body: search::run,
    },
    Experiment {
        name: "live",
        purpose: "200,000 packets a second over a veth pair: loss and processor time",
        caption: "Degioanni and others (2003) worked at 148,809 packets a second, a full Fast Ethernet. \
                  Here: 200,000 a second captured into a file without any option, against tcpdump.",
        seconds: (60, 35),
        rounds: 3,
        body: live::run,
    },
    Experiment {
        name: "delay",
        purpose: "the delay of delivery, by timeout and in immediate mode",
        caption: "WinPcap's delayed write (Risso and Degioanni, 2001) delivers when a minimum of data has \
                  come, or at the timeout. Here: how late a packet reaches the application at a low rate.",
        seconds: (75, 20),
        rounds: 3,
        body: delay::run,
    },
    Experiment {
        name: "clock",
        purpose: "the cost of a timestamp: an XDP program that reads a clock and drops, against one that drops",
        caption: "Degioanni and others (2003, section 4.3.4) spent 1,800 cycles on a timestamp, the \
                  largest single cost in their figure 6, and 270 with the processor's counter (5.3). Here: \
                  an XDP program that reads a clock and drops, against one that only drops.",
        seconds: (25, 25),
        rounds: 5,
        body: clock::run,
    },
    Experiment {
        name: "idle",
        purpose: "the processor time of a capture to which no packet comes",
        caption: "Braun and others (2010, section 4.3) found that a reader which asks by poll() in vain \
                  disturbs the capture. Here: what a capture costs to which nothing comes.",
        seconds: (65, 35),
        rounds: 3,
        body: idle::run,
    },
    Experiment {
        name: "stat",
        purpose: "1, 16 and 64 filters counted at XDP, against a program that only drops",
        caption: "Risso and Degioanni (2001, section 5.5) counted in the kernel at a cost like that of a \
                  filter which rejects all. Here: the rate that is reached while 1, 16 or 64 filters are \
                  counted at XDP, against a program that only drops; by time on the processor.",
        seconds: (105, 30),
        rounds: 5,
        body: stat::run,
    },
    Experiment {
        name: "pace",
        purpose: "gaps of 1, 10 and 100 thousand packets a second from a file, against tcpreplay",
        caption: "No experiment of the documents. How far gaps between packets are from what the file has, \
                  as a program at the receiving driver sees them.",
        seconds: (65, 25),
        rounds: 5,
        body: pace::run,
    },
    Experiment {
        name: "libpcap",
        purpose: "one tcpdump on ringtap's libpcap and on Debian's: reading files, live captures",
        caption: "Braun and others (2010, figure 6) found small differences between versions of libpcap \
                  under one application. Here: Debian's tcpdump on its own libpcap and on ringtap's.",
        seconds: (140, 40),
        rounds: 5,
        body: libpcap::run,
    },
];

#[cfg(test)]
mod tests {
    use super::{ALONE, EXPERIMENTS};

    #[test]
    fn all_experiments_keep_to_the_time_together() {
        let all = EXPERIMENTS.iter().filter(|one| !ALONE.contains(&one.name));
        let quick: u64 = all.clone().map(|one| one.seconds.1).sum();
        let full: u64 = all.map(|one| one.seconds.0).sum();
        assert!(quick < 15 * 60, "{quick} s");
        assert!(full <= 60 * 60, "{full} s");
    }

    #[test]
    fn names_are_unique_and_captions_speak() {
        let mut names: Vec<&str> = EXPERIMENTS.iter().map(|one| one.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        for experiment in EXPERIMENTS {
            assert!(experiment.caption.len() > 60, "{}", experiment.name);
        }
    }
}
