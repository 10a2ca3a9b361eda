//! Budgets and disks: a folder that never takes more, a disk that fills, cannot be written to, or goes.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ringtap_record::archive::bytes_below;
use ringtap_savefile::{Item, ReadOptions, Reader};
use ringtap_testkit::process::Running;
use ringtap_testkit::{Need, Test, test};

use crate::scene::{LIMIT, Scene, ended, files, now, stderr, stdout};

pub(crate) fn tests() -> Vec<Test> {
    let root = [Need::Root];
    let disk = [Need::Root, Need::Tool("unshare")];
    let ext4 = [disk[0], disk[1], Need::LoopDevices, Need::Tool("mkfs.ext4")];
    let xfs = [
        disk[0],
        disk[1],
        Need::LoopDevices,
        Need::FileSystem("xfs"),
        Need::Tool("mkfs.xfs"),
    ];
    let frozen = [ext4[0], ext4[1], ext4[2], ext4[3], Need::Tool("fsfreeze")];
    let mapper = [
        ext4[0],
        ext4[1],
        ext4[2],
        ext4[3],
        Need::DeviceMapper("error"),
    ];
    vec![
        test("the_budget_is_never_exceeded", &root, budget).serial(),
        test("a_disk_smaller_than_the_budget_is_enough", &disk, || {
            small(MEMORY);
        }),
        test("so_is_an_ext4_disk", &ext4, || {
            small(EXT4);
        }),
        test("so_is_an_xfs_disk", &xfs, || {
            small(XFS);
        }),
        test("a_disk_that_others_fill_is_survived", &disk, filled),
        test("some_of_the_disk_stays_free", &disk, kept_free),
        test("a_read_only_disk_is_survived", &ext4, read_only),
        test(
            "a_disk_that_stops_for_a_while_costs_nothing",
            &frozen,
            stopped,
        ),
        test("a_disk_with_errors_is_survived", &ext4, failing),
        test("a_device_with_errors_is_survived", &mapper, mapped),
        test(
            "an_unmounted_disk_is_not_replaced_by_its_folder",
            &disk,
            unmounted,
        ),
        test("a_removed_folder_ends_it", &root, removed),
        test("a_second_recorder_is_refused", &root, second),
        test("old_files_are_removed", &root, aged),
    ]
}

const MEMORY: &str = "mount -t tmpfs -o size=24M tmpfs rec";
const EXT4: &str = "PATH=$PATH:/usr/sbin:/sbin; truncate -s 40M image; \
                    mkfs.ext4 -q -F -m 0 image; mount -o loop image rec";

