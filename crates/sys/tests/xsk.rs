//! AF_XDP on a veth pair: a socket receives the packets that were sent, in order.

use std::os::fd::{AsFd, AsRawFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ringtap_filter::ebpf::{Assembler, Helper, Insn, Reg, Size};
use ringtap_sys::bpf::{Kernel, Link, Map, MapKind, MapSpec, Program, ProgramKind, XdpMode};
use ringtap_sys::poll::{Interest, wait};
use ringtap_sys::xsk::{Binding, QueueOptions, Receiver, Statistics};
use ringtap_testkit::netns::{Side, VethOptions, VethPair};
use ringtap_testkit::traffic::{LiveFrames, Sizes, Target, Traffic};
use ringtap_testkit::{Need, suite, test};

/// The longest wait for expected packets.
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let root = &[Need::Root, Need::Kernel(5, 18)];
    suite(vec![
        test("packets_come_whole_and_in_order", root, whole_and_in_order),
        test("frames_go_round", root, frames_go_round),
        test("a_full_ring_counts_its_losses", root, full_ring),
        test("long_packets_are_counted_as_lost", root, too_long),
        test("queues_share_memory_and_keep_their_frames", root, shared),
        test("a_queue_has_one_owner", root, one_owner),
        test("impossible_options_are_refused", root, impossible),
    ])
}

fn options(side: &Side, frames: u32) -> QueueOptions {
    let index = side.namespace.netlink().index(&side.device);
    QueueOptions {
        ifindex: index.expect("it exists"),
        queue: 0,
        frames,
        frame_size: 2048,
        binding: Binding::Copy,
    }
}

/// A receiver for all packets that one end receives.
struct Receiving {
    receiver: Receiver,
    _link: Link,
    _map: Map,
}

impl Receiving {
    fn on(side: &Side, frames: u32) -> Self {
        let options = options(side, frames);
        let receiver = side.run(|| Receiver::open(&options)).expect("AF_XDP");
        let kernel = Kernel::running();
        let map = socket_map(&kernel, std::slice::from_ref(&receiver));
        let program = redirecting(&kernel, &map);
        let link = side.run(|| Link::xdp(&program, &kernel, options.ifindex, XdpMode::Native));
        Self {
            receiver,
            _link: link.expect("veth has XDP"),
            _map: map,
        }
    }

    /// Returns copies of the next packets that arrive within a moment.
    fn next(&mut self) -> Vec<Vec<u8>> {
        let limit = Some(Duration::from_millis(500));
        wait([Interest::read(self.receiver.as_fd())], limit).expect("polled");
        let batch = self.receiver.batch(64);
        batch.packets().map(|packet| packet.data.to_vec()).collect()
    }

    fn collect(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let begin = Instant::now();
        while packets.len() < count {
            packets.extend(self.next());
            assert!(begin.elapsed() < PATIENCE, "{} of {count}", packets.len());
        }
        packets
    }
}

/// Returns a map with the sockets of the first queues.
fn socket_map(kernel: &Kernel, receivers: &[Receiver]) -> Map {
    let map = Map::create(
        kernel,
        &MapSpec::new(
            "sockets",
            MapKind::XskMap,
            4,
            u32::try_from(receivers.len()).expect("a few"),
        ),
    )
    .expect("a map");
    for (queue, receiver) in (0..).zip(receivers) {
        let placed = map.update_fd(queue, receiver);
        placed.expect("a place for the socket");
    }
    map
}

/// Returns a program that redirects each packet to the socket of its queue.
fn redirecting(kernel: &Kernel, map: &Map) -> Program {
    const RX_QUEUE: i16 = 16;
    const XDP_PASS: i32 = 2;
    let mut asm = Assembler::new();
    asm.load(Size::W, Reg::R2, Reg::R1, RX_QUEUE);
    asm.push(Insn::LoadMap {
        dst: Reg::R1,
        fd: map.as_fd().as_raw_fd(),
    });
    asm.mov32(Reg::R3, XDP_PASS);
    asm.call(Helper::RedirectMap);
    asm.exit();
    let code = asm.finish().expect("no jumps");
    let kind = ProgramKind::Xdp { frags: false };
    Program::load(kernel, "redirecting", kind, &code).expect("it is loaded")
}

fn traffic(packets: u64) -> Vec<Vec<u8>> {
    let sizes = Sizes::Between(64, 1_500);
    Traffic {
        packets,
        sizes,
        ..Traffic::default()
    }
    .frames()
}

fn whole_and_in_order() {
    let pair = VethPair::new();
    let mut receiving = Receiving::on(&pair.right, 1_024);
    assert!(!receiving.receiver.is_zero_copy());
    let frames = traffic(500);
    pair.left.inject(&frames);
    assert_eq!(receiving.collect(frames.len()), frames);
    let statistics = receiving.receiver.statistics().expect("counters");
    assert_eq!(statistics, Statistics::default());
}

/// Sends many times as many packets as there are frames: each frame is used again.
fn frames_go_round() {
    let pair = VethPair::new();
    let mut receiving = Receiving::on(&pair.right, 64);
    let frames = traffic(16);
    for round in 0..40 {
        pair.left.inject(&frames);
        assert_eq!(receiving.collect(frames.len()), frames, "round {round}");
    }
}

