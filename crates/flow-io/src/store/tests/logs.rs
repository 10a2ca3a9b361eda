//! Logs after a crash: a copy of the folder, made while the store is open, is what a killed program leaves.

use std::fs;

use super::super::log::{LOG_SIZE, LOGS};
use super::super::names::log_name;
use super::*;

fn logged() -> StoreOptions {
    offline().log(true)
}

/// Copies a folder as it is.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &target),
            false => fs::copy(entry.path(), &target).map(drop).expect("copied"),
        }
    }
}

fn logs_of(path: &Path) -> Vec<PathBuf> {
    let all = (0..LOGS).map(|index| path.join(log_name(index)));
    all.filter(|log| log.exists()).collect()
}

/// Returns the log that has records.
fn full_log(path: &Path) -> PathBuf {
    let size = |log: &PathBuf| fs::metadata(log).expect("a file").len();
    let mut full = logs_of(path).into_iter().filter(|log| size(log) > 0);
    full.next().expect("a log with records")
}

/// Returns a store as a crash leaves it, with records in its log: numbers 0 to `count`, one every 10 minutes.
fn crashed(at: &Path, count: u16) {
    let place = tempfile::tempdir().expect("a folder");
    let mut store = open(place.path(), logged());
    for number in 0..count {
        let second = START + u64::from(number) * 600;
        store.record(&Row::new(&record(second, number)));
    }
    store.advance();
    copy(place.path(), at);
    store.finish().expect("written");
}

fn expected(count: u16) -> (usize, i64) {
    let count = i64::from(count);
    (
        usize::try_from(count).expect("a number"),
        count * 100 + count * (count - 1) / 2,
    )
}

#[test]
fn a_crash_loses_no_record_of_the_log() {
    for next in [logged(), offline()] {
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join("store");
        crashed(&path, 20);
        assert_eq!(
            data(&path),
            Vec::<PathBuf>::new(),
            "nothing is in a file yet"
        );
        let keeps_log = next.log;
        let mut store = open(&path, next);
        let report = store.report();
        assert_eq!(
            (report.recovered, report.records, report.cut_bytes),
            (20, 20, 0)
        );
        assert_eq!(all_sums(&path), expected(20));
        store.finish().expect("ended");
        assert_eq!(logs_of(&path).len(), if keeps_log { LOGS } else { 0 });
        // Another start finds nothing more.
        let mut store = open(&path, offline());
        assert_eq!(store.report().recovered, 0);
        store.finish().expect("ended");
        assert_eq!(all_sums(&path), expected(20));
    }
}

#[test]
fn records_that_are_in_a_file_already_are_not_stored_again() {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("store");
    crashed(&path, 20);
    let log = full_log(&path);
    let bytes = fs::read(&log).expect("a log");
    let start = || {
        let files = Box::new(OwnFiles::default());
        // Not begun: nothing is merged.
        let store = Store::open(&path, logged(), files).expect("a store");
        store.report().recovered
    };
    assert_eq!(start(), 20);
    // The second crash comes before the log is emptied.
    fs::write(&log, &bytes).expect("written");
    assert_eq!(start(), 0);
    assert_eq!(all_sums(&path), expected(20));
    // Or before the last file is written.
    let last = data(&path).pop().expect("a file");
    let records = sums(&last).expect("a file").0;
    fs::remove_file(last).expect("removed");
    fs::write(&log, &bytes).expect("written");
    assert_eq!(start(), records as u64);
    assert_eq!(all_sums(&path), expected(20));
}

#[test]
fn what_a_crash_cut_ends_the_log() {
    let place = tempfile::tempdir().expect("a folder");
    let whole = place.path().join("whole");
    {
        let place = tempfile::tempdir().expect("a folder");
        let mut store = open(place.path(), logged());
        for number in 0..3 {
            store.record(&Row::new(&record(START, number)));
            // A frame each.
            store.advance();
        }
        copy(place.path(), &whole);
        store.finish().expect("written");
    }
    let log = full_log(&whole);
    let bytes = fs::read(&log).expect("a log");
    let mut seen = [0; 4];
    for length in 0..=bytes.len() {
        let mut cut = bytes[..length].to_vec();
        let found = super::super::log::read(&cut).expect("no other file");
        let records = found.as_ref().map_or(0, |found| found.batch.columns.rows);
        seen[records] += 1;
        // Zeros at the end, as some file systems leave them.
        cut.resize(bytes.len() + 100, 0);
        if length == 0 || length >= 16 {
            let padded = super::super::log::read(&cut).expect("no other file");
            let rows = padded.map_or(0, |found| found.batch.columns.rows);
            // The bytes that were cut may have been zeros.
            assert!((records..=records + 1).contains(&rows), "{length}");
        }
    }
    assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
    // A byte that changed takes its frame and those behind it.
    let mut damaged = bytes.clone();
    let at = bytes.len() - 3;
    damaged[at] ^= 1;
    let found = super::super::log::read(&damaged)
        .expect("a log")
        .expect("records");
    assert_eq!(found.batch.columns.rows, 2);
    assert!(found.cut > 0);
    fs::write(&log, &damaged).expect("written");
    let mut store = open(&whole, logged());
    let report = store.report();
    assert_eq!((report.recovered, report.cut_bytes), (2, found.cut as u64));
    store.finish().expect("ended");
}

/// Files on a slow disk.
struct Slow(OwnFiles);

