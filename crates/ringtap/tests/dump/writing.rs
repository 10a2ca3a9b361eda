//! Several files, compressed files, and the remains when writing fails.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ringtap_savefile::{Item, ReadOptions, Reader};
use ringtap_testkit::netns::VethPair;
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::{Rate, Replay, Traffic};
use ringtap_testkit::{Need, Test, test};

use crate::program::{
    LIMIT, RINGTAP, bytes, capturing, dump, dump_live, figure, finished, interrupted, stderr,
    succeeded,
};

pub(crate) fn tests() -> Vec<Test> {
    let live = [Need::Root, Need::Tool("tcpreplay")];
    // The kernel makes the load.
    let frames = [Need::Root, Need::Kernel(6, 3)];
    vec![
        test(
            "files_follow_one_another_as_by_tcpdump",
            &[Need::Root, Need::Tool("tcpdump")],
            as_by_tcpdump,
        ),
        test("files_follow_one_another_by_time", &[], by_time),
        test("what_can_t_rotate_is_refused", &[], no_rotation),
        test(
            "compressed_files_are_read_by_all",
            &[
                Need::Tool("zcat"),
                Need::Tool("zstd"),
                Need::Tool("lz4"),
                Need::Tool("capinfos"),
            ],
            read_by_all,
        ),
        test("a_cut_file_gives_what_is_whole", &[], cut_tail),
        test("a_command_gets_each_file", &[Need::Tool("gzip")], commands),
        test(
            "a_full_disk_keeps_whole_files_and_chunks",
            &[Need::Root, Need::Tool("unshare")],
            full_disk,
        ),
        test(
            "a_small_disk_is_not_taken_whole",
            &[
                Need::Root,
                Need::LoopDevices,
                Need::Tool("unshare"),
                Need::Tool("mkfs.ext4"),
            ],
            small_disk,
        ),
        test(
            "no_packet_is_lost_between_files",
            &live,
            nothing_at_the_seam,
        )
        .serial(),
        test("a_thousand_files_at_full_load", &frames, thousand_files).serial(),
        test(
            "a_file_in_memory_at_full_load",
            &[Need::Root, Need::SharedMemory, Need::Kernel(6, 3)],
            in_memory,
        )
        .serial(),
        test("a_window_ends_by_the_clock", &live[..1], quiet_windows),
        test("a_dawdling_reader_is_counted_in_the_ring", &live, slow).serial(),
        test("a_kill_leaves_what_was_whole", &live, killed).serial(),
        test("a_lost_permission_ends_the_capture", &live, permission_lost),
    ]
}

/// Returns the packets of a file up to its end or its damage, and whether it was whole.
fn packets(path: &Path) -> (Vec<Vec<u8>>, bool) {
    let mut packets = Vec::new();
    let file = fs::File::open(path).expect("a capture");
    let Ok(mut reader) = Reader::new(Box::new(file), "capture", &ReadOptions::default()) else {
        return (packets, false);
    };
    loop {
        match reader.next() {
            Ok(Some(Item::Run(run))) => {
                packets.extend(run.packets().map(|packet| packet.data.to_vec()));
            }
            Ok(Some(_)) => {}
            Ok(None) => return (packets, true),
            Err(_) => return (packets, false),
        }
    }
}

fn whole(path: &Path) -> Vec<Vec<u8>> {
    let (packets, is_whole) = packets(path);
    assert!(is_whole, "{} is whole", path.display());
    packets
}

/// Returns the files of a folder with this prefix, by name, with their content.
fn files(folder: &Path, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let named = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.starts_with(prefix)
            .then(|| (name, bytes(&entry.path())))
    });
    named.collect()
}

/// Returns the paths of numbered files in the order in which they were written.
fn in_order(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut names: Vec<String> = files(folder, prefix).into_keys().collect();
    names.sort_by_key(|name| (name.len(), name.clone()));
    names.iter().map(|name| folder.join(name)).collect()
}

