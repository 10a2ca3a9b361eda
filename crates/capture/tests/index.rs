//! Indices of capture files: a search with one finds the same as without.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where something is missing"
)]

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use ringtap_capture::index::{
    Built, IndexError, IndexOptions, IndexUse, Search, SeekPoint, build_index, open_indexed,
    path_for, skips,
};
use ringtap_capture::{
    Filter, Interface, LinkType, Next, Packet, PacketFlags, ReadOptions, Source, Timestamp,
    open_file,
};
use ringtap_filter::search::need;
use ringtap_filter::{CompileOptions, Program, Tables, compile};
use ringtap_savefile::{ByteOrder, Codec, Item, PcapOptions, PcapWriter, Reader};
use ringtap_testkit::{Need, corpus, expressions, suite, test};

fn main() -> std::process::ExitCode {
    suite(vec![
        test("nothing_is_left_out", &[Need::Corpus], nothing_is_left_out),
        test(
            "files_are_searched_alike",
            &[Need::Corpus],
            files_are_searched_alike,
        ),
        test("a_host_among_many", &[], a_host_among_many),
        test("compressed_files", &[], compressed_files),
        test("past_the_page_cache", &[], past_the_page_cache),
        test(
            "packets_that_cannot_be_followed",
            &[],
            packets_that_cannot_be_followed,
        ),
        test("chunks_of_one_frame", &[], chunks_of_one_frame),
        test("a_range_of_times", &[], a_range_of_times),
        test(
            "a_damaged_index_is_ignored",
            &[],
            a_damaged_index_is_ignored,
        ),
        test("a_stale_index_is_ignored", &[], a_stale_index_is_ignored),
        test("a_damaged_capture", &[], a_damaged_capture),
        test("the_size_of_an_index", &[], the_size_of_an_index),
    ])
}

/// Returns options that make every packet a stretch.
fn small() -> IndexOptions {
    let mut options = IndexOptions::default();
    (options.stretch, options.least) = (1, 0);
    (options.read.buffer, options.read.read_ahead) = (512, false);
    options
}

fn index(capture: &Path, options: &IndexOptions) -> Built {
    let output = File::create(path_for(capture)).unwrap();
    let capture = File::open(capture).unwrap();
    build_index(&capture, "a capture", || Ok(output), options).unwrap()
}

/// Expressions that need something, some hundreds.
fn searches() -> Vec<String> {
    let all = expressions::cases().into_iter().map(|case| case.expression);
    let mut of_use: Vec<String> = all.filter(|text| needs(text).is_some()).collect();
    of_use.sort();
    of_use.dedup();
    let few = of_use.len() / 220;
    of_use.into_iter().step_by(few.max(1)).collect()
}

fn needs(expression: &str) -> Option<ringtap_filter::search::Need> {
    let need = need(expression, false, &Tables::new()).ok()?;
    (need != ringtap_filter::search::Need::Nothing).then_some(need)
}

/// Programs, as filters of files have them.
#[derive(Default)]
struct Programs(HashMap<(LinkType, bool, String), Option<Program>>);

impl Programs {
    fn get(&mut self, link_type: LinkType, order: ByteOrder, text: &str) -> Option<&Program> {
        let swapped = order != ByteOrder::NATIVE;
        let key = (link_type, swapped, text.to_owned());
        let made = self.0.entry(key).or_insert_with(|| {
            let mut options = CompileOptions::new(link_type);
            (options.from_file, options.swapped) = (true, swapped);
            compile(text, &options, &Tables::new()).ok()
        });
        made.as_ref()
    }
}

