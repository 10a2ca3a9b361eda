//! When packets are handed out, and in which order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ringtap_capture::{CaptureOptions, Change, Error, Host, Next, Precision, Source, open_on};
use ringtap_sys::poll::ReadSet;
use ringtap_sys::sched::{online_cpus, set_affinity};
use ringtap_testkit::netns::VethPair;
use ringtap_testkit::{Need, alloc};

use crate::support::{drain, frame, injector, number, patience, prompt, send, tap};

/// Packets that a processor sends.
const EACH: u32 = 20_000;

/// Sends on every processor at once, to both ends of the pair; how many were sent.
fn send_on_all_processors(pair: &VethPair, each: u32) -> usize {
    let cpus = online_cpus().unwrap();
    let senders: Vec<_> = cpus
        .as_slice()
        .iter()
        .map(|&cpu| {
            let injector = injector(&pair.left);
            thread::spawn(move || {
                set_affinity(&[cpu]).unwrap();
                for i in 0..each {
                    send(&injector, &frame(i, 60 + i as usize % 700));
                }
            })
        })
        .collect();
    let count = senders.len();
    senders
        .into_iter()
        .for_each(|sender| sender.join().unwrap());
    count * each as usize
}

pub(crate) fn two_processors_in_order() {
    in_order("tcx", Precision::Fine);
    in_order("xdp", Precision::Poll);
}

fn in_order(engine: &str, precision: Precision) {
    let pair = VethPair::new();
    let options = prompt().buffer(64 << 20).precision(precision);
    let mut source = tap(engine, &pair.right, &options);
    let end = Arc::new(AtomicBool::new(false));
    let has_ended = Arc::clone(&end);
    let reader = thread::spawn(move || {
        // Senders may have to wait for a processor for longer than a drain does for them.
        let mut seen = Vec::new();
        while !has_ended.load(Ordering::Acquire) {
            seen.append(&mut drain(&mut *source, 0));
        }
        let wanted = online_cpus().unwrap().as_slice().len() * EACH as usize;
        seen.append(&mut drain(&mut *source, wanted.saturating_sub(seen.len())));
        (seen, source)
    });
    let sent = send_on_all_processors(&pair, EACH);
    end.store(true, Ordering::Release);
    let (seen, mut source) = reader.join().unwrap();
    assert_eq!(source.stats().unwrap().dropped.ring, Some(0));
    assert_eq!(seen.len(), sent);
    let disorder: Vec<_> = seen
        .windows(2)
        .enumerate()
        .filter(|(_, two)| two[0].timestamp > two[1].timestamp)
        .map(|(at, two)| (at, two[0].timestamp, two[1].timestamp))
        .collect();
    // An emulated processor may get no time while it writes a record, for longer than a reader waits for it.
    let is_emulated = Need::OwnMachine.unmet().is_none();
    let most = if is_emulated { sent / 1_000 } else { 0 };
    assert!(disorder.len() <= most, "{engine}, of {sent}: {disorder:?}");
    for packet in &seen {
        assert_eq!(packet.data, frame(number(&packet.data), packet.data.len()));
    }
}

/// Also if a late reader has more to sort than it returns at once.
pub(crate) fn two_processors_without_allocation() {
    let pair = VethPair::new();
    let options = prompt().buffer(64 << 20);
    let mut source = tap("tcx", &pair.right, &options);
    let sent = send_on_all_processors(&pair, 3_000);
    let ((seen, largest), counts) = alloc::count(|| {
        let (mut seen, mut largest) = (0, 0);
        while seen < sent {
            if let Next::Block(block) = source.next().unwrap() {
                seen += block.len();
                let bytes = block.packets().map(|packet| packet.data.len());
                largest = largest.max(bytes.sum::<usize>());
            }
        }
        (seen, largest)
    });
    assert_eq!((seen, counts.allocations), (sent, 0), "{largest}");
    assert!(
        largest > 200_000,
        "{largest} bytes were put in order at once"
    );
}

pub(crate) fn two_processors_share_the_buffer() {
    share_the_buffer(&Host::default());
}

/// With such numbers, as with several memory nodes, rings are maps of their own, which all others of the
/// tests are not.
pub(crate) fn processors_with_gaps_share_the_buffer() {
    let processors = || {
        let online = online_cpus().unwrap();
        let beyond = online.as_slice().last().unwrap() + 2;
        online.as_slice().iter().copied().chain([beyond]).collect()
    };
    share_the_buffer(&Host {
        processors,
        ..Host::default()
    });
}