fn as_by_tcpdump() {
    let (folder, input) = Traffic::file_of(30_000);
    for options in [
        &["-C", "1"][..],
        &["-C", "1", "-W", "3"],
        &["-C", "1", "-W", "12"],
    ] {
        let [ours, theirs] = ["ours", "theirs"].map(|name| folder.path().join(name));
        for (program, place) in [(dump(), &ours), (Command::new("tcpdump"), &theirs)] {
            let mut program = program;
            fs::create_dir(place).expect("a folder");
            if place == &theirs {
                program.args(["-Z", "root", "-n"]);
            }
            let written = place.join("f.pcap");
            program
                .arg("-r")
                .arg(&input)
                .arg("-w")
                .arg(written)
                .args(options);
            succeeded(finished(&mut program));
        }
        let (one, other) = (files(&ours, ""), files(&theirs, ""));
        assert!(one.len() >= 3, "{} files", one.len());
        assert_eq!(
            one.keys().collect::<Vec<_>>(),
            other.keys().collect::<Vec<_>>(),
            "{options:?}"
        );
        assert!(one == other, "{options:?}: the same names, other contents");
        fs::remove_dir_all(&ours).expect("removed");
        fs::remove_dir_all(&theirs).expect("removed");
    }
}

fn by_time() {
    // 1000 packets a second for ten seconds.
    let (folder, _) = Traffic::file_of(1);
    let input = folder.path().join("timed.pcap");
    let traffic = Traffic {
        packets: 10_000,
        interval: 1_000_000,
        ..Traffic::default()
    };
    traffic.write_file(&input).expect("traffic");
    let name = folder.path().join("by-%s.pcapng.zst");
    let mut command = dump();
    command.arg("-r").arg(&input).arg("-w").arg(&name);
    succeeded(finished(command.args(["-G", "2"])));
    let paths = in_order(folder.path(), "by-");
    assert_eq!(paths.len(), 5);
    let all: Vec<Vec<u8>> = paths.iter().flat_map(|path| whole(path)).collect();
    assert!(all == whole(&input), "every packet once, in order");
    for path in &paths {
        assert_eq!(whole(path).len(), 2000, "{}", path.display());
        fs::remove_file(path).expect("removed");
    }
    let output = succeeded(finished(command.args(["-W", "3"])));
    assert!(stderr(&output).contains("6000 packets captured"));
    assert_eq!(in_order(folder.path(), "by-").len(), 3);
}

fn no_rotation() {
    let (folder, input) = Traffic::file_of(10);
    for (output, option) in [("-", "-C1"), ("/dev/null", "-C1"), ("/dev/null", "-G1")] {
        let mut command = dump();
        command.arg("-r").arg(&input).args(["-w", output, option]);
        let output = finished(&mut command);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
    // Before the device is looked for, which is not there.
    let output = finished(dump().args(["-i", "no-such-device", "-w", "-", "-C1"]));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("-C and -G"), "{}", stderr(&output));
    let written = folder.path().join("f.pcap");
    for option in ["-W2", "-zgzip"] {
        let mut command = dump();
        command.arg("-r").arg(&input).arg("-w").arg(&written);
        let output = finished(command.arg(option));
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(!written.exists(), "nothing was made");
    }
}

