//! Stores that are written, merged, limited and read, in folders of their own.

mod disk;
mod logs;

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parquet::file::properties::ReaderProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::serialized_reader::ReadOptionsBuilder;
use ringtap_flow::FlowRecord;
use ringtap_flow::schema::{Origin, Row, address_bytes};

use super::compact::{self, Step};
use super::encode::{Decoder, WHOLE};
use super::files::{OwnFiles, StoreFiles};
use super::folder::{Files, Folder};
use super::*;

const SECOND: u64 = 1_000_000_000;
/// 2025-11-26, 06:53:20 UTC.
const START: u64 = 1_764_140_000;

fn record(second: u64, source: u16) -> FlowRecord {
    let mut record = FlowRecord::default();
    record.key.source = format!("10.0.{}.{}", source >> 8, source & 255)
        .parse()
        .expect("an address");
    record.key.source_port = source;
    record.key.protocol = 17;
    record.forward.packets = 1;
    record.forward.bytes = 100 + u64::from(source);
    record.forward.first_ns = second * SECOND;
    record.forward.last_ns = second * SECOND + 5;
    record
}

fn offline() -> StoreOptions {
    StoreOptions::default()
        .exporter("probe".to_owned())
        .wait(true)
}

fn open(path: &Path, options: StoreOptions) -> Store {
    let files = Box::new(OwnFiles::default());
    let mut store = Store::open(path, options, files).expect("a store");
    store.begin().expect("begun");
    store
}