/// Every file of the corpus, every packet a stretch or nearly: none that a filter accepts is in one
/// that a search passes over.
fn nothing_is_left_out() {
    let expressions = searches();
    assert!(expressions.len() > 200, "{} expressions", expressions.len());
    let folder = tempfile::tempdir().unwrap();
    let mut programs = Programs::default();
    let (mut found, mut passed_over, mut files) = (0, 0, 0);
    for file in corpus::files() {
        let capture = File::open(&file).unwrap();
        let path = folder.path().join("index");
        let output = File::create(&path).unwrap();
        if build_index(&capture, "a capture", || Ok(output), &small()).is_err() {
            continue;
        }
        files += 1;
        let index = fs::read(&path).unwrap();
        let packets = packets_with_offsets(&file);
        for expression in &expressions {
            let need = needs(expression).unwrap();
            let (skips, _) = skips(&capture, &index[..], &need, &Search::default()).unwrap();
            let mut ranges = skips.ranges().peekable();
            for packet in &packets {
                while ranges.next_if(|range| range.end <= packet.offset).is_some() {}
                let skipped = ranges
                    .peek()
                    .is_some_and(|range| range.contains(&packet.offset));
                passed_over += usize::from(skipped);
                let program = programs.get(packet.link_type, packet.order, expression);
                let accepted = program.is_some_and(|it| it.run(&packet.data, packet.len) != 0);
                found += usize::from(accepted);
                assert!(
                    !(skipped && accepted),
                    "{}: {expression}: the packet at {}",
                    corpus::name(&file),
                    packet.offset
                );
            }
        }
    }
    println!("{files} files, {found} found, {passed_over} passed over");
    assert!(files > 500 && found > 10_000 && passed_over > 10 * found);
}

struct Placed {
    offset: u64,
    link_type: LinkType,
    order: ByteOrder,
    len: u32,
    data: Vec<u8>,
}

/// Returns the first packets of a file, with their offsets.
fn packets_with_offsets(file: &Path) -> Vec<Placed> {
    const MOST: usize = 30;
    let mut reader = Reader::open(file, &small().read).unwrap();
    let mut packets = Vec::new();
    loop {
        let order = reader.byte_order();
        let types: Vec<LinkType> = reader.interfaces().iter().map(|it| it.link_type).collect();
        match reader.next() {
            Ok(Some(Item::Run(run))) => {
                let mut rest = run;
                while !rest.is_empty() {
                    let (one, behind) = rest.split(0);
                    packets.extend(one.packets().map(|packet| Placed {
                        offset: one.offset(),
                        link_type: types[packet.interface as usize],
                        order,
                        len: packet.len,
                        data: packet.data.to_vec(),
                    }));
                    rest = behind;
                }
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => break,
        }
        if packets.len() > MOST {
            break;
        }
    }
    packets
}

/// The identity of a packet.
type Seen = (Timestamp, u32, Vec<u8>);

fn read(mut source: impl Source, search: &Search) -> (Vec<Seen>, Option<String>) {
    let mut seen = Vec::new();
    loop {
        match source.next() {
            Ok(Next::Block(block)) => {
                for packet in block.packets() {
                    let early = search.from.is_some_and(|from| packet.timestamp < from);
                    let late = search.to.is_some_and(|to| packet.timestamp >= to);
                    if !early && !late {
                        seen.push((packet.timestamp, packet.len, packet.data.to_vec()));
                    }
                }
            }
            Ok(Next::End) => return (seen, None),
            Ok(_) => {}
            Err(error) => return (seen, Some(error.to_string())),
        }
    }
}

/// Searches with and without the index. Returns the results and the use of the index.
fn both_ways(path: &Path, filter: &str, search: &Search) -> (Vec<Seen>, IndexUse) {
    let filter = (!filter.is_empty()).then(|| Filter::new(filter));
    let options = ReadOptions::default();
    let whole = read(open_file(path, &options, filter.as_ref()).unwrap(), search);
    let (source, used) = open_indexed(path, &options, filter.as_ref(), search).unwrap();
    let found = read(source, search);
    assert_eq!(found.0.len(), whole.0.len(), "{}", path.display());
    assert!(found == whole, "{}: other packets", path.display());
    (found.0, used)
}

/// The largest files of the corpus, through the readers and filters that users have.
fn files_are_searched_alike() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = corpus::files();
    files.sort_by_key(|file| std::cmp::Reverse(file.metadata().unwrap().len()));
    let (mut used, mut found) = (0, 0);
    for file in files.iter().take(40) {
        let path = folder.path().join(file.file_name().unwrap());
        fs::copy(file, &path).unwrap();
        index(&path, &small());
        let link_type = Reader::open(file, &ReadOptions::default()).unwrap();
        for filter in [
            "port 53",
            "net 192.168.0.0/16 and tcp",
            "host 224.0.0.251 or port 443",
        ] {
            let compiles = link_type.interfaces().iter().all(|interface| {
                let filter = Filter::new(filter);
                filter
                    .compile_for_file(interface.link_type, ByteOrder::NATIVE, 96)
                    .is_ok()
            });
            if !compiles {
                continue;
            }
            let (packets, how) = both_ways(&path, filter, &Search::default());
            found += packets.len();
            used += usize::from(matches!(how, IndexUse::Used { .. }));
        }
    }
    println!("{used} searches by index, {found} packets");
    assert!(used > 20 && found > 500);
}

