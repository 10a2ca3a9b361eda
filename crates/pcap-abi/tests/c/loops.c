/* Event loops: select, poll and epoll on a handle that does not block. */
#include "common.h"
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>

static const char *device;
static char errbuf[PCAP_ERRBUF_SIZE];
static int sender;
static unsigned seen;
static uint32_t sums;

static void count(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	(void)user;
	seen++;
	sums += sum_of(bytes, header->caplen);
}

/* Waits for the descriptor for two seconds at most: above 0 when it is readable. */
typedef int wait_for(int fd);

static int by_select(int fd)
{
	struct timeval time = { 2, 0 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return select(fd + 1, &set, NULL, NULL, &time);
}

static int by_poll(int fd)
{
	struct pollfd one = { fd, POLLIN, 0 };

	return poll(&one, 1, 2000);
}

static int by_epoll(int fd)
{
	struct epoll_event event = { .events = EPOLLIN }, happened;
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	int value;

	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		give_up("epoll");
	value = epoll_wait(epoll, &happened, 1, 2000);
	close(epoll);
	return value;
}

static int by_edges(int fd)
{
	static int epoll = -1;
	struct epoll_event event = { .events = EPOLLIN | EPOLLET }, happened;

	if (epoll < 0) {
		epoll = epoll_create1(EPOLL_CLOEXEC);
		if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
			give_up("epoll");
	}
	return epoll_wait(epoll, &happened, 1, 2000);
}

static void around(const char *name, wait_for *wait, int immediate)
{
	pcap_t *p = pcap_create(device, errbuf);
	int fd, silent = 0;

	pcap_set_timeout(p, 20);
	pcap_set_snaplen(p, 65535);
	pcap_set_immediate_mode(p, immediate);
	result("activate", p, pcap_activate(p));
	say("getnonblock: %d", pcap_getnonblock(p, errbuf));
	say("setnonblock: %d", pcap_setnonblock(p, 1, errbuf));
	say("getnonblock: %d", pcap_getnonblock(p, errbuf));
	result("dispatch of nothing", p, pcap_dispatch(p, -1, count, NULL));
	fd = pcap_get_selectable_fd(p);
	seen = 0;
	sums = 0;
	for (unsigned round = 0; round < 5; round++) {
		unsigned until = seen + 20;

		emit(sender, round * 20, 20, 60 + round);
		while (seen < until && silent < 3) {
			int value;

			if (wait(fd) <= 0) {
				silent++;
				continue;
			}
			while ((value = pcap_dispatch(p, -1, count, NULL)) > 0)
				;
			if (value < 0)
				result("dispatch", p, value);
		}
	}
	say("%s: seen %u, sums %08x, silent %d", name, seen, sums, silent);
	pcap_close(p);
}

static void hang(int number)
{
	static const char text[] = "hung\n";

	(void)number;
	_exit(write(STDOUT_FILENO, text, sizeof text - 1) < 0 ? 2 : 1);
}

/* A filter that is set, and counters that are asked for, while packets of a block wait: they are read
   when the descriptor says so, and a read that follows does not hang though it finds none. */
static void changed_meanwhile(const char *expression, int immediate)
{
	pcap_t *p = pcap_create(device, errbuf);
	struct bpf_program program;
	struct pcap_pkthdr *header;
	struct pcap_stat stat;
	const u_char *bytes;
	unsigned got = 0, turns = 0;
	int value = 0;

	pcap_set_timeout(p, 30);
	pcap_set_snaplen(p, 65535);
	pcap_set_immediate_mode(p, immediate);
	result("activate", p, pcap_activate(p));
	emit(sender, 0, 20, 60);
	signal(SIGALRM, hang);
	alarm(20);
	while (got < 5 && by_poll(pcap_get_selectable_fd(p)) > 0)
		got += pcap_next_ex(p, &header, &bytes) == 1;
	say("before: %u", got);
	result("stats", p, pcap_stats(p, &stat));
	if (expression != NULL) {
		result(expression, p, pcap_compile(p, &program, expression, 1, PCAP_NETMASK_UNKNOWN));
		result("setfilter", p, pcap_setfilter(p, &program));
		pcap_freecode(&program);
		result("stats", p, pcap_stats(p, &stat));
	}
	while (value >= 0 && turns++ < 100 && by_poll(pcap_get_selectable_fd(p)) > 0) {
		value = pcap_next_ex(p, &header, &bytes);
		if (value == 1)
			say_packet(header, bytes);
	}
	result("the last", p, value < 0 ? value : 0);
	say("%s", turns < 100 ? "silence" : "readable for ever");
	alarm(0);
	pcap_close(p);
}

/* As programs do that cannot wait for the descriptor alone. */
static void with_the_timeout(void)
{
	pcap_t *p = open_quiet(device);
	const struct timeval *most = pcap_get_required_select_timeout(p);
	unsigned turns = 0;

	pcap_setnonblock(p, 1, errbuf);
	seen = 0;
	emit(sender, 0, 10, 60);
	while (seen < 10 && turns++ < 200) {
		struct timeval time = most != NULL ? *most : (struct timeval){ 1, 0 };
		fd_set set;

		FD_ZERO(&set);
		FD_SET(pcap_get_selectable_fd(p), &set);
		if (select(pcap_get_selectable_fd(p) + 1, &set, NULL, NULL, &time) < 0)
			give_up("select");
		pcap_dispatch(p, -1, count, NULL);
	}
	say("with the required timeout: seen %u", seen);
	say("next_ex of nothing: %d", pcap_next_ex(p, &(struct pcap_pkthdr *){ NULL }, &(const u_char *){ NULL }));
	say("next of nothing: %s", pcap_next(p, &(struct pcap_pkthdr){ .len = 0 }) == NULL ? "NULL" : "a packet");
	say("setnonblock: %d", pcap_setnonblock(p, 0, errbuf));
	emit(sender, 0, 2, 60);
	result("and blocking", p, pcap_loop(p, 2, count, NULL));
	pcap_close(p);
}

/* Set before the activation it holds after it. */
static void set_before(void)
{
	pcap_t *p = pcap_create(device, errbuf);

	pcap_set_timeout(p, 20);
	say("setnonblock before: %d", pcap_setnonblock(p, 1, errbuf));
	result("activate", p, pcap_activate(p));
	say("getnonblock after: %d", pcap_getnonblock(p, errbuf));
	result("dispatch of nothing", p, pcap_dispatch(p, -1, count, NULL));
	pcap_close(p);
}

int main(int arguments, char **names)
{
	if (arguments != 3)
		return 2;
	device = names[1];
	sender = wire(names[2]);
	around("select", by_select, 0);
	around("poll", by_poll, 0);
	around("epoll", by_epoll, 0);
	around("epoll, by edges", by_edges, 0);
	around("poll, immediate", by_poll, 1);
	for (int immediate = 0; immediate < 2; immediate++) {
		changed_meanwhile(NULL, immediate);
		changed_meanwhile("udp dst port 1007 or udp dst port 1019", immediate);
		changed_meanwhile("tcp", immediate);
	}
	with_the_timeout();
	set_before();
	return 0;
}