fn budget() {
    for codec in ["none", "zstd:1"] {
        let scene = Scene::new();
        let limit: u64 = 16 << 20;
        let options = ["--budget", "16M", "--compress", codec];
        let running = scene.recording(&options);
        let (over, most) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (stop, highest, folder) = (over.clone(), most.clone(), scene.dir());
        let watcher = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                if let Ok(bytes) = bytes_below(&folder) {
                    highest.fetch_max(bytes, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        // More than a hundred files.
        scene.sender().send_steadily(0..90_000, 1400);
        let said = stderr(&ended(running));
        over.store(true, Ordering::Relaxed);
        watcher.join().expect("a watcher");
        let most = most.load(Ordering::Relaxed);
        assert!(most <= limit, "{codec}: {most} bytes");
        assert!(most > limit / 2, "{codec}: {most} bytes only");
        let left = scene.numbers(&[]);
        assert_eq!(left.last(), Some(&89_999), "{said}");
        assert!(
            left.len() < 20_000 && left.len() > 4000,
            "{} packets",
            left.len()
        );
        let number = |path: &Path| {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            name.split('-')
                .nth(1)
                .and_then(|number| number.parse::<u64>().ok())
        };
        let last = files(&scene.dir()).last().and_then(|path| number(path));
        assert!(last > Some(90), "{last:?}");
    }
}

/// A disk so small is made only for tests, as these variables say.
const XFS: &str = "PATH=$PATH:/usr/sbin:/sbin; truncate -s 64M image; \
                   TEST_DIR=. TEST_DEV=. QA_CHECK_FS=. mkfs.xfs -q image; mount -o loop image rec";

/// Starts a recorder on a disk of its own, with a script that runs beside it.
fn on_disk(scene: &Scene, disk: &str, options: &str, beside: &str) -> Running {
    let side = &scene.pair.right;
    let ringtap = crate::scene::RINGTAP;
    let script = format!(
        "mkdir -p rec kept; {disk}; {ringtap} record -i {} --dir rec {options} & recorder=$!; {beside}; \
         wait $recorder; status=$?; cp -r rec/. kept; exit $status",
        side.device
    );
    let mut command = side.namespace.command("unshare");
    command
        .args(["--mount", "sh", "-c", &script])
        .current_dir(scene.root.path());
    command.stdin(std::process::Stdio::null());
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut running = Running::start(&mut command).expect("a start");
    running
        .wait_until_told("recording on", LIMIT)
        .expect("it records");
    running
}

/// Sends a signal to the recorder that a script has started.
fn interrupt(scene: &Scene) {
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("processes").flatten() {
        let path = entry.path();
        let cwd = std::fs::read_link(path.join("cwd")).unwrap_or_default();
        let line = std::fs::read_to_string(path.join("cmdline")).unwrap_or_default();
        let is_recorder = cwd == scene.root.path() && line.contains("\0record\0");
        if let (true, Some(id)) = (is_recorder, path.file_name().and_then(|id| id.to_str())) {
            pids.push(id.to_owned());
        }
    }
    assert!(!pids.is_empty(), "a recorder in {:?}", scene.root.path());
    let killed = Command::new("kill").arg("-INT").args(&pids).status();
    assert!(killed.expect("kill").success());
}

fn small(disk: &str) {
    let scene = Scene::new();
    let options = "--budget 1G --file-size 1M --compress none";
    let running = on_disk(&scene, disk, options, "true");
    scene.sender().send_steadily(0..60_000, 1400);
    std::thread::sleep(Duration::from_secs(1));
    interrupt(&scene);
    let output = running.wait(LIMIT).expect("an end");
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("60000 packets recorded"), "{said}");
    assert!(!said.contains("lost by the writer"), "{said}");
    let mut numbers = Vec::new();
    for file in files(&scene.root.path().join("kept")) {
        numbers.extend(crate::scene::numbers(&file));
    }
    assert_eq!(numbers.last(), Some(&59_999));
    assert!(numbers.len() > 5000 && numbers.windows(2).all(|two| two[0] + 1 == two[1]));
}

fn filled() {
    let scene = Scene::new();
    // Another program fills the disk for some seconds.
    let beside = "sleep 1; head -c 30M /dev/zero > rec/other 2>/dev/null; touch full; sleep 4; rm rec/other; touch free";
    // The loss is a trigger.
    let options = "--budget 1G --file-size 1M --compress none --trigger 'lost=loss > 0' --before 1s --after 1s \
                   --cool-down 1h";
    let running = on_disk(&scene, MEMORY, options, beside);
    let sender = scene.sender();
    let wait_for = |name: &str| {
        let begun = std::time::Instant::now();
        while !scene.root.path().join(name).exists() {
            assert!(begun.elapsed() < LIMIT, "{name}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_for("full");
    sender.send(0..8000, 1400);
    wait_for("free");
    std::thread::sleep(Duration::from_secs(3));
    sender.send(10_000..11_000, 1400);
    std::thread::sleep(Duration::from_secs(2));
    interrupt(&scene);
    let output = running.wait(LIMIT).expect("an end");
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("packets are lost until the disk takes them again"),
        "{said}"
    );
    assert!(said.contains("recording again"), "{said}");
    assert!(said.contains("lost by the writer"), "{said}");
    let mut numbers = Vec::new();
    for file in files(&scene.root.path().join("kept")) {
        numbers.extend(crate::scene::numbers(&file));
    }
    let later = numbers.iter().filter(|number| **number >= 10_000).count();
    assert_eq!(later, 1000, "{said}");
    let last = files(&scene.root.path().join("kept"))
        .pop()
        .expect("a file");
    let accepted = accepted(&last);
    assert!(
        accepted < Some(8000),
        "{accepted:?} packets in the statistics of the last file"
    );
    assert!(said.contains("trigger lost: "), "{said}");
    assert!(said.contains(" lost within a second"), "{said}");
}

/// Returns the packets that the filter accepted, by the statistics at a file's end.
fn accepted(file: &Path) -> Option<u64> {
    let mut reader = Reader::open(file, &ReadOptions::default()).expect("a capture");
    let mut accepted = None;
    while let Some(item) = reader.next().expect("a whole file") {
        if let Item::Statistics(statistics) = item {
            accepted = statistics.counters().accepted_by_filter;
        }
    }
    accepted
}

fn kept_free() {
    const FREE: u64 = 10 << 20;
    let scene = Scene::new();
    let beside = "while ! test -e over; do stat -f -c '%a %S' rec >>free; sleep 0.02; done";
    let options = "--budget 1G --keep-free 10M --file-size 1M --compress none";
    let running = on_disk(&scene, MEMORY, options, beside);
    scene.sender().send_steadily(0..30_000, 1400);
    std::thread::sleep(Duration::from_secs(1));
    interrupt(&scene);
    std::fs::write(scene.root.path().join("over"), "").expect("written");
    let output = running.wait(LIMIT).expect("an end");
    let said = stderr(&output);
    assert!(said.contains("30000 packets recorded"), "{said}");
    assert!(!said.contains("lost by the writer"), "{said}");
    let free = std::fs::read_to_string(scene.root.path().join("free")).expect("free room");
    let bytes = free.lines().filter_map(|line| {
        let (blocks, size) = line.split_once(' ')?;
        Some(blocks.parse::<u64>().ok()? * size.parse::<u64>().ok()?)
    });
    let least = bytes.min().expect("some lines");
    assert!(least >= FREE, "{least} bytes were free");
    assert!(least < FREE + (5 << 20), "{least} bytes were free at least");
}

fn read_only() {
    let scene = Scene::new();
    let beside =
        "sleep 1; mount -o remount,ro rec; touch ro; sleep 3; mount -o remount,rw rec; touch rw";
    let options = "--budget 1G --file-size 1M --compress none";
    let running = on_disk(&scene, EXT4, options, beside);
    let sender = scene.sender().run(0, 1000, 1000);
    let begun = std::time::Instant::now();
    while !scene.root.path().join("rw").exists() {
        assert!(begun.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(3));
    let last = sender.end().last().expect("packets").0;
    std::thread::sleep(Duration::from_secs(1));
    interrupt(&scene);
    let output = running.wait(LIMIT).expect("an end");
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let mut numbers = Vec::new();
    for file in files(&scene.root.path().join("kept")) {
        numbers.extend(crate::scene::numbers(&file));
    }
    assert!(numbers.contains(&last), "{said}");
}

/// Waits until a script has made a file.
fn wait_for(scene: &Scene, name: &str) {
    let begun = std::time::Instant::now();
    while !scene.root.path().join(name).exists() {
        assert!(begun.elapsed() < LIMIT, "{name}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the numbers of the packets that were on the disk at the end.
fn kept(scene: &Scene) -> Vec<u64> {
    let files = files(&scene.root.path().join("kept"));
    files
        .iter()
        .flat_map(|file| crate::scene::numbers(file))
        .collect()
}

fn stopped() {
    let scene = Scene::new();
    let beside = "sleep 1; fsfreeze -f rec; touch frozen; sleep 3; fsfreeze -u rec; touch thawed";
    let options = "--budget 1G --file-size 1M --compress none";
    let running = on_disk(&scene, EXT4, options, beside);
    let sender = scene.sender().run(0, 700, 2000);
    wait_for(&scene, "thawed");
    std::thread::sleep(Duration::from_secs(1));
    let sent = sender.end();
    std::thread::sleep(Duration::from_millis(500));
    interrupt(&scene);
    let output = running.wait(LIMIT).expect("an end");
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("lost by the writer"), "{said}");
    let last = sent.last().expect("packets").0 + 10;
    crate::scene::same(&kept(&scene), 0..last);
}

/// The disk is a file of 64 MiB in 20 MiB of memory: when these are used up, writing fails, until there are more.
const SPARSE: &str = "PATH=$PATH:/usr/sbin:/sbin; mkdir memory; mount -t tmpfs -o size=20M tmpfs memory; \
                      truncate -s 64M memory/image; \
                      mkfs.ext4 -q -F -m 0 -E lazy_itable_init=0 -O ^has_journal memory/image; \
                      mount -o loop memory/image rec";

fn failing() {
    let scene = Scene::new();
    let beside =
        "while ! test -e heal; do sleep 0.1; done; mount -o remount,size=200M memory; touch healed";
    let options = "--budget 1G --file-size 1M --compress none";
    let running = on_disk(&scene, SPARSE, options, beside);
    survives(&scene, running);
}

/// The disk is a device of which the second half fails, until it does not.
const MAPPED: &str = "PATH=$PATH:/usr/sbin:/sbin; truncate -s 64M image; loop=$(losetup -f --show image); \
                      name=ringtap$$; printf '0 131072 linear %s 0\\n' $loop >whole; \
                      printf '0 40960 linear %s 0\\n40960 90112 error\\n' $loop >broken; \
                      dmsetup create $name whole; \
                      mkfs.ext4 -q -F -m 0 -E lazy_itable_init=0 -O ^has_journal /dev/mapper/$name; \
                      mount /dev/mapper/$name rec; \
                      dmsetup suspend $name; dmsetup load $name broken; dmsetup resume $name";

fn mapped() {
    let scene = Scene::new();
    let beside = "while ! test -e heal; do sleep 0.1; done; \
                  dmsetup suspend $name; dmsetup load $name whole; dmsetup resume $name; touch healed; \
                  trap 'umount -l rec; dmsetup remove --retry $name; losetup -d $loop' EXIT";
    let options = "--budget 1G --file-size 1M --compress none";
    let running = on_disk(&scene, MAPPED, options, beside);
    survives(&scene, running);
}

/// Sends more than a disk takes, heals it, and checks that the recorder went on.
fn survives(scene: &Scene, running: Running) {
    let sender = scene.sender();
    // 30 MB.
    sender.send_steadily(0..20_000, 1400);
    std::thread::sleep(Duration::from_secs(2));
    std::fs::write(scene.root.path().join("heal"), "").expect("written");
    wait_for(scene, "healed");
    std::thread::sleep(Duration::from_secs(3));
    sender.send(30_000..31_000, 1400);
    std::thread::sleep(Duration::from_secs(2));
    interrupt(scene);
    let output = running.wait(LIMIT).expect("an end");
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let lost = "packets are lost until the disk takes them again";
    assert!(said.contains(lost), "{said}");
    assert!(said.contains("recording again"), "{said}");
    assert!(said.contains("lost by the writer"), "{said}");
    let folder = scene.root.path().join("kept");
    let last = files(&folder).pop().expect("a file");
    let numbers = crate::scene::numbers(&last);
    assert!(numbers.contains(&30_999), "{said}");
}

fn unmounted() {
    let scene = Scene::new();
    let beside = "while ! test -e go; do sleep 0.1; done; umount -l rec; touch gone";
    let options = "--budget 1G --file-time 1s --compress none";
    let running = on_disk(&scene, MEMORY, options, beside);
    let sender = scene.sender().run(0, 700, 500);
    std::thread::sleep(Duration::from_secs(2));
    std::fs::write(scene.root.path().join("go"), "").expect("written");
    wait_for(&scene, "gone");
    std::thread::sleep(Duration::from_secs(4));
    sender.end();
    interrupt(&scene);
    let output = running.wait(LIMIT).expect("an end");
    let said = stderr(&output);
    assert!(said.contains("the folder is no longer there"), "{said}");
    let under = std::fs::read_dir(scene.dir()).expect("a folder").count();
    assert_eq!(under, 0, "the folder below the disk is empty: {said}");
}

fn removed() {
    let scene = Scene::new();
    let running = scene.recording(&["--budget", "64M", "--file-time", "1s"]);
    let sender = scene.sender().run(0, 200, 500);
    std::thread::sleep(Duration::from_secs(1));
    std::fs::remove_dir_all(scene.dir()).expect("removed");
    let output = running.wait(LIMIT).expect("it ends by itself");
    sender.end();
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("the folder was removed"), "{said}");
}

fn second() {
    let scene = Scene::new();
    let running = scene.recording(&["--budget", "64M"]);
    let output = scene
        .record(&["--budget", "64M"])
        .output()
        .expect("ringtap runs");
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("another recorder uses this folder"), "{said}");
    scene.sender().send(0..100, 200);
    ended(running);
    assert_eq!(scene.numbers(&[]).len(), 100);
}

fn aged() {
    let scene = Scene::new();
    let options = ["--budget", "64M", "--file-time", "1s", "--max-age", "3s"];
    let running = scene.recording(&options);
    let sender = scene.sender().run(0, 200, 500);
    std::thread::sleep(Duration::from_secs(7));
    let sent = sender.end();
    ended(running);
    let left = scene.numbers(&[]);
    let first = left.first().expect("packets");
    let at = sent
        .iter()
        .rfind(|(number, _)| number <= first)
        .expect("sent")
        .1;
    assert!(now() - at < 7.0 && !left.contains(&0), "{first} is left");
    let _ = stdout;
}