/// UDP from 10.0.x.y to 192.0.2.1, each packet a millisecond after the one before, `bytes` long;
/// one in the middle is from 10.99.99.99.
fn many(packets: u32, bytes: usize) -> Vec<u8> {
    let options = PcapOptions::for_interface(&Interface::new(LinkType::ETHERNET, 65_535));
    let mut writer = PcapWriter::new(Vec::new(), &options).unwrap();
    for number in 0..packets {
        let rare = number == packets / 2;
        let [_, _, high, low] = (number / 64).to_be_bytes();
        let source = if rare {
            [10, 99, 99, 99]
        } else {
            [10, 0, high, low]
        };
        let mut data = vec![2; 12];
        data.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0]);
        data.extend(source);
        data.extend([192, 0, 2, 1, 0x30, 0x39, 0, 53, 0, 8, 0, 0]);
        // Bytes that compress a little.
        data.extend((0..bytes.saturating_sub(data.len())).map(|at| {
            let mixed = (at as u64 ^ u64::from(number) << 7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed.to_be_bytes()[0] & 0x3f
        }));
        let packet = Packet {
            timestamp: Timestamp::from_nanos(i64::from(number) * 1_000_000),
            len: u32::try_from(data.len()).unwrap(),
            interface: 0,
            flags: PacketFlags::default(),
            data: &data,
            process: None,
        };
        writer.write_packet(&packet).unwrap();
    }
    writer.finish().unwrap().0
}

fn in_folder(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.pcap");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn a_host_among_many() {
    let (_folder, path) = in_folder(&many(40_000, 200));
    let built = index(&path, &IndexOptions::default());
    assert_eq!(built.packets, 40_000);
    assert!(built.damage.is_none());
    let (found, used) = both_ways(&path, "host 10.99.99.99", &Search::default());
    assert_eq!(found.len(), 1);
    let IndexUse::Used { packets, bytes } = used else {
        panic!("{used:?}");
    };
    assert!(
        packets > 20_000 && bytes > 4 << 20,
        "{packets} packets, {bytes} bytes"
    );
    let (found, used) = both_ways(&path, "host 10.98.98.98", &Search::default());
    assert!(
        found.is_empty()
            && matches!(
                used,
                IndexUse::Used {
                    packets: 40_000,
                    ..
                }
            )
    );
    let (found, used) = both_ways(&path, "not host 10.99.99.99", &Search::default());
    assert!(found.len() == 39_999 && matches!(used, IndexUse::None));
}