/// Every processor sends more than all rings hold, so that all write to all rings.
fn share_the_buffer(host: &Host) {
    const EACH: u32 = 6_000;
    for (engine, precision) in [("tcx", Precision::Fine), ("xdp", Precision::Poll)] {
        let pair = VethPair::new();
        let options = prompt().buffer(256 << 10).precision(precision);
        let device = format!("{engine}:{}", pair.right.device);
        let mut source = pair.right.run(|| {
            let mut source = open_on(host, &device, &options, None).unwrap();
            source.change(Change::Buffer(options.buffer)).unwrap();
            source
        });
        let sender = |(index, &cpu): (usize, &usize)| {
            let injector = injector(&pair.left);
            let first = u32::try_from(index).unwrap() << 16;
            thread::spawn(move || {
                set_affinity(&[cpu]).unwrap();
                for number in first..first + EACH {
                    send(&injector, &frame(number, 500));
                }
            })
        };
        let cpus = online_cpus().unwrap();
        let senders: Vec<_> = cpus.as_slice().iter().enumerate().map(sender).collect();
        // The reader is stalled until the rings are full, and reads while they are written.
        let begin = Instant::now();
        while source.stats().unwrap().dropped.ring == Some(0) {
            assert!(begin.elapsed() < patience());
            thread::sleep(Duration::from_millis(1));
        }
        let mut seen = Vec::new();
        while senders.iter().any(|sender| !sender.is_finished()) {
            seen.append(&mut drain(&mut *source, 0));
        }
        let sent = senders.len() * EACH as usize;
        senders
            .into_iter()
            .for_each(|sender| sender.join().unwrap());
        seen.append(&mut drain(&mut *source, 0));
        let stats = source.stats().unwrap();
        let (received, full) = (stats.received.unwrap(), stats.dropped.ring.unwrap());
        assert_eq!(seen.len() as u64 + full, received, "{engine}");
        let came = received + stats.dropped.hook.unwrap();
        // A veth that is polled may lose packets of its own before the tap.
        assert!(came <= sent as u64, "{engine}: {stats:?}");
        assert!(engine == "xdp" || came == sent as u64, "{stats:?}");
        let mut last = vec![None; cpus.as_slice().len()];
        for packet in &seen {
            let number = number(&packet.data);
            assert_eq!(packet.data, frame(number, 500), "{engine}");
            let before = last[(number >> 16) as usize].replace(number);
            assert!(before.is_none_or(|before| before < number), "{engine}");
        }
    }
}

pub(crate) fn two_processors_unordered() {
    let pair = VethPair::new();
    let options = prompt().buffer(64 << 20).unordered(true);
    let mut source = tap("tcx", &pair.right, &options);
    let end = Arc::new(AtomicBool::new(false));
    let has_ended = Arc::clone(&end);
    let reader = thread::spawn(move || {
        let mut whole_runs = 0;
        let mut seen = 0;
        let mut quiet = 0;
        while quiet < 4 {
            if let Next::Block(block) = source.next().unwrap() {
                quiet = 0;
                seen += block.packets().count();
                let mut last = None;
                whole_runs += usize::from(block.runs().is_some());
                for packet in &block {
                    assert!(
                        last.is_none_or(|last| last <= packet.timestamp),
                        "in one ring"
                    );
                    last = Some(packet.timestamp);
                }
            } else if has_ended.load(Ordering::Acquire) {
                quiet += 1;
            }
        }
        (seen, whole_runs)
    });
    let sent = send_on_all_processors(&pair, EACH);
    end.store(true, Ordering::Release);
    let (seen, runs) = reader.join().unwrap();
    assert_eq!(seen, sent);
    assert!(runs > 1);
}

pub(crate) fn waits_for_a_delivery_s_worth() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let options = CaptureOptions::default()
        .timeout(Duration::from_secs(30))
        .min_to_copy(10_000);
    let mut source = tap("tcx", &pair.right, &options);
    let begin = Instant::now();
    // 100 records of 104 bytes make 10,400; 96 make less than is wanted.
    let sender = thread::spawn(move || {
        (0..96).for_each(|i| injector.send(&frame(i, 60)).unwrap());
        thread::sleep(Duration::from_millis(300));
        (96..100).for_each(|i| injector.send(&frame(i, 60)).unwrap());
    });
    let Next::Block(block) = source.next().unwrap() else {
        panic!("no block");
    };
    assert!(begin.elapsed() >= Duration::from_millis(299), "too early");
    assert!(begin.elapsed() < patience(), "woken by the timeout");
    assert!(block.packets().count() >= 1);
    sender.join().unwrap();
}

pub(crate) fn time_out_delivers_what_is_there() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let options = CaptureOptions::default().timeout(Duration::from_millis(300));
    let mut source = tap("tcx", &pair.right, &options);
    injector.send(&frame(1, 60)).unwrap();
    let begin = Instant::now();
    let Next::Block(block) = source.next().unwrap() else {
        panic!("no block");
    };
    assert_eq!(block.packets().count(), 1);
    assert!(begin.elapsed() >= Duration::from_millis(299), "too early");
    drop(block);
    assert!(matches!(source.next().unwrap(), Next::TimedOut));
}