fn full_ring() {
    let pair = VethPair::new();
    let mut receiving = Receiving::on(&pair.right, 64);
    let frame = &traffic(1)[0];
    let sender = LiveFrames::new(frame, Target::OutOf(&pair.left)).expect("loaded");
    sender.send(1_000).expect("sent");
    let kept = receiving.collect(64);
    assert!(kept.iter().all(|packet| packet == frame));
    assert!(receiving.next().is_empty());
    let Statistics {
        dropped,
        ring_full,
        no_frame,
        invalid,
    } = receiving.receiver.statistics().expect("counters");
    // The kernel counts a missing frame once per attempt. Packets dropped for that are counted in
    // `dropped` or `no_frame`, depending on the version.
    assert_eq!((ring_full, invalid), (0, 0));
    assert!(dropped.max(no_frame) >= 1_000 - 64, "{dropped} {no_frame}");
}

fn too_long() {
    let pair = VethPair::with(&VethOptions {
        mtu: Some(3_000),
        ..VethOptions::default()
    });
    let mut receiving = Receiving::on(&pair.right, 64);
    let longest = receiving.receiver.longest_packet() as usize;
    assert_eq!(longest, 1_792);
    let frame = vec![2; longest + 1];
    let sender = LiveFrames::new(&frame, Target::OutOf(&pair.left)).expect("loaded");
    sender.send(1).expect("sent");
    let shorter = LiveFrames::new(&frame[1..], Target::OutOf(&pair.left)).expect("loaded");
    shorter.send(1).expect("sent");
    assert_eq!(receiving.collect(1), [&frame[1..]]);
    assert_eq!(
        receiving.receiver.statistics().expect("counters").dropped,
        1
    );
}

fn shared() {
    const FRAMES: u32 = 64;
    const ROUNDS: usize = 40;
    let pair = VethPair::with(&VethOptions {
        queues: Some(2),
        ..VethOptions::default()
    });
    let first = options(&pair.right, FRAMES);
    // The third queue does not exist.
    let queues = [0, 1, 2].map(|queue| QueueOptions { queue, ..first });
    let opened = pair.right.run(|| Receiver::open_all(&queues));
    let mut receivers = opened.expect("AF_XDP");
    assert_eq!(receivers.len(), 2);
    assert!(receivers.iter().all(|one| one.memory() == 64 * 2048));
    let kernel = Kernel::running();
    let map = socket_map(&kernel, &receivers);
    let program = redirecting(&kernel, &map);
    let link = pair
        .right
        .run(|| Link::xdp(&program, &kernel, first.ifindex, XdpMode::Native));
    let _link = link.expect("veth has XDP");
    let mut frames = traffic(32);
    frames.sort();
    let mut counts = [0, 0];
    for round in 0..ROUNDS {
        pair.left.inject(&frames);
        let mut found = Vec::new();
        while found.len() < frames.len() {
            let interests = [0, 1].map(|at: usize| Interest::read(receivers[at].as_fd()));
            let ready = wait(interests, Some(Duration::from_secs(10))).expect("polled");
            assert!(ready.iter().any(|one| one.readable), "{}", found.len());
            for (receiver, count) in receivers.iter_mut().zip(&mut counts) {
                let batch = receiver.batch(FRAMES);
                *count += batch.len();
                found.extend(batch.packets().map(|packet| packet.data.to_vec()));
            }
        }
        found.sort();
        assert_eq!(found, frames, "round {round}");
    }
    // A hash distributes the flows: each queue has received more packets than it has frames.
    assert!(
        counts.iter().all(|&count| count > FRAMES as usize),
        "{counts:?}"
    );
    for receiver in &receivers {
        let statistics = receiver.statistics().expect("counters");
        assert_eq!(statistics, Statistics::default());
    }
    // Each socket counts its own losses, and the memory outlives the socket that registered it.
    let sender = LiveFrames::new(&frames[0], Target::OutOf(&pair.left)).expect("loaded");
    sender.send(1_000).expect("sent");
    let lost = |receiver: &Receiver| {
        let Statistics {
            dropped, no_frame, ..
        } = receiver.statistics().expect("counters");
        dropped.max(no_frame)
    };
    let all: u64 = receivers.iter().map(lost).sum();
    assert!(all >= 1_000 - 2 * u64::from(FRAMES), "{all}");
    drop(receivers.remove(0));
    let batch = receivers[0].batch(FRAMES);
    assert!(batch.packets().all(|packet| packet.data == frames[0]));
}

fn one_owner() {
    let pair = VethPair::new();
    let receiving = Receiving::on(&pair.right, 64);
    let options = options(&pair.right, 64);
    let second = pair.right.run(|| Receiver::open(&options));
    assert_eq!(second.expect_err("taken").errno(), Some(libc::EBUSY));
    drop(receiving);
    // The kernel frees the queue a little later; the next owner waits for it.
    for _ in 0..5 {
        let next = pair.right.run(|| Receiver::open(&options));
        assert_eq!(next.err().map(|error| error.to_string()), None);
    }
}

fn impossible() {
    let pair = VethPair::new();
    let good = options(&pair.right, 64);
    let cases = [
        QueueOptions { frames: 63, ..good },
        QueueOptions { frames: 0, ..good },
        QueueOptions {
            frame_size: 1_000,
            ..good
        },
        QueueOptions { queue: 9, ..good },
        QueueOptions {
            ifindex: 999,
            ..good
        },
        QueueOptions {
            binding: Binding::ZeroCopy,
            ..good
        },
    ];
    for options in cases {
        let opened = pair.right.run(|| Receiver::open(&options));
        assert!(opened.is_err(), "{options:?}");
    }
}
