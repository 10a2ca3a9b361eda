//! The cost of `ringtap top` where nothing happens.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use ringtap_lab::Need;

use crate::helpers::{cpu_seconds, text};
use crate::results::Axis;
use crate::session::{Done, Session};
use crate::stage::Stage;

const CASE: &str = "top without traffic";
const TIME: Duration = Duration::from_secs(10);
const SETTLED: Duration = Duration::from_secs(3);
/// The most that it may take of a processor, in percent.
const GOAL: f64 = 1.0;

pub(super) fn run(session: &mut Session, stage: &Stage) -> Done {
    if !session.wants(CASE) {
        return Ok(());
    }
    if let Some(reason) = Need::Tool("tmux").unmet() {
        session.note(format!("{CASE}: left out: {reason}"));
        return Ok(());
    }
    let title = "The cost of top without traffic";
    session.figure(title, Axis::names("terminal"), [("processor", "%", 2)]);
    session.at_most_rounds(3);
    let ringtap = session.ringtap.clone();
    let socket = format!("ringtap-bench-{}", std::process::id());
    let tmux = |arguments: &[&str]| {
        let mut command = Command::new("tmux");
        command.args(["-L", &socket]).args(arguments);
        let output = command.stdin(Stdio::null()).output();
        output.map(|output| text(&output.stdout))
    };
    let mut worst = 0.0_f64;
    session.case(CASE, None, &["ringtap top"], 0, |_| {
        let side = &stage.pair.right;
        let mut command = side.namespace.command("tmux");
        command.args(["-L", &socket, "-f", "/dev/null", "new-session", "-d"]);
        command.args(["-x", "80", "-y", "24"]).arg(&ringtap);
        command.args(["top", "-i", &side.device]);
        if !command.stdin(Stdio::null()).status()?.success() {
            return Err("tmux does not start".into());
        }
        thread::sleep(SETTLED);
        let id = tmux(&["display", "-p", "#{pane_pid}"])?;
        let id = id.trim().parse().map_err(|_| "ringtap top does not run")?;
        let before = cpu_seconds(id)?;
        thread::sleep(TIME);
        let after = cpu_seconds(id)?;
        tmux(&["kill-server"])?;
        let percent = 100.0 * (after - before) / TIME.as_secs_f64();
        worst = worst.max(percent);
        Ok(vec![percent])
    })?;
    session.note(format!(
        "top takes {worst:.2} % of a processor at most (goal {GOAL:.0} %)"
    ));
    Ok(())
}
