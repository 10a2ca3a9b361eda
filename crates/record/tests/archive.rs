//! The archive of a recorder: its budget, its catalogue, and what it mends after a crash.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ringtap_packet::{LinkType, Packet, PacketFlags, Timestamp};
use ringtap_record::archive::{
    Archive, ArchiveOptions, ChunkReader, Finding, Listing, Repaired, Stream, Window, bytes_below,
    check, look, open_catalogue,
};
use ringtap_record::{Access, Host, RecordError, RecordOptions, Recording, RotationPlan};
use ringtap_savefile::{Codec, Format, Interface, Item, Options, ReadOptions, Reader};

const SECOND: i64 = 1_700_000_000;

fn options(budget: u64, compressed: bool) -> ArchiveOptions {
    ArchiveOptions::default()
        .budget(budget)
        .compressed(compressed)
}

fn open(folder: &Path, options: ArchiveOptions) -> (Arc<Archive>, Repaired) {
    let directory = File::open(folder).unwrap();
    let found = look(folder).unwrap();
    let files = Arc::new(Access::Owner);
    let (archive, repaired) = Archive::open(folder, directory, &found, 0, files, options).unwrap();
    (Arc::new(archive), repaired)
}

fn recording(archive: &Arc<Archive>, compressed: bool, size: u64) -> Recording {
    let indexes = Arc::clone(archive);
    // The index itself is not made here.
    let complete = Box::new(move |completed: ringtap_record::archive::Completed| {
        indexes.indexed(&completed.path);
    });
    let stream = Stream::new(Arc::clone(archive), "d0", complete, Box::new(|_| ()));
    let mut rotation = RotationPlan::default();
    rotation.size = Some(size);
    let options = RecordOptions::default()
        .format(Format::Pcapng)
        .live(true)
        .codec(compressed.then_some(Codec::Zstd(1)))
        .flush(Duration::from_millis(30))
        .reserve(Some(256 << 10))
        .rotation(Some(rotation));
    let host: Arc<dyn Host> = Arc::new(stream);
    let mut recording = Recording::create(Path::new("unused"), options, host).unwrap();
    let mut interface = Interface::new(LinkType::ETHERNET, 65_535);
    interface.resolution = ringtap_savefile::Resolution::NANOS;
    recording.describe(&[interface]).unwrap();
    recording
}

/// Bytes that hardly compress, different for each packet.
fn payload(number: u64, len: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let bytes = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    let mut data: Vec<u8> = bytes.flatten().take(len).collect();
    data[..8].copy_from_slice(&number.to_le_bytes());
    data
}

fn write(recording: &mut Recording, numbers: std::ops::Range<u64>, len: usize) {
    for number in numbers {
        let data = payload(number, len);
        let packet = Packet {
            timestamp: Timestamp::new(SECOND + i64::try_from(number / 1000).unwrap(), 5),
            len: 60,
            interface: 0,
            flags: PacketFlags(0),
            data: &data,
            process: None,
        };
        let one = std::iter::once(Ok::<_, RecordError>((packet, Options::none())));
        assert!(recording.write_packets(one).unwrap().is_none());
    }
}

fn listing(folder: &Path, window: Window) -> Listing {
    let names: Vec<String> = look(folder).unwrap().into_iter().map(|f| f.name).collect();
    let names = names.iter().map(String::as_str);
    let catalogue = open_catalogue(&Access::Owner, folder, names).unwrap();
    Listing::read(catalogue.unwrap(), window).unwrap().unwrap()
}

/// Returns the numbers of all packets that a window's chunks have.
fn numbers(folder: &Path, window: Window) -> Vec<u64> {
    let mut numbers = Vec::new();
    for listed in listing(folder, window).files {
        let file = File::open(listed.name.path(folder)).unwrap();
        let chunks = ChunkReader::new(file, &listed.name, listed.chunks, Arc::default());
        let name = listed.name.to_string();
        let mut reader = Reader::new(Box::new(chunks), &name, &ReadOptions::default()).unwrap();
        while let Some(item) = reader.next().unwrap() {
            if let Item::Run(run) = item {
                for packet in run.packets() {
                    let number = packet.data.first_chunk().unwrap();
                    numbers.push(u64::from_le_bytes(*number));
                }
            }
        }
    }
    numbers
}

