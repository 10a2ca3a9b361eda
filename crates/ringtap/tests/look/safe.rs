//! `ringtap web` and those who mean harm: strangers, tokens and certificates, bounds, garbage, hostile names.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use ringtap_testkit::make_certificates;
use ringtap_testkit::netns::Namespace;

use super::LIMIT;
use super::client::Server;
use super::hostile as names;
use super::web::{count, with_file};

pub(crate) fn strangers() {
    let folder = tempfile::tempdir().expect("a folder");
    let namespace = Namespace::new();
    let server = with_file(
        folder.path(),
        &namespace,
        &["--server-name", "probe.example"],
    );
    let own = format!("Host: {}", server.address);
    let status = |first: &str, lines: &[&str]| server.ask(first, lines).status;
    let get = "GET /api/v1/status HTTP/1.1";
    assert_eq!(status(get, &[&own]), 200);
    assert_eq!(status(get, &["Host: probe.example:8877"]), 200);
    assert_eq!(status(get, &["Host: evil.example"]), 421);
    assert_eq!(status("GET / HTTP/1.1", &["Host: evil.example"]), 421);
    assert_eq!(status(get, &[&own, "Origin: http://evil.example"]), 403);
    assert_eq!(status(get, &[&own, "Sec-Fetch-Site: cross-site"]), 403);
    assert_eq!(
        status("POST /api/v1/status HTTP/1.1", &[&own, "Content-Length: 0"]),
        405
    );
    assert_eq!(status("GET http://evil.example/ HTTP/1.1", &[&own]), 400);
    assert_eq!(status("GET /../../etc/passwd HTTP/1.1", &[&own]), 404);
    let page = server.get("/");
    assert_eq!(page.status, 200);
    assert!(page.text().contains("<html"), "{}", page.text());
    let policy = &page.headers["content-security-policy"];
    assert!(
        policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert_eq!(page.headers["x-content-type-options"], "nosniff");
    for file in ["/app.js", "/app.css", "/icon.svg"] {
        assert_eq!(server.get(file).status, 200, "{file}");
    }
    server.stop();
}

pub(crate) fn token() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().join("kept");
    fs::create_dir(&kept).expect("a folder");
    let kept = kept.display().to_string();
    let namespace = Namespace::new();
    let server = with_file(folder.path(), &namespace, &["--token", "--dir", &kept]);
    let token = server.token.clone().expect("a token");
    let own = format!("Host: {}", server.address);
    let get = "GET /api/v1/status HTTP/1.1";
    assert_eq!(server.ask(get, &[&own]).status, 401);
    assert_eq!(
        server
            .ask(get, &[&own, "Authorization: Bearer wrong"])
            .status,
        401
    );
    let bearer = format!("Authorization: Bearer {token}");
    assert_eq!(server.ask(get, &[&own, &bearer]).status, 200);
    assert_eq!(server.get(&format!("/metrics?token={token}")).status, 200);
    assert_eq!(server.get("/").status, 200, "the page has no data");
    let text = server.stop();
    assert!(text.contains(&token), "{text}");
    // The second time it is known, and not printed.
    let server = with_file(folder.path(), &namespace, &["--token", "--dir", &kept]);
    let own = format!("Host: {}", server.address);
    assert_eq!(server.ask(get, &[&own, &bearer]).status, 200);
    let text = server.stop();
    assert!(!text.contains(&token), "{text}");
}

/// One connection more than are served is closed; each client has its time, and one that reads nothing is dropped.
pub(crate) fn bounds() {
    let folder = tempfile::tempdir().expect("a folder");
    let namespace = Namespace::new();
    let server = with_file(folder.path(), &namespace, &[]);
    let connect = || {
        let stream = namespace
            .run(|| TcpStream::connect(server.address))
            .expect("a connection");
        stream.set_read_timeout(Some(LIMIT)).expect("a time-out");
        stream
    };
    let request = format!(
        "GET /api/v1/events HTTP/1.1\r\nHost: {}\r\n\r\n",
        server.address
    );
    let mut open: Vec<TcpStream> = Vec::new();
    for _ in 0..64 {
        let mut stream = connect();
        stream.write_all(request.as_bytes()).expect("a request");
        // Until it answers it may wait for its place.
        assert!(stream.read(&mut [0; 1024]).expect("an answer") > 0);
        open.push(stream);
    }
    let mut extra = connect();
    let sent = extra.write_all(request.as_bytes());
    let answered = sent.and_then(|()| extra.read(&mut [0; 1024])).unwrap_or(0);
    assert_eq!(answered, 0, "the 65th connection is closed");
    drop(open);
    server.wait_for("place", || {
        let mut stream = connect();
        let sent = stream.write_all(request.as_bytes());
        sent.and_then(|()| stream.read(&mut [0; 1024]))
            .is_ok_and(|count| count > 0)
    });
    // A request that never ends is not waited for.
    let mut slow = connect();
    slow.write_all(b"GET / HTTP/1.1\r\nHost:")
        .expect("half a request");
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    assert!(
        !rest.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&rest)
    );
    // A client asks for much, again and again, and reads nothing: in the end the server closes the connection.
    let deaf = connect();
    let request = format!("GET /app.js HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
    deaf.set_write_timeout(Some(Duration::from_millis(100)))
        .expect("a time-out");
    let kind = |error: std::io::Error| error.kind();
    server.wait_for("end of a slow reader", || {
        // The time-out only says that the server reads no more.
        let written = deaf
            .try_clone()
            .and_then(|mut deaf| deaf.write_all(request.as_bytes()));
        written.map_err(kind).is_err_and(|kind| {
            use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
            [BrokenPipe, ConnectionReset].contains(&kind)
        })
    });
    assert_eq!(server.get("/healthz").text(), "ok\n");
    drop(deaf);
    server.stop();
}

