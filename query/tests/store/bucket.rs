//! Copies of stores on a server of S3 (versitygw).

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use object_store::ObjectStoreExt as _;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path as Key;

use crate::kept::some;

const KEY: &str = "probe";
const SECRET: &str = "a secret of the test";
const BUCKET: &str = "flows";
const LIMIT: Duration = Duration::from_secs(30);

/// A server with a bucket.
struct Server {
    process: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join(BUCKET)).expect("a bucket");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        drop(listener);
        let process = Command::new(program())
            .env("ROOT_ACCESS_KEY", KEY)
            .env("ROOT_SECRET_KEY", SECRET)
            .args(["--port", &address, "--quiet", "posix"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn();
        let server = Self {
            process: process.expect("versitygw starts"),
            address,
            _folder: folder,
        };
        let begun = Instant::now();
        while TcpStream::connect(&server.address).is_err() {
            assert!(begun.elapsed() < LIMIT, "versitygw does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    fn client(&self) -> AmazonS3 {
        AmazonS3Builder::new()
            .with_endpoint(format!("http://{}", self.address))
            .with_allow_http(true)
            .with_access_key_id(KEY)
            .with_secret_access_key(SECRET)
            .with_bucket_name(BUCKET)
            .build()
            .expect("a client")
    }

    /// Copies the files below a folder.
    fn put(&self, folder: &Path, prefix: &str) -> Vec<Key> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().expect("a runtime");
        let client = self.client();
        let mut keys = Vec::new();
        for file in files(folder) {
            let below = file.strip_prefix(folder).expect("below");
            let key = Key::parse(format!("{prefix}/{}", below.display())).expect("a key");
            let bytes = std::fs::read(&file).expect("a file");
            let put = runtime.block_on(client.put(&key, bytes.into()));
            put.expect("it is stored");
            keys.push(key);
        }
        keys
    }

    fn ask(&self, url: &str, secret: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringtap-query"));
        command
            .args(["--store", url, "--format", "csv"])
            .args(arguments)
            .env("AWS_ENDPOINT_URL", format!("http://{}", self.address))
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", secret)
            .env("AWS_REGION", "us-east-1");
        command.output().expect("it starts")
    }
}

/// Returns the program: in `PATH`, or where `go install` puts it.
fn program() -> PathBuf {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let home = std::env::var_os("HOME").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&paths).collect();
    folders.push(Path::new(&home).join("go/bin"));
    let mut programs = folders.into_iter().map(|folder| folder.join("versitygw"));
    programs
        .find(|program| program.is_file())
        .expect("versitygw: go install github.com/versity/versitygw/cmd/versitygw@latest")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

fn failure(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
#[ignore = "needs versitygw; .ci/query has it"]
fn a_copy_has_the_answers_of_the_store() {
    let (kept, server) = (some(), Server::start());
    let keys = server.put(&kept.store, "copies/p1");
    let url = format!("s3://{BUCKET}/copies/p1");
    for question in [
        &["SELECT count(*) AS n, sum(bytes) AS b FROM flows"][..],
        &[
            "--last",
            "1h",
            "SELECT src, sum(bytes) AS b FROM flows GROUP BY 1 ORDER BY 2, 1",
        ],
        &["SELECT count(*) FROM flows WHERE src = ip('192.0.2.1') OR dst = ip('192.0.2.1')"],
        &["SELECT date, hour, exporter, count(*) FROM flows GROUP BY 1, 2, 3 ORDER BY 1, 2"],
        &["top", "hosts", "--last", "2d"],
    ] {
        let own = server.ask(&kept.store.display().to_string(), SECRET, question);
        let copy = server.ask(&url, SECRET, question);
        assert!(own.status.success() && copy.status.success(), "{copy:?}");
        let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text(&copy), text(&own), "{question:?}");
        assert!(text(&own).lines().count() > 1, "{question:?}");
    }
    // A merged file beside files that it was made of.
    let leaf = keys.iter().map(Key::as_ref).find_map(|key| {
        key.rsplit_once('/')
            .filter(|(leaf, _)| leaf.contains("date="))
    });
    let (leaf, _) = leaf.expect("a file of a leaf");
    let folder = tempfile::tempdir().expect("a folder");
    let merged = folder
        .path()
        .join("merged-20261126T080512.000001Z-999999.parquet");
    std::fs::write(&merged, b"").expect("a file");
    server.put(folder.path(), leaf);
    let text = failure(&server.ask(&url, SECRET, &["SELECT 1"]));
    assert!(
        text.contains("date=") && text.contains("--delete"),
        "{text}"
    );
}

#[test]
#[ignore = "needs versitygw; .ci/query has it"]
fn what_a_bucket_lacks_is_reported() {
    let server = Server::start();
    let place = format!("s3://{BUCKET}/nothing");
    let text = failure(&server.ask(&place, SECRET, &["SELECT 1"]));
    assert!(
        text.contains(&place) && text.contains("no files of a store"),
        "{text}"
    );
    let text = failure(&server.ask(&place, "wrong", &["SELECT 1"]));
    assert!(
        text.contains(&place) && text.contains("SignatureDoesNotMatch"),
        "{text}"
    );
    let text = failure(&server.ask("s3://missing/x", SECRET, &["SELECT 1"]));
    assert!(text.contains("s3://missing/x"), "{text}");
    // Without a key the address of the cloud's service is asked, here one where nobody listens.
    let output = Command::new(env!("CARGO_BIN_EXE_ringtap-query"))
        .args(["--store", &place, "SELECT 1"])
        .env_remove("AWS_ACCESS_KEY_ID")
        .env("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
        .output();
    let text = failure(&output.expect("it starts"));
    assert!(text.contains("AWS_ACCESS_KEY_ID is not set"), "{text}");
    let wrong = server.ask("s3:///x", SECRET, &["SELECT 1"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}
