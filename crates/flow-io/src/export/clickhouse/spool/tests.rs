//! The file of a spool: what it holds, over the end of the program, and what it refuses.

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use super::*;
use crate::Access;

const NOW: Duration = Duration::ZERO;
const ADDRESS: &str = "clickhouse:http://127.0.0.1:8123/flows";

fn options(folder: &Path, size: u64) -> SpoolOptions {
    SpoolOptions {
        folder: folder.join("spool"),
        size,
        access: Access::Owner,
    }
}

fn batch(number: u8, len: usize) -> Batch {
    Batch {
        bytes: vec![number; len],
        records: number.into(),
    }
}

fn add(spool: &Spool, number: u8, len: usize) -> bool {
    let token = format!("run-{number}");
    spool.add(&batch(number, len), &token, "INSERT").is_ok()
}

/// Returns the number of the first batch.
fn first(spool: &Spool) -> Option<(u8, u64)> {
    match spool.first(NOW) {
        Next::Batch(waiting) => {
            assert_eq!(waiting.statement, "INSERT");
            let number = waiting.rows[0];
            assert_eq!(waiting.token, format!("run-{number}"));
            assert_eq!(waiting.records, u64::from(number));
            Some((number, waiting.len))
        }
        Next::Damaged { error, .. } | Next::Failed(error) => panic!("{error}"),
        Next::Empty | Next::Ended => None,
    }
}

/// Sends all batches, and returns their numbers.
fn drain(spool: &Spool) -> Vec<u8> {
    let mut numbers = Vec::new();
    while let Some((number, len)) = first(spool) {
        spool.remove_first(number.into(), len).expect("removed");
        numbers.push(number);
    }
    numbers
}

#[test]
fn batches_survive_the_end_of_the_program_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(folder.path(), 1 << 20);
    let spool = Spool::open(&options, ADDRESS).expect("opened");
    assert!((1..=5).all(|number| add(&spool, number, 1000)));
    let (number, len) = first(&spool).expect("a batch");
    spool.remove_first(number.into(), len).expect("removed");
    drop(spool);
    let spool = Spool::open(&options, ADDRESS).expect("opened again");
    assert_eq!((spool.records(), spool.earlier()), (14, 14));
    assert!(add(&spool, 6, 10));
    assert_eq!(drain(&spool), [2, 3, 4, 5, 6]);
    assert!(matches!(spool.first(NOW), Next::Empty));
    spool.close();
    assert!(matches!(spool.first(NOW), Next::Ended));
    let size = fs::metadata(spool.path()).expect("a file").len();
    assert_eq!(size, START, "an empty spool takes no room");
}

#[test]
fn it_never_takes_more_than_its_size_and_frees_what_was_sent() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
    let spool = Spool::open(&options(folder.path(), 100_000), ADDRESS).expect("opened");
    assert!((1..=3).all(|number| add(&spool, number, 30_000)));
    assert!(!add(&spool, 4, 30_000), "no room");
    let before = fs::metadata(spool.path()).expect("a file");
    let (number, len) = first(&spool).expect("a batch");
    spool.remove_first(number.into(), len).expect("removed");
    let after = fs::metadata(spool.path()).expect("a file");
    if after.blocks() < before.blocks() {
        assert!(add(&spool, 5, 30_000), "room was freed");
        assert_eq!(drain(&spool), [2, 3, 5]);
    } else {
        // A file system without holes: the room comes back when the file is empty.
        assert_eq!(drain(&spool), [2, 3]);
        assert!(add(&spool, 5, 30_000));
    }
}

#[test]
fn a_batch_that_was_cut_by_a_crash_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(folder.path(), 1 << 20);
    for cut in [1, 500, 1000, 1015, 1050] {
        let spool = Spool::open(&options, ADDRESS).expect("opened");
        assert!(add(&spool, 1, 1000) && add(&spool, 2, 1000));
        let size = fs::metadata(spool.path()).expect("a file").len();
        spool.file.set_len(size - cut).expect("cut");
        drop(spool);
        let spool = Spool::open(&options, ADDRESS).expect("opened again");
        assert!(add(&spool, 3, 1000));
        assert_eq!(drain(&spool), [1, 3], "{cut} bytes less");
    }
}

#[test]
fn a_batch_that_changed_on_the_disk_costs_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(folder.path(), 1 << 20);
    let spool = Spool::open(&options, ADDRESS).expect("opened");
    assert!((1..=3).all(|number| add(&spool, number, 1000)));
    let (number, len) = first(&spool).expect("a batch");
    spool
        .file
        .write_all_at(b"x", START + len + 200)
        .expect("written");
    spool.remove_first(number.into(), len).expect("removed");
    match spool.first(NOW) {
        Next::Damaged {
            records: 2, len, ..
        } => spool.remove_first(2, len).expect("removed"),
        _ => panic!("the second batch has changed"),
    };
    assert_eq!(drain(&spool), [3]);
}

