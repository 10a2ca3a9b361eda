//! The end of a capture while a server has a batch, and does not answer.

use std::io::Read as _;
use std::net::TcpListener;
use std::sync::mpsc::channel;

use ringtap_flow::FlowRecord;

use super::*;

/// Less than an insert may take, and more than the end of a run.
const LIMIT: Duration = Duration::from_secs(40);

#[test]
fn a_server_without_an_answer_does_not_hold_up_the_end_of_a_capture() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let port = listener.local_addr().expect("an address").port();
    let address = format!("clickhouse:http://127.0.0.1:{port}/flows");
    let address: CollectorAddress = address.parse().expect("an address");
    let mut output = ClickHouse::open(
        &address,
        &OutputOptions::default(),
        ("p1", &mut Spools::default()),
    )
    .expect("an output");
    let record = FlowRecord::default();
    // The first batch hangs at the server, the queue gets full, and the last batches find no room.
    output.record(&Row::new(&record));
    output.hand_over(Instant::now());
    let (mut stream, _) = listener.accept().expect("a connection");
    stream.read_exact(&mut [0]).expect("the insert has begun");
    let batches = QUEUE as u64 + 2;
    for _ in 0..batches {
        output.record(&Row::new(&record));
        output.hand_over(Instant::now());
    }
    output.record(&Row::new(&record));
    let (ended, end) = channel();
    thread::spawn(move || {
        output.finish();
        let _ = ended.send(output.report());
    });
    let report = end
        .recv_timeout(LIMIT)
        .expect("it ends before the insert has had its time");
    assert_eq!((report.flows, report.messages), (0, 0));
    assert_eq!(report.lost_flows, batches + 2);
    assert_eq!(report.lost_messages, batches + 2);
}
