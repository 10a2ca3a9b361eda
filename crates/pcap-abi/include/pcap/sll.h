/*
 * Linux cooked headers, DLT_LINUX_SLL and DLT_LINUX_SLL2. SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * They stand in for link-layer headers that differ or are missing, as on the device "any". All
 * fields are in network byte order.
 */
#ifndef lib_pcap_sll_h
#define lib_pcap_sll_h

#include <pcap/pcap-inttypes.h>

#define SLL_ADDRLEN 8 /* room for an address; longer ones are cut */

#define SLL_HDR_LEN 16 /* bytes */

struct sll_header {
	uint16_t sll_pkttype;           /* LINUX_SLL_ direction */
	uint16_t sll_hatype;            /* ARPHRD_ of the device */
	uint16_t sll_halen;             /* length of the address */
	uint8_t sll_addr[SLL_ADDRLEN];  /* the sender's link-layer address */
	uint16_t sll_protocol;          /* Ethernet type, or LINUX_SLL_P_ */
};

#define SLL2_HDR_LEN 20 /* bytes */

struct sll2_header {
	uint16_t sll2_protocol;         /* Ethernet type, or LINUX_SLL_P_ */
	uint16_t sll2_reserved_mbz;     /* zero */
	uint32_t sll2_if_index;         /* the device's index */
	uint16_t sll2_hatype;           /* ARPHRD_ of the device */
	uint8_t sll2_pkttype;           /* LINUX_SLL_ direction */
	uint8_t sll2_halen;             /* length of the address */
	uint8_t sll2_addr[SLL_ADDRLEN]; /* the sender's link-layer address */
};

/* Where the packet was going to, in the kernel's numbers (PACKET_HOST, ...). */
#define LINUX_SLL_HOST 0
#define LINUX_SLL_BROADCAST 1
#define LINUX_SLL_MULTICAST 2
#define LINUX_SLL_OTHERHOST 3
#define LINUX_SLL_OUTGOING 4

/* Protocols that are no Ethernet types. */
#define LINUX_SLL_P_802_3 0x0001 /* Novell's 802.3 without LLC */
#define LINUX_SLL_P_802_2 0x0004 /* LLC */
#define LINUX_SLL_P_CAN 0x000C
#define LINUX_SLL_P_CANFD 0x000D
#define LINUX_SLL_P_CANXL 0x000E

#endif