impl StoreFiles for Slow {
    fn create(&self, path: &Path) -> io::Result<File> {
        std::thread::sleep(Duration::from_millis(20));
        self.0.create(path)
    }

    fn publish(&self, path: &Path) -> io::Result<()> {
        self.0.publish(path)
    }

    fn exchange(&self, path: &Path) -> io::Result<()> {
        self.0.exchange(path)
    }

    fn read(&self, path: &Path) -> io::Result<File> {
        self.0.read(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }
}

#[test]
fn each_batch_has_a_log_however_slow_the_disk_is() {
    for waits in [true, false] {
        let place = tempfile::tempdir().expect("a folder");
        let files = Box::new(Slow(OwnFiles::default()));
        let options = logged().wait(waits);
        let mut store = Store::open(place.path(), options, files).expect("a store");
        store.begin().expect("begun");
        for number in 0..40 {
            store.record(&Row::new(&record(START, number)));
            store.hand_over();
            assert!(
                store.batch.log.is_some(),
                "{number}: a crash would lose records"
            );
        }
        store.finish().expect("written");
        let report = store.report();
        assert_eq!(report.records + report.lost_queue, 40);
        assert_eq!(report.lost_queue > 0, !waits);
    }
}

#[test]
fn frames_of_an_earlier_batch_are_not_of_this_one() {
    let place = tempfile::tempdir().expect("a folder");
    let paths = ["one", "two"].map(|name| place.path().join(name));
    let [one, two] = paths.map(|path| {
        crashed(&path, 5);
        fs::read(full_log(&path)).expect("a log")
    });
    let read = |bytes: &[u8]| {
        super::super::log::read(bytes)
            .expect("a log")
            .expect("records")
    };
    let head = 16 + 12 + u32::from_le_bytes(*one[16..].first_chunk().expect("bytes")) as usize;
    // The file was not emptied for the second batch, which is shorter.
    let kept = [&two[..], &one[head..]].concat();
    let found = read(&kept);
    assert_eq!(
        (found.number, found.batch.columns.rows),
        (read(&two).number, 5)
    );
    assert_eq!(found.cut, one.len() - head);
}

#[test]
fn links_and_pipes_are_no_logs() {
    let place = tempfile::tempdir().expect("a folder");
    let target = place.path().join("target");
    for kind in ["dangling", "link", "hard link", "pipe"] {
        let path = place.path().join(kind);
        fs::create_dir(&path).expect("a folder");
        let log = path.join(log_name(2));
        match kind {
            "dangling" => std::os::unix::fs::symlink(&target, &log).expect("a link"),
            "link" => std::os::unix::fs::symlink(path.join(log_name(0)), &log).expect("a link"),
            "hard link" => {
                fs::write(path.join("x"), b"").expect("written");
                fs::hard_link(path.join("x"), &log).expect("a link");
            }
            _ => {
                let made = std::process::Command::new("mkfifo").arg(&log).status();
                assert!(made.expect("mkfifo starts").success());
            }
        }
        let files = Box::new(OwnFiles::default());
        let refused = Store::open(&path, logged(), files).err().expect(kind);
        assert!(refused.to_string().contains(".log-2"), "{refused}");
    }
    assert!(!target.exists());
}

#[test]
fn a_file_that_is_no_log_stops_the_start_and_stays() {
    let place = tempfile::tempdir().expect("a folder");
    let other = place.path().join(log_name(1));
    fs::write(&other, b"my own diary, in ink").expect("written");
    for options in [logged(), offline()] {
        let files = Box::new(OwnFiles::default());
        let refused = Store::open(place.path(), options, files)
            .err()
            .expect("refused");
        let text = refused.to_string();
        assert!(
            text.contains(".log-1") && text.contains("not a log"),
            "{text}"
        );
        assert_eq!(fs::read(&other).expect("a file"), b"my own diary, in ink");
    }
}

#[test]
fn logs_stay_within_their_room_and_the_limit() {
    let place = tempfile::tempdir().expect("a folder");
    let limit = |size| Retention {
        size: Some(size),
        ..Retention::default()
    };
    let files = || Box::new(OwnFiles::default());
    let small = logged().retention(limit(LEAST_STORE));
    let refused = Store::open(place.path(), small, files())
        .err()
        .expect("refused");
    assert!(
        refused.to_string().contains("80 MiB with --store-wal"),
        "{refused}"
    );
    let least = logged().retention(limit(LEAST_LOGGED_STORE));
    let mut store = open(place.path(), least);
    let mut most = 0;
    for number in 0..200_000_u32 {
        let second = START + u64::from(number) / 1000;
        let mut one = record(second, u16::try_from(number % 65_536).expect("small"));
        one.forward.packets = number.into();
        store.record(&Row::new(&one));
        assert!(
            store.batch.log.is_some(),
            "{number}: a crash would lose records"
        );
        if number % 20_000 == 0 {
            let sizes = logs_of(place.path()).into_iter();
            most = sizes.fold(most, |most, log| {
                most.max(fs::metadata(log).expect("a file").len())
            });
        }
    }
    store.finish().expect("written");
    assert!((1 << 20..=LOG_SIZE).contains(&most), "{most}");
    assert!(store.report().total_bytes <= LEAST_LOGGED_STORE);
    let report = store.report();
    assert_eq!((report.records, report.not_logged), (200_000, 0));
}
