//! Recorded packets are extracted: all, a window, a host, a flow; as tcpdump reads the files.

use std::process::Command;

use ringtap_testkit::{Need, Test, test};

use crate::scene::{PORT, RINGTAP, Scene, ended, files, now, same, stderr, stdout};

pub(crate) fn tests() -> Vec<Test> {
    let root = [Need::Root];
    let tcpdump = [Need::Root, Need::Tool("tcpdump"), Need::Tool("zstd")];
    let ip = [Need::Root, Need::Tool("ip")];
    let tshark = [Need::Root, Need::Tool("tshark"), Need::Tool("capinfos")];
    vec![
        test(
            "packets_are_extracted_while_they_are_recorded",
            &root,
            meanwhile,
        ),
        test("a_window_is_extracted_and_the_rest_not_read", &root, window),
        test("hosts_and_flows_are_found_by_the_index", &root, by_index),
        test("the_answer_is_that_of_tcpdump", &tcpdump, as_tcpdump),
        test("others_read_the_files_and_the_answer", &tshark, others),
        test("several_folders_are_merged_in_order", &root, merged),
        test("several_interfaces_share_a_folder", &ip, shared),
        test("damage_costs_its_chunk_alone", &root, damaged),
        test("status_has_the_numbers", &root, status),
        test("the_status_has_many_interfaces", &ip, many),
        test("files_are_private", &root, private),
        test("a_service_manager_is_told", &root, told),
        test("without_privileges_nothing_else_is_open", &root, confined),
    ]
}

fn meanwhile() {
    for codec in ["none", "zstd:1"] {
        let scene = Scene::new();
        let running = scene.recording(&["--budget", "64M", "--compress", codec]);
        let sender = scene.sender();
        sender.send(0..2000, 200);
        scene.wait_for(1999);
        same(&scene.numbers(&[]), 0..2000);
        sender.send(2000..3000, 200);
        let said = stderr(&ended(running));
        assert!(said.contains("3000 packets recorded"), "{said}");
        same(&scene.numbers(&[]), 0..3000);
        // A second run goes on.
        let running = scene.recording(&["--budget", "64M", "--compress", codec]);
        sender.send(3000..3100, 200);
        ended(running);
        same(&scene.numbers(&[]), 0..3100);
    }
}

fn window() {
    let scene = Scene::new();
    let running = scene.recording(&["--budget", "64M"]);
    let sender = scene.sender();
    sender.send(0..1000, 1000);
    scene.wait_for(999);
    let from = now();
    sender.send(1000..2000, 1000);
    scene.wait_for(1999);
    let to = now();
    sender.send(2000..3000, 1000);
    scene.wait_for(2999);
    let (from, to) = (format!("{from:.6}"), format!("{to:.6}"));
    same(&scene.numbers(&["--from", &from, "--to", &to]), 1000..2000);
    same(&scene.numbers(&["--from", &to]), 2000..3000);
    let output = scene.ask(
        &["extract", "--count", "--json-stats"],
        &["--from", &from, "--to", &to],
    );
    assert_eq!(stdout(&output), "1000 packets\n");
    let json = stderr(&output);
    let line = json
        .lines()
        .find(|line| line.starts_with('{'))
        .expect("a summary");
    let numbers: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let number = |key: &str| numbers[key].as_u64().expect("a number");
    assert!(number("bytes_skipped_by_time") > 1_000_000, "{line}");
    assert!(number("bytes_read") < 2_000_000, "{line}");
    ended(running);
}

