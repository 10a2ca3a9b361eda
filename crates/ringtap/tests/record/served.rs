//! A recorder over HTTP: its packets, requests to it, and its metrics.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use ringtap_testkit::{Need, Test, test};

use crate::client::Server;
use crate::scene::{LIMIT, Scene, ended, now, same, stderr, stdout};

pub(crate) fn tests() -> Vec<Test> {
    let root = [Need::Root];
    let openssl = [Need::Root, Need::Tool("openssl")];
    vec![
        test("packets_are_served", &root, packets),
        test("what_is_too_much_is_refused", &root, refused),
        test("a_client_that_goes_ends_its_answer", &root, gone),
        test("hosts_are_merged", &root, merged),
        test("hosts_are_merged_over_tls", &openssl, over_tls),
        test("requests_and_alerts_copy_the_window", &root, requested),
        test("metrics_have_the_numbers", &root, metrics),
    ]
}

/// Starts a server beside the recorder.
fn serve(scene: &Scene, options: &[&str]) -> Server {
    let side = &scene.pair.right;
    let up = side
        .namespace
        .command("ip")
        .args(["link", "set", "lo", "up"])
        .status();
    assert!(up.expect("ip runs").success());
    let dir = scene.dir();
    let dir = dir.to_str().expect("a name");
    let source = ["-i", &side.device, "--record", dir];
    Server::start(&side.namespace, &[&source[..], options].concat())
}

/// Returns the numbers of the packets of an answer.
fn numbers(scene: &Scene, server: &Server, query: &str) -> Vec<u64> {
    let answer = server.get(&format!("/api/v1/packets?{query}"));
    assert_eq!(answer.status, 200, "{query}: {}", answer.text());
    let file = scene.root.path().join("served.pcapng");
    std::fs::write(&file, &answer.body).expect("written");
    crate::scene::numbers(&file)
}

fn packets() {
    let scene = Scene::new();
    let running = scene.recording(&["--budget", "64M", "--file-size", "1M"]);
    let server = serve(&scene, &[]);
    let sender = scene.sender();
    let from = now();
    sender.send(0..3000, 700);
    scene.wait_for(2999);
    let middle = now();
    sender.send(3000..4000, 700);
    scene.wait_for(3999);
    let from = format!("{from:.6}");
    same(&numbers(&scene, &server, &format!("from={from}")), 0..4000);
    let query = format!("from={from}&to={middle:.6}&filter=dst%20host%2010.0.1.7");
    let sevens = (0..3000).filter(|number| number % 10 == 7);
    same(&numbers(&scene, &server, &query), sevens.clone());
    // Without times it is the last quarter of an hour.
    assert_eq!(numbers(&scene, &server, "host=10.0.1.7").len(), 400);
    let device = &scene.pair.right.device;
    let query = format!("from={from}&interface={device}");
    assert_eq!(numbers(&scene, &server, &query).len(), 4000);
    let query = format!("from={from}&interface=x");
    assert!(numbers(&scene, &server, &query).is_empty());
    ended(running);
    // Also when no recorder runs.
    assert_eq!(
        numbers(&scene, &server, &format!("from={from}")).len(),
        4000
    );
    server.stop();
}

