/* Devices: their list, flags, addresses and networks; one that goes down, one that disappears; and
 * all of them at once. */
#include "common.h"
#include <net/if_arp.h>
#include <pcap/sll.h>

static char errbuf[PCAP_ERRBUF_SIZE];

static void address(const char *what, const struct sockaddr *socket)
{
	char text[INET6_ADDRSTRLEN] = "?";

	if (socket == NULL)
		return;
	if (socket->sa_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)socket)->sin_addr, text, sizeof text);
	else if (socket->sa_family == AF_INET6)
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)socket)->sin6_addr, text, sizeof text);
	else if (socket->sa_family == AF_PACKET)
		snprintf(text, sizeof text, "%u link-layer bytes",
			((const struct sockaddr_ll *)(const void *)socket)->sll_halen);
	say("  %s: family %d, %s", what, socket->sa_family, text);
}

/* Devices of other kinds than the network's depend on what the library was built with. */
static int is_of_the_network(const pcap_if_t *device)
{
	return strcmp(device->name, "any") == 0 || if_nametoindex(device->name) != 0;
}

static void list(void)
{
	pcap_if_t *devices = NULL;
	int value = pcap_findalldevs(&devices, errbuf);

	say("findalldevs: %d", value);
	for (pcap_if_t *device = devices; device != NULL; device = device->next) {
		if (!is_of_the_network(device))
			continue;
		say("%s: %s, flags %#x", device->name,
			device->description != NULL ? device->description : "no description", device->flags);
		for (pcap_addr_t *each = device->addresses; each != NULL; each = each->next) {
			address("address", each->addr);
			address("  mask", each->netmask);
			address("  broadcast", each->broadaddr);
			address("  destination", each->dstaddr);
		}
	}
	pcap_freealldevs(devices);
	pcap_freealldevs(NULL);
}

static void networks(void)
{
	static const char *const names[] = { "lo", "veth0", "veth1", "any", "no-such-device", "" };

	for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
		bpf_u_int32 network = 1, mask = 1;
		int value;

		errbuf[0] = 0;
		value = pcap_lookupnet(names[at], &network, &mask, errbuf);
		if (value < 0)
			say("network of %s: %d, %s", names[at], value, errbuf);
		else
			say("network of %s: %08x/%08x, %s", names[at], ntohl(network), ntohl(mask), errbuf);
	}
	errbuf[0] = 0;
	char *first = (pcap_lookupdev)(errbuf);
	say("lookupdev: %s, %s", first != NULL ? first : "NULL", errbuf);
}

static void configure(const char *device, short set, short clear)
{
	struct ifreq request = { .ifr_flags = 0 };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	strncpy(request.ifr_name, device, IFNAMSIZ - 1);
	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
		give_up(device);
	request.ifr_flags = (short)((request.ifr_flags | set) & ~clear);
	if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		give_up(device);
	close(fd);
}

/* The kernel tells of lost and found carriers some time later. */
static void settle(const char *device, int running)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	for (int turn = 0; turn < 300; turn++) {
		struct ifreq request = { .ifr_flags = 0 };

		strncpy(request.ifr_name, device, IFNAMSIZ - 1);
		if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
			give_up(device);
		if (((request.ifr_flags & IFF_RUNNING) != 0) == running)
			break;
		sleep_ms(10);
	}
	close(fd);
}

static void show(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	(void)user;
	say_packet(header, bytes);
}

