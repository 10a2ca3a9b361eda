/* DLT_BLUETOOTH_HCI_H4_WITH_PHDR and DLT_BLUETOOTH_LINUX_MONITOR; fields in network byte order.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef lib_pcap_bluetooth_h
#define lib_pcap_bluetooth_h

#include <pcap/pcap-inttypes.h>

typedef struct _pcap_bluetooth_h4_header {
	uint32_t direction; /* lowest bit: 0 sent, 1 received */
} pcap_bluetooth_h4_header;

typedef struct _pcap_bluetooth_linux_monitor_header {
	uint16_t adapter_id;
	uint16_t opcode;
} pcap_bluetooth_linux_monitor_header;

#endif