/// Compares numbers, with a short message.
fn same(found: &[u64], expected: std::ops::Range<u64>) {
    let differs = expected.clone().zip(found).find(|(a, b)| a != *b);
    let (count, wanted) = (found.len() as u64, expected.end - expected.start);
    assert!(
        differs.is_none() && count == wanted,
        "{count} of {wanted} packets, first difference {differs:?}"
    );
}

/// Waits until the catalogue has this number of packets.
fn until_listed(archive: &Archive, packets: u64) {
    let begun = std::time::Instant::now();
    while archive.usage().packets < packets {
        assert!(begun.elapsed() < Duration::from_secs(60), "not listed");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn chunks_of_a_window_are_read_while_the_recorder_writes() {
    for compressed in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (archive, _) = open(folder.path(), options(1 << 30, compressed));
        let mut recording = recording(&archive, compressed, 2 << 20);
        for part in 0..10 {
            write(&mut recording, part * 1000..(part + 1) * 1000, 500);
            until_listed(&archive, (part + 1) * 1000);
        }
        let all = numbers(folder.path(), Window::default());
        same(&all, 0..10_000);
        let window = Window {
            from: Some((SECOND + 4) * 1_000_000_000),
            to: Some((SECOND + 5) * 1_000_000_000),
        };
        let some = numbers(folder.path(), window);
        assert!((4000..5000).all(|number| some.contains(&number)));
        assert!(
            some.len() < 6000,
            "{} packets are not of the window",
            some.len()
        );
        assert!(listing(folder.path(), window).skipped.packets >= 4000);
        assert_eq!(recording.finish().unwrap().packets, 10_000);
        same(&numbers(folder.path(), Window::default()), 0..10_000);
        // The files are what others read.
        for found in look(folder.path()).unwrap() {
            if found.name.contains(".pcapng") {
                let path = folder.path().join(&found.name);
                let mut reader = Reader::open(&path, &ReadOptions::default()).unwrap();
                while reader.next().unwrap().is_some() {}
            }
        }
    }
}

#[test]
fn the_budget_is_kept_at_any_moment() {
    for compressed in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let budget = 16 << 20;
        let (archive, _) = open(folder.path(), options(budget, compressed));
        let (over, most) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let watcher = {
            let (path, over, most) = (folder.path().to_owned(), over.clone(), most.clone());
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    if let Ok(bytes) = bytes_below(&path) {
                        most.fetch_max(bytes, Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            })
        };
        let mut recording = recording(&archive, compressed, 1 << 20);
        write(&mut recording, 0..60_000, 1000);
        recording.finish().unwrap();
        over.store(true, Ordering::Relaxed);
        watcher.join().unwrap();
        let most = most.load(Ordering::Relaxed);
        assert!(most <= budget, "{most} bytes, compressed: {compressed}");
        assert!(most > budget / 2, "only {most} bytes were used");
        let kept = numbers(folder.path(), Window::default());
        assert_eq!(kept.last(), Some(&59_999));
        assert!(archive.usage().removed > 20);
        assert!(kept.windows(2).all(|pair| pair[0] + 1 == pair[1]), "a gap");
    }
}

