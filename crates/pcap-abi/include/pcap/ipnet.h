/* DLT_IPNET: the address families and directions of Solaris. SPDX-License-Identifier: MIT OR Apache-2.0 */
#define IPH_AF_INET 2
#define IPH_AF_INET6 26

#define IPNET_OUTBOUND 1
#define IPNET_INBOUND 2
