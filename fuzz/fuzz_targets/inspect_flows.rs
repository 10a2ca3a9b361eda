//! Segments and datagrams of few flows, in any order, cut anywhere, in a pool of few buffers.
#![no_main]

use std::net::IpAddr;

use ringtap_inspect::{Entry, FlowState, InspectOptions, Inspector, Payload, Transport, Verdict};

/// Bytes that say what comes next: the flow and what is done, a shift of the sequence number, the length.
const STEP: usize = 3;
const FLOWS: usize = 8;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let options = InspectOptions::default()
        .payloads(15)
        .buffers(2)
        .buffer_bytes(512)
        .names(64)
        .seed(1);
    let mut inspector = Inspector::new(&options).expect("valid options");
    let mut flows = [(Entry::new(), FlowState::default(), 0_u32); FLOWS];
    let mut rest = input;
    let mut time_ns = 1_000_000_000;
    let mut looked = 0;
    while let Some((&[what, shift, len], behind)) = rest.split_first_chunk::<STEP>() {
        let (data, behind) = behind.split_at(behind.len().min(usize::from(len) * 4));
        rest = behind;
        time_ns += u64::from(shift) << 24;
        let number = usize::from(what) % FLOWS;
        let (entry, state, sequence) = &mut flows[number];
        let flow = u32::try_from(number).expect("few");
        if what & 0x80 != 0 {
            inspector.forget(flow, state);
            (*entry, *state, *sequence) = (Entry::new(), FlowState::default(), 0);
            continue;
        }
        let transport = match what & 8 {
            0 => Transport::Udp,
            _ => Transport::Tcp {
                sequence: sequence.wrapping_sub(u32::from(shift & 0x7f)),
            },
        };
        if shift & 0x80 == 0 {
            *sequence = sequence.wrapping_add(u32::try_from(data.len()).expect("short"));
        }
        let from_initiator = what & 16 == 0;
        let payload = Payload {
            transport,
            from_initiator,
            initiator: IpAddr::from([192, 0, 2, 1]),
            responder: IpAddr::from([192, 0, 2, what & 7]),
            initiator_port: 50_000,
            responder_port: [53, 80, 443, 5353, 137, 67, 25, 9999]
                [usize::from(what >> 5 & 3) * 2 + usize::from(what & 1)],
            time_ns,
            data,
            complete: true,
        };
        let wanted = state.wants(from_initiator) && !data.is_empty();
        looked += u64::from(wanted);
        let verdict = inspector.look(flow, entry, state, &payload);
        assert_eq!(verdict == Verdict::Done, state.is_done());
        assert_eq!(inspector.counters().payloads, looked);
        std::hint::black_box(entry.fields());
        std::hint::black_box(inspector.name_of(payload.responder, time_ns));
    }
});