fn read_by_all() {
    let (folder, input) = Traffic::file_of(30_000);
    let expected = whole(&input);
    for (extension, undo) in [
        ("gz", &["zcat"][..]),
        ("zst", &["zstd", "-dcq"]),
        ("lz4", &["lz4", "-dcq"]),
    ] {
        for format in ["pcap", "pcapng"] {
            let written = folder.path().join(format!("f.{format}.{extension}"));
            let plain = folder.path().join(format!("f.{format}"));
            for path in [&written, &plain] {
                let mut command = dump();
                command.arg("-r").arg(&input).arg("-w").arg(path);
                succeeded(finished(command.args(["--compress-threads", "3"])));
            }
            let undone = Command::new(undo[0])
                .args(&undo[1..])
                .stdin(fs::File::open(&written).expect("a file"))
                .output()
                .expect("runs");
            assert!(undone.status.success(), "{undo:?}: {}", stderr(&undone));
            assert!(undone.stdout == bytes(&plain), "{undo:?} gives the file");
            assert!(whole(&written) == expected, "{}", written.display());
            let info = Command::new("capinfos")
                .args(["-Mc"])
                .arg(&written)
                .output();
            let info = info.expect("runs");
            let text = String::from_utf8_lossy(&info.stdout).into_owned();
            assert!(
                info.status.success() && text.trim_end().ends_with(" 30000"),
                "{text}{}",
                stderr(&info)
            );
        }
    }
}

/// The result of a power cut: the beginning of the file.
fn cut_tail() {
    let (folder, input) = Traffic::file_of(30_000);
    let expected = whole(&input);
    for codec in ["zlib:1", "zstd:1", "lz4"] {
        let written = folder.path().join("whole");
        let mut command = dump();
        command.arg("-r").arg(&input).arg("-w").arg(&written);
        succeeded(finished(command.args(["--compress", codec])));
        let all = bytes(&written);
        let cut = folder.path().join("cut");
        let mut least = 0;
        for part in [0, 30, 60, 95] {
            fs::write(&cut, &all[..all.len() * part / 100]).expect("a file");
            let (read, is_whole) = packets(&cut);
            assert!(!is_whole && expected.starts_with(&read), "{codec} {part}");
            assert!(read.len() >= least, "{codec} {part}: {}", read.len());
            least = read.len();
        }
        // More than all chunks but the last, of some 1 MiB each.
        assert!(least > 10_000, "{codec}: {least} packets");
    }
}

fn commands() {
    let (folder, input) = Traffic::file_of(30_000);
    let written = folder.path().join("f.pcap");
    let mut command = dump();
    command.arg("-r").arg(&input).arg("-w").arg(&written);
    succeeded(finished(command.args(["-C", "1", "-z", "gzip"])));
    let paths = in_order(folder.path(), "f.pcap");
    assert!(paths.len() > 3, "{} files", paths.len());
    let all: Vec<Vec<u8>> = paths.iter().flat_map(|path| whole(path)).collect();
    assert!(all == whole(&input), "every packet once, in order");
    let packed = |path: &&PathBuf| path.extension().is_some_and(|name| name == "gz");
    assert_eq!(paths.iter().filter(packed).count(), paths.len());
    let mut command = dump();
    command.arg("-r").arg(&input).arg("-w").arg(&written);
    let output = finished(command.args(["-C", "1", "-z", "/no/such/command"]));
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let files = paths.len();
    assert_eq!(text.matches("/no/such/command").count(), files, "{text}");
    let failed = format!("-z: the command has failed for {files} of {files} files");
    assert!(text.contains(&failed), "{text}");
    let all: Vec<Vec<u8>> = in_order(folder.path(), "f.pcap")
        .iter()
        .flat_map(|path| whole(path))
        .collect();
    assert!(all.len() >= whole(&input).len(), "the files are complete");
}

fn full_disk() {
    let (folder, input) = Traffic::file_of(60_000);
    let expected = whole(&input);
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).expect("a folder");
    for options in [
        "-w $D/f.pcap -C 300k",
        "-w $D/f.pcap.lz4",
        "-w $D/f.pcap.lz4 -C 300k",
    ] {
        let kept = folder.path().join("kept");
        let script = format!(
            "D={disk}; mount -t tmpfs -o size=1m tmpfs $D; {RINGTAP} dump -r {input} {options}; \
             status=$?; cp -r $D {kept}; exit $status",
            disk = disk.display(),
            input = input.display(),
            kept = kept.display(),
        );
        let output = finished(Command::new("unshare").args(["--mount", "sh", "-c", &script]));
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("No space left"), "{text}");
        let paths = in_order(&kept, "f.pcap");
        let all: Vec<Vec<u8>> = paths.iter().flat_map(|path| packets(path).0).collect();
        assert!(
            expected.starts_with(&all),
            "{options}: what is there is intact"
        );
        let captured = figure(&text, "packets captured").expect("a summary");
        assert!(captured > 0, "{options}: {text}");
        assert_eq!(captured, all.len() as u64, "{options}: {text}");
        fs::remove_dir_all(&kept).expect("removed");
    }
}