/// Copies a folder as a crash would leave it.
fn crashed(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

fn newest(folder: &Path) -> PathBuf {
    let found = look(folder).unwrap();
    let mut names = found.iter().filter(|f| f.name.contains(".pcapng"));
    folder.join(&names.next_back().unwrap().name)
}

#[test]
fn a_file_that_a_crash_cut_is_mended() {
    for compressed in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (archive, _) = open(folder.path(), options(1 << 30, compressed));
        let mut recording = recording(&archive, compressed, 8 << 20);
        write(&mut recording, 0..3000, 700);
        until_listed(&archive, 3000);
        let copy = crashed(folder.path());
        drop(recording);
        // A chunk that the catalogue does not have yet, and a part of the next one.
        let path = newest(copy.path());
        let catalogue = copy.path().join("catalogue.1");
        let file = File::options().write(true).open(&catalogue).unwrap();
        let len = file.metadata().unwrap().len();
        file.set_len(len - 64 - 7).unwrap();
        let file = File::options().append(true).open(&path).unwrap();
        // The header of a zstd block of 1000 bytes, and its beginning.
        std::io::Write::write_all(&mut &file, &[0x40, 0x1f, 0, 1, 2, 3, 4]).unwrap();
        let (again, repaired) = open(copy.path(), options(1 << 30, compressed));
        assert_eq!((repaired.ended, repaired.missing), (1, 0), "{repaired:?}");
        assert!(repaired.packets > 0, "{repaired:?}");
        same(&numbers(copy.path(), Window::default()), 0..3000);
        let mut reader = Reader::open(&path, &ReadOptions::default()).unwrap();
        while reader.next().unwrap().is_some() {}
        // The next start has nothing to do, and numbers go on.
        drop(again);
        let (again, repaired) = open(copy.path(), options(1 << 30, compressed));
        assert_eq!(repaired, Repaired::default());
        let mut more = self::recording(&again, compressed, 8 << 20);
        write(&mut more, 3000..3010, 700);
        more.finish().unwrap();
        assert_eq!(numbers(copy.path(), Window::default()).len(), 3010);
    }
}

#[test]
fn any_cut_leaves_packets_in_order_and_the_file_readable() {
    for compressed in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (archive, _) = open(folder.path(), options(1 << 30, compressed));
        let mut recording = recording(&archive, compressed, 8 << 20);
        for part in 0..4 {
            write(&mut recording, part * 100..(part + 1) * 100, 300);
            until_listed(&archive, (part + 1) * 100);
        }
        let whole = crashed(folder.path());
        drop(recording);
        let len = newest(whole.path()).metadata().unwrap().len();
        let cuts = (0..len).step_by(usize::try_from(len / 37).unwrap());
        // Zeros are what a power cut leaves of blocks that were reserved and never written.
        for (cut, zeros) in cuts.flat_map(|cut| [(cut, 0), (cut, 9000)]) {
            let copy = crashed(whole.path());
            let path = newest(copy.path());
            let file = File::options().write(true).open(&path).unwrap();
            file.set_len(cut).unwrap();
            file.set_len(cut + zeros).unwrap();
            // The catalogue knows the header only, as if the rest was not on the disk.
            let catalogue = copy.path().join("catalogue.1");
            let file = File::options().write(true).open(&catalogue).unwrap();
            file.set_len(3 * 64).unwrap();
            let (_, _) = open(copy.path(), options(1 << 30, compressed));
            if !path.exists() {
                assert!(cut < 40_000, "the file is gone at {cut}");
                continue;
            }
            let listing = listing(copy.path(), Window::default());
            if listing
                .files
                .iter()
                .all(ringtap_record::archive::Listed::is_listed)
            {
                let kept = numbers(copy.path(), Window::default());
                assert!(kept.iter().copied().eq(0..kept.len() as u64), "at {cut}");
                let mut reader = Reader::open(&path, &ReadOptions::default()).unwrap();
                while reader.next().unwrap().is_some() {}
            }
        }
    }
}

#[test]
fn damage_costs_its_chunk_alone_and_a_check_finds_it() {
    let folder = tempfile::tempdir().unwrap();
    let (archive, _) = open(folder.path(), options(1 << 30, true));
    let mut recording = recording(&archive, true, 64 << 20);
    for part in 0..5 {
        write(&mut recording, part * 500..(part + 1) * 500, 500);
        until_listed(&archive, (part + 1) * 500);
    }
    recording.finish().unwrap();
    let path = newest(folder.path());
    let chunks = listing(folder.path(), Window::default()).files[0]
        .chunks
        .clone();
    let hit = chunks[chunks.len() / 2];
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let mut byte = [0];
    let at = hit.offset + u64::from(hit.len / 2);
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    let kept = numbers(folder.path(), Window::default());
    assert_eq!(kept.len() as u64, 2500 - u64::from(hit.packets));
    let mut damaged = Vec::new();
    let all = listing(folder.path(), Window::default());
    check(&Access::Owner, folder.path(), &all, &mut |finding| {
        if let Finding::Damaged { chunk, .. } = finding {
            damaged.push(chunk);
        }
        true
    })
    .unwrap();
    assert_eq!(damaged, [hit]);
}

