/*
 * What the declarations say about functions beyond their types. SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * PCAP_AVAILABLE_x_y names the version of libpcap that brought a function, with _REMOTE at the end if the
 * function is one for remote captures; on Linux it expands to nothing.
 */
#ifndef lib_pcap_funcattrs_h
#define lib_pcap_funcattrs_h

#include <pcap/compiler-tests.h>

#define PCAP_API_DEF
#define PCAP_API PCAP_API_DEF extern

#define PCAP_AVAILABLE_0_4
#define PCAP_AVAILABLE_0_5
#define PCAP_AVAILABLE_0_6
#define PCAP_AVAILABLE_0_7
#define PCAP_AVAILABLE_0_8
#define PCAP_AVAILABLE_0_9
#define PCAP_AVAILABLE_1_0
#define PCAP_AVAILABLE_1_2
#define PCAP_AVAILABLE_1_5
#define PCAP_AVAILABLE_1_7
#define PCAP_AVAILABLE_1_8
#define PCAP_AVAILABLE_1_9
#define PCAP_AVAILABLE_1_9_REMOTE
#define PCAP_AVAILABLE_1_10
#define PCAP_AVAILABLE_1_10_REMOTE
#define PCAP_AVAILABLE_1_11

#if defined(__GNUC__)
#define PCAP_NORETURN __attribute((noreturn))
#define PCAP_NORETURN_DEF __attribute((noreturn))
#define PCAP_PRINTFLIKE(x, y) __attribute__((__format__(__printf__, x, y)))
#define PCAP_DEPRECATED(msg) __attribute__((deprecated(msg)))
#else
#define PCAP_NORETURN
#define PCAP_NORETURN_DEF
#define PCAP_PRINTFLIKE(x, y)
#define PCAP_DEPRECATED(msg)
#endif
#define PCAP_FORMAT_STRING(p) p

#endif