/// On ext4, an attempt to reserve more than there is reserves what there is.
fn small_disk() {
    let (folder, input) = Traffic::file_of(1000);
    let script = format!(
        "set -e; cd {folder}; PATH=$PATH:/usr/sbin:/sbin; truncate -s 40M image; mkdir disk; \
         mkfs.ext4 -q -F image; mount -o loop image disk; \
         {RINGTAP} dump -r {input} -w disk/f.pcap.lz4; sync -f disk; stat -c '%b %B' disk/f.pcap.lz4",
        folder = folder.path().display(),
        input = input.display(),
    );
    let output = finished(Command::new("unshare").args(["--mount", "sh", "-c", &script]));
    let text = stderr(&output);
    assert!(output.status.success(), "{text}");
    let told = String::from_utf8(output.stdout).expect("text");
    let numbers: Vec<u64> = told.split_whitespace().flat_map(str::parse).collect();
    assert_eq!(numbers.len(), 2, "{told}");
    let taken = numbers[0] * numbers[1];
    assert!((1..1 << 20).contains(&taken), "{taken} bytes of the disk");
}

fn nothing_at_the_seam() {
    let (folder, input) = Traffic::file_of(30_000);
    let expected = whole(&input);
    for name in ["plain.pcapng", "packed.pcapng.lz4", "classic.pcap"] {
        let pair = VethPair::new();
        let written = folder.path().join(name);
        let mut command = dump_live(&pair.right);
        command.arg("-w").arg(&written).args(["-C", "128k"]);
        let running = capturing(&mut command, &pair.right);
        Replay::new(&input, Rate::Pps(40_000)).run(&pair.left);
        let summary = stderr(&interrupted(running));
        assert_eq!(
            figure(&summary, "dropped in the ring"),
            Some(0),
            "{summary}"
        );
        let paths = in_order(folder.path(), name);
        assert!(paths.len() > 30, "{} files", paths.len());
        let all: Vec<Vec<u8>> = paths.iter().flat_map(|path| whole(path)).collect();
        assert!(all == expected, "{name}: every packet once, in order");
        if name.contains("pcapng") {
            assert_eq!(delivered(&paths), 30_000, "{name}");
        }
    }
}

/// Starts a capture of packets that reach the right side. Its ring has room for all of them, so only the
/// tested part can lose any.
fn roomy(pair: &VethPair, arguments: &[&str], file: &Path) -> Running {
    // Only then frames can be put into the device unchanged.
    let gro = ["-K", &pair.right.device, "gro", "on"];
    pair.right.namespace.output("ethtool", &gro);
    let mut command = dump_live(&pair.right);
    command.args(["--buffer", "256M", "-Q", "in"]);
    command.args(arguments).arg("-w").arg(file);
    capturing(&mut command, &pair.right)
}

/// Sends 56,000 packets of 1,400 bytes as fast as they can be made.
fn offer(pair: &VethPair) {
    let mut generate = pair.left.namespace.command(RINGTAP);
    generate.args(["gen", "-i", &format!("live:{}", pair.left.device), "--yes"]);
    generate.args(["--count", "56000", "--size", "1400", "--cpu", "0"]);
    succeeded(finished(&mut generate));
}

