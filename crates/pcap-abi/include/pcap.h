/* The whole interface. SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <pcap/pcap.h>
