//! `--who` of the commands that meter flows.

use std::str::FromStr;

use ringtap_capture::Who;
use ringtap_flow::schema::{Fields, Group};

/// The facts about processes that flows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowWho {
    /// The facts that are recorded of each packet's process.
    pub(crate) recorded: Who,
    /// The fields of records.
    pub(crate) fields: Fields,
}

/// A word that is no fact of a flow's process.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FlowWhoError {
    /// Records have no command lines.
    #[error(
        "flow records have no command lines; ringtap dump --who=cmdline records those of packets"
    )]
    CommandLine,
    /// Another word.
    #[error("expected all, or some of pid, comm, uid and cgroup, such as --who=pid,comm")]
    Unknown,
}

impl FromStr for FlowWho {
    type Err = FlowWhoError;

    fn from_str(text: &str) -> Result<Self, FlowWhoError> {
        let mut recorded = Who::PID;
        let mut chosen = fields("src_pid,dst_pid")?;
        for word in text.split(',') {
            let all = word == "all";
            recorded.comm |= all || word == "comm";
            recorded.uid |= all || word == "uid";
            recorded.cgroup |= all || word == "cgroup";
            chosen = chosen.with(match word {
                "all" => Fields::of(Group::Process),
                "pid" => Fields::NONE,
                "comm" => fields("src_process,dst_process")?,
                "uid" => fields("src_uid,dst_uid")?,
                "cgroup" => fields("src_container,dst_container,src_cgroup,dst_cgroup")?,
                "cmdline" => return Err(FlowWhoError::CommandLine),
                _ => return Err(FlowWhoError::Unknown),
            });
        }
        Ok(Self {
            recorded,
            fields: chosen,
        })
    }
}

fn fields(list: &str) -> Result<Fields, FlowWhoError> {
    Fields::parse(list).map_err(|_| FlowWhoError::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_choose_fields_and_what_is_recorded() {
        let all: FlowWho = "all".parse().expect("a word");
        assert_eq!(all.fields.columns().count(), 10);
        let expected = Who {
            command_line: false,
            ..Who::ALL
        };
        assert_eq!(all.recorded, expected);
        let some: FlowWho = "uid".parse().expect("a word");
        let names: Vec<_> = some.fields.columns().map(|field| field.name).collect();
        assert_eq!(names, ["src_pid", "dst_pid", "src_uid", "dst_uid"]);
        assert!(some.recorded.uid && !some.recorded.comm && !some.recorded.cgroup);
        assert!("comm,cmdline".parse::<FlowWho>().is_err());
        assert!("".parse::<FlowWho>().is_err());
    }
}
