//! Link types by libpcap's numbers (`DLT_*`), names and descriptions, which programs print and take.

use std::ffi::{CStr, c_char, c_int};

use crate::boundary::export;
use crate::text::{self, CText};
use crate::types::code;

/// One link type.
struct Row(c_int, &'static CStr, &'static CStr);

/// All that have a name in libpcap 1.11, by their numbers.
#[rustfmt::skip]
static ROWS: &[Row] = &[
    Row(0, c"NULL", c"BSD loopback"),
    Row(1, c"EN10MB", c"Ethernet"),
    Row(2, c"EN3MB", c"Experimental 3 Mb/s Ethernet"),
    Row(3, c"AX25", c"AX.25"),
    Row(4, c"PRONET", c"Proteon ProNET token ring"),
    Row(5, c"CHAOS", c"Chaosnet"),
    Row(6, c"IEEE802", c"Token ring"),
    Row(7, c"ARCNET", c"BSD ARCNET"),
    Row(8, c"SLIP", c"SLIP"),
    Row(9, c"PPP", c"PPP"),
    Row(10, c"FDDI", c"FDDI"),
    Row(11, c"ATM_RFC1483", c"RFC 1483 LLC-encapsulated ATM"),
    Row(12, c"RAW", c"Raw IP"),
    Row(15, c"SLIP_BSDOS", c"BSD/OS SLIP"),
    Row(16, c"PPP_BSDOS", c"BSD/OS PPP"),
    Row(19, c"ATM_CLIP", c"Linux Classical IP over ATM"),
    Row(32, c"REDBACK_SMARTEDGE", c"Redback SmartEdge"),
    Row(50, c"PPP_SERIAL", c"PPP over serial"),
    Row(51, c"PPP_ETHER", c"PPPoE"),
    Row(99, c"SYMANTEC_FIREWALL", c"Symantec Firewall"),
    Row(104, c"C_HDLC", c"Cisco HDLC"),
    Row(105, c"IEEE802_11", c"802.11"),
    Row(107, c"FRELAY", c"Frame Relay"),
    Row(108, c"LOOP", c"OpenBSD loopback"),
    Row(109, c"ENC", c"OpenBSD encapsulated IP"),
    Row(113, c"LINUX_SLL", c"Linux cooked v1"),
    Row(114, c"LTALK", c"Localtalk"),
    Row(117, c"PFLOG", c"OpenBSD pflog file"),
    Row(119, c"PRISM_HEADER", c"802.11 plus Prism header"),
    Row(122, c"IP_OVER_FC", c"RFC 2625 IP-over-Fibre Channel"),
    Row(123, c"SUNATM", c"Sun raw ATM"),
    Row(127, c"IEEE802_11_RADIO", c"802.11 plus radiotap header"),
    Row(129, c"ARCNET_LINUX", c"Linux ARCNET"),
    Row(130, c"JUNIPER_MLPPP", c"Juniper Multi-Link PPP"),
    Row(131, c"JUNIPER_MLFR", c"Juniper Multi-Link Frame Relay"),
    Row(132, c"JUNIPER_ES", c"Juniper Encryption Services PIC"),
    Row(133, c"JUNIPER_GGSN", c"Juniper GGSN PIC"),
    Row(134, c"JUNIPER_MFR", c"Juniper FRF.16 Frame Relay"),
    Row(135, c"JUNIPER_ATM2", c"Juniper ATM2 PIC"),
    Row(136, c"JUNIPER_SERVICES", c"Juniper Advanced Services PIC"),
    Row(137, c"JUNIPER_ATM1", c"Juniper ATM1 PIC"),
    Row(138, c"APPLE_IP_OVER_IEEE1394", c"Apple IP-over-IEEE 1394"),
    Row(139, c"MTP2_WITH_PHDR", c"SS7 MTP2 with Pseudo-header"),
    Row(140, c"MTP2", c"SS7 MTP2"),
    Row(141, c"MTP3", c"SS7 MTP3"),
    Row(142, c"SCCP", c"SS7 SCCP"),
    Row(143, c"DOCSIS", c"DOCSIS"),
    Row(144, c"LINUX_IRDA", c"Linux IrDA"),
    Row(147, c"USER0", c"Private use 0"),
    Row(148, c"USER1", c"Private use 1"),
    Row(149, c"USER2", c"Private use 2"),
    Row(150, c"USER3", c"Private use 3"),
    Row(151, c"USER4", c"Private use 4"),
    Row(152, c"USER5", c"Private use 5"),
    Row(153, c"USER6", c"Private use 6"),
    Row(154, c"USER7", c"Private use 7"),
    Row(155, c"USER8", c"Private use 8"),
    Row(156, c"USER9", c"Private use 9"),
    Row(157, c"USER10", c"Private use 10"),
    Row(158, c"USER11", c"Private use 11"),
    Row(159, c"USER12", c"Private use 12"),
    Row(160, c"USER13", c"Private use 13"),
    Row(161, c"USER14", c"Private use 14"),
    Row(162, c"USER15", c"Private use 15"),
    Row(163, c"IEEE802_11_RADIO_AVS", c"802.11 plus AVS radio information header"),
    Row(164, c"JUNIPER_MONITOR", c"Juniper Passive Monitor PIC"),
    Row(165, c"BACNET_MS_TP", c"BACnet MS/TP"),
    Row(166, c"PPP_PPPD", c"PPP for pppd, with direction flag"),
    Row(167, c"JUNIPER_PPPOE", c"Juniper PPPoE"),
    Row(168, c"JUNIPER_PPPOE_ATM", c"Juniper PPPoE/ATM"),
    Row(169, c"GPRS_LLC", c"GPRS LLC"),
    Row(170, c"GPF_T", c"GPF-T"),
    Row(171, c"GPF_F", c"GPF-F"),
    Row(174, c"JUNIPER_PIC_PEER", c"Juniper PIC Peer"),
    Row(175, c"ERF_ETH", c"Ethernet with Endace ERF header"),
    Row(176, c"ERF_POS", c"Packet-over-SONET with Endace ERF header"),
    Row(177, c"LINUX_LAPD", c"Linux vISDN LAPD"),
    Row(178, c"JUNIPER_ETHER", c"Juniper Ethernet"),
    Row(179, c"JUNIPER_PPP", c"Juniper PPP"),
    Row(180, c"JUNIPER_FRELAY", c"Juniper Frame Relay"),
    Row(181, c"JUNIPER_CHDLC", c"Juniper C-HDLC"),
    Row(182, c"MFR", c"FRF.16 Frame Relay"),
    Row(183, c"JUNIPER_VP", c"Juniper Voice PIC"),
    Row(184, c"A429", c"Arinc 429"),
    Row(185, c"A653_ICM", c"Arinc 653 Interpartition Communication"),
    Row(186, c"USB_FREEBSD", c"USB with FreeBSD header"),
    Row(187, c"BLUETOOTH_HCI_H4", c"Bluetooth HCI UART transport layer"),
    Row(188, c"IEEE802_16_MAC_CPS", c"IEEE 802.16 MAC Common Part Sublayer"),
    Row(189, c"USB_LINUX", c"USB with Linux header"),
    Row(190, c"CAN20B", c"Controller Area Network (CAN) v. 2.0B"),
    Row(191, c"IEEE802_15_4_LINUX", c"IEEE 802.15.4 with Linux padding"),
    Row(192, c"PPI", c"Per-Packet Information"),
    Row(193, c"IEEE802_16_MAC_CPS_RADIO", c"IEEE 802.16 MAC Common Part Sublayer plus radiotap header"),
    Row(194, c"JUNIPER_ISM", c"Juniper Integrated Service Module"),
    Row(195, c"IEEE802_15_4", c"IEEE 802.15.4 with FCS"),
    Row(196, c"SITA", c"SITA pseudo-header"),
    Row(197, c"ERF", c"Endace ERF header"),
    Row(198, c"RAIF1", c"Ethernet with u10 Networks pseudo-header"),
    Row(199, c"IPMB_KONTRON", c"IPMB with Kontron pseudo-header"),
    Row(200, c"JUNIPER_ST", c"Juniper Secure Tunnel"),
    Row(201, c"BLUETOOTH_HCI_H4_WITH_PHDR", c"Bluetooth HCI UART transport layer plus pseudo-header"),
    Row(202, c"AX25_KISS", c"AX.25 with KISS header"),
    Row(209, c"I2C_LINUX", c"I2C with Linux header"),
    Row(215, c"IEEE802_15_4_NONASK_PHY", c"IEEE 802.15.4 with non-ASK PHY data"),
    Row(216, c"LINUX_EVDEV", c"Linux evdev events"),
    Row(219, c"MPLS", c"MPLS with label as link-layer header"),
    Row(220, c"USB_LINUX_MMAPPED", c"USB with padded Linux header"),
    Row(221, c"DECT", c"DECT"),
    Row(222, c"AOS", c"AOS Space Data Link protocol"),
    Row(223, c"WIHART", c"Wireless HART"),
    Row(224, c"FC_2", c"Fibre Channel FC-2"),
    Row(225, c"FC_2_WITH_FRAME_DELIMS", c"Fibre Channel FC-2 with frame delimiters"),
    Row(226, c"IPNET", c"Solaris ipnet"),
    Row(227, c"CAN_SOCKETCAN", c"CAN-bus with SocketCAN headers"),
    Row(228, c"IPV4", c"Raw IPv4"),
    Row(229, c"IPV6", c"Raw IPv6"),
    Row(230, c"IEEE802_15_4_NOFCS", c"IEEE 802.15.4 without FCS"),
    Row(231, c"DBUS", c"D-Bus"),
    Row(232, c"JUNIPER_VS", c"Juniper Virtual Server"),
    Row(233, c"JUNIPER_SRX_E2E", c"Juniper SRX E2E"),
    Row(234, c"JUNIPER_FIBRECHANNEL", c"Juniper Fibre Channel"),
    Row(235, c"DVB_CI", c"DVB-CI"),
    Row(236, c"MUX27010", c"MUX27010"),
    Row(237, c"STANAG_5066_D_PDU", c"STANAG 5066 D_PDUs"),
    Row(238, c"JUNIPER_ATM_CEMIC", c"Juniper ATM CEMIC"),
    Row(239, c"NFLOG", c"Linux netfilter log messages"),
    Row(240, c"NETANALYZER", c"Ethernet with Hilscher netANALYZER pseudo-header"),
    Row(241, c"NETANALYZER_TRANSPARENT", c"Ethernet with Hilscher netANALYZER pseudo-header and with preamble and SFD"),
    Row(242, c"IPOIB", c"RFC 4391 IP-over-Infiniband"),
    Row(243, c"MPEG_2_TS", c"MPEG-2 transport stream"),
    Row(244, c"NG40", c"ng40 protocol tester Iub/Iur"),
    Row(245, c"NFC_LLCP", c"NFC LLCP PDUs with pseudo-header"),
    Row(246, c"PFSYNC", c"Packet filter state syncing"),
    Row(247, c"INFINIBAND", c"InfiniBand"),
    Row(248, c"SCTP", c"SCTP"),
    Row(249, c"USBPCAP", c"USB with USBPcap header"),
    Row(250, c"RTAC_SERIAL", c"Schweitzer Engineering Laboratories RTAC packets"),
    Row(251, c"BLUETOOTH_LE_LL", c"Bluetooth Low Energy air interface"),
    Row(253, c"NETLINK", c"Linux netlink"),
    Row(254, c"BLUETOOTH_LINUX_MONITOR", c"Bluetooth Linux Monitor"),
    Row(255, c"BLUETOOTH_BREDR_BB", c"Bluetooth Basic Rate/Enhanced Data Rate baseband packets"),
    Row(256, c"BLUETOOTH_LE_LL_WITH_PHDR", c"Bluetooth Low Energy air interface with pseudo-header"),
    Row(257, c"PROFIBUS_DL", c"PROFIBUS data link layer"),
    Row(258, c"PKTAP", c"Apple DLT_PKTAP"),
    Row(259, c"EPON", c"Ethernet with 802.3 Clause 65 EPON preamble"),
    Row(260, c"IPMI_HPM_2", c"IPMI trace packets"),
    Row(261, c"ZWAVE_R1_R2", c"Z-Wave RF profile R1 and R2 packets"),
    Row(262, c"ZWAVE_R3", c"Z-Wave RF profile R3 packets"),
    Row(263, c"WATTSTOPPER_DLM", c"WattStopper Digital Lighting Management (DLM) and Legrand Nitoo Open protocol"),
    Row(264, c"ISO_14443", c"ISO 14443 messages"),
    Row(265, c"RDS", c"IEC 62106 Radio Data System groups"),
    Row(266, c"USB_DARWIN", c"USB with Darwin header"),
    Row(267, c"OPENFLOW", c"OpenBSD DLT_OPENFLOW"),
    Row(268, c"SDLC", c"IBM SDLC frames"),
    Row(269, c"TI_LLN_SNIFFER", c"TI LLN sniffer frames"),
    Row(271, c"VSOCK", c"Linux vsock"),
    Row(272, c"NORDIC_BLE", c"Nordic Semiconductor Bluetooth LE sniffer frames"),
    Row(273, c"DOCSIS31_XRA31", c"Excentis XRA-31 DOCSIS 3.1 RF sniffer frames"),
    Row(274, c"ETHERNET_MPACKET", c"802.3br mPackets"),
    Row(275, c"DISPLAYPORT_AUX", c"DisplayPort AUX channel monitoring data"),
    Row(276, c"LINUX_SLL2", c"Linux cooked v2"),
    Row(278, c"OPENVIZSLA", c"OpenVizsla USB"),
    Row(279, c"EBHSCR", c"Elektrobit High Speed Capture and Replay (EBHSCR)"),
    Row(280, c"VPP_DISPATCH", c"VPP graph dispatch tracer"),
    Row(281, c"DSA_TAG_BRCM", c"Broadcom tag"),
    Row(282, c"DSA_TAG_BRCM_PREPEND", c"Broadcom tag (prepended)"),
    Row(283, c"IEEE802_15_4_TAP", c"IEEE 802.15.4 with pseudo-header"),
    Row(284, c"DSA_TAG_DSA", c"Marvell DSA"),
    Row(285, c"DSA_TAG_EDSA", c"Marvell EDSA"),
    Row(286, c"ELEE", c"ELEE lawful intercept packets"),
    Row(287, c"Z_WAVE_SERIAL", c"Z-Wave serial frames between host and chip"),
    Row(288, c"USB_2_0", c"USB 2.0/1.1/1.0 as transmitted over the cable"),
    Row(289, c"ATSC_ALP", c"ATSC Link-Layer Protocol packets"),
    Row(290, c"ETW", c"Windows event tracing messages"),
    Row(291, c"NETANALYZER_NG", c"Hilscher netANALYZER NG"),
    Row(292, c"ZBOSS_NCP", c"ZBOSS network co-processor"),
    Row(293, c"USB_2_0_LOW_SPEED", c"USB as on the cable, low speed"),
    Row(294, c"USB_2_0_FULL_SPEED", c"USB as on the cable, full speed"),
    Row(295, c"USB_2_0_HIGH_SPEED", c"USB as on the cable, high speed"),
    Row(296, c"AUERSWALD_LOG", c"Auerswald log"),
    Row(297, c"ZWAVE_TAP", c"Z-Wave with TAP header"),
    Row(298, c"SILABS_DEBUG_CHANNEL", c"Silicon Labs debug channel"),
    Row(299, c"FIRA_UCI", c"FiRa ultra-wideband command interface"),
    Row(300, c"MDB", c"Multi-drop bus of vending machines"),
    Row(301, c"DECT_NR", c"DECT-2020 New Radio"),
    Row(302, c"EDK2_MM", c"EDK II management mode requests"),
    Row(303, c"DEBUG_ONLY", c"Unstructured data for debugging"),
    Row(304, c"DECT_NR_TAP", c"DECT-2020 New Radio with TAP header"),
];

