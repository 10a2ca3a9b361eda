//! A client of `ringtap web`, in a few lines and independent of the server's library.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringtap_testkit::netns::Namespace;
use ringtap_testkit::process::Running;
use serde_json::Value;

use super::{LIMIT, RINGTAP};

/// How long the program may take to say where it serves.
const START: Duration = Duration::from_secs(30);

/// A server that runs in a namespace.
pub(crate) struct Server {
    pub(crate) running: Running,
    pub(crate) address: SocketAddr,
    pub(crate) token: Option<String>,
    namespace: Namespace,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Returns the body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body as JSON.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

impl Server {
    /// Starts `ringtap web` on any free port of loopback, and waits until it serves.
    pub(crate) fn start(namespace: &Namespace, arguments: &[&str]) -> Self {
        let mut command = namespace.command(RINGTAP);
        command
            .args(["web", "--listen", "127.0.0.1:0"])
            .args(arguments);
        Self::watch(namespace, &mut command)
    }

    /// Starts `ringtap web` on a file of a folder, on a host of that name.
    pub(crate) fn start_on(namespace: &Namespace, host: &str, file: &Path) -> Self {
        let mut command = namespace.command("unshare");
        let script = "hostname \"$0\" && exec \"$@\"";
        command.args(["--uts", "sh", "-c", script, host, RINGTAP, "web"]);
        command.args(["--listen", "127.0.0.1:0", "-r"]);
        command.arg(file.file_name().expect("a name"));
        command.current_dir(file.parent().expect("a folder"));
        Self::watch(namespace, &mut command)
    }

    fn watch(namespace: &Namespace, command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut running = Running::start(command.stderr(Stdio::piped())).expect("it starts");
        running
            .wait_until_told("serving on http", START)
            .expect("it serves");
        let said = running.said();
        let after = |mark: &str, text: &str| {
            let rest = text.split_once(mark).map(|(_, rest)| rest.to_owned());
            rest.and_then(|rest| rest.split(['/', '\n', ';', ' ']).next().map(str::to_owned))
        };
        let address = after("://", &said).expect("an address");
        Self {
            running,
            address: address.parse().expect("an address"),
            token: after("token: ", &said),
            namespace: namespace.clone(),
        }
    }

    /// Asks for a path.
    pub(crate) fn get(&self, path: &str) -> Answer {
        let host = format!("Host: {}", self.address);
        self.ask(&format!("GET {path} HTTP/1.1"), &[&host])
    }

    /// Sends a request with these lines.
    pub(crate) fn ask(&self, first: &str, lines: &[&str]) -> Answer {
        let mut request = format!("{first}\r\n");
        for line in lines {
            request.push_str(&format!("{line}\r\n"));
        }
        request.push_str("Connection: close\r\n\r\n");
        parse(&self.raw(request.as_bytes()))
    }

    /// Sends bytes, and returns all that comes until the end.
    pub(crate) fn raw(&self, request: &[u8]) -> Vec<u8> {
        let address = self.address;
        self.namespace.run(|| {
            let mut stream = TcpStream::connect(address).expect("a connection");
            stream.set_read_timeout(Some(LIMIT)).expect("a time-out");
            stream.write_all(request).expect("a request");
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).expect("an answer");
            answer
        })
    }

    /// Asks for the status until a condition holds.
    pub(crate) fn wait(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + LIMIT;
        loop {
            let status = self.get("/api/v1/status").json();
            if condition(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "{what}: {status}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until a condition holds.
    pub(crate) fn wait_for(&self, what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !condition() {
            assert!(Instant::now() < deadline, "no {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends it, and returns what it wrote.
    pub(crate) fn stop(self) -> String {
        self.running.signal("INT").expect("a signal");
        let output = self.running.wait(LIMIT).expect("it ends");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {text}", output.status);
        text
    }
}

/// Parses an answer with a length or in chunks.
fn parse(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no header: {}", String::from_utf8_lossy(bytes)));
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut body = bytes[end + 4..].to_vec();
    if headers
        .get("transfer-encoding")
        .is_some_and(|coding| coding == "chunked")
    {
        body = unchunked(&body);
    }
    Answer {
        status: status
            .and_then(|status| status.parse().ok())
            .expect("a status"),
        headers,
        body,
    }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let length = std::str::from_utf8(&rest[..end]).expect("a length");
        let length = usize::from_str_radix(length, 16).expect("a length");
        rest = &rest[end + 2..];
        body.extend_from_slice(&rest[..length]);
        rest = rest.get(length + 2..).unwrap_or_default();
    }
    body
}
