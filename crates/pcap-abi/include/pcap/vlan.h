/* An 802.1Q tag as it stands in a frame, in network byte order. SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef lib_pcap_vlan_h
#define lib_pcap_vlan_h

#include <pcap/pcap-inttypes.h>

struct vlan_tag {
	uint16_t vlan_tpid; /* 0x8100, 0x88a8, ... */
	uint16_t vlan_tci;  /* priority, drop eligibility, identifier */
};

#define VLAN_TAG_LEN 4 /* bytes */

#endif
