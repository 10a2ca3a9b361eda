//! Values that would be commands, if a shell or ssh read them.

use super::server::{Server, said};

pub(crate) fn words() {
    let server = Server::start();
    let (file, sign) = (server.file("capture.pcapng"), server.file("sign"));
    let touch = format!("touch {}", sign.display());
    let commands = [
        format!("$({touch})"),
        format!("'; {touch}; '"),
        format!("x\n{touch}\n"),
        format!("-oProxyCommand={touch}"),
        format!("\\'; {touch} #"),
    ];
    let options = [
        "remote-host",
        "remote-username",
        "remote-port",
        "sshkey",
        "remote-interface",
        "remote-program",
        "extcap-capture-filter",
    ];
    for option in options {
        for command in &commands {
            let word = format!("--{option}={command}");
            let output = server.capture(&file, &[&word]).output().expect("it runs");
            let refused = matches!(output.status.code(), Some(1 | 2));
            assert!(refused, "{word}: {}", said(&output));
            assert!(!sign.exists(), "{word}");
        }
    }
}
