//! The parts of the manual pages of the recorder and its answers.

use super::pages::page;

page! {
    pub(super) RECORD "record"
    "Records interfaces for ever, in a folder that never takes more than its budget. The oldest files are removed \
    before more is written. `ringtap extract` gets packets out, also meanwhile."
    "The files are pcapng files, compressed with zstd in chunks that can be read alone, each with an index. A \
    catalogue has the place, the times and the checksum of every chunk. After a crash at most the last second \
    is missing, and the next start mends the last file."
    "Triggers copy the packets around an event to the folder `incidents`, where the rotation leaves them: a packet, a \
    rate, a loss, `ringtap record trigger`, the signal SIGUSR1. Cut-offs (`--cutoff`, `--headers`) leave out the ends \
    of flows, and count them."
    "Under a service manager it reports with `sd_notify`(3) when it records, that it is alive, and when it ends: see \
    `ringtap-record@.service`."
    "If the disk takes no data, the recorder says so at once, counts packets as lost by the writer, and goes on \
    when the disk takes data again. A second recorder in the same folder is refused."
    example "Keep the last week, in 500 GB at most:" =>
        "ringtap record -i eth0 --dir /var/lib/ringtap/rec --budget 500G --max-age 7d";
    example "Keep what happened around lost packets for good:" =>
        "ringtap record -i eth0 --dir /var/lib/ringtap/rec --budget 500G --trigger 'loss=loss > 0'";
    example "Keep DNS whole, and of other flows the first 64 KiB:" =>
        "ringtap record -i eth0 --dir /var/lib/ringtap/rec --budget 500G --keep 'port 53' --cutoff 64K";
    file "DIR/*.pcapng.zst" => "Packets, named by the time of the first one.";
    file "DIR/catalogue.N" => "The catalogue.";
    file "DIR/incidents/" => "Copies that triggers made.";
    see "ringtap-extract(1)" "ringtap-dump(1)" "ringtap-filter(7)"
}

page! {
    pub(super) RECORD_STATUS "record-status"
    "Prints what a recorder keeps, how far it reaches, and what it has lost by layer. The exit status is 0 if a \
    recorder runs in the folder, else 1."
    example "Ask a recorder:" => "ringtap record status --dir /var/lib/ringtap/rec";
    example "Metrics for Prometheus:" =>
        "ringtap record status --openmetrics --dir /var/lib/ringtap/rec";
    see "ringtap-record(1)"
}

page! {
    pub(super) RECORD_CHECK "record-check"
    "Compares all chunks of a recorder's files with their checksums, prints a line for each that is damaged, and \
    exits with 1 if there is any. The recorder may run meanwhile."
    example "Check a folder:" => "ringtap record check --dir /var/lib/ringtap/rec";
    see "ringtap-record(1)"
}

page! {
    pub(super) RECORD_TRIGGER "record-trigger"
    "Has a running recorder copy the packets around this moment to the folder `incidents`, where the rotation \
    leaves them. The recorder's options `--before` and `--after` say how much."
    example "Keep what happened in the last minute:" =>
        "ringtap record trigger slow-login --dir /var/lib/ringtap/rec";
    see "ringtap-record(1)"
}

page! {
    pub(super) EXTRACT "extract"
    "Gets packets of a time, a host or a flow out of what a recorder has kept, merged in the order of time over \
    interfaces and folders. Without `-w` it prints lines as `ringtap dump` does."
    "Only chunks of that time are read, and if the filter needs an address or a port, only those that may have \
    it. A damaged chunk costs its own packets; the exit status is then 1."
    "With `https://HOST` as a folder, `ringtap web --record` on that host is asked."
    example "See what a host did at 03:12:" =>
        "ringtap extract --dir /var/lib/ringtap/rec --from 03:10:00 --to 03:15:00 'host 192.0.2.7'";
    example "Write a connection to a file:" =>
        "ringtap extract --dir /var/lib/ringtap/rec --flow '10.0.0.1:5 > 10.0.0.2:443 tcp' -w flow.pcapng";
    example "Merge the packets of two hosts:" =>
        "ringtap extract --dir https://a.example --dir https://b.example --from 03:10:00 -w both.pcapng";
    see "ringtap-record(1)" "ringtap-dump(1)" "ringtap-filter(7)"
}
