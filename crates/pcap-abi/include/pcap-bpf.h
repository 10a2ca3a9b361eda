/* The filtering machine, by its old name. SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <pcap/bpf.h>
