/* A live capture: what arrives, how much of it, in which order, by every way of reading. */
#include "common.h"

static const char *device, *other;
static char errbuf[PCAP_ERRBUF_SIZE];
static int sender;
static unsigned seen;
static int right_time;

static void show(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	struct timeval now;

	if (user != NULL)
		*user += 1;
	gettimeofday(&now, NULL);
	if (now.tv_sec - header->ts.tv_sec < 30 && now.tv_sec >= header->ts.tv_sec &&
		header->ts.tv_usec >= 0 && header->ts.tv_usec < 1000000)
		right_time++;
	seen++;
	say_packet(header, bytes);
}

static void expect(pcap_t *p, unsigned count)
{
	unsigned turns = 0;
	int value = 0;

	seen = 0;
	right_time = 0;
	while (seen < count && value >= 0 && turns++ < 200)
		value = pcap_dispatch(p, (int)(count - seen), show, NULL);
	if (value < 0)
		result("dispatch", p, value);
	say("seen %u, right in time %d", seen, right_time);
}

static void ways(void)
{
	pcap_t *p = open_quiet(device);
	struct pcap_pkthdr *header, own;
	const u_char *bytes;
	u_char calls = 0;
	int value;

	emit(sender, 0, 3, 60);
	result("loop 3", p, pcap_loop(p, 3, show, &calls));
	say("calls %u", calls);
	emit(sender, 3, 2, 100);
	while ((value = pcap_next_ex(p, &header, &bytes)) == 0)
		;
	say("next_ex: %d", value);
	say_packet(header, bytes);
	while ((bytes = pcap_next(p, &own)) == NULL)
		;
	say("next");
	say_packet(&own, bytes);
	nothing_left(p);
	emit(sender, 5, 10, 60);
	expect(p, 4);
	expect(p, 6);
	pcap_close(p);
}

static void lengths(void)
{
	static const int lengths[] = { 1, 14, 60, 100, 1514 };

	for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++) {
		pcap_t *p = pcap_open_live(device, lengths[at], 1, 50, errbuf);

		say("snapshot length %d", pcap_snapshot(p));
		emit(sender, 0, 1, 60);
		emit(sender, 1, 1, 1514);
		expect(p, 2);
		pcap_close(p);
	}
}

static void set_filter(pcap_t *p, const char *expression)
{
	struct bpf_program program;

	result(expression, p, pcap_compile(p, &program, expression, 1, PCAP_NETMASK_UNKNOWN));
	result("setfilter", p, pcap_setfilter(p, &program));
	pcap_freecode(&program);
}

static void filters(void)
{
	pcap_t *p = open_quiet(device);
	struct pcap_stat stat;

	set_filter(p, "udp dst port 1002 or udp dst port 1004");
	emit(sender, 0, 10, 60);
	expect(p, 2);
	set_filter(p, "len > 100 and udp[8] = 0x32");
	emit(sender, 0, 10, 120);
	expect(p, 1);
	set_filter(p, "tcp");
	emit(sender, 0, 10, 120);
	nothing_left(p);
	set_filter(p, "");
	emit(sender, 0, 2, 80);
	expect(p, 2);
	result("stats", p, pcap_stats(p, &stat));
	say("received %u, dropped %u, by the interface %u", stat.ps_recv, stat.ps_drop, stat.ps_ifdrop);
	pcap_close(p);
}

static void statistics(void)
{
	pcap_t *p = open_quiet(device);
	struct pcap_stat stat;

	memset(&stat, 0xff, sizeof stat);
	result("stats at once", p, pcap_stats(p, &stat));
	say("received %u, dropped %u, by the interface %u", stat.ps_recv, stat.ps_drop, stat.ps_ifdrop);
	emit(sender, 0, 7, 60);
	expect(p, 5);
	expect(p, 2);
	result("stats", p, pcap_stats(p, &stat));
	say("received %u, dropped %u, by the interface %u", stat.ps_recv, stat.ps_drop, stat.ps_ifdrop);
	result("stats again", p, pcap_stats(p, &stat));
	say("received %u, dropped %u, by the interface %u", stat.ps_recv, stat.ps_drop, stat.ps_ifdrop);
	pcap_close(p);
}

