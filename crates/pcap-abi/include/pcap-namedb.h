/* Names of hosts, ports and protocols, by its old name. SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <pcap/namedb.h>
