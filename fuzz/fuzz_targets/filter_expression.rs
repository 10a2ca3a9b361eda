//! Arbitrary text as a filter expression: an error names a place inside it and can be shown; a
//! program runs on any packet, prints, and is lowered for sockets or refused with a reason.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringtap_filter::explain::Explanation;
use ringtap_filter::program::Ancillary;
use ringtap_filter::socket::{Direction, Header, SocketView, lower};
use ringtap_filter::{CompileOptions, LinkType, Tables, compile, disasm};
use ringtap_testkit::generate::{self, Choices};

fuzz_target!(|input: (u8, bool, &str, &[u8])| {
    let (choice, optimize, expression, packet) = input;
    let link_type = generate::link_type(&mut Choices::new(&[choice]));
    let mut options = CompileOptions::new(LinkType::from_dlt(link_type.dlt).expect("a link type"));
    options.optimize = optimize;
    options.ancillary = choice & 0x80 != 0;
    options.extensions = choice & 0x40 != 0;
    options.netmask = Some(0xffff_ff00);
    match compile(expression, &options, &names()) {
        Err(error) => {
            assert!(error.span.start <= error.span.end && error.span.end <= expression.len());
            assert!(error.render(expression).contains('^'));
        }
        Ok(program) => {
            let len = u32::try_from(packet.len()).expect("short");
            let verdict = program.run(packet, len);
            assert!(verdict == 0 || verdict == options.snaplen);
            assert!(disasm::listing(&program).lines().count() == program.insns().len());
            assert!(
                !Explanation::new(&program, options.link_type)
                    .to_string()
                    .is_empty()
            );
            for (header, direction) in [
                (Header::Own, Direction::Both),
                (Header::CookedV1, Direction::Out),
                (Header::CookedV2, Direction::In),
            ] {
                let view = SocketView {
                    header,
                    vlan: true,
                    direction,
                    snaplen: 96,
                };
                if let Ok(lowered) = lower(&program, &view) {
                    assert!(lowered.fits_kernel());
                    let _ = lowered.run_with(packet, len, &Ancillary::default());
                }
            }
        }
    }
});

fn names() -> Tables {
    let mut names = Tables::new();
    names.add_hosts("10.0.0.1 a\n::1 a b\n");
    names.add_networks("n 10\n");
    names.add_services("http 80/tcp\ndomain 53/tcp\ndomain 53/udp\n");
    names.add_protocols("tcp 6\nudp 17\n");
    names.add_ethers("0:1:2:3:4:5 a\n");
    names
}
