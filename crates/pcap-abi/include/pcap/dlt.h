/*
 * Link-layer header types as the library's functions speak of them. SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * In files the same types are LINKTYPE_ values, which differ for the five types below 100 that
 * are older than that separation (DLT_ATM_RFC1483, DLT_RAW, DLT_SLIP_BSDOS, DLT_PPP_BSDOS,
 * DLT_ATM_CLIP); the library maps them. The values are those of Linux.
 */
#ifndef lib_pcap_dlt_h
#define lib_pcap_dlt_h

#define DLT_NULL                              0      /* BSD loopback: protocol family in the writer's byte order */
#define DLT_EN10MB                            1      /* Ethernet */
#define DLT_EN3MB                             2      /* experimental 3 Mb/s Ethernet */
#define DLT_AX25                              3      /* AX.25 */
#define DLT_PRONET                            4      /* Proteon ProNET token ring */
#define DLT_CHAOS                             5      /* Chaosnet */
#define DLT_IEEE802                           6      /* 802.5 token ring */
#define DLT_ARCNET                            7      /* ARCNET, BSD header */
#define DLT_SLIP                              8      /* SLIP with direction and compression header */
#define DLT_PPP                               9      /* PPP, with or without HDLC-like framing */
#define DLT_FDDI                              10     /* FDDI */
#define DLT_ATM_RFC1483                       11     /* ATM with LLC/SNAP (RFC 1483) */
#define DLT_RAW                               12     /* IPv4 or IPv6, no link-layer header */
#define DLT_SLIP_BSDOS                        15     /* BSD/OS SLIP */
#define DLT_PPP_BSDOS                         16     /* BSD/OS PPP */
#define DLT_ATM_CLIP                          19     /* Linux classical IP over ATM */
#define DLT_REDBACK_SMARTEDGE                 32     /* Redback SmartEdge */
#define DLT_PPP_SERIAL                        50     /* PPP in HDLC-like framing */
#define DLT_PPP_ETHER                         51     /* PPPoE session packets */
#define DLT_SYMANTEC_FIREWALL                 99     /* Symantec Enterprise Firewall */
#define DLT_C_HDLC                            104    /* Cisco HDLC */
#define DLT_CHDLC                             DLT_C_HDLC /* another name of DLT_C_HDLC */
#define DLT_IEEE802_11                        105    /* 802.11 */
#define DLT_FRELAY                            107    /* Frame Relay */
#define DLT_LOOP                              108    /* OpenBSD loopback: protocol family in network byte order */
#define DLT_ENC                               109    /* OpenBSD encapsulating interface */
#define DLT_HDLC                              112    /* NetBSD HDLC */
#define DLT_LINUX_SLL                         113    /* Linux cooked, version 1 */
#define DLT_LTALK                             114    /* Apple LocalTalk */
#define DLT_ECONET                            115    /* Acorn Econet */
#define DLT_IPFILTER                          116    /* OpenBSD ipfilter */
#define DLT_PFLOG                             117    /* OpenBSD pflog */
#define DLT_CISCO_IOS                         118    /* Cisco internal */
#define DLT_PRISM_HEADER                      119    /* 802.11 with Prism header */
#define DLT_AIRONET_HEADER                    120    /* 802.11 with FreeBSD Aironet header */
#define DLT_HHDLC                             121    /* Siemens HiPath HDLC */
#define DLT_IP_OVER_FC                        122    /* IP over Fibre Channel (RFC 2625) */
#define DLT_SUNATM                            123    /* ATM as SunATM devices give it */
#define DLT_RIO                               124    /* RapidIO */
#define DLT_PCI_EXP                           125    /* PCI Express */
#define DLT_AURORA                            126    /* Xilinx Aurora */
#define DLT_IEEE802_11_RADIO                  127    /* 802.11 with radiotap header */
#define DLT_TZSP                              128    /* Tazmen sniffer protocol */
#define DLT_ARCNET_LINUX                      129    /* ARCNET, Linux header */
#define DLT_JUNIPER_MLPPP                     130    /* Juniper multi-link PPP */
#define DLT_JUNIPER_MLFR                      131    /* Juniper multi-link Frame Relay */
#define DLT_JUNIPER_ES                        132    /* Juniper encryption services */
#define DLT_JUNIPER_GGSN                      133    /* Juniper GGSN */
#define DLT_JUNIPER_MFR                       134    /* Juniper FRF.16 Frame Relay */
#define DLT_JUNIPER_ATM2                      135    /* Juniper ATM2 */
#define DLT_JUNIPER_SERVICES                  136    /* Juniper services */
#define DLT_JUNIPER_ATM1                      137    /* Juniper ATM1 */
#define DLT_APPLE_IP_OVER_IEEE1394            138    /* Apple IP over IEEE 1394 */
#define DLT_MTP2_WITH_PHDR                    139    /* SS7 MTP2 with pseudo-header */
#define DLT_MTP2                              140    /* SS7 MTP2 */
#define DLT_MTP3                              141    /* SS7 MTP3 */
#define DLT_SCCP                              142    /* SS7 SCCP */
#define DLT_DOCSIS                            143    /* DOCSIS MAC frames */
#define DLT_LINUX_IRDA                        144    /* Linux IrDA */
#define DLT_IBM_SP                            145    /* IBM SP switch */
#define DLT_IBM_SN                            146    /* IBM Next Federation switch */
#define DLT_USER0                             147    /* private use 0 */
#define DLT_USER1                             148    /* private use 1 */
#define DLT_USER2                             149    /* private use 2 */
#define DLT_USER3                             150    /* private use 3 */
#define DLT_USER4                             151    /* private use 4 */
#define DLT_USER5                             152    /* private use 5 */
#define DLT_USER6                             153    /* private use 6 */
#define DLT_USER7                             154    /* private use 7 */
#define DLT_USER8                             155    /* private use 8 */
#define DLT_USER9                             156    /* private use 9 */
#define DLT_USER10                            157    /* private use 10 */
#define DLT_USER11                            158    /* private use 11 */
#define DLT_USER12                            159    /* private use 12 */
#define DLT_USER13                            160    /* private use 13 */
#define DLT_USER14                            161    /* private use 14 */
#define DLT_USER15                            162    /* private use 15 */
#define DLT_IEEE802_11_RADIO_AVS              163    /* 802.11 with AVS header */
#define DLT_JUNIPER_MONITOR                   164    /* Juniper passive monitor */
#define DLT_BACNET_MS_TP                      165    /* BACnet MS/TP */
#define DLT_PPP_PPPD                          166    /* PPP as pppd gives it, with direction */
#define DLT_LINUX_PPP_WITHDIRECTION           DLT_PPP_PPPD /* another name of DLT_PPP_PPPD */
#define DLT_PPP_WITH_DIRECTION                DLT_PPP_PPPD /* another name of DLT_PPP_PPPD */
#define DLT_JUNIPER_PPPOE                     167    /* Juniper PPPoE */
#define DLT_JUNIPER_PPPOE_ATM                 168    /* Juniper PPPoE over ATM */
#define DLT_GPRS_LLC                          169    /* GPRS LLC */
#define DLT_GPF_T                             170    /* generic framing procedure, transparent-mapped */
#define DLT_GPF_F                             171    /* generic framing procedure, frame-mapped */
#define DLT_GCOM_T1E1                         172    /* Gcom T1/E1 monitor */
#define DLT_GCOM_SERIAL                       173    /* Gcom serial monitor */
#define DLT_JUNIPER_PIC_PEER                  174    /* Juniper PIC peer */
#define DLT_ERF_ETH                           175    /* Ethernet in an Endace ERF record */
#define DLT_ERF_POS                           176    /* packet over SONET in an Endace ERF record */
#define DLT_LINUX_LAPD                        177    /* Linux vISDN LAPD */
#define DLT_JUNIPER_ETHER                     178    /* Juniper Ethernet */
#define DLT_JUNIPER_PPP                       179    /* Juniper PPP */
#define DLT_JUNIPER_FRELAY                    180    /* Juniper Frame Relay */
#define DLT_JUNIPER_CHDLC                     181    /* Juniper Cisco HDLC */
#define DLT_MFR                               182    /* multi-link Frame Relay (FRF.16) */
#define DLT_JUNIPER_VP                        183    /* Juniper voice */
#define DLT_A429                              184    /* ARINC 429 */
#define DLT_A653_ICM                          185    /* ARINC 653 interpartition messages */
#define DLT_USB                               186    /* older name of DLT_USB_FREEBSD */
#define DLT_USB_FREEBSD                       186    /* USB, FreeBSD header */
#define DLT_BLUETOOTH_HCI_H4                  187    /* Bluetooth HCI UART */
#define DLT_IEEE802_16_MAC_CPS                188    /* 802.16 MAC common part */
#define DLT_USB_LINUX                         189    /* USB, Linux header */
#define DLT_CAN20B                            190    /* CAN 2.0B */
#define DLT_IEEE802_15_4_LINUX                191    /* 802.15.4, addresses padded by Linux */
#define DLT_PPI                               192    /* per-packet information header */
#define DLT_IEEE802_16_MAC_CPS_RADIO          193    /* 802.16 MAC common part with radiotap header */
#define DLT_JUNIPER_ISM                       194    /* Juniper integrated services */
#define DLT_IEEE802_15_4_WITHFCS              195    /* 802.15.4 with its checksum */
#define DLT_IEEE802_15_4                      DLT_IEEE802_15_4_WITHFCS /* another name of DLT_IEEE802_15_4_WITHFCS */
#define DLT_SITA                              196    /* SITA pseudo-header */
#define DLT_ERF                               197    /* Endace ERF records */
#define DLT_RAIF1                             198    /* Ethernet from u10 Networks boards */
#define DLT_IPMB_KONTRON                      199    /* IPMB with Kontron header */
#define DLT_JUNIPER_ST                        200    /* Juniper secure tunnel */
#define DLT_BLUETOOTH_HCI_H4_WITH_PHDR        201    /* Bluetooth HCI UART with direction */
#define DLT_AX25_KISS                         202    /* AX.25 in KISS frames */
#define DLT_LAPD                              203    /* Q.921 LAPD */
#define DLT_PPP_WITH_DIR                      204    /* PPP with direction */
#define DLT_C_HDLC_WITH_DIR                   205    /* Cisco HDLC with direction */
#define DLT_FRELAY_WITH_DIR                   206    /* Frame Relay with direction */
#define DLT_LAPB_WITH_DIR                     207    /* X.25 LAPB with direction */
#define DLT_I2C_LINUX                         209    /* I2C on Linux */
#define DLT_IPMB_LINUX                        209    /* older name of DLT_I2C_LINUX */
#define DLT_FLEXRAY                           210    /* FlexRay */
#define DLT_MOST                              211    /* MOST bus */
#define DLT_LIN                               212    /* LIN bus */
#define DLT_X2E_SERIAL                        213    /* X2E serial line */
#define DLT_X2E_XORAYA                        214    /* X2E Xoraya logger */
#define DLT_IEEE802_15_4_NONASK_PHY           215    /* 802.15.4 with PHY header */
#define DLT_LINUX_EVDEV                       216    /* Linux input events */
#define DLT_GSMTAP_UM                         217    /* GSM Um with gsmtap header */
#define DLT_GSMTAP_ABIS                       218    /* GSM Abis with gsmtap header */
#define DLT_MPLS                              219    /* MPLS */
#define DLT_USB_LINUX_MMAPPED                 220    /* USB, padded Linux header */
#define DLT_DECT                              221    /* DECT */
#define DLT_AOS                               222    /* AOS space data link */
#define DLT_WIHART                            223    /* WirelessHART */
#define DLT_FC_2                              224    /* Fibre Channel FC-2 */
#define DLT_FC_2_WITH_FRAME_DELIMS            225    /* Fibre Channel FC-2 with delimiters */
#define DLT_IPNET                             226    /* Solaris ipnet */
#define DLT_CAN_SOCKETCAN                     227    /* CAN with SocketCAN header */
#define DLT_IPV4                              228    /* IPv4, no link-layer header */
#define DLT_IPV6                              229    /* IPv6, no link-layer header */
#define DLT_IEEE802_15_4_NOFCS                230    /* 802.15.4 without FCS */
#define DLT_DBUS                              231    /* D-Bus messages */
#define DLT_JUNIPER_VS                        232    /* Juniper virtual server */
#define DLT_JUNIPER_SRX_E2E                   233    /* Juniper SRX end to end */
#define DLT_JUNIPER_FIBRECHANNEL              234    /* Juniper Fibre Channel */
#define DLT_DVB_CI                            235    /* DVB common interface */
#define DLT_MUX27010                          236    /* 3GPP TS 27.010 multiplexing */
#define DLT_STANAG_5066_D_PDU                 237    /* STANAG 5066 D_PDU */
#define DLT_JUNIPER_ATM_CEMIC                 238    /* Juniper ATM CEMIC */
#define DLT_NFLOG                             239    /* Linux netfilter log */
#define DLT_NETANALYZER                       240    /* Ethernet with netANALYZER header */
#define DLT_NETANALYZER_TRANSPARENT           241    /* Ethernet with netANALYZER header and preamble */
#define DLT_IPOIB                             242    /* IP over InfiniBand */
#define DLT_MPEG_2_TS                         243    /* MPEG-2 transport stream */
#define DLT_NG40                              244    /* ng40 protocol tester */
#define DLT_NFC_LLCP                          245    /* NFC LLCP with pseudo-header */
#define DLT_PFSYNC                            246    /* pfsync */
#define DLT_INFINIBAND                        247    /* InfiniBand */
#define DLT_SCTP                              248    /* SCTP, no lower layer */
#define DLT_USBPCAP                           249    /* USB, USBPcap header */
#define DLT_RTAC_SERIAL                       250    /* serial line of an SEL RTAC */
#define DLT_BLUETOOTH_LE_LL                   251    /* Bluetooth Low Energy link layer */
#define DLT_WIRESHARK_UPPER_PDU               252    /* upper-layer data exported by Wireshark */
#define DLT_NETLINK                           253    /* Linux netlink */
#define DLT_BLUETOOTH_LINUX_MONITOR           254    /* Bluetooth Linux monitor */
#define DLT_BLUETOOTH_BREDR_BB                255    /* Bluetooth basic and enhanced rate baseband */
#define DLT_BLUETOOTH_LE_LL_WITH_PHDR         256    /* Bluetooth Low Energy link layer with pseudo-header */
#define DLT_PROFIBUS_DL                       257    /* PROFIBUS data link */
#define DLT_PKTAP                             258    /* Apple PKTAP */
#define DLT_EPON                              259    /* Ethernet with EPON preamble */
#define DLT_IPMI_HPM_2                        260    /* IPMI trace (HPM.2) */
#define DLT_ZWAVE_R1_R2                       261    /* Z-Wave radio, profiles R1 and R2 */
#define DLT_ZWAVE_R3                          262    /* Z-Wave radio, profile R3 */
#define DLT_WATTSTOPPER_DLM                   263    /* WattStopper lighting management */
#define DLT_ISO_14443                         264    /* ISO 14443 smart cards */
#define DLT_RDS                               265    /* radio data system groups */
#define DLT_USB_DARWIN                        266    /* USB, Darwin header */
#define DLT_OPENFLOW                          267    /* OpenBSD OpenFlow */
#define DLT_SDLC                              268    /* IBM SDLC */
#define DLT_TI_LLN_SNIFFER                    269    /* Texas Instruments low-power sniffer */
#define DLT_LORATAP                           270    /* LoRaWAN with LoRaTap header */
#define DLT_VSOCK                             271    /* Linux vsock */
#define DLT_NORDIC_BLE                        272    /* Nordic Bluetooth LE sniffer */
#define DLT_DOCSIS31_XRA31                    273    /* DOCSIS 3.1 from Excentis XRA-31 */
#define DLT_ETHERNET_MPACKET                  274    /* 802.3br mPackets */
#define DLT_DISPLAYPORT_AUX                   275    /* DisplayPort AUX channel */
#define DLT_LINUX_SLL2                        276    /* Linux cooked, version 2 */
#define DLT_SERCOS_MONITOR                    277    /* Sercos monitor */
#define DLT_OPENVIZSLA                        278    /* USB from OpenVizsla */
#define DLT_EBHSCR                            279    /* Elektrobit high-speed capture and replay */
#define DLT_VPP_DISPATCH                      280    /* VPP graph dispatch trace */
#define DLT_DSA_TAG_BRCM                      281    /* Ethernet with Broadcom switch tag */
#define DLT_DSA_TAG_BRCM_PREPEND              282    /* Ethernet with Broadcom switch tag in front */
#define DLT_IEEE802_15_4_TAP                  283    /* 802.15.4 with TAP header */
#define DLT_DSA_TAG_DSA                       284    /* Ethernet with Marvell DSA tag */
#define DLT_DSA_TAG_EDSA                      285    /* Ethernet with Marvell EDSA tag */
#define DLT_ELEE                              286    /* ELEE lawful interception */
#define DLT_Z_WAVE_SERIAL                     287    /* Z-Wave serial between host and chip */
#define DLT_USB_2_0                           288    /* USB as on the cable, any speed */
#define DLT_ATSC_ALP                          289    /* ATSC link-layer protocol */
#define DLT_ETW                               290    /* Windows event tracing messages */
#define DLT_NETANALYZER_NG                    291    /* Hilscher netANALYZER NG */
#define DLT_ZBOSS_NCP                         292    /* ZBOSS network co-processor */
#define DLT_USB_2_0_LOW_SPEED                 293    /* USB as on the cable, low speed */
#define DLT_USB_2_0_FULL_SPEED                294    /* USB as on the cable, full speed */
#define DLT_USB_2_0_HIGH_SPEED                295    /* USB as on the cable, high speed */
#define DLT_AUERSWALD_LOG                     296    /* Auerswald log */
#define DLT_ZWAVE_TAP                         297    /* Z-Wave with TAP header */
#define DLT_SILABS_DEBUG_CHANNEL              298    /* Silicon Labs debug channel */
#define DLT_FIRA_UCI                          299    /* FiRa ultra-wideband command interface */
#define DLT_MDB                               300    /* multi-drop bus of vending machines */
#define DLT_DECT_NR                           301    /* DECT-2020 New Radio */
#define DLT_EDK2_MM                           302    /* EDK II management mode requests */
#define DLT_DEBUG_ONLY                        303    /* unstructured data for debugging */
#define DLT_DECT_NR_TAP                       304    /* DECT-2020 New Radio with TAP header */

/* Between the first two, and between the last two, a type has the same value in files and in the
 * library. */
#define DLT_LOW_MATCHING_MIN 0
#define DLT_LOW_MATCHING_MAX DLT_FDDI
#define DLT_HIGH_MATCHING_MIN 104
#define DLT_HIGH_MATCHING_MAX 304
/* The latter by their names before libpcap 1.10.5. */
#define DLT_MATCHING_MIN 104
#define DLT_MATCHING_MAX 304

/* NetBSD's raw packets of one address family each. */
#define DLT_CLASS(x) ((x) & 0x03ff0000)
#define DLT_CLASS_NETBSD_RAWAF 0x02240000
#define DLT_NETBSD_RAWAF(af) (DLT_CLASS_NETBSD_RAWAF | (af))
#define DLT_NETBSD_RAWAF_AF(x) ((x) & 0x0000ffff)
#define DLT_IS_NETBSD_RAWAF(x) (DLT_CLASS(x) == DLT_CLASS_NETBSD_RAWAF)

#endif
