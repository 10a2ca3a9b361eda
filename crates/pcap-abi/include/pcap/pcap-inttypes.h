/* Integers of known width and how to print them. SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef pcap_pcap_inttypes_h
#define pcap_pcap_inttypes_h

#include <inttypes.h>

#endif