#[test]
fn damage_of_a_head_costs_no_batch_behind_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(folder.path(), 1 << 20);
    let spool = Spool::open(&options, ADDRESS).expect("opened");
    assert!((1..=4).all(|number| add(&spool, number, 1000)));
    let (_, len) = first(&spool).expect("a batch");
    // The length of the second batch, before and after the file is opened again.
    let damage = |spool: &Spool| {
        let place = START + len + 16;
        spool.file.write_all_at(&[0xff; 8], place).expect("written");
    };
    damage(&spool);
    spool.remove_first(1, len).expect("removed");
    match spool.first(NOW) {
        Next::Damaged {
            records: 0,
            len: passed,
            ..
        } => {
            assert_eq!(passed, len);
            spool.remove_first(0, passed).expect("removed");
        }
        _ => panic!("the second batch has changed"),
    }
    let (number, len) = first(&spool).expect("a batch");
    assert_eq!(
        (number, spool.remove_first(3, len).expect("removed")),
        (3, 0)
    );
    let (number, len) = first(&spool).expect("a batch");
    let lost = spool.remove_first(4, len).expect("removed");
    assert_eq!((number, lost), (4, 2), "those of the second batch");

    assert!((1..=4).all(|number| add(&spool, number, 1000)));
    damage(&spool);
    drop(spool);
    let spool = Spool::open(&options, ADDRESS).expect("opened again");
    assert_eq!((spool.earlier(), spool.cut()), (1 + 3 + 4, 0));
    let (number, len) = first(&spool).expect("a batch");
    spool.remove_first(number.into(), len).expect("removed");
    match spool.first(NOW) {
        Next::Damaged { len, .. } => spool.remove_first(0, len).expect("removed"),
        _ => panic!("the second batch has changed"),
    };
    assert_eq!(drain(&spool), [3, 4]);
}

/// The number of records is one of the bytes that can change.
#[test]
fn a_number_of_records_that_changed_makes_no_other_count_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let spool = Spool::open(&options(folder.path(), 1 << 20), ADDRESS).expect("opened");
    assert!(add(&spool, 1, 1000) && add(&spool, 2, 1000));
    let place = START + 24;
    spool.file.write_all_at(&[200], place).expect("written");
    let Next::Damaged { records, len, .. } = spool.first(NOW) else {
        panic!("the first batch has changed");
    };
    spool.remove_first(records, len).expect("removed");
    assert_eq!(drain(&spool), [2]);
    assert_eq!(spool.records(), 0);
}

#[test]
fn room_that_was_freed_is_there_after_the_file_is_opened_again() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
    let options = options(folder.path(), 100_000);
    let spool = Spool::open(&options, ADDRESS).expect("opened");
    assert!((1..=3).all(|number| add(&spool, number, 30_000)));
    for _ in 0..2 {
        let (number, len) = first(&spool).expect("a batch");
        spool.remove_first(number.into(), len).expect("removed");
    }
    let has_holes = spool.lock().freed > START;
    drop(spool);
    let spool = Spool::open(&options, ADDRESS).expect("opened again");
    assert_eq!(spool.earlier(), 3);
    assert_eq!(add(&spool, 4, 30_000), has_holes);
    assert_eq!(add(&spool, 5, 30_000), has_holes);
}

/// The states that a crash can leave while a file is made or emptied.
#[test]
fn a_crash_while_it_is_made_or_emptied_leaves_a_spool() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(folder.path(), 1 << 20);
    let path = Spool::open(&options, ADDRESS)
        .expect("opened")
        .path()
        .to_owned();
    for content in [
        &b""[..],
        &MAGIC[..7],
        &MAGIC,
        &[&MAGIC[..], &[0; 8]].concat(),
        &[0; 4096],
    ] {
        fs::write(&path, content).expect("written");
        let spool = Spool::open(&options, ADDRESS).expect("opened again");
        assert!(add(&spool, 1, 1000));
        assert_eq!(drain(&spool), [1]);
    }
    // It was cut, but the offset of the first batch is an old one.
    let spool = Spool::open(&options, ADDRESS).expect("opened");
    spool.write_begin(5000).expect("written");
    drop(spool);
    let spool = Spool::open(&options, ADDRESS).expect("opened again");
    assert!(add(&spool, 1, 1000) && add(&spool, 2, 1000));
    drop(spool);
    let spool = Spool::open(&options, ADDRESS).expect("opened again");
    assert_eq!(drain(&spool), [1, 2]);
}

#[test]
fn other_files_and_other_programs_are_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(folder.path(), 1 << 20);
    let spool = Spool::open(&options, ADDRESS).expect("opened");
    let text = |opened: Result<Spool, OutputError>| match opened {
        Ok(_) => "it was opened".to_owned(),
        Err(error) => error.to_string(),
    };
    let refused = text(Spool::open(&options, ADDRESS));
    assert!(refused.ends_with("another ringtap uses it"), "{refused}");
    let other = Spool::open(&options, "clickhouse:http://127.0.0.1:8123/other");
    assert!(other.is_ok(), "another table has a file of its own");
    let path = spool.path().to_owned();
    drop(spool);
    fs::write(&path, "notes of somebody").expect("written");
    let refused = text(Spool::open(&options, ADDRESS));
    assert!(refused.contains("no spool of this version"), "{refused}");
    assert_eq!(fs::read(&path).expect("read"), b"notes of somebody");
}