fn refused() {
    let scene = Scene::new();
    let server = serve(&scene, &["--record-limit", "64K", "--token"]);
    let token = server.token.clone().expect("a token");
    let status = |query: &str| {
        let path = format!("/api/v1/packets?{query}&token={token}");
        server.get(&path).status
    };
    assert_eq!(server.get("/api/v1/packets?from=1").status, 401);
    // There is no recorder yet.
    assert_eq!(status("from=1&to=2"), 503);
    let running = scene.recording(&["--budget", "64M"]);
    let from = format!("{:.6}", now());
    scene.sender().send(0..100, 700);
    scene.wait_for(99);
    let begun = Instant::now();
    while status(&format!("from={from}")) == 503 {
        assert!(begun.elapsed() < LIMIT, "the status has no catalogue");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    for query in [
        "from=x",
        "from=2&to=1",
        "from=1",
        "from=1&to=2&filter=prot%205",
    ] {
        assert_eq!(status(query), 400, "{query}");
    }
    assert_eq!(status("from=1&to=2&filter=udp"), 200);
    scene.sender().send(100..1000, 700);
    scene.wait_for(999);
    assert_eq!(status(&format!("from={from}")), 413);
    ended(running);
    server.stop();
}

fn gone() {
    let scene = Scene::new();
    let running = scene.recording(&["--budget", "64M"]);
    let server = serve(&scene, &[]);
    scene.sender().send_steadily(0..20_000, 1400);
    scene.wait_for(19_999);
    let threads = || {
        let tasks =
            std::fs::read_dir(format!("/proc/{}/task", server.running.id())).expect("threads");
        let names =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.trim() == "recorded").count()
    };
    let open = || {
        scene.pair.right.namespace.run(|| {
            let mut stream = TcpStream::connect(server.address).expect("a connection");
            let request = format!(
                "GET /api/v1/packets HTTP/1.1\r\nHost: {}\r\n\r\n",
                server.address
            );
            stream.write_all(request.as_bytes()).expect("a request");
            let mut some = [0; 4096];
            stream.read_exact(&mut some).expect("an answer");
            assert!(
                some.starts_with(b"HTTP/1.1 200"),
                "{}",
                String::from_utf8_lossy(&some[..200])
            );
            stream
        })
    };
    let streams: Vec<TcpStream> = (0..4).map(|_| open()).collect();
    assert_eq!(threads(), 4);
    assert_eq!(server.get("/api/v1/packets").status, 429);
    drop(streams);
    server.wait_for("end of the answers", || threads() == 0);
    assert_eq!(server.get("/api/v1/packets?host=10.0.1.1").status, 200);
    ended(running);
    server.stop();
}

/// Extracts in the namespace of the server, and returns the numbers of the packets.
fn extract(scene: &Scene, options: &[&str]) -> (std::process::Output, Vec<u64>) {
    let file = scene.root.path().join("merged.pcapng");
    let mut command = scene.pair.right.namespace.command(crate::RINGTAP);
    command.args(["extract", "-w"]).arg(&file).args(options);
    let output = command.output().expect("ringtap runs");
    let numbers = match file.exists() {
        true => crate::scene::numbers(&file),
        false => Vec::new(),
    };
    (output, numbers)
}

fn merged() {
    let scene = Scene::new();
    let from = format!("{:.6}", now());
    let running = scene.recording(&["--budget", "64M"]);
    let server = serve(&scene, &[]);
    let sender = scene.sender();
    sender.send(0..3000, 700);
    scene.wait_for(2999);
    let address = format!("http://{}", server.address);
    let (output, found) = extract(&scene, &["--dir", &address, "--from", &from]);
    assert!(output.status.success(), "{}", stderr(&output));
    same(&found, 0..3000);
    // The same packets from the folder, in order of time.
    let dir = scene.dir();
    let dir = dir.to_str().expect("a name");
    let twice = [
        "--dir",
        &address,
        "--dir",
        dir,
        "--from",
        &from,
        "dst host 10.0.1.7",
    ];
    let (output, mut found) = extract(&scene, &twice);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(found.len(), 600);
    found.dedup();
    same(&found, (0..3000).filter(|number| number % 10 == 7));
    for (options, status, reason) in [
        (&["--dir", &address][..], 2, "specify --from"),
        (
            &["--dir", "https://a/b", "--from", &from],
            2,
            "expected https://HOST",
        ),
        (
            &["--dir", "http://127.0.0.1:1", "--from", &from],
            1,
            "refused",
        ),
        (&["--dir", &address, "--from", "1"], 1, "a day between them"),
        (&["--dir", &address, "--from", &from, "prot 5"], 1, "prot 5"),
    ] {
        let (output, _) = extract(&scene, options);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{options:?}: {said}");
        assert!(said.contains(reason), "{options:?}: {said}");
    }
    ended(running);
    server.stop();
}