static void directions(void)
{
	static const pcap_direction_t directions[] = { PCAP_D_INOUT, PCAP_D_IN, PCAP_D_OUT };
	int outward = wire(device);

	for (size_t at = 0; at < 3; at++) {
		pcap_t *p = open_quiet(device);

		result("setdirection", p, pcap_setdirection(p, directions[at]));
		emit(sender, 0, 1, 60);
		emit(outward, 1, 1, 70);
		expect(p, at == 0 ? 2 : 1);
		nothing_left(p);
		pcap_close(p);
	}
	close(outward);
}

static void injected(void)
{
	pcap_t *p = open_quiet(device);
	pcap_t *peer = open_quiet(other);
	static const u_char long_frame[70000];
	uint8_t frame[1514];

	make_frame(frame, sizeof frame, 9);
	result("inject", p, pcap_inject(p, frame, 60));
	result("sendpacket", p, pcap_sendpacket(p, frame, 1514));
	result("inject one byte", p, pcap_inject(p, frame, 1));
	result("inject nothing", p, pcap_inject(p, frame, 0));
	result("sendpacket of a negative length", p, pcap_sendpacket(p, frame, -1));
	expect(peer, 2);
	say("a handle does not see what it sends itself");
	nothing_left(p);
	result("sendpacket too long", p, pcap_sendpacket(p, long_frame, sizeof long_frame));
	pcap_close(peer);
	pcap_close(p);
}

static void immediate(void)
{
	pcap_t *p = pcap_create(device, errbuf);
	struct pcap_pkthdr *header;
	const u_char *bytes;

	pcap_set_immediate_mode(p, 1);
	pcap_set_timeout(p, 0);
	pcap_set_snaplen(p, 65535);
	result("activate", p, pcap_activate(p));
	emit(sender, 0, 1, 60);
	say("next_ex: %d", pcap_next_ex(p, &header, &bytes));
	say_packet(header, bytes);
	pcap_close(p);
}

static void nanoseconds(void)
{
	pcap_t *p = pcap_create(device, errbuf);
	struct pcap_pkthdr *header;
	const u_char *bytes;
	int below_a_microsecond = 0;

	pcap_set_timeout(p, 50);
	result("set_tstamp_precision", p, pcap_set_tstamp_precision(p, PCAP_TSTAMP_PRECISION_NANO));
	result("activate", p, pcap_activate(p));
	result("precision", p, pcap_get_tstamp_precision(p));
	for (unsigned number = 0; number < 20; number++) {
		int value;

		emit(sender, number, 1, 60);
		while ((value = pcap_next_ex(p, &header, &bytes)) == 0)
			;
		if (value == 1 && header->ts.tv_usec % 1000 != 0)
			below_a_microsecond = 1;
	}
	say("nanoseconds: %d", below_a_microsecond);
	pcap_close(p);
}

static void one_protocol(void)
{
	pcap_t *p = pcap_create(device, errbuf);
	uint8_t frame[60];

	pcap_set_timeout(p, 50);
	pcap_set_snaplen(p, 100);
	result("set_protocol_linux", p, pcap_set_protocol_linux(p, 0x88b5));
	result("activate", p, pcap_activate(p));
	emit(sender, 0, 5, 60);
	make_frame(frame, sizeof frame, 1);
	frame[12] = 0x88;
	frame[13] = 0xb5;
	if (send(sender, frame, sizeof frame, 0) != sizeof frame)
		give_up("send");
	expect(p, 1);
	nothing_left(p);
	pcap_close(p);
}

static void tagged(void)
{
	pcap_t *p = open_quiet(device);
	uint8_t frame[64];

	make_frame(frame, sizeof frame, 1);
	memmove(frame + 16, frame + 12, sizeof frame - 16);
	frame[12] = 0x81;
	frame[13] = 0;
	frame[14] = 0x20;
	frame[15] = 5;
	set_filter(p, "vlan 5 and udp");
	if (send(sender, frame, sizeof frame, 0) != sizeof frame)
		give_up("send");
	emit(sender, 1, 1, 60);
	expect(p, 1);
	pcap_close(p);
}

int main(int count, char **arguments)
{
	if (count != 3)
		return 2;
	device = arguments[1];
	other = arguments[2];
	sender = wire(other);
	say("-- ways of reading");
	ways();
	say("-- lengths");
	lengths();
	say("-- filters");
	filters();
	say("-- statistics");
	statistics();
	say("-- directions");
	directions();
	say("-- injected");
	injected();
	say("-- immediate");
	immediate();
	say("-- nanoseconds");
	nanoseconds();
	say("-- one protocol");
	one_protocol();
	say("-- tagged");
	tagged();
	return 0;
}