#[test]
fn the_folder_and_the_catalogue_are_made_to_agree() {
    let folder = tempfile::tempdir().unwrap();
    let (archive, _) = open(folder.path(), options(1 << 30, true));
    let mut recording = recording(&archive, true, 1 << 20);
    write(&mut recording, 0..8000, 500);
    recording.finish().unwrap();
    drop(archive);
    let files: Vec<String> = look(folder.path())
        .unwrap()
        .into_iter()
        .map(|f| f.name)
        .collect();
    let data: Vec<&String> = files.iter().filter(|name| name.ends_with(".zst")).collect();
    assert!(data.len() >= 3, "{files:?}");
    fs::remove_file(folder.path().join(data[0])).unwrap();
    fs::write(folder.path().join(format!("{}.idx", data[0])), "old").unwrap();
    let (archive, repaired) = open(folder.path(), options(1 << 30, true));
    assert_eq!((repaired.missing, repaired.unknown), (1, 0));
    drop(archive);
    assert!(!folder.path().join(format!("{}.idx", data[0])).exists());
    let kept = numbers(folder.path(), Window::default());
    // Without the catalogue, files are found by their names.
    for generation in 1..3 {
        let _ = fs::remove_file(folder.path().join(format!("catalogue.{generation}")));
    }
    let (_, repaired) = open(folder.path(), options(1 << 30, true));
    assert_eq!(repaired.unknown, data.len() as u64 - 1);
    assert!(numbers(folder.path(), Window::default()) == kept);
    // A smaller budget removes the oldest.
    let (archive, _) = open(folder.path(), options(2 << 20, true));
    assert!(archive.usage().bytes <= 2 << 20);
    let less = numbers(folder.path(), Window::default());
    assert!(less.len() < kept.len() && kept.ends_with(&less));
}

#[test]
fn files_that_are_too_old_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(1 << 30, true).max_age(Some(Duration::from_secs(3)));
    let (archive, _) = open(folder.path(), options);
    let mut recording = recording(&archive, true, 300 << 10);
    write(&mut recording, 0..6000, 500);
    recording.finish().unwrap();
    archive.tick(Timestamp::new(SECOND + 6, 0));
    let kept = numbers(folder.path(), Window::default());
    assert!(kept[0] > 2000 && kept[0] <= 3000, "{}", kept[0]);
    assert_eq!(kept.last(), Some(&5999));
}

#[test]
fn a_removed_folder_is_reported() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("f");
    fs::create_dir(&folder).unwrap();
    let (archive, _) = open(&folder, options(1 << 30, true));
    assert!(archive.check_folder().is_ok());
    fs::remove_dir_all(&folder).unwrap();
    assert!(archive.check_folder().is_err());
}

#[test]
fn a_catalogue_of_removed_files_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (archive, _) = open(folder.path(), options(16 << 20, false));
    let mut recording = recording(&archive, false, 64 << 10);
    write(&mut recording, 0..90_000, 1400);
    recording.finish().unwrap();
    let names: Vec<String> = look(folder.path())
        .unwrap()
        .into_iter()
        .map(|f| f.name)
        .collect();
    let catalogues: Vec<&String> = names
        .iter()
        .filter(|n| n.starts_with("catalogue"))
        .collect();
    assert_eq!(catalogues.len(), 1, "{catalogues:?}");
    assert_ne!(catalogues[0], "catalogue.1");
    let mut bytes = Vec::new();
    let mut file = File::open(folder.path().join(catalogues[0])).unwrap();
    file.read_to_end(&mut bytes).unwrap();
    assert!(bytes.len() < 64 * 8192, "{} bytes", bytes.len());
    assert_eq!(
        numbers(folder.path(), Window::default()).last(),
        Some(&89_999)
    );
}