/// Names that types had in earlier versions.
static FORMER: &[(c_int, &CStr)] = &[(209, c"IPMB_LINUX")];

fn row(value: c_int) -> Option<&'static Row> {
    let index = ROWS.binary_search_by_key(&value, |row| row.0).ok()?;
    ROWS.get(index)
}

/// The type's name, such as `EN10MB`.
pub(crate) fn name(value: c_int) -> Option<&'static CStr> {
    row(value).map(|row| row.1)
}

/// Room for `DLT ` and a number.
type Number = [u8; 16];

thread_local! {
    static NUMBER: std::cell::RefCell<Number> = const { std::cell::RefCell::new([0; 16]) };
}

export! {
    /// The number of the link type with that name, in any case, else -1.
    fn pcap_datalink_name_to_val(name: CText<'_>) -> c_int {
        let name = name.bytes();
        let rows = ROWS.iter().map(|row| (row.0, row.1));
        let found = rows
            .chain(FORMER.iter().copied())
            .find(|(_, known)| known.to_bytes().eq_ignore_ascii_case(name));
        found.map_or(code::ERROR, |(value, _)| value)
    } else code::ERROR;

    /// The name of a link type, else null.
    fn pcap_datalink_val_to_name(value: c_int) -> *const c_char {
        text::address(name(value))
    } else std::ptr::null();

    /// What a link type is, else null.
    fn pcap_datalink_val_to_description(value: c_int) -> *const c_char {
        text::address(row(value).map(|row| row.2))
    } else std::ptr::null();

    /// What a link type is, `DLT n` where that is not known.
    fn pcap_datalink_val_to_description_or_dlt(value: c_int) -> *const c_char {
        match row(value) {
            Some(row) => row.2.as_ptr(),
            None => NUMBER.with_borrow_mut(|buffer| {
                text::print(buffer, format_args!("DLT {value}"));
                buffer.as_ptr().cast()
            }),
        }
    } else std::ptr::null();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_names_are_unique() {
        assert!(ROWS.is_sorted_by(|a, b| a.0 < b.0));
        for row in ROWS {
            let first = ROWS.iter().find(|other| other.1 == row.1);
            assert_eq!(first.map(|other| other.0), Some(row.0), "{:?}", row.1);
        }
    }

    /// The number of a name, through the function that programs call.
    fn number(name: &CStr) -> c_int {
        pcap_datalink_name_to_val(CText::of(name))
    }

    #[test]
    fn types_of_libpcap_1_11_have_names() {
        for (value, known) in [
            (2, c"EN3MB"),
            (3, c"AX25"),
            (4, c"PRONET"),
            (5, c"CHAOS"),
            (32, c"REDBACK_SMARTEDGE"),
            (147, c"USER0"),
            (162, c"USER15"),
            (209, c"I2C_LINUX"),
            (290, c"ETW"),
            (291, c"NETANALYZER_NG"),
            (292, c"ZBOSS_NCP"),
            (293, c"USB_2_0_LOW_SPEED"),
            (294, c"USB_2_0_FULL_SPEED"),
            (295, c"USB_2_0_HIGH_SPEED"),
            (296, c"AUERSWALD_LOG"),
            (297, c"ZWAVE_TAP"),
            (298, c"SILABS_DEBUG_CHANNEL"),
            (299, c"FIRA_UCI"),
            (300, c"MDB"),
            (301, c"DECT_NR"),
            (302, c"EDK2_MM"),
            (303, c"DEBUG_ONLY"),
            (304, c"DECT_NR_TAP"),
        ] {
            assert_eq!(name(value), Some(known));
            assert_eq!(number(known), value, "{known:?}");
            let described = pcap_datalink_val_to_description(value);
            assert!(!described.is_null(), "{known:?}");
        }
        assert_eq!(name(305), None);
        assert_eq!(number(c"ipmb_linux"), 209);
    }

    #[test]
    fn numbers_and_names() {
        assert_eq!(name(1), Some(c"EN10MB"));
        assert_eq!(name(-1), None);
        // SAFETY: the function returns strings only.
        let text =
            |value| unsafe { CStr::from_ptr(pcap_datalink_val_to_description_or_dlt(value)) };
        assert_eq!(text(12), c"Raw IP");
        assert_eq!(text(i32::MIN), c"DLT -2147483648");
    }
}
