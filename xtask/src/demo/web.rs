//! `cargo xtask demo --web`: `ringtap web` on the demo's network, to be opened in a browser.
//!
//! The server runs in a namespace that no browser reaches. This program listens on the host's loopback, and hands each
//! connection on.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::process::Running;

use super::{explain, show, traffic};

/// Where the page is; another port where that is taken.
const ADDRESS: &str = "127.0.0.1:8877";
const ANY_PORT: &str = "127.0.0.1:0";
/// Where the server is, in its namespace.
const INSIDE: &str = "127.0.0.1:8877";
/// How long the server may take to start, and the page to show traffic.
const LIMIT: Duration = Duration::from_secs(30);
/// The command, before the reason of its failure.
const NAME: &str = "ringtap web";
/// How long traffic goes on before it begins again.
const TRAFFIC: Duration = Duration::from_secs(5);

/// Listens on the host, which is to be done before the demo has a network of its own.
pub(super) fn listen() -> Result<TcpListener, String> {
    let listener = TcpListener::bind(ADDRESS).or_else(|_| TcpListener::bind(ANY_PORT));
    listener.map_err(|error| format!("{ADDRESS}: {error}"))
}

/// Shows the traffic of a network; with `quick` until the page has it, else until Ctrl-C.
pub(super) fn run(
    program: &Path,
    listener: TcpListener,
    pair: &VethPair,
    quick: bool,
) -> Result<(), String> {
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let mut command = pair.right.namespace.command(&program.to_string_lossy());
    command.args(["web", "-i", &pair.right.device, "--listen", INSIDE]);
    show::heading(1, "Live traffic in the browser");
    show::command(&command, Path::new("/"));
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    let started = Running::start(command.stderr(Stdio::piped()));
    let mut server = started.map_err(explain(NAME))?;
    let told = server.wait_until_told("serving on", LIMIT);
    told.map_err(explain(NAME))?;
    let inside = pair.right.clone();
    thread::spawn(move || hand_on(&listener, &inside));
    println!("\n   Open http://{address}/ in a browser.");
    if quick {
        return check(address, pair).and_then(|()| end(server));
    }
    println!(
        "   The traffic is the demo's own: a TCP transfer, DNS, datagrams, pings. Ctrl-C ends it."
    );
    while !server.has_ended() {
        traffic::run(pair, TRAFFIC).map_err(explain(NAME))?;
    }
    end(server)
}

fn end(server: Running) -> Result<(), String> {
    let _ = server.signal("INT");
    let output = server.wait(LIMIT).map_err(explain(NAME))?;
    show::output(&output.stderr, 10);
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{NAME}: {}", output.status)),
    }
}

/// The page must be there, and show packets, hosts with the names that were asked for, and applications.
fn check(address: SocketAddr, pair: &VethPair) -> Result<(), String> {
    let deadline = Instant::now() + LIMIT;
    if !get(address, "/")?.contains("<html") {
        return Err("there is no page".to_owned());
    }
    let host = pair.left.ipv4.to_string();
    loop {
        traffic::run(pair, Duration::from_secs(1)).map_err(explain(NAME))?;
        let top = get(address, "/api/v1/top?of=hosts")?;
        let applications = get(address, "/api/v1/top?of=applications")?;
        let is_named = top.contains(&host) && top.contains(traffic::SERVER);
        if is_named && applications.contains("\"dns\"") {
            let status = get(address, "/api/v1/status")?;
            let body = status.rsplit("\r\n\r\n").next().unwrap_or_default();
            println!("   GET /api/v1/status");
            show::output(body.as_bytes(), 1);
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!(
                "{host}, {} and DNS are not shown: {top} {applications}",
                traffic::SERVER
            ));
        }
    }
}

fn get(address: SocketAddr, path: &str) -> Result<String, String> {
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    let mut answer = Vec::new();
    let asked = TcpStream::connect(address).and_then(|mut stream| {
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(request.as_bytes())?;
        stream.read_to_end(&mut answer)
    });
    asked.map_err(|error| format!("GET {path}: {error}"))?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Hands connections of the host on to the server.
fn hand_on(listener: &TcpListener, inside: &Side) {
    for outer in listener.incoming().flatten() {
        // A browser sees a connection that is closed, and tries again.
        let Ok(inner) = inside.run(|| TcpStream::connect(INSIDE)) else {
            continue;
        };
        let ways = [
            (outer.try_clone(), inner.try_clone()),
            (Ok(inner), Ok(outer)),
        ];
        for (from, to) in ways {
            if let (Ok(mut from), Ok(mut to)) = (from, to) {
                thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_where_the_usual_port_is_taken() {
        let first = listen().expect("a listener");
        let second = listen().expect("another one");
        assert_ne!(
            first.local_addr().expect("an address"),
            second.local_addr().expect("an address")
        );
    }
}