fn over_tls() {
    let scene = Scene::new();
    let from = format!("{:.6}", now());
    let running = scene.recording(&["--budget", "64M"]);
    let path = |name: &str| {
        scene
            .root
            .path()
            .join(name)
            .to_str()
            .expect("a name")
            .to_owned()
    };
    let (key, certificate) = (path("key.pem"), path("cert.pem"));
    let made = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ])
        .args([
            "-subj",
            "/CN=recorder",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-days",
            "2",
        ])
        .args(["-keyout", &key, "-out", &certificate])
        .output();
    assert!(made.expect("openssl runs").status.success());
    let server = serve(
        &scene,
        &["--tls-cert", &certificate, "--tls-key", &key, "--token"],
    );
    scene.sender().send(0..1000, 300);
    scene.wait_for(999);
    let address = format!("https://{}", server.address);
    let token = path("token");
    std::fs::write(&token, server.token.as_ref().expect("a token")).expect("written");
    let all = ["--dir", &address, "--from", &from];
    let (output, _) = extract(&scene, &all);
    assert!(
        stderr(&output).contains("invalid peer certificate"),
        "{}",
        stderr(&output)
    );
    let trusting = [&all[..], &["--tls-ca", &certificate]].concat();
    let (output, _) = extract(&scene, &trusting);
    assert!(stderr(&output).contains("401"), "{}", stderr(&output));
    let (output, found) = extract(&scene, &[&trusting[..], &["--token-file", &token]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    same(&found, 0..1000);
    ended(running);
    server.stop();
}

fn requested() {
    let scene = Scene::new();
    let options = ["--budget", "64M", "--before", "10s", "--after", "100ms"];
    let running = scene.recording(&options);
    let server = serve(&scene, &["--record-alerts", "--alert-fan-out", "5"]);
    let host = format!("Host: {}", server.address);
    let post = |name: &str, more: &[&str]| {
        let first = format!("POST /api/v1/trigger?name={name} HTTP/1.1");
        let lines = [&[host.as_str(), "Content-Length: 0"], more].concat();
        server.ask(&first, &lines).status
    };
    assert_eq!(post("by-http", &[]), 202);
    assert_eq!(post("../x", &[]), 400);
    assert_eq!(post("x", &["Origin: http://example.com"]), 403);
    assert_eq!(server.get("/api/v1/trigger?name=x").status, 405);
    // Packets to ten hosts, none of which answers, are an alert.
    scene.sender().send(0..100, 300);
    let begun = Instant::now();
    let names = || {
        let entries = std::fs::read_dir(scene.dir().join("incidents")).expect("a folder");
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names
            .filter(|name| name.ends_with(".json"))
            .collect::<Vec<_>>()
    };
    while !["-by-http.json", "-alert-scan.json"]
        .iter()
        .all(|end| names().iter().any(|name| name.ends_with(end)))
    {
        assert!(begun.elapsed() < LIMIT, "{:?}", names());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    ended(running);
    assert_eq!(post("late", &[]), 409);
    server.stop();
}

fn metrics() {
    let scene = Scene::new();
    let running = scene.recording(&["--budget", "64M", "--cutoff", "1K"]);
    scene.sender().send(0..1000, 500);
    let server = serve(&scene, &[]);
    let device = &scene.pair.right.device;
    let cut = format!("ringtap_recorder_cut_packets_total{{device=\"{device}\"}} 970\n");
    server.wait_for("metrics", || server.get("/metrics").text().contains(&cut));
    let text = server.get("/metrics").text();
    assert!(text.contains("ringtap_recorder_running 1"), "{text}");
    assert!(
        text.contains("ringtap_recorder_budget_bytes 67108864"),
        "{text}"
    );
    assert!(text.contains("layer=\"writer\"} 0\n"), "{text}");
    assert_eq!(text.matches("# EOF").count(), 1, "{text}");
    assert!(text.ends_with("# EOF\n"));
    let output = scene.ask(&["record", "status"], &["--openmetrics"]);
    assert!(
        stdout(&output).contains(&cut),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    ended(running);
    let output = scene.ask(&["record", "status"], &["--openmetrics"]);
    assert!(stdout(&output).contains("ringtap_recorder_running 0"));
    server.stop();
}
