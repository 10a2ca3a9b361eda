//! Reading from pipes and from files that change.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};

use ringtap_savefile::{Item, ReadErrorKind, ReadOptions, Reader};
use ringtap_testkit::captures::{LITTLE, Ng, PcapHeader, pattern};

use crate::collect::{collect, read_bytes};

/// Returns the number of packets in the next run.
fn next_run(reader: &mut Reader) -> usize {
    loop {
        match reader.next().expect("valid").expect("not the end") {
            Item::Run(run) => return run.len(),
            _ => continue,
        }
    }
}

fn pipe_delivers(head: &[u8], packet: &[u8]) {
    let (output, mut input) = io::pipe().expect("pipe");
    input.write_all(head).expect("written");
    let options = ReadOptions::default();
    let mut reader = Reader::new(Box::new(output), "pipe", &options).expect("header");
    // Each packet is delivered before there is more; half a packet is not.
    for _ in 0..3 {
        input.write_all(packet).expect("written");
        assert_eq!(next_run(&mut reader), 1);
    }
    let (first, second) = packet.split_at(packet.len() / 2);
    input.write_all(packet).expect("written");
    input.write_all(first).expect("written");
    assert_eq!(next_run(&mut reader), 1);
    input.write_all(second).expect("written");
    assert_eq!(next_run(&mut reader), 1);
    drop(input);
    assert!(matches!(reader.next(), Ok(None)));
}

#[test]
fn a_pipe_delivers_what_it_has() {
    let header = PcapHeader::MICROS;
    pipe_delivers(&header.bytes(), &header.packet(&pattern(60)));
    let ng = Ng(LITTLE);
    pipe_delivers(&ng.prelude(), &ng.enhanced(0, 5, &pattern(61)));
}

#[test]
fn a_compressed_pipe_delivers_what_it_has() {
    let header = PcapHeader::MICROS;
    let (output, input) = io::pipe().expect("pipe");
    let mut encoder = flate2::write::GzEncoder::new(input, flate2::Compression::fast());
    encoder.write_all(&header.bytes()).expect("written");
    encoder.flush().expect("flushed");
    let options = ReadOptions::default();
    let mut reader = Reader::new(Box::new(output), "pipe", &options).expect("header");
    for _ in 0..3 {
        encoder
            .write_all(&header.packet(&pattern(500)))
            .expect("written");
        encoder.flush().expect("flushed");
        assert_eq!(next_run(&mut reader), 1);
    }
    drop(encoder);
    assert!(matches!(reader.next(), Ok(None)));
}

/// Returns one byte per call, and none in every other call.
struct Dribble(io::Cursor<Vec<u8>>, bool);

impl Read for Dribble {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let end = buf.len().min(1);
        self.0.read(&mut buf[..end])
    }
}

#[test]
fn byte_by_byte_is_the_same() {
    let ng = Ng(LITTLE);
    let packets: Vec<_> = (0..30)
        .flat_map(|n| ng.enhanced(0, n, &pattern(100)))
        .collect();
    let file = [ng.prelude(), packets, ng.prelude(), ng.enhanced(0, 1, b"x")].concat();
    let dribble = Dribble(io::Cursor::new(file.clone()), false);
    let reader = Reader::new(Box::new(dribble), "dribble", &ReadOptions::default());
    let slow = collect(reader.expect("header"));
    let fast = read_bytes(&file);
    assert_eq!(slow.packets, fast.packets);
    assert_eq!(slow.packets.len(), 31);
    assert_eq!(slow.others, fast.others);
    assert_eq!(slow.error_text(), "no error");
}

/// Returns WouldBlock after its first bytes.
struct NotYet(Vec<Vec<u8>>);

impl Read for NotYet {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let Some(first) = self.0.first_mut() else {
            return Ok(0);
        };
        if first.is_empty() {
            self.0.remove(0);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = first.len().min(buf.len());
        buf[..count].copy_from_slice(&first[..count]);
        first.drain(..count);
        Ok(count)
    }
}

#[test]
fn an_input_that_would_block_can_be_asked_again() {
    let header = PcapHeader::MICROS;
    let parts = vec![
        [header.bytes(), header.packet(b"one")].concat(),
        header.packet(b"two"),
    ];
    let options = ReadOptions::default();
    let mut reader = Reader::new(Box::new(NotYet(parts)), "later", &options).expect("header");
    assert_eq!(next_run(&mut reader), 1);
    let error = reader.next().expect_err("nothing yet");
    assert!(
        matches!(error.kind(), ReadErrorKind::Read(e) if e.kind() == io::ErrorKind::WouldBlock)
    );
    assert_eq!(error.offset(), 43);
    assert_eq!(next_run(&mut reader), 1);
}

/// Fails where another reader would end.
struct Failing(io::Cursor<Vec<u8>>);

impl Read for Failing {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buf)? {
            0 => Err(io::ErrorKind::ConnectionReset.into()),
            count => Ok(count),
        }
    }
}

#[test]
fn an_input_that_fails_ends_after_its_packets() {
    let header = PcapHeader::MICROS;
    let file = [header.bytes(), header.packet(b"abc")].concat();
    let input = Box::new(Failing(io::Cursor::new(file)));
    let reader = Reader::new(input, "socket", &ReadOptions::default()).expect("header");
    let read = collect(reader);
    assert_eq!(read.packets.len(), 1);
    let error = read.error.expect("the failure");
    assert!(
        matches!(error.kind(), ReadErrorKind::Read(e) if e.kind() == io::ErrorKind::ConnectionReset)
    );
    assert_eq!(error.offset(), 43);
}

#[test]
fn a_file_that_shrinks_is_a_truncated_file() {
    let header = PcapHeader::MICROS;
    let file = tempfile::NamedTempFile::new().expect("file");
    let packets: Vec<_> = (0..1000)
        .flat_map(|_| header.packet(&pattern(100)))
        .collect();
    std::fs::write(file.path(), [header.bytes(), packets].concat()).expect("written");
    let mut options = ReadOptions::default();
    options.buffer = 4096;
    let mut reader = Reader::open(file.path(), &options).expect("header");
    let first = next_run(&mut reader);
    let shrunk = OpenOptions::new()
        .write(true)
        .open(file.path())
        .expect("opened");
    shrunk.set_len(10_050).expect("shrunk");
    let rest = collect(reader);
    assert_eq!(first + rest.packets.len(), (10_050 - 24) / 116);
    let error = rest.error.expect("cut within a record");
    assert!(matches!(error.kind(), ReadErrorKind::Truncated { .. }));
}
