//! The token that requests from elsewhere need.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::super::error::LookError;
use crate::cli::ServingArgs;
use crate::notice::notice;

/// The file of the token in the folder of `--dir`.
const FILE: &str = "web-token";
/// Random bytes of a token.
const BYTES: usize = 16;

/// Returns the token that requests need, or none on loopback and with client certificates. A new one is printed,
/// once; with `--dir` it is kept in a file that only its owner may read.
pub(super) fn token(args: &ServingArgs) -> Result<Option<String>, LookError> {
    let is_safe = args.listen.ip().is_loopback() || args.tls_client_ca.is_some();
    if is_safe && !args.token {
        return Ok(None);
    }
    let Some(folder) = &args.dir else {
        let token = fresh().map_err(|source| LookError::Folder {
            path: "/dev/urandom".into(),
            source,
        })?;
        notice(format_args!("token: {token}"));
        return Ok(Some(token));
    };
    let path = folder.join(FILE);
    let kept = keep(&path).map_err(|source| LookError::Folder {
        path: path.clone(),
        source,
    })?;
    let (token, is_new) = kept;
    match is_new {
        true => notice(format_args!("token: {token}; kept in {}", path.display())),
        false => notice(format_args!("the token is in {}", path.display())),
    }
    Ok(Some(token))
}

/// Returns the token of a file, or makes both.
fn keep(path: &Path) -> io::Result<(String, bool)> {
    match fs::read_to_string(path) {
        Ok(token) => {
            if path.metadata()?.permissions().mode() & 0o077 != 0 {
                return Err(io::Error::other(
                    "others may read the token; remove the file, or chmod 0600",
                ));
            }
            let token = token.trim().to_owned();
            if token.len() < BYTES * 2 || !token.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                return Err(io::Error::other("there is no token in it; remove the file"));
            }
            Ok((token, false))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let token = fresh()?;
            let mut options = OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)?;
            file.write_all(format!("{token}\n").as_bytes())?;
            file.sync_all()?;
            Ok((token, true))
        }
        Err(error) => Err(error),
    }
}

fn fresh() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_only_its_owner_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let (token, is_new) = keep(&path).unwrap();
        assert!(is_new && token.len() == 32);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(keep(&path).unwrap(), (token, false));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(keep(&path).is_err());
    }
}