/// Returns the packets captured of a capture that lost none.
fn captured(running: Running) -> u64 {
    let summary = stderr(&interrupted(running));
    let [captured, received, lost] = [
        "packets captured",
        "received by the filter",
        "dropped in the ring",
    ]
    .map(|what| figure(&summary, what).unwrap_or_else(|| panic!("{what}: {summary}")));
    assert_eq!((captured, lost), (received, 0), "{summary}");
    captured
}

/// Each packet that was captured is there, once; those of the generator in the order of each run.
fn assert_each_once(frames: impl Iterator<Item = Vec<u8>>, captured: u64) {
    /// Where generated packets have the number of their run, 16 bits, and their own, 48 bits.
    const NUMBER: std::ops::Range<usize> = 44..52;
    // Others than the generator's are the kernel's own.
    let generated = frames.map(|frame| {
        let number = frame.get(NUMBER).filter(|_| frame.len() == 1400);
        number.map(|bytes| {
            bytes
                .iter()
                .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
        })
    });
    let all: Vec<Option<u64>> = generated.collect();
    assert_eq!(all.len() as u64, captured, "in the files");
    let mut numbers: Vec<u64> = all.into_iter().flatten().collect();
    assert!(numbers.len() > 40_000, "{} packets", numbers.len());
    let ordered = |a: &u64, b: &u64| a < b || a >> 48 != b >> 48;
    assert!(numbers.is_sorted_by(ordered), "each run in order");
    numbers.sort_unstable();
    assert!(numbers.is_sorted_by(|a, b| a < b), "each packet once");
}

/// As fast as packets can be made: more than a thousand files.
fn thousand_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pair = VethPair::new();
    let running = roomy(&pair, &["-C", "64k"], &folder.path().join("f.pcapng"));
    // Frames that the device rejects, on a busy machine, are sent again.
    for _ in 0..20 {
        offer(&pair);
        if settled(folder.path()) > 1000 {
            break;
        }
    }
    let captured = captured(running);
    let paths = in_order(folder.path(), "f.pcapng");
    assert!(paths.len() > 1000, "{} files", paths.len());
    assert_each_once(paths.iter().flat_map(|path| whole(path)), captured);
}

/// As fast as packets can be made, into a file in memory, where long stretches of the ring go past the
/// writer.
fn in_memory() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a temporary folder");
    let file = folder.path().join("f.pcapng");
    let pair = VethPair::new();
    let running = roomy(&pair, &[], &file);
    for _ in 0..20 {
        offer(&pair);
        settled(folder.path());
        if file.metadata().expect("a file").len() > 70_000_000 {
            break;
        }
    }
    let captured = captured(running);
    assert_each_once(whole(&file).into_iter(), captured);
}

/// Returns the files in a folder, once there are no more for a while.
fn settled(folder: &Path) -> usize {
    let count = || fs::read_dir(folder).expect("a folder").count();
    let mut before = count();
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = count();
        if now == before {
            return now;
        }
        before = now;
    }
}

/// Returns the delivered packets by the counters at the end of each file, over all files.
fn delivered(paths: &[PathBuf]) -> u64 {
    let mut sum = 0;
    for path in paths {
        let file = fs::File::open(path).expect("a capture");
        let options = ReadOptions::default();
        let mut reader = Reader::new(Box::new(file), "capture", &options).expect("a capture");
        let mut seen = 0;
        while let Some(item) = reader.next().expect("a whole file") {
            if let Item::Statistics(statistics) = item {
                let counters = statistics.counters();
                assert!(counters.start <= counters.end);
                sum += counters.delivered.expect("a count");
                seen += 1;
            }
        }
        assert_eq!(seen, 1, "{}", path.display());
    }
    sum
}