/// Packets one by one, each sent at another moment of the reader's way to sleep. A lost wake-up would last
/// for the whole timeout, which is longer than any machine lets a thread wait.
pub(crate) fn no_wake_up_is_lost() {
    const PACKETS: u32 = 20_000;
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let options = CaptureOptions::default()
        .timeout(Duration::from_secs(60))
        .immediate(true);
    let mut source = tap("tcx", &pair.right, &options);
    let (ask, asked) = std::sync::mpsc::channel();
    let sender = thread::spawn(move || {
        for i in 0..PACKETS {
            asked.recv().unwrap();
            (0..i % 300).for_each(|_| std::hint::spin_loop());
            injector.send(&frame(i, 60)).unwrap();
        }
    });
    for i in 0..PACKETS {
        ask.send(()).unwrap();
        let begin = Instant::now();
        let Next::Block(block) = source.next().unwrap() else {
            panic!("packet {i} came too late");
        };
        assert!(begin.elapsed() < options.timeout, "a wake-up was lost");
        let mut packets = block.packets();
        assert_eq!(number(packets.next().unwrap().data), i);
        assert_eq!(packets.count(), 0);
    }
    sender.join().unwrap();
}

/// Returns the context switches that the thread requested by sleeping in system calls.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("voluntary_ctxt_switches"));
    line.unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

pub(crate) fn keeps_up_without_system_calls() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let options = CaptureOptions::default()
        .buffer(64 << 20)
        .timeout(Duration::from_secs(10))
        .min_to_copy(1);
    let mut source = tap("tcx", &pair.right, &options);
    (0..30_000).for_each(|i| injector.send(&frame(i, 600)).unwrap());
    let before = sleeps();
    let (mut packets, mut blocks) = (0, 0);
    while packets < 30_000 {
        if let Next::Block(block) = source.next().unwrap() {
            packets += block.len();
            blocks += 1;
        }
    }
    assert!(blocks > 10, "{blocks} blocks");
    assert_eq!(sleeps(), before, "in {blocks} blocks");
}

/// Returns the number of packets that are available without a wait.
fn take_all(source: &mut dyn Source) -> usize {
    let mut packets = 0;
    loop {
        match source.try_next().unwrap() {
            Next::Block(block) => packets += block.packets().count(),
            Next::TimedOut => return packets,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn rings_who_polls() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    // Neither min-to-copy nor the timeout would bring a packet about.
    let options = CaptureOptions::default().timeout(Duration::from_secs(60));
    let mut source = tap("tcx", &pair.right, &options);
    let fd = source.polling().unwrap().fd().unwrap();
    let mut set = ReadSet::default();
    let mut is_readable = |patience| {
        let ready = set.wait_by_number(std::iter::once(fd), patience);
        ready.unwrap()
    };
    let mut others = 0;
    for round in 0..200 {
        let count = 1 + round % 3;
        for number in 0..count {
            injector.send(&frame(number, 60)).unwrap();
        }
        let mut came = 0;
        while came < count {
            assert!(is_readable(patience()), "round {round}: {came} of {count}");
            came += u32::try_from(take_all(&mut *source)).unwrap();
        }
        // Changes of interfaces make it readable, too.
        while is_readable(Duration::ZERO) {
            assert_eq!(take_all(&mut *source), 0, "round {round}");
            others += 1;
            assert!(others < 10, "round {round}");
        }
    }
    let mut netlink = pair.right.namespace.netlink();
    netlink.delete(&pair.right.device).unwrap();
    let begin = Instant::now();
    let told = loop {
        assert!(begin.elapsed() < patience(), "not told");
        assert!(is_readable(patience()), "who polls is woken");
        if let Err(error) = source.try_next() {
            break error;
        }
    };
    assert!(
        matches!(
            told,
            Error::InterfaceDown { .. } | Error::InterfaceGone { .. }
        ),
        "{told}"
    );
}

pub(crate) fn idle_reader_sleeps_on() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let options = CaptureOptions::default()
        .timeout(Duration::from_millis(5))
        .wait(Some(patience()));
    let mut source = tap("tcx", &pair.right, &options);
    assert!(matches!(source.next().unwrap(), Next::TimedOut));
    let before = sleeps();
    for number in 0..3 {
        let sender = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(300));
                injector.send(&frame(number, 60)).unwrap();
            });
            let Next::Block(block) = source.next().unwrap() else {
                panic!("a packet was to come before the end of the wait");
            };
            let packet = block.packets().next().unwrap();
            crate::support::number(packet.data)
        });
        assert_eq!(sender, number);
        assert!(matches!(source.next().unwrap(), Next::TimedOut));
    }
    // Timeouts would be 60 for each packet.
    let sleeps = sleeps() - before;
    assert!(sleeps < 60, "{sleeps} sleeps");
}
