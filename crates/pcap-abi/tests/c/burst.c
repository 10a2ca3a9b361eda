/* A burst that waits in the ring is read: by how many system calls, whoever runs this counts. */
#include "common.h"

enum { PACKETS = 200, LENGTH = 100 };

int main(int argc, char **argv)
{
	char errors[PCAP_ERRBUF_SIZE];
	struct pcap_pkthdr *header;
	const u_char *bytes;
	unsigned seen = 0;
	int sender;
	pcap_t *p;

	if (argc < 4)
		give_up("three arguments");
	p = pcap_create(argv[1], errors);
	if (p == NULL)
		give_up("pcap_create");
	pcap_set_timeout(p, atoi(argv[3]));
	if (pcap_activate(p) < 0)
		give_up("pcap_activate");
	sender = wire(argv[2]);
	emit(sender, 0, PACKETS, LENGTH);
	while (seen < PACKETS && pcap_next_ex(p, &header, &bytes) >= 0)
		seen += header->len == LENGTH;
	say("%u packets", seen);
	pcap_close(p);
	return 0;
}