/// Reads captures with lengths around multiples of the alignment past the cache, plain and compressed, from a
/// disk and, where there is one, from a file system in memory.
fn past_the_page_cache() {
    use std::os::unix::fs::FileExt as _;
    let whole = many(10_000, 200);
    let mut plain = Vec::new();
    // Records of pcap have 16 bytes before the data.
    for record in [9_000, 9_400] {
        let end = 24 + record * (16 + 200);
        plain.push(whole[..end].to_vec());
    }
    let aligned = whole.len() - whole.len() % 4096;
    plain.push(whole[..aligned].to_vec());
    plain.push(zstd::bulk::compress(&whole, 1).unwrap());
    let mut past = IndexOptions::default();
    past.past_cache = true;
    let folders = [
        Some(PathBuf::from(env!("CARGO_TARGET_TMPDIR"))),
        in_memory(),
    ];
    for (bytes, parent) in plain
        .iter()
        .flat_map(|bytes| folders.iter().flatten().map(move |f| (bytes, f)))
    {
        let folder = tempfile::tempdir_in(parent).unwrap();
        let path = folder.path().join("past.pcap");
        fs::write(&path, bytes).unwrap();
        let file = File::open(&path).unwrap();
        let mut built = Vec::new();
        for options in [&IndexOptions::default(), &past] {
            let output = File::create(path_for(&path)).unwrap();
            let one = build_index(&file, "a capture", || Ok(output), options).unwrap();
            built.push((one.packets, one.of, one.damage.is_some()));
        }
        assert_eq!(
            built[0],
            built[1],
            "{} bytes in {}",
            bytes.len(),
            parent.display()
        );
        assert!(built[0].0 > 8_000);
        let mut some = [0; 10];
        file.read_exact_at(&mut some, 1)
            .expect("reads use the cache again");
        if !built[0].2 {
            both_ways(&path, "host 10.98.98.98", &Search::default());
        }
    }
}

/// Returns the folder of a file system in memory, which most systems have.
fn in_memory() -> Option<PathBuf> {
    Some(PathBuf::from("/dev/shm")).filter(|folder| folder.is_dir())
}

fn compressed_files() {
    /// Bytes that are compressed on their own.
    const CHUNK: usize = 300_000;
    let whole = many(40_000, 200);
    type Compress = fn(&[u8]) -> Vec<u8>;
    let kinds: [(&str, Compress); 3] = [
        ("gzip", |bytes| {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }),
        ("zstd", |bytes| zstd::bulk::compress(bytes, 1).unwrap()),
        ("lz4", |bytes| {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }),
    ];
    for (name, compress) in kinds {
        let compressed: Vec<u8> = whole.chunks(CHUNK).flat_map(compress).collect();
        let (_folder, path) = in_folder(&compressed);
        assert_eq!(
            index(&path, &IndexOptions::default()).packets,
            40_000,
            "{name}"
        );
        let (found, used) = both_ways(&path, "host 10.99.99.99", &Search::default());
        assert_eq!(found.len(), 1, "{name}");
        assert!(matches!(used, IndexUse::Used { .. }), "{name}: {used:?}");

        // The frames that are passed over are not even read: they may be gone.
        spoil(&path, &[compressed.len() / 5, compressed.len() * 4 / 5]);
        let filter = Filter::new("host 10.99.99.99");
        let options = ReadOptions::default();
        let search = Search::default();
        let (source, _) = open_indexed(&path, &options, Some(&filter), &search).unwrap();
        assert_eq!(read(source, &search), (found, None), "{name}");
    }
}

/// If the keys of a packet are unknown, little more than the packet is read in vain.
fn packets_that_cannot_be_followed() {
    let whole = many(40_000, 200);
    let header = 24;
    let record = 16 + 200;
    // IPv6, cut within an address.
    let mut cut = vec![0; 16];
    cut[8..16].copy_from_slice(&[44, 0, 0, 0, 44, 0, 0, 0]);
    cut.extend([2; 12]);
    cut.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 4, 17, 64]);
    cut.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    cut.extend([0x20, 1, 0xd, 0xb8, 0, 0]);
    assert_eq!(cut.len(), 16 + 44);
    let mut bytes = whole[..header].to_vec();
    for part in whole[header..].chunks(5000 * record) {
        bytes.extend_from_slice(part);
        bytes.extend_from_slice(&cut);
    }
    let (_folder, path) = in_folder(&bytes);
    index(&path, &IndexOptions::default());
    for (filter, count) in [("host 10.99.99.99", 1), ("net 2001:db8::/32", 8)] {
        let (found, used) = both_ways(&path, filter, &Search::default());
        assert_eq!(found.len(), count, "{filter}");
        let IndexUse::Used { bytes: left, .. } = used else {
            panic!("{filter}: {used:?}");
        };
        let read = bytes.len() as u64 - left;
        assert!(read < 2 << 20, "{filter}: {read} bytes are read");
    }
}

