//! Certificates of a test's own, made by openssl.

use std::path::Path;
use std::process::Command;

/// Makes two authorities; a server and a client of one, and a client of the other.
const CERTIFICATES: &str = "
    set -e
    curve='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2'
    for authority in ca other; do
        openssl req -x509 $curve -keyout $authority.key -out $authority.pem -subj /CN=$authority
    done
    printf 'subjectAltName=IP:127.0.0.1\n' > names
    for made in server:ca client:ca stranger:other; do
        who=${made%:*} by=${made#*:}
        openssl req $curve -keyout $who.key -out $who.csr -subj /CN=$who
        openssl x509 -req -in $who.csr -CA $by.pem -CAkey $by.key -CAcreateserial \
            -days 2 -extfile names -out $who.pem
    done";

/// Makes the authorities `ca` and `other`, the certificates `server` (of 127.0.0.1) and `client` of the first, and
/// `stranger` of the other: files that end in `.pem`, with their keys in `.key`.
///
/// # Panics
/// openssl fails.
pub fn make_certificates(folder: &Path) {
    let mut openssl = Command::new("sh");
    openssl.args(["-c", CERTIFICATES]).current_dir(folder);
    let made = openssl.output().expect("openssl runs");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
}
