//! Any bytes compressed, whole and cut, and any bytes as a compressed stream.
#![no_main]

#[path = "savefile/read.rs"]
mod read;

use std::io::Write;

const BUFFER: usize = 4096;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&[codec, split, cut], content)) = input.split_first_chunk::<3>() else {
        return;
    };
    let split = usize::from(split) * content.len() / 255;
    let (first, second) = content.split_at(split);
    let codec: fn(&[u8]) -> Vec<u8> = match codec % 4 {
        0 => gzip,
        1 => zstd,
        2 => lz4,
        _ => {
            // Whatever it is, it neither panics nor hangs.
            read::read(content, BUFFER);
            return;
        }
    };
    // A stream of several members is one file.
    let compressed = [codec(first), codec(second)].concat();
    let plain = read::read(content, BUFFER);
    let unpacked = read::read(&compressed, BUFFER);
    let opened = read::open(content, BUFFER);
    if !opened.is_ok_and(|reader| reader.compression().is_none()) {
        return;
    }
    assert_eq!(plain, unpacked);
    // A cut stream yields its packets, and an error if it is cut within a member.
    let cut = usize::from(cut) * compressed.len() / 255;
    let part = read::read(&compressed[..cut], BUFFER);
    assert!(plain.packets.starts_with(&part.packets));
    assert!(part.error.is_some() || part.packets.len() <= plain.packets.len());
});

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("memory")
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}