fn by_index() {
    let scene = Scene::new();
    let options = ["--budget", "64M", "--file-size", "8M", "--file-time", "60s"];
    let running = scene.recording(&options);
    let sender = scene.sender();
    // Long runs of one destination each.
    for digit in 0..3 {
        for _ in 0..4 {
            let numbers = (0..1000).map(|number| number * 10 + digit);
            numbers.for_each(|number| sender.send(number..number + 1, 1400));
        }
    }
    ended(running);
    let found = scene.numbers(&["dst host 10.0.1.2"]);
    assert_eq!(found.len(), 4000);
    assert!(found.iter().all(|number| number % 10 == 2));
    let flow = format!("10.0.1.1:{PORT} > 10.0.0.1:1000 udp");
    assert_eq!(scene.numbers(&["--flow", &flow]).len(), 4000);
    let output = scene.ask(&["extract", "--count", "--json-stats"], &["host 10.0.1.2"]);
    assert_eq!(stdout(&output), "4000 packets\n");
    let said = stderr(&output);
    assert!(!said.contains("\"bytes_skipped_by_index\":0"), "{said}");
    let output = scene.ask(
        &["extract", "--count", "--no-index", "--json-stats"],
        &["host 10.0.1.2"],
    );
    assert_eq!(stdout(&output), "4000 packets\n");
    assert!(stderr(&output).contains("\"bytes_skipped_by_index\":0"));
}