fn quiet_windows() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pair = VethPair::new();
    let name = folder.path().join("q-%s.pcap");
    let mut command = dump_live(&pair.right);
    command.arg("-w").arg(&name).args(["-G", "1", "-W", "1"]);
    // It ends though no packet comes.
    let output = Running::start_piped(&mut command)
        .and_then(|running| running.wait(LIMIT))
        .expect("it ends");
    succeeded(output);
    let paths = in_order(folder.path(), "q-");
    assert_eq!(paths.len(), 1);
    assert!(whole(&paths[0]).is_empty());
}

/// The reader of a pipe stops for a while: packets without room in ring and queue are counted.
fn slow() {
    let (folder, input) = Traffic::file_of(60_000);
    let pair = VethPair::new();
    let mut command = dump_live(&pair.right);
    command.args([
        "-w",
        "-",
        "--compress",
        "zlib:0",
        "--write-buffer",
        "1M",
        "-B",
        "1M",
    ]);
    let mut running = Running::start_piped(&mut command).expect("ringtap starts");
    running
        .wait_until_capturing(&pair.right, LIMIT)
        .expect("ringtap captures");
    Replay::new(&input, Rate::Pps(60_000)).run(&pair.left);
    // Only now somebody reads.
    let output = interrupted(running);
    let summary = stderr(&output);
    let [captured, received, lost] = ["captured", "received by the filter", "dropped in the ring"]
        .map(|what| figure(&summary, what).unwrap_or_else(|| panic!("{what}: {summary}")));
    assert_eq!((received, captured + lost), (60_000, 60_000), "{summary}");
    let read = folder.path().join("read.pcap.gz");
    fs::write(&read, &output.stdout).expect("a file");
    assert_eq!(whole(&read).len() as u64, captured, "{summary}");
}

fn killed() {
    /// The bytes in the file before the kill.
    const WRITTEN: u64 = 100_000;
    /// Packets of that, were all of the longest that are sent, and a half of it cut off.
    const LEAST: usize = 30;
    let (folder, input) = Traffic::file_of(50_000);
    let expected = whole(&input);
    for name in ["f.pcap", "f.pcapng.zst", "f.pcap.lz4"] {
        let pair = VethPair::new();
        let written = folder.path().join(name);
        let mut command = dump_live(&pair.right);
        let running = capturing(command.arg("-w").arg(&written), &pair.right);
        let sending = Replay::new(&input, Rate::Pps(40_000)).start(&pair.left);
        let deadline = Instant::now() + LIMIT;
        while fs::metadata(&written).map_or(0, |data| data.len()) < WRITTEN {
            assert!(Instant::now() < deadline, "{name}: nothing is written");
            std::thread::sleep(Duration::from_millis(20));
        }
        running.signal("KILL").expect("a signal");
        running.wait(LIMIT).expect("it ends");
        sending.wait();
        let (read, _) = packets(&written);
        // As many as there are in this many bytes at least: how much more is written is left to chance.
        assert!(read.len() >= LEAST, "{name}: {} packets", read.len());
        assert!(expected.starts_with(&read), "{name}");
    }
}

fn permission_lost() {
    let (folder, input) = Traffic::file_of(20_000);
    let place = folder.path().join("place");
    fs::create_dir(&place).expect("a folder");
    for path in [folder.path(), &place] {
        fs::set_permissions(path, Permissions::from_mode(0o777)).expect("rights");
    }
    let pair = VethPair::new();
    let mut command = dump_live(&pair.right);
    command
        .args(["-Z", "nobody", "-C", "256k", "-w"])
        .arg(place.join("f.pcap"));
    let running = capturing(&mut command, &pair.right);
    fs::set_permissions(&place, Permissions::from_mode(0o755)).expect("rights");
    Replay::new(&input, Rate::Pps(20_000)).run(&pair.left);
    let output = running.wait(LIMIT).expect("it ends");
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("f.pcap1: Permission denied"), "{text}");
    let kept = whole(&place.join("f.pcap"));
    assert!(whole(&input).starts_with(&kept));
    assert_eq!(
        figure(&text, "packets captured"),
        Some(kept.len() as u64),
        "{text}"
    );
}