/// A file of one frame of zstd or lz4, whose writer knows where its chunks begin.
fn chunks_of_one_frame() {
    /// Bytes that are compressed on their own.
    const CHUNK: usize = 300_000;
    let whole = many(40_000, 200);
    for codec in [Codec::Zstd(3), Codec::Lz4] {
        let mut compressor = codec.compressor().unwrap();
        let mut compressed = codec.begin().to_vec();
        let mut chunks = Vec::new();
        for (number, chunk) in whole.chunks(CHUNK).enumerate() {
            chunks.push(SeekPoint {
                compressed: compressed.len() as u64,
                uncompressed: (number * CHUNK) as u64,
            });
            compressor.compress(chunk, &mut compressed).unwrap();
        }
        compressed.extend_from_slice(codec.end());
        let (_folder, path) = in_folder(&compressed);
        let mut options = IndexOptions::default();
        options.chunks = chunks;
        assert_eq!(index(&path, &options).packets, 40_000, "{codec}");
        let (found, used) = both_ways(&path, "host 10.99.99.99", &Search::default());
        assert_eq!(found.len(), 1, "{codec}");
        assert!(matches!(used, IndexUse::Used { .. }), "{codec}: {used:?}");
        // Skipped parts are not even read.
        spoil(&path, &[compressed.len() / 5]);
        let filter = Filter::new("host 10.99.99.99");
        let (options, search) = (ReadOptions::default(), Search::default());
        let (source, _) = open_indexed(&path, &options, Some(&filter), &search).unwrap();
        assert_eq!(read(source, &search), (found, None), "{codec}");
    }
}

/// Corrupts some bytes of a file at these offsets, without changing its time.
fn spoil(path: &Path, places: &[usize]) {
    let spoilt = File::options().write(true).open(path).unwrap();
    let modified = spoilt.metadata().unwrap().modified().unwrap();
    for place in places {
        std::os::unix::fs::FileExt::write_all_at(&spoilt, &[0xff; 20_000], *place as u64).unwrap();
    }
    spoilt.set_modified(modified).unwrap();
}

fn a_range_of_times() {
    let (_folder, path) = in_folder(&many(40_000, 200));
    index(&path, &IndexOptions::default());
    let second = |secs| Some(Timestamp::new(secs, 0));
    let ranges = [
        (second(20), second(21), 1000),
        (None, second(5), 5000),
        (second(38), None, 2000),
        (second(40), None, 0),
        (second(-9), second(0), 0),
    ];
    for (from, to, expected) in ranges {
        let search = Search { from, to };
        let (found, used) = both_ways(&path, "", &search);
        assert_eq!(found.len(), expected);
        assert!(matches!(used, IndexUse::Used { .. }), "{from:?} to {to:?}");
    }
}

fn a_damaged_index_is_ignored() {
    let (_folder, path) = in_folder(&many(9_000, 200));
    index(&path, &IndexOptions::default());
    let intact = fs::read(path_for(&path)).unwrap();
    let search = Search::default();
    let check = |bytes: &[u8], what: &str| {
        fs::write(path_for(&path), bytes).unwrap();
        let (found, used) = both_ways(&path, "host 10.99.99.99", &search);
        assert!(
            found.len() == 1 && matches!(used, IndexUse::Ignored { .. }),
            "{what}"
        );
    };
    // All of the header and of the first entry, and some of the others.
    for at in (0..200).step_by(7).chain((200..intact.len()).step_by(1997)) {
        let mut spoilt = intact.clone();
        spoilt[at] ^= 0x10;
        check(&spoilt, &format!("byte {at}"));
    }
    for len in [0, 1, 63, 64, 70, 77, 300, intact.len() - 1] {
        check(&intact[..len], &format!("{len} bytes"));
    }
    check(&[&intact[..], b"x"].concat(), "a byte more");
    fs::write(path_for(&path), &intact).unwrap();
    let (_, used) = both_ways(&path, "host 10.99.99.99", &search);
    assert!(matches!(used, IndexUse::Used { .. }), "{used:?}");
}

