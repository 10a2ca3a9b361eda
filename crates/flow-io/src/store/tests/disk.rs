//! Disks that take no files, always or for a while.

use std::collections::BTreeSet;

use super::*;

/// Files of which the disk does not take some.
struct Failing {
    own: OwnFiles,
    fails: Box<dyn Fn(&Path) -> bool + Send>,
}

impl StoreFiles for Failing {
    fn create(&self, path: &Path) -> io::Result<File> {
        match (self.fails)(path) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => self.own.create(path),
        }
    }

    fn publish(&self, path: &Path) -> io::Result<()> {
        self.own.publish(path)
    }

    fn exchange(&self, path: &Path) -> io::Result<()> {
        self.own.exchange(path)
    }

    fn read(&self, path: &Path) -> io::Result<File> {
        self.own.read(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.own.remove(path)
    }
}

/// Opens a store on a disk that does not take some files.
fn failing(
    path: &Path,
    options: StoreOptions,
    fails: impl Fn(&Path) -> bool + Send + 'static,
) -> Store {
    let files = Failing {
        own: OwnFiles::default(),
        fails: Box::new(fails),
    };
    let mut store = Store::open(path, options, Box::new(files)).expect("a store");
    store.begin().expect("begun");
    store
}

/// The options of a store whose records come live.
fn live() -> StoreOptions {
    offline().wait(false)
}

/// A disk that is full, or not.
#[derive(Clone, Default)]
struct Disk {
    is_empty: Arc<AtomicBool>,
    /// The folders of which it has refused files.
    refused: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl Disk {
    fn refuses(&self, path: &Path) -> bool {
        if self.is_empty.load(Ordering::Acquire) {
            return false;
        }
        let folder = path.parent().expect("a folder").to_owned();
        self.refused.lock().expect("no panic").insert(folder);
        true
    }

    /// Opens a store on it.
    fn open(&self, path: &Path, options: StoreOptions) -> Store {
        let disk = self.clone();
        failing(path, options, move |path| disk.refuses(path))
    }

    /// Waits until it has refused files of so many folders.
    fn wait_for(&self, folders: usize) {
        wait_until(|| self.refused.lock().expect("no panic").len() >= folders);
    }

    fn make_room(&self) {
        self.is_empty.store(true, Ordering::Release);
    }
}

fn wait_until(condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < ringtap_testkit::patience(Duration::from_secs(60)));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Adds ten records to a store, as the batch of an hour: of the first hour the numbers 0 to 9.
fn add(store: &mut Store, hour: u16) {
    for number in hour * 10..hour * 10 + 10 {
        let second = START + u64::from(hour) * HOUR;
        store.record(&Row::new(&record(second, number)));
    }
    store.hand_over();
}

#[test]
fn records_of_a_file_that_the_disk_does_not_take_are_an_error() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let place = tempfile::tempdir().expect("a folder");
    let options = offline().notify(|text| SAID.lock().expect("no panic").push(text.to_owned()));
    let mut store = failing(place.path(), options, |_| true);
    add(&mut store, 0);
    add(&mut store, 1);
    let error = store
        .finish()
        .expect_err("the records of a file are not all kept");
    let path = place.path().display().to_string();
    assert!(error.to_string().contains(&path), "{error}");
    let report = store.report();
    assert_eq!((report.records, report.lost_disk), (0, 20));
    assert!(data(place.path()).is_empty());
    let said = SAID.lock().expect("no panic");
    let parts = ["takes no records: ", "records are lost"];
    assert_eq!(said.len(), parts.len(), "{said:?}");
    for (text, part) in said.iter().zip(parts) {
        assert!(text.starts_with(&path) && text.contains(part), "{said:?}");
    }
}

#[test]
fn files_that_cannot_be_merged_stay() {
    let place = tempfile::tempdir().expect("a folder");
    for _ in 0..2 {
        let is_merged = |path: &Path| path.to_string_lossy().contains("merged-");
        let mut store = failing(place.path(), offline(), is_merged);
        (0..10).for_each(|number| store.record(&Row::new(&record(START, number))));
        store.finish().expect("written");
    }
    assert_eq!(data(place.path()).len(), 2);
    assert_eq!(all_sums(place.path()).0, 20);
}

#[test]
fn a_disk_that_is_full_for_a_while_takes_no_record() {
    for options in [live(), live().log(true)] {
        let place = tempfile::tempdir().expect("a folder");
        let disk = Disk::default();
        let mut store = disk.open(place.path(), options);
        for hour in 0..2 {
            add(&mut store, hour);
            disk.wait_for(usize::from(hour) + 1);
        }
        disk.make_room();
        add(&mut store, 2);
        store.finish().expect("written");
        let report = store.report();
        assert_eq!((report.records, report.lost_disk), (30, 0));
        assert_eq!(report.lost_queue, 0);
        assert_eq!(all_sums(place.path()), (30, 30 * 100 + 435));
    }
}

#[test]
fn records_that_wait_too_long_for_a_full_disk_are_lost_and_counted() {
    for options in [live(), live().log(true)] {
        let place = tempfile::tempdir().expect("a folder");
        let disk = Disk::default();
        let mut store = disk.open(place.path(), options);
        for hour in 0..4 {
            add(&mut store, hour);
            disk.wait_for(usize::from(hour) + 1);
            // Two wait. The next batch needs the log of the one that was lost.
            let lost = u64::from(hour).saturating_sub(1) * 10;
            wait_until(|| store.report().lost_disk >= lost);
        }
        disk.make_room();
        store.finish().expect("written");
        let report = store.report();
        assert_eq!((report.records, report.lost_disk), (20, 20));
        assert_eq!(report.lost_queue, 0);
        // Those of the last two batches.
        assert_eq!(all_sums(place.path()), (20, 20 * 100 + 590));
    }
}

#[test]
fn records_stay_in_the_log_if_the_disk_is_full_at_the_end() {
    let place = tempfile::tempdir().expect("a folder");
    // One of two hours is written.
    let hour = START / HOUR;
    let leaf = format!("hour={}", (hour + 1) % 24);
    let is_later = move |path: &Path| path.to_string_lossy().contains(&leaf);
    let mut store = failing(place.path(), live().log(true), is_later);
    for number in 0..20_u16 {
        let second = START + u64::from(number % 2) * HOUR;
        store.record(&Row::new(&record(second, number)));
    }
    store.finish().expect("ended");
    let report = store.report();
    assert_eq!(
        (report.records, report.left_in_log, report.lost_disk),
        (10, 10, 0)
    );
    assert_eq!(all_sums(place.path()).0, 10);
    drop(store);
    let mut store = open(place.path(), live());
    assert_eq!(store.report().recovered, 10);
    store.finish().expect("ended");
    assert_eq!(all_sums(place.path()), (20, 20 * 100 + 190));
}

#[test]
fn without_a_log_the_last_records_of_a_full_disk_are_lost_and_counted() {
    let place = tempfile::tempdir().expect("a folder");
    let mut store = failing(place.path(), live(), |_| true);
    add(&mut store, 0);
    store.finish().expect("ended");
    let report = store.report();
    assert_eq!(
        (report.records, report.left_in_log, report.lost_disk),
        (0, 0, 10)
    );
}