static void everywhere(const char *device, const char *other, int type)
{
	pcap_t *p = pcap_create("any", errbuf);
	int sender = wire(device);

	pcap_set_timeout(p, 50);
	pcap_set_snaplen(p, 65535);
	result("activate", p, pcap_activate(p));
	result("datalink", p, pcap_datalink(p));
	result("set_datalink", p, pcap_set_datalink(p, type));
	result("datalink", p, pcap_datalink(p));
	emit(sender, 0, 1, 60);
	for (int packet = 0; packet < 2; packet++) {
		struct pcap_pkthdr *header;
		const u_char *bytes;
		int value;

		while ((value = pcap_next_ex(p, &header, &bytes)) == 0)
			;
		if (value != 1) {
			result("next_ex", p, value);
			break;
		}
		if (type == DLT_LINUX_SLL2) {
			const struct sll2_header *sll = (const struct sll2_header *)(const void *)bytes;

			say("%u of %u bytes, type %#x, from %s, hardware %u, direction %u, %u bytes of address, rest %08x",
				header->caplen, header->len, ntohs(sll->sll2_protocol),
				ntohl(sll->sll2_if_index) == if_nametoindex(device) ? "one" :
				ntohl(sll->sll2_if_index) == if_nametoindex(other) ? "the other" : "nowhere",
				ntohs(sll->sll2_hatype), sll->sll2_pkttype, sll->sll2_halen,
				sum_of(bytes + SLL2_HDR_LEN, header->caplen - SLL2_HDR_LEN));
		} else {
			const struct sll_header *sll = (const struct sll_header *)(const void *)bytes;

			say("%u of %u bytes, type %#x, hardware %u, direction %u, %u bytes of address, rest %08x",
				header->caplen, header->len, ntohs(sll->sll_protocol), ntohs(sll->sll_hatype),
				ntohs(sll->sll_pkttype), ntohs(sll->sll_halen),
				sum_of(bytes + SLL_HDR_LEN, header->caplen - SLL_HDR_LEN));
		}
	}
	result("inject", p, pcap_inject(p, "123456789012345678901234567890", 30));
	close(sender);
	pcap_close(p);
}

static void down(const char *device, const char *other)
{
	pcap_t *p = open_quiet(device);
	int sender = wire(other);

	emit(sender, 0, 1, 60);
	result("while it is up", p, pcap_loop(p, 1, show, NULL));
	configure(device, 0, IFF_UP);
	settle(device, 0);
	settle(other, 0);
	list();
	configure(device, IFF_UP, 0);
	settle(device, 1);
	settle(other, 1);
	emit(sender, 1, 1, 60);
	result("when it is up again", p, pcap_loop(p, 1, show, NULL));
	pcap_close(p);

	configure(device, 0, IFF_UP);
	p = pcap_create(device, errbuf);
	int value = pcap_activate(p);
	say("activation while it is down: %d, %s", value, value != 0 ? pcap_geterr(p) : "");
	pcap_close(p);
	p = pcap_open_live(device, 100, 0, 10, errbuf);
	say("open_live while it is down: %s", p != NULL ? "opens" : errbuf);
	if (p != NULL)
		pcap_close(p);
	configure(device, IFF_UP, 0);
	settle(device, 1);
	settle(other, 1);
	close(sender);
}

static void gone(const char *device)
{
	char command[100];
	pcap_t *p = open_quiet(device);

	snprintf(command, sizeof command, "ip link delete %s", device);
	if (system(command) != 0)
		give_up(command);
	result("when it is gone", p, pcap_loop(p, 1, show, NULL));
	pcap_close(p);
	list();
}

int main(int arguments, char **names)
{
	if (arguments != 3)
		return 2;
	if (system("ip address add 10.7.0.1/24 broadcast 10.7.0.255 dev veth0 && ip address add 10.7.1.1/30 dev veth0 && "
		"ip address add 10.8.0.1 peer 10.8.0.2 dev veth1") != 0)
		give_up("ip address add");
	say("-- list");
	list();
	say("-- networks");
	networks();
	say("-- any, cooked v1");
	everywhere(names[1], names[2], DLT_LINUX_SLL);
	say("-- any, cooked v2");
	everywhere(names[1], names[2], DLT_LINUX_SLL2);
	say("-- down");
	down(names[1], names[2]);
	say("-- gone");
	gone(names[1]);
	return 0;
}