fn a_stale_index_is_ignored() {
    let (folder, path) = in_folder(&many(9_000, 200));
    index(&path, &IndexOptions::default());
    let stale = |path: &Path, what: &str| {
        let (_, used) = both_ways(path, "host 10.99.99.99", &Search::default());
        let IndexUse::Ignored { reason, .. } = used else {
            panic!("{what}: {used:?}");
        };
        assert!(matches!(reason, IndexError::Stale), "{what}: {reason}");
    };
    // Another file under the same name.
    let other = folder.path().join("other.pcap");
    fs::write(&other, many(9_000, 210)).unwrap();
    fs::copy(path_for(&path), path_for(&other)).unwrap();
    stale(&other, "another file");
    // The same length and another time: the packets may be others.
    let file = File::options().write(true).open(&path).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    let later = modified + std::time::Duration::from_nanos(1000);
    file.set_modified(later).unwrap();
    stale(&path, "changed later");
    file.set_modified(modified).unwrap();
    let (_, used) = both_ways(&path, "host 10.99.99.99", &Search::default());
    assert!(matches!(used, IndexUse::Used { .. }), "{used:?}");
    // Appended to.
    fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(&[0; 4])
        .unwrap();
    file.set_modified(modified).unwrap();
    let used = open_indexed(
        &path,
        &ReadOptions::default(),
        Some(&Filter::new("host 10.99.99.99")),
        &Search::default(),
    );
    assert!(matches!(used.unwrap().1, IndexUse::Ignored { .. }));
}

/// The part before the damage is indexed, and searches find the damage, too.
fn a_damaged_capture() {
    let mut whole = many(20_000, 200);
    whole.truncate(whole.len() - 7);
    let (_folder, path) = in_folder(&whole);
    let built = index(&path, &IndexOptions::default());
    assert!(built.damage.is_some() && built.packets <= 19_999);
    let (source, used) = open_indexed(
        &path,
        &ReadOptions::default(),
        Some(&Filter::new("host 10.99.99.99")),
        &Search::default(),
    )
    .unwrap();
    assert!(matches!(used, IndexUse::Used { .. }), "{used:?}");
    let (found, error) = read(source, &Search::default());
    assert_eq!(found.len(), 1);
    assert_eq!(
        error,
        Some(
            built
                .damage
                .unwrap()
                .to_string()
                .replace("a capture", &path.display().to_string())
        )
    );
}

/// At most a hundredth of the capture, also if every packet has unique addresses.
fn the_size_of_an_index() {
    let options = PcapOptions::for_interface(&Interface::new(LinkType::RAW, 65_535));
    let mut writer = PcapWriter::new(Vec::new(), &options).unwrap();
    for number in 0..200_000_u32 {
        let mut data = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
        data.extend(number.wrapping_mul(0x9e37_79b1).to_be_bytes());
        data.extend(number.wrapping_mul(0x85eb_ca77).to_be_bytes());
        data.extend(number.to_be_bytes());
        data.extend([0; 4]);
        let packet = Packet {
            timestamp: Timestamp::new(1, 0),
            len: 28,
            interface: 0,
            flags: PacketFlags::default(),
            data: &data,
            process: None,
        };
        writer.write_packet(&packet).unwrap();
    }
    let bytes = writer.finish().unwrap().0;
    let (_folder, path) = in_folder(&bytes);
    let built = index(&path, &IndexOptions::default());
    assert_eq!(built.bytes, path_for(&path).metadata().unwrap().len());
    assert!(
        built.bytes * 100 <= bytes.len() as u64,
        "{} of {}",
        built.bytes,
        bytes.len()
    );
}
