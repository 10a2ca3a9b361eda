/* A socket by WinPcap's name, so that one source compiles there and here. SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef lib_pcap_socket_h
#define lib_pcap_socket_h

#include <sys/types.h>
#include <sys/socket.h>
#include <netdb.h>
#include <netinet/in.h>
#include <arpa/inet.h>

#ifndef PCAP_SOCKET
#define PCAP_SOCKET int
#endif
/* Its name before libpcap 1.10.5. */
#ifndef SOCKET
#define SOCKET int
#endif
#ifndef INVALID_SOCKET
#define INVALID_SOCKET -1
#endif

#endif