/// Returns the files of a store, sorted.
fn files_below(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(files_below(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

fn data(path: &Path) -> Vec<PathBuf> {
    let all = files_below(path).into_iter();
    let ending = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "parquet");
    all.filter(ending).collect()
}

/// Returns the number of records in a file, and the sum of their bytes.
fn sums(path: &Path) -> io::Result<(usize, i64)> {
    let mut decoder = Decoder::open(File::open(path)?)?;
    let mut columns = Columns::new(decoder.fields()?.into());
    while decoder.group(&mut columns)? {}
    let at = columns
        .fields
        .iter()
        .position(|field| field.name == "bytes");
    let columns::Values::Large(bytes) = &columns.columns[at.expect("a column")].values else {
        panic!("bytes are numbers");
    };
    Ok((columns.rows, bytes.iter().sum()))
}

fn all_sums(path: &Path) -> (usize, i64) {
    let each = data(path)
        .into_iter()
        .map(|file| sums(&file).expect("a file"));
    each.fold((0, 0), |(rows, bytes), (more, others)| {
        (rows + more, bytes + others)
    })
}

#[test]
fn records_come_back_from_the_folders_of_their_hours() {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("store");
    let mut store = open(&path, offline());
    for number in 0..100_u16 {
        let second = START + u64::from(number) * 60;
        store.record(&Row::new(&record(second, number)));
    }
    store.finish().expect("written");
    let report = store.report();
    assert_eq!((report.records, report.files), (100, 3));
    let folders: Vec<_> = data(&path)
        .iter()
        .map(|file| {
            file.parent()
                .and_then(|leaf| leaf.strip_prefix(&path).ok())
                .map(Path::to_owned)
        })
        .collect();
    let hours = ["6", "7", "8"];
    for (folder, hour) in folders.iter().zip(hours) {
        let expected = format!("date=2025-11-26/hour={hour}/exporter=probe");
        assert_eq!(folder.as_deref(), Some(Path::new(&expected)));
    }
    assert_eq!(all_sums(&path), (100, 100 * 100 + 99 * 50));
}

#[test]
fn a_run_adds_to_a_store_and_merges_its_files() {
    let place = tempfile::tempdir().expect("a folder");
    for run in 0..5 {
        let mut store = open(place.path(), offline());
        for number in 0..50 {
            store.record(&Row::new(&record(START + run, number)));
        }
        store.finish().expect("written");
        assert_eq!(store.report().not_merged, 0);
    }
    let files = data(place.path());
    // The first two runs' files are one; later ones wait until there are enough.
    assert_eq!(files.len(), 4, "{files:?}");
    assert_eq!(all_sums(place.path()).0, 250);
    assert!(
        files
            .iter()
            .any(|file| file.to_string_lossy().contains("/merged-"))
    );
}

#[test]
fn large_row_groups_are_copied_with_their_filters() {
    let place = tempfile::tempdir().expect("a folder");
    let many = u16::try_from(WHOLE - 1).expect("a number");
    for last in [9, many] {
        let mut store = open(place.path(), offline());
        for number in 0..=last {
            store.record(&Row::new(&record(START, number)));
        }
        store.finish().expect("written");
        assert_eq!(store.report().not_merged, 0);
    }
    let files = data(place.path());
    let [file] = &files[..] else {
        panic!("{files:?}");
    };
    assert!(file.to_string_lossy().contains("/merged-"));
    let bytes = |last: u16| {
        (0..=i64::from(last))
            .map(|number| 100 + number)
            .sum::<i64>()
    };
    let expected = (WHOLE + 10, bytes(9) + bytes(many));
    assert_eq!(sums(file).expect("a whole file"), expected);
    let filters = ReaderProperties::builder().set_read_bloom_filter(true);
    let options = ReadOptionsBuilder::new().with_page_index();
    let options = options.with_reader_properties(filters.build()).build();
    let file = File::open(file).expect("a file");
    let reader = SerializedFileReader::new_with_options(file, options).expect("a whole file");
    let source = |number: u16| address_bytes(record(START, number).key.source);
    let mut rows = Vec::new();
    for number in 0..reader.num_row_groups() {
        let group = reader.get_row_group(number).expect("a row group");
        rows.push(group.metadata().num_rows());
        let columns = group.metadata().columns();
        let at = columns
            .iter()
            .position(|column| column.column_path().string() == "src");
        let at = at.expect("a column");
        let filter = group.get_column_bloom_filter(at).expect("a filter");
        assert!(filter.check(&source(9)[..]));
        assert_eq!(filter.check(&source(60_000)[..]), rows[number] > 10);
        let pages = reader.metadata().page_index_for_row_group(number);
        assert!(pages.column_index(at).is_some() && pages.offset_index(at).is_some());
    }
    rows.sort_unstable();
    assert_eq!(rows, [10, 65_536]);
}

#[test]
fn two_programs_do_not_write_to_one_store() {
    let place = tempfile::tempdir().expect("a folder");
    let store = open(place.path(), offline());
    let second = Store::open(place.path(), offline(), Box::new(OwnFiles::default()));
    assert!(matches!(second, Err(StoreError::Locked { .. })));
    drop(store);
}

#[test]
fn an_exporter_cannot_choose_folders() {
    let place = tempfile::tempdir().expect("a folder");
    let mut store = open(place.path(), offline());
    let now = now() / SECOND;
    let origin = |address: &str| Origin {
        exporter: address.parse::<SocketAddr>().expect("an address"),
        domain: 0,
        sampling: 1,
    };
    // Far from the present, in both directions: all go to the present hour.
    for (number, second) in [0, 1, now - 86_400, now + 86_400, u64::MAX / SECOND]
        .into_iter()
        .enumerate()
    {
        let record = record(second, u16::try_from(number).expect("small"));
        let origin = origin("[2001:db8::1]:2055");
        let mut row = Row::new(&record);
        row.origin = Some(&origin);
        store.record(&row);
    }
    // More addresses than there are folders for.
    for number in 0..2 * u16::try_from(EXPORTERS).expect("small") {
        let record = record(now, number);
        let origin = origin(&format!("10.1.{}.{}:9", number >> 8, number & 255));
        let mut row = Row::new(&record);
        row.origin = Some(&origin);
        store.record(&row);
    }
    store.finish().expect("written");
    let mut exporters: Vec<_> = data(place.path())
        .iter()
        .filter_map(|file| Some(file.parent()?.file_name()?.to_str()?.to_owned()))
        .collect();
    exporters.sort();
    exporters.dedup();
    assert_eq!(exporters.len(), EXPORTERS + 1);
    assert!(exporters.contains(&"exporter=2001-db8--1".to_owned()));
    assert!(exporters.contains(&format!("exporter={OTHERS}")));
    let dates = std::fs::read_dir(place.path()).expect("a folder");
    let dates = dates.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().is_dir()));
    assert!(
        dates.count() <= 2,
        "of today, or of the day that begins meanwhile"
    );
    assert_eq!(all_sums(place.path()).0, 5 + 2 * EXPORTERS);
}

