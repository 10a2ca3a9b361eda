//! The adapter's clock: its stamps where packets have them, else the host's, counted.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringtap_capture::{
    CaptureOptions, Change, Clock, Error, Filter, Host, KernelClock, Mode, Note, Source,
    TimestampSource, open_on,
};
use ringtap_sys::bpf::{Kernel, Program, ProgramKind, ProgramRun};
use ringtap_sys::receive_stamps::Stamper;
use ringtap_testkit::netns::{Side, VethPair};

use crate::support::{Seen, drain, frame, injector, number, numbers, prompt, tap, try_open};

const BY_ADAPTER: Clock = Clock::Adapter(KernelClock::Tai);
/// How far the kernel's clocks may be apart.
const SLACK: Duration = Duration::from_millis(10);

fn by_adapter() -> CaptureOptions {
    prompt().timestamp(TimestampSource::Adapter)
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

fn stamp(packet: &Seen) -> Duration {
    Duration::from_nanos(u64::try_from(packet.timestamp.as_nanos()).unwrap())
}

/// Sends a frame with the stamp of an adapter that received it, as a forwarded one has.
fn send_stamped(side: &Side, frame: &[u8], nanos: u64) {
    const CONTEXT: usize = 192;
    const RECEIVED_AT: usize = 184;
    const CLONE_REDIRECT: i32 = 13;
    let insn = |code: u8, dst: u8, imm: i32| {
        let [a, b, c, d] = imm.to_ne_bytes();
        u64::from_ne_bytes([code, dst, 0, 0, a, b, c, d])
    };
    let index = side.namespace.netlink().index(&side.device).unwrap();
    let code = [
        insn(0xb7, 2, index.cast_signed()),
        insn(0xb7, 3, 0),
        insn(0x85, 0, CLONE_REDIRECT),
        insn(0x95, 0, 0),
    ];
    let mut context = [0; CONTEXT];
    context[RECEIVED_AT..].copy_from_slice(&nanos.to_ne_bytes());
    let outcome = side.run(|| {
        let kernel = Kernel::running();
        let program = Program::load(&kernel, "stamped", ProgramKind::SchedCls, &code).unwrap();
        let run = ProgramRun {
            data: frame,
            context: &context,
            ..ProgramRun::default()
        };
        program.run(&run).unwrap()
    });
    assert_eq!(outcome.return_value, 0, "sent");
}

pub(crate) fn stamps_at_xdp_or_the_host_s() {
    let pair = VethPair::new();
    for mode in [Mode::Copy, Mode::Steal] {
        let options = by_adapter().mode(mode);
        let mut source = tap("xdp", &pair.right, &options);
        let description = source.describe();
        assert_eq!((description.engine, description.clock), ("xdp", BY_ADAPTER));
        let is_told = |note: &Note| matches!(note, Note::AdapterNotAsked(_));
        assert!(description.notes.iter().any(is_told), "{description}");
        let injector = injector(&pair.left);
        let before = now();
        (0..100).for_each(|i| injector.send(&frame(i, 60)).unwrap());
        let seen = drain(&mut *source, 100);
        assert_eq!(numbers(&seen), (0..100).collect::<Vec<_>>());
        let range = before - SLACK..now() + SLACK;
        assert!(seen.iter().all(|packet| range.contains(&stamp(packet))));
        assert_eq!(source.stats().unwrap().stamped_by_host, Some(100));
    }
}

pub(crate) fn stamps_at_tcx() {
    const LONG_AGO: u64 = 1_000_000_007;
    let pair = VethPair::new();
    let host = Host {
        stamper: Stamper::StandIn,
        ..Host::default()
    };
    let device = format!("tcx:{}", pair.right.device);
    let open = |options: &CaptureOptions| {
        pair.right
            .run(|| open_on(&host, &device, options, None).unwrap())
    };
    let mut source = open(&by_adapter());
    assert_eq!(source.describe().clock, BY_ADAPTER);
    let stamped: Vec<u32> = (0..4).collect();
    for &i in &stamped {
        let nanos = LONG_AGO + u64::from(i);
        send_stamped(&pair.left, &frame(i, 60), nanos);
    }
    // No stamp, a driver's own value in its place, and a sent packet.
    let before = now();
    injector(&pair.left).send(&frame(4, 60)).unwrap();
    send_stamped(&pair.left, &frame(5, 60), 0xffff_8880_1234_5678);
    send_stamped(&pair.right, &frame(6, 60), LONG_AGO);
    let mut seen = drain(&mut *source, 7);
    seen.sort_by_key(|packet| number(&packet.data));
    assert_eq!(numbers(&seen), (0..7).collect::<Vec<_>>());
    let range = before - SLACK..now() + SLACK;
    for packet in &seen {
        let i = number(&packet.data);
        if stamped.contains(&i) {
            let nanos = LONG_AGO + u64::from(i);
            assert_eq!(stamp(packet), Duration::from_nanos(nanos), "{i}");
        } else {
            assert!(range.contains(&stamp(packet)), "{i}");
        }
    }
    assert_eq!(source.stats().unwrap().stamped_by_host, Some(3));
    // A user who requests the host's clock gets it, whatever stamps packets have.
    let mut plain = open(&prompt());
    send_stamped(&pair.left, &frame(7, 60), LONG_AGO);
    let seen = drain(&mut *plain, 1);
    assert!(seen.iter().all(|packet| stamp(packet) >= before - SLACK));
    assert_eq!(
        (seen.len(), plain.stats().unwrap().stamped_by_host),
        (1, None)
    );
}

pub(crate) fn no_clock_is_told_at_the_opening() {
    let pair = VethPair::new();
    let Err(error) = try_open("tcx", &pair.right, &by_adapter(), None) else {
        panic!("a veth takes no request for stamps");
    };
    assert!(matches!(error, Error::NoAdapterClock { .. }), "{error}");
    // Loopback's XDP is the generic one, which has no stamps.
    let host = Host {
        stamper: Stamper::StandIn,
        ..Host::default()
    };
    let source = pair
        .right
        .run(|| open_on(&host, "xdp:lo", &by_adapter(), None));
    let source: Box<dyn Source> = source.unwrap_or_else(|error| panic!("{error}"));
    let description = source.describe();
    assert_eq!(description.engine, "tcx");
    let text = "not at XDP in the driver: the adapter's timestamps are not available there";
    let note = Note::PassedOver(text.to_owned());
    assert!(description.notes.contains(&note), "{description}");
}

/// Programs that ask the driver are for one device, which the kernel looks up where it is asked.
pub(crate) fn reloads_from_another_namespace() {
    let pair = VethPair::new();
    let injector = injector(&pair.left);
    let mut source = tap("xdp", &pair.right, &by_adapter());
    let tagged = |i: u32| {
        let mut tagged = frame(i, 60);
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        tagged
    };
    source.set_filter(Some(&Filter::new("vlan 5"))).unwrap();
    source.change(Change::Buffer(1 << 20)).unwrap();
    for i in 0..10 {
        injector.send(&frame(i, 60)).unwrap();
        injector.send(&tagged(i)).unwrap();
    }
    let seen: Vec<_> = drain(&mut *source, 10)
        .into_iter()
        .map(|packet| packet.data)
        .collect();
    assert_eq!(seen, (0..10).map(tagged).collect::<Vec<_>>());
}