/// With an authority of clients, a certificate of it is the key; curl and openssl are the other side.
pub(crate) fn tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let namespace = Namespace::new();
    make_certificates(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (cert, key, ca) = (path("server.pem"), path("server.key"), path("ca.pem"));
    let own = ["--tls-cert", &cert, "--tls-key", &key];
    let curl = |server: &Server, more: &[&str]| {
        let mut command = namespace.command("curl");
        command.args(["-sS", "-m", "30", "-o", "/dev/null"]);
        command.args(["-w", "%{http_code}", "--cacert"]);
        command.arg(&ca).args(more);
        let url = format!("https://{}/api/v1/status", server.address);
        let output = command
            .arg(url)
            .stdin(Stdio::null())
            .output()
            .expect("curl runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let of = |who: &str| (path(&format!("{who}.pem")), path(&format!("{who}.key")));
    let server = with_file(
        folder.path(),
        &namespace,
        &[&own[..], &["--tls-client-ca", &ca]].concat(),
    );
    let ((cert, key), (other_cert, other_key)) = (of("client"), of("stranger"));
    assert_eq!(curl(&server, &["--cert", &cert, "--key", &key]), "200");
    assert_eq!(curl(&server, &[]), "000", "no certificate");
    let stranger = ["--cert", &other_cert, "--key", &other_key];
    assert_eq!(curl(&server, &stranger), "000", "another authority");
    server.stop();
    // Without client certificates there is a token.
    let server = with_file(
        folder.path(),
        &namespace,
        &[&own[..], &["--token"]].concat(),
    );
    let token = server.token.clone().expect("a token");
    assert_eq!(curl(&server, &[]), "401");
    assert_eq!(
        curl(&server, &["-H", &format!("Authorization: Bearer {token}")]),
        "200"
    );
    renewed(server, &path, &curl);
}

/// SIGHUP has the server read its files again; files that are not valid change nothing.
fn renewed(
    mut server: Server,
    path: &impl Fn(&str) -> String,
    curl: &impl Fn(&Server, &[&str]) -> String,
) {
    let replace = |name: &str, text: &[u8]| {
        let new = path("new");
        fs::write(&new, text).expect("written");
        fs::rename(&new, path(name)).expect("renamed");
    };
    let hang_up = |server: &mut Server, said: &str| {
        let id = server.running.id().to_string();
        let sent = Command::new("kill").args(["-HUP", &id]).status();
        assert!(sent.expect("kill runs").success());
        server
            .running
            .wait_until_told(said, LIMIT)
            .expect("an answer");
    };
    let other = path("other.pem");
    let key = fs::read(path("server.key")).expect("a key");
    replace("server.pem", b"no certificate");
    hang_up(&mut server, "the certificate in use stays");
    assert_eq!(curl(&server, &[]), "401");
    for end in ["pem", "key"] {
        let text = fs::read(path(&format!("stranger.{end}"))).expect("a file");
        replace(&format!("server.{end}"), &text);
    }
    assert_ne!(fs::read(path("server.key")).expect("a key"), key);
    hang_up(&mut server, "were read again");
    assert_eq!(curl(&server, &[]), "000", "the old authority");
    assert_eq!(curl(&server, &["--cacert", &other]), "401");
    server.stop();
}

pub(crate) fn garbage() {
    let folder = tempfile::tempdir().expect("a folder");
    let namespace = Namespace::new();
    let server = with_file(folder.path(), &namespace, &[]);
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(1000));
    for request in [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".as_slice(),
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n\r\n\r\n\r\nnothing\r\n\r\n",
        long.as_bytes(),
        many.as_bytes(),
    ] {
        let answer = namespace.run(|| {
            let mut stream = TcpStream::connect(server.address).expect("a connection");
            stream.set_read_timeout(Some(LIMIT)).expect("a time-out");
            let mut answer = Vec::new();
            // The server may close before all was sent.
            let sent = stream.write_all(request);
            let read = sent.and_then(|()| stream.read_to_end(&mut answer).map(drop));
            read.map(|()| answer)
        });
        let answer = String::from_utf8_lossy(&answer.unwrap_or_default()).into_owned();
        assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    for path in [
        "/api/v1/top?of=x",
        "/api/v1/series?from=x",
        "/api/v1/hosts/x",
        "/%00",
        "/api",
    ] {
        let status = server.get(path).status;
        assert!((400..500).contains(&status), "{path}: {status}");
    }
    assert_eq!(server.get("/healthz").text(), "ok\n");
    server.stop();
}

/// Names from packets have no control characters, in JSON, CSV and events.
pub(crate) fn hostile() {
    let folder = tempfile::tempdir().expect("a folder");
    let namespace = Namespace::new();
    let file = folder.path().join("hostile.pcap");
    let packets = names::write(&file);
    let server = Server::start(&namespace, &["-r", &file.display().to_string()]);
    let mut expected = names::shown();
    server.wait("all packets", |status| {
        count(status, "/totals/packets") == packets as u64
    });
    let flows = server.get("/api/v1/flows").json();
    let flows = flows["flows"].as_array().expect("flows");
    let mut found: Vec<&str> = flows
        .iter()
        .filter_map(|flow| flow["name"].as_str())
        .collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    for path in ["flows.csv", "flows", "hosts", "top", "matrix"] {
        let text = server.get(&format!("/api/v1/{path}")).text();
        let plain = |character: char| !character.is_control() || "\r\n".contains(character);
        assert!(text.chars().all(plain), "{path}: {text:?}");
        assert!(!text.contains('\u{202e}'), "{path}: {text:?}");
    }
    server.stop();
}
