//! The health of TCP connections, segment by segment. tshark says the same of a corpus of captures
//! (crates/ringtap/tests/flow_metering/health.rs).

use ringtap_flow::{FlowRecord, TcpCounts};

use super::build::{ipv4, udp};
use super::{ACK, FIN, RST, SYN, meter, small};

const MILLI: u64 = 1_000_000;

/// A segment: time in milliseconds, whether the server sent it, flags, sequence number, acknowledgment,
/// window, bytes of data.
type Segment = (u64, bool, u8, u32, u32, u16, usize);

fn segment(
    &(time, is_answer, flags, sequence, acknowledgment, window, length): &Segment,
) -> (u64, Vec<u8>) {
    let ports: [u16; 2] = if is_answer { [80, 7777] } else { [7777, 80] };
    let mut header: Vec<u8> = ports.into_iter().flat_map(u16::to_be_bytes).collect();
    header.extend(sequence.to_be_bytes());
    header.extend(acknowledgment.to_be_bytes());
    header.extend([0x50, flags]);
    header.extend(window.to_be_bytes());
    header.extend([0; 4]);
    header.resize(header.len() + length, b'x');
    let (source, destination) = if is_answer { (2, 1) } else { (1, 2) };
    (time * MILLI, ipv4(source, destination, 6, &header))
}

fn measured(segments: &[Segment]) -> FlowRecord {
    let options = small().both_ways(true).measure_tcp(true);
    let packets: Vec<_> = segments.iter().map(segment).collect();
    let (mut records, _) = meter(&options, &packets);
    assert_eq!(records.len(), 1);
    records.remove(0)
}

/// The counts of the client's segments behind a handshake that takes 10 ms.
fn counts(segments: &[Segment]) -> [TcpCounts; 2] {
    let mut all = vec![
        (0, false, SYN, 99, 0, 9, 0),
        (5, true, SYN | ACK, 999, 100, 9, 0),
        (10, false, ACK, 100, 1000, 9, 0),
    ];
    all.extend(segments);
    let measures = measured(&all).tcp.expect("asked for");
    [measures.forward, measures.reverse]
}

fn data(time: u64, sequence: u32, length: usize) -> Segment {
    (time, false, ACK, sequence, 1000, 9, length)
}

fn ack(time: u64, acknowledgment: u32, window: u16) -> Segment {
    (time, true, ACK, 1000, acknowledgment, window, 0)
}

#[test]
fn a_gap_that_is_filled_at_once_is_disorder_and_later_a_retransmission() {
    let disorder = [
        data(20, 100, 10),
        data(21, 120, 10),
        data(22, 110, 10),
        data(23, 130, 10),
    ];
    let [forward, reverse] = counts(&disorder);
    assert_eq!((forward.out_of_order, forward.retransmissions), (1, 0));
    assert_eq!(reverse, TcpCounts::default());
    let loss = [
        data(20, 100, 10),
        data(21, 120, 10),
        data(50, 110, 10),
        data(51, 130, 10),
    ];
    let [forward, _] = counts(&loss);
    assert_eq!((forward.out_of_order, forward.retransmissions), (0, 1));
    // Data that was seen before is no disorder, however soon it comes; nor is the data that follows it.
    let again = [
        data(20, 100, 10),
        data(21, 120, 10),
        data(21, 100, 10),
        data(21, 110, 10),
    ];
    let [forward, _] = counts(&again);
    assert_eq!((forward.out_of_order, forward.retransmissions), (0, 2));
}

#[test]
fn more_data_or_a_fin_may_be_sent_with_data_that_was_sent_before() {
    let grown = [data(20, 100, 10), data(50, 100, 30), data(51, 130, 10)];
    let [forward, _] = counts(&grown);
    assert_eq!((forward.out_of_order, forward.retransmissions), (0, 1));
    let ended = [data(20, 100, 10), (50, false, FIN | ACK, 100, 1000, 9, 10)];
    let [forward, _] = counts(&ended);
    assert_eq!((forward.out_of_order, forward.retransmissions), (0, 1));
    // It fills the gap, too, so the next gap is another one.
    let filled = [
        data(20, 100, 10),
        data(21, 120, 10),
        data(40, 110, 30),
        data(41, 150, 10),
        data(42, 140, 10),
    ];
    let [forward, _] = counts(&filled);
    assert_eq!((forward.out_of_order, forward.retransmissions), (1, 1));
}

#[test]
fn a_keep_alive_is_neither_a_retransmission_nor_answered_by_a_duplicate() {
    let idle = [
        data(20, 100, 10),
        ack(21, 110, 9),
        data(900, 109, 1),
        ack(901, 110, 9),
    ];
    assert_eq!(counts(&idle), [TcpCounts::default(); 2]);
}

#[test]
fn acknowledgments_that_say_nothing_new_are_duplicates() {
    let lost = [
        data(20, 100, 10),
        ack(21, 110, 9),
        data(22, 120, 10),
        ack(23, 110, 9),
        ack(24, 110, 9),
        // A new window is said.
        ack(25, 110, 8),
    ];
    let [forward, reverse] = counts(&lost);
    assert_eq!(reverse.duplicate_acks, 2);
    assert_eq!(forward, TcpCounts::default());
}

#[test]
fn closed_windows_and_resets_are_counted_by_sender() {
    let closed = [
        ack(20, 100, 0),
        ack(21, 100, 0),
        ack(22, 100, 9),
        (23, true, RST, 1000, 0, 0, 0),
    ];
    let [forward, reverse] = counts(&closed);
    assert_eq!(forward, TcpCounts::default());
    let expected = TcpCounts {
        zero_windows: 2,
        resets: 1,
        ..TcpCounts::default()
    };
    assert_eq!(reverse, expected);
}

#[test]
fn the_first_response_is_measured_from_the_first_request() {
    let record = measured(&[
        (0, false, SYN, 99, 0, 9, 0),
        (2000, false, SYN, 99, 0, 9, 0),
        (2005, true, SYN | ACK, 999, 100, 9, 0),
        (2010, false, ACK, 100, 1000, 9, 0),
        // The server greets first.
        (2020, true, ACK, 1000, 100, 9, 10),
        (2100, false, ACK, 100, 1010, 9, 10),
        (2101, true, ACK, 1010, 110, 9, 0),
        (2150, true, ACK, 1010, 110, 9, 10),
        (2160, false, FIN | ACK, 110, 1020, 9, 0),
    ]);
    let measures = record.tcp.expect("asked for");
    assert_eq!(measures.server_rtt_ns, Some(5 * MILLI));
    assert_eq!(measures.client_rtt_ns, Some(5 * MILLI));
    assert_eq!(record.response_ns, Some(50 * MILLI));
    assert_eq!(measures.forward.retransmissions, 1, "the SYN");
    // Without its beginning, a request may be the rest of an earlier one.
    let record = measured(&[data(0, 100, 10), (7, true, ACK, 1000, 110, 9, 10)]);
    assert_eq!(record.response_ns, None);
}

#[test]
fn datagrams_have_a_first_response_too() {
    let options = small().both_ways(true).measure_tcp(true);
    let packets = [
        (0, ipv4(1, 2, 17, &udp(7777, 53, b"?"))),
        (7 * MILLI, ipv4(2, 1, 17, &udp(53, 7777, b"!"))),
    ];
    let (records, _) = meter(&options, &packets);
    assert_eq!(records[0].response_ns, Some(7 * MILLI));
    let (records, _) = meter(&options, &packets[..1]);
    assert_eq!(records[0].response_ns, None);
}