#[test]
fn files_that_a_crash_left_unfinished_are_removed_and_others_stay() {
    let place = tempfile::tempdir().expect("a folder");
    let mut store = open(place.path(), offline());
    store.record(&Row::new(&record(START, 1)));
    store.finish().expect("written");
    drop(store);
    let hour = place.path().join("date=2025-11-26/hour=6");
    let leaf = hour.join("exporter=probe");
    let next = hour.join(".exporter=probe.new");
    std::fs::create_dir(&next).expect("a folder");
    let name = names::file_name(false, START * SECOND, 77);
    for unfinished in [
        leaf.join(names::unfinished(&name)),
        next.join(&name),
        next.join(names::unfinished(&name)),
    ] {
        std::fs::write(unfinished, "half").expect("written");
    }
    let foreign = [
        leaf.join("notes.txt"),
        hour.join("x.parquet"),
        place.path().join("README"),
    ];
    for path in &foreign {
        std::fs::write(path, "of others").expect("written");
    }
    drop(open(place.path(), offline()));
    assert!(!next.exists());
    assert!(!leaf.join(names::unfinished(&name)).exists());
    assert!(foreign.iter().all(|path| path.exists()));
}

#[test]
fn a_damaged_file_costs_no_other_and_stays() {
    let place = tempfile::tempdir().expect("a folder");
    let mut store = open(place.path(), offline());
    store.record(&Row::new(&record(START, 1)));
    store.finish().expect("written");
    drop(store);
    let whole = data(place.path()).remove(0);
    let bytes = std::fs::read(&whole).expect("a file");
    let mut changed = bytes.clone();
    changed[10..60].fill(0xff);
    for (number, damaged) in [&b"no Parquet"[..], &bytes[..bytes.len() / 2], &changed]
        .iter()
        .enumerate()
    {
        let name = names::file_name(false, START * SECOND, 50);
        let path = whole.with_file_name(name);
        std::fs::write(&path, damaged).expect("written");
        let mut store = open(place.path(), offline());
        store.record(&Row::new(&record(START + HOUR * (number as u64 + 1), 2)));
        store.finish().expect("written");
        let report = store.report();
        assert_eq!((report.records, report.not_merged), (1, 1), "{number}");
        assert!(path.exists() && sums(&whole).is_ok(), "{number}");
    }
}

#[test]
fn limits_remove_the_oldest_files_and_nothing_of_others() {
    let place = tempfile::tempdir().expect("a folder");
    let mut store = open(place.path(), offline());
    for hour in 0..20 {
        store.record(&Row::new(&record(START + hour * HOUR, 1)));
    }
    store.finish().expect("written");
    drop(store);
    let foreign = place
        .path()
        .join("date=2025-11-26/hour=6/exporter=probe/notes.txt");
    std::fs::write(&foreign, "of others").expect("written");
    let limit = 200 << 10;
    let retention = Retention {
        age: None,
        size: Some(limit),
    };
    let own = || Box::new(OwnFiles::default());
    let mut folder = Folder::open(place.path(), Access::Owner, retention, own()).expect("opened");
    let mut report = StoreReport::default();
    let leaf = Leaf {
        hour: START / HOUR + 30,
        exporter: "probe".to_owned(),
    };
    for number in 0..10 {
        let name = names::file_name(false, START * SECOND, 100 + number);
        folder
            .add(&leaf, &name, &[0; 40 << 10], &mut report)
            .expect("room");
        assert!(folder.total <= limit, "{}", folder.total);
        let on_disk: u64 = files_below(place.path())
            .iter()
            .map(|path| path.metadata().expect("a file").len())
            .sum();
        assert!(on_disk <= limit, "{on_disk}");
    }
    assert!(report.removed_files > 20);
    assert!(foreign.exists());
    let kept: Vec<_> = folder.leaves.keys().map(|leaf| leaf.hour).collect();
    assert_eq!(kept, [leaf.hour], "the oldest went first");
    let too_large = folder.add(&leaf, "x", &[0; 300 << 10], &mut report);
    assert_eq!(
        too_large.expect_err("no room").kind(),
        io::ErrorKind::QuotaExceeded
    );
}

#[test]
fn age_removes_whole_hours() {
    let place = tempfile::tempdir().expect("a folder");
    let retention = Retention {
        age: Some(Duration::from_secs(2 * HOUR)),
        size: None,
    };
    let mut store = open(place.path(), offline().retention(retention));
    let now = now() / SECOND;
    for hours in [0, 1, 5, 50] {
        store.record(&Row::new(&record(now - hours * HOUR, 1)));
    }
    store.finish().expect("written");
    let report = store.report();
    assert_eq!((report.records, report.removed_files), (4, 2));
    assert_eq!(all_sums(place.path()).0, 2);
    let empty = std::fs::read_dir(place.path()).expect("a folder");
    assert!(
        empty.count() <= 4,
        "the folders of the removed hours are gone"
    );
}

