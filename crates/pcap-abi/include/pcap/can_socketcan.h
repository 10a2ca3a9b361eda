/* DLT_CAN_SOCKETCAN: what stands before a CAN frame's data. SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef lib_pcap_can_socketcan_h
#define lib_pcap_can_socketcan_h

#include <pcap/pcap-inttypes.h>

typedef struct {
	uint32_t can_id; /* network byte order */
	uint8_t payload_length;
	uint8_t fd_flags; /* CANFD_ bits; meaningful in CAN FD frames */
	uint8_t reserved1;
	uint8_t reserved2;
} pcap_can_socketcan_hdr;

#define CANFD_BRS 0x01 /* second bit rate for the data */
#define CANFD_ESI 0x02 /* the sender's error state */
#define CANFD_FDF 0x04 /* the frame is CAN FD */

/* The same of CAN XL frames, which have CANXL_XLF in the place of payload_length. */
typedef struct {
	uint32_t priority_vcid; /* network byte order */
	uint8_t flags;          /* CANXL_ bits */
	uint8_t sdu_type;
	uint16_t payload_length;
	uint32_t acceptance_field;
} pcap_can_socketcan_xl_hdr;

#define CANXL_SEC 0x01 /* simple extended content */
#define CANXL_XLF 0x80 /* the frame is CAN XL */

#endif