/// Returns the lines that tcpdump prints for a pipe.
fn tcpdump(script: &str) -> String {
    let output = Command::new("sh")
        .args(["-c", script])
        .output()
        .expect("a shell");
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

fn as_tcpdump() {
    let scene = Scene::new();
    let running = scene.recording(&["--budget", "64M", "--file-size", "1M"]);
    let sender = scene.sender();
    sender.send(0..4000, 600);
    scene.wait_for(3999);
    let from = now();
    sender.send(4000..6000, 600);
    ended(running);
    let dir = scene.dir();
    let data = files(&dir);
    assert!(data.len() >= 3, "{data:?}");
    for filter in [
        "",
        "udp and dst host 10.0.1.7",
        "len > 500 and not host 10.0.1.3",
    ] {
        // tcpdump reads one capture at a time.
        let script = format!(
            "for file in {}/*.zst; do zstd -dcq $file | tcpdump -nn -tt -r - '{filter}' 2>/dev/null; done",
            dir.display()
        );
        let theirs = tcpdump(&script);
        let ours = scene.ask(&["extract", "-tt"], &[filter]);
        assert!(ours.status.success(), "{}", stderr(&ours));
        assert_eq!(
            stdout(&ours).lines().count(),
            theirs.lines().count(),
            "{filter}"
        );
        assert!(stdout(&ours) == theirs, "{filter}");
        let time = |line: &str| {
            line.split(' ')
                .next()
                .and_then(|time| time.parse::<f64>().ok())
        };
        let is_later = |line: &&str| time(line).is_some_and(|time| time >= from);
        let later: Vec<&str> = theirs.lines().filter(is_later).collect();
        let from = format!("{from:.6}");
        let ours = scene.ask(&["extract", "-tt", "--from", &from], &[filter]);
        assert!(stdout(&ours).lines().eq(later), "{filter} from {from}");
    }
}

fn others() {
    let scene = Scene::new();
    let running = scene.recording(&["--budget", "64M"]);
    scene.sender().send(0..1000, 300);
    ended(running);
    let file = files(&scene.dir()).pop().expect("a file");
    let script = format!(
        "capinfos -c {0} && tshark -r {0} -Y 'udp.dstport == {PORT}' 2>/dev/null | wc -l",
        file.display()
    );
    let said = tcpdump(&script);
    assert!(
        said.contains("1000\n") && said.matches("1000").count() >= 2,
        "{said}"
    );
    let script = format!(
        "{RINGTAP} extract --dir {} -w - 'dst host 10.0.1.5' | tshark -r - 2>/dev/null | wc -l",
        scene.dir().display()
    );
    assert_eq!(tcpdump(&script).trim(), "100");
}

fn merged() {
    let scene = Scene::new();
    let other = Scene::new();
    let runs = [
        scene.recording(&["--budget", "64M"]),
        other.recording(&["--budget", "64M"]),
    ];
    let (one, two) = (scene.sender(), other.sender());
    for part in 0..20 {
        let first = part * 100;
        one.send(first..first + 50, 100);
        two.send(first + 50..first + 100, 100);
        // Both have a clock, so that the order is that of sending.
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    runs.into_iter().for_each(|running| drop(ended(running)));
    let second = other.dir();
    let second = second.to_str().expect("a name");
    same(&scene.numbers(&["--dir", second]), 0..2000);
    // One device in two folders is one interface.
    let answer = scene.root.path().join("answer.pcapng");
    let mut reader =
        ringtap_savefile::Reader::open(&answer, &ringtap_savefile::ReadOptions::default());
    let reader = reader.as_mut().expect("a capture");
    while reader.next().expect("whole").is_some() {}
    assert!(reader.interfaces().len() <= 2);
}

fn shared() {
    let scene = Scene::new();
    let namespace = &scene.pair.right.namespace;
    for words in [
        "link add more type veth peer name other",
        "link set more up",
        "link set other up",
    ] {
        let mut ip = namespace.command("ip");
        let status = ip.args(words.split(' ')).status().expect("ip runs");
        assert!(status.success(), "{words}");
    }
    let running = scene.recording(&["--budget", "64M", "-i", "more"]);
    let one = scene.sender();
    let two = scene.sender_in(&scene.pair.right, "other");
    for part in 0..20 {
        let first = part * 100;
        one.send(first..first + 50, 100);
        two.send(first + 50..first + 100, 100);
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let said = stderr(&ended(running));
    assert!(said.contains("more: "), "{said}");
    same(&scene.numbers(&[]), 0..2000);
    let of_second = (0..2000).filter(|number| number % 100 >= 50);
    same(&scene.numbers(&["-i", "more"]), of_second);
    assert_eq!(files(&scene.dir()).len(), 2);
}

fn damaged() {
    use std::os::unix::fs::FileExt as _;
    let scene = Scene::new();
    let running = scene.recording(&["--budget", "64M"]);
    let sender = scene.sender();
    for part in 0..4 {
        sender.send(part * 500..(part + 1) * 500, 500);
        scene.wait_for((part + 1) * 500 - 1);
    }
    ended(running);
    let check = scene.ask(&["record", "check"], &[]);
    assert!(
        check.status.success(),
        "{}{}",
        stdout(&check),
        stderr(&check)
    );
    let path = files(&scene.dir()).pop().expect("a file");
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .expect("open");
    let at = file.metadata().expect("a size").len() / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("a byte");
    file.write_all_at(&[!byte[0]], at).expect("written");
    let check = scene.ask(&["record", "check"], &[]);
    assert_eq!(check.status.code(), Some(1));
    assert_eq!(stdout(&check).lines().count(), 1, "{}", stdout(&check));
    assert!(stdout(&check).contains("are damaged"), "{}", stdout(&check));
    let answer = scene.root.path().join("left.pcapng");
    let name = answer.to_str().expect("a name");
    let output = scene.ask(&["extract", "-w", name], &[]);
    assert_eq!(output.status.code(), Some(1), "the answer is not whole");
    assert!(
        stderr(&output).contains("1 chunk damaged"),
        "{}",
        stderr(&output)
    );
    let left = crate::scene::numbers(&answer);
    assert!(
        left.len() >= 1000 && left.len() < 2000,
        "{} packets",
        left.len()
    );
    assert!(left.contains(&0) && left.contains(&1999));
}

fn status() {
    let scene = Scene::new();
    let running = scene.recording(&["--budget", "64M"]);
    scene.sender().send(0..500, 200);
    scene.wait_for(499);
    let begun = std::time::Instant::now();
    let json = loop {
        let output = scene.ask(&["record", "status", "--json"], &[]);
        assert!(output.status.success(), "{}", stderr(&output));
        let json: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        if json["packets"] == 500 && json["devices"][0]["recorded"] == 500 {
            break json;
        }
        assert!(begun.elapsed() < crate::scene::LIMIT, "{json}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    assert_eq!(json["running"], true);
    assert_eq!(json["budget"], 64 << 20);
    assert_eq!(json["devices"][0]["dropped_by_writer"], 0);
    assert!(json["oldest"].as_f64().expect("a time") <= json["newest"].as_f64().expect("a time"));
    let text = stdout(&scene.ask(&["record", "status"], &[]));
    assert!(text.starts_with("recording (process "), "{text}");
    ended(running);
    let output = scene.ask(&["record", "status"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).starts_with("not recording\n"));
}

fn many() {
    const COUNT: usize = 30;
    let scene = Scene::new();
    let namespace = &scene.pair.right.namespace;
    let mut options = vec!["--budget".to_owned(), "1G".to_owned()];
    options.extend(["--buffer", "1M", "--write-buffer", "1M"].map(str::to_owned));
    for number in 0..COUNT {
        let name = format!("interface{number:04}");
        let mut ip = namespace.command("ip");
        let peer = format!("peer{number}");
        let status = ip.args(["link", "add", &name, "type", "veth", "peer", "name", &peer]);
        assert!(status.status().expect("ip runs").success());
        let mut ip = namespace.command("ip");
        let status = ip.args(["link", "set", &name, "up"]).status();
        assert!(status.expect("ip runs").success());
        options.extend(["-i".to_owned(), name]);
    }
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let running = scene.recording(&options);
    let begun = std::time::Instant::now();
    let json = loop {
        let output = scene.ask(&["record", "status", "--json"], &[]);
        if let Ok(json) = serde_json::from_str::<serde_json::Value>(&stdout(&output)) {
            break json;
        }
        assert!(begun.elapsed() < crate::scene::LIMIT, "{output:?}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    let devices = json["devices"].as_array().expect("devices");
    assert_eq!(devices.len(), COUNT + 1);
    ended(running);
    let output = scene.ask(&["record", "status"], &[]);
    assert_eq!(stdout(&output).matches("engine").count(), COUNT + 1);
}

fn private() {
    use std::os::unix::fs::PermissionsExt as _;
    let scene = Scene::new();
    let running = scene.recording(&["--budget", "64M"]);
    scene.sender().send(0..10, 200);
    scene.wait_for(9);
    ended(running);
    let mode =
        |path: &std::path::Path| path.metadata().expect("metadata").permissions().mode() & 0o777;
    assert_eq!(mode(&scene.dir()), 0o700);
    for entry in std::fs::read_dir(scene.dir()).expect("a folder") {
        let path = entry.expect("an entry").path();
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
}

fn confined() {
    let scene = Scene::new();
    let mut command = scene.record(&["--budget", "64M", "--explain-capture"]);
    let mut running = ringtap_testkit::process::Running::start(&mut command).expect("a start");
    let told = running.wait_until_told("seccomp", crate::scene::LIMIT);
    told.expect("a description");
    scene.sender().send(0..10, 200);
    scene.wait_for(9);
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.id())).expect("status");
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        line.unwrap_or_default()
            .split_whitespace()
            .nth(1)
            .unwrap_or_default()
            .to_owned()
    };
    assert_ne!(field("Uid:"), "0");
    assert_eq!(field("CapEff:"), "0000000000000000");
    assert_eq!(field("Seccomp:"), "2");
    ended(running);
}

fn told() {
    use std::os::unix::net::UnixDatagram;
    let scene = Scene::new();
    let address = scene.root.path().join("manager");
    let manager = UnixDatagram::bind(&address).expect("a socket");
    let limit = crate::scene::LIMIT;
    manager.set_read_timeout(Some(limit)).expect("a limit");
    let mut command = scene.record(&["--budget", "64M"]);
    command.env("NOTIFY_SOCKET", &address);
    command.env("WATCHDOG_USEC", "600000");
    let running = ringtap_testkit::process::Running::start(&mut command).expect("a start");
    let mut said = String::new();
    let mut wait_for = |word: &str| {
        let begun = std::time::Instant::now();
        while !said.contains(word) {
            assert!(begun.elapsed() < limit, "{word}: {said}");
            let mut bytes = [0; 1024];
            let length = manager.recv(&mut bytes).expect("a message");
            said += &String::from_utf8_lossy(&bytes[..length]);
        }
        said.clear();
    };
    wait_for("READY=1\n");
    for _ in 0..3 {
        wait_for("WATCHDOG=1\n");
    }
    ended(running);
    wait_for("STOPPING=1\n");
}