/// Lists a leaf as any program does, and opens each file. `None` if a file has gone meanwhile.
fn listed(leaf: &Path) -> Option<usize> {
    let mut rows = 0;
    for entry in std::fs::read_dir(leaf).ok()? {
        rows += sums(&entry.ok()?.path()).ok()?.0;
    }
    Some(rows)
}

#[test]
fn readers_see_each_record_once_while_files_are_merged() {
    const FILES: usize = 12;
    let place = tempfile::tempdir().expect("a folder");
    let leaf = Leaf {
        hour: START / HOUR,
        exporter: "probe".to_owned(),
    };
    let own = || Box::new(OwnFiles::default());
    let open =
        || Folder::open(place.path(), Access::Owner, Retention::default(), own()).expect("opened");
    let mut report = StoreReport::default();
    for round in 0..8 {
        let mut folder = open();
        for _ in 0..FILES {
            let mut columns = Columns::new(columns::stored(Fields::BASIC));
            columns.push(&Row::new(&record(START, round)));
            let form = encode::Form {
                lasts: false,
                batch: None,
            };
            let mut encoder = encode::Encoder::new(&columns.fields, form).expect("begun");
            encoder.group(&columns, &mut [0]).expect("written");
            let bytes = encoder.finish().expect("finished");
            let name = folder.new_name(false, START * SECOND);
            folder
                .add(&leaf, &name, &bytes, &mut report)
                .expect("added");
        }
        let path = place.path().join(leaf.path());
        let expected = data(&path)
            .iter()
            .map(|file| sums(file).expect("a file").0)
            .sum::<usize>();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = 0;
                while !is_done.load(Ordering::Acquire) || seen == 0 {
                    if let Some(rows) = listed(&path) {
                        assert_eq!(rows, expected);
                        seen += 1;
                    }
                }
            });
            while let Some(mut merge) = compact::begin(&folder, None, &[]) {
                loop {
                    match merge
                        .step(&mut folder, START * SECOND, &mut report)
                        .expect("merged")
                    {
                        Step::Done => break,
                        Step::More | Step::Held => {}
                    }
                }
            }
            is_done.store(true, Ordering::Release);
            reader.join().expect("each record once");
        });
        assert_eq!(all_sums(place.path()).0, expected);
    }
    assert!(report.merged_files > 0);
}

#[test]
fn a_reader_that_holds_the_store_keeps_its_files() {
    let place = tempfile::tempdir().expect("a folder");
    for number in 0..2 {
        let mut store = open(place.path(), offline().wait(number == 1));
        store.record(&Row::new(&record(START, number)));
        if number == 0 {
            store.finish().expect("written");
            continue;
        }
        drop(store);
    }
    let own = Box::new(OwnFiles::default());
    let mut folder =
        Folder::open(place.path(), Access::Owner, Retention::default(), own).expect("opened");
    let leaf = Leaf {
        hour: START / HOUR,
        exporter: "probe".to_owned(),
    };
    let mut report = StoreReport::default();
    let bytes = std::fs::read(&data(place.path())[0]).expect("a file");
    let name = folder.new_name(false, START * SECOND);
    folder
        .add(&leaf, &name, &bytes, &mut report)
        .expect("added");
    let reader = File::open(place.path().join(READERS_LOCK)).expect("the lock");
    assert!(ringtap_sys::disk::try_lock(&reader, false).expect("locked"));
    let before = data(place.path());
    let mut merge = compact::begin(&folder, None, &[]).expect("two files");
    let mut step = || {
        merge
            .step(&mut folder, START * SECOND, &mut report)
            .expect("a step")
    };
    while !matches!(step(), Step::Held) {}
    assert!(before.iter().all(|file| file.exists()));
    drop(reader);
    while !matches!(step(), Step::Done) {}
    assert!(before.iter().all(|file| !file.exists()));
    assert_eq!(all_sums(place.path()).0, 2);
    let files: Option<&Files> = folder.leaves.get(&leaf);
    assert_eq!(files.map(Files::len), Some(1));
}
