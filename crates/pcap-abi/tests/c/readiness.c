/*
 * Whether the descriptor is right: a program that waits for it, and reads once it is readable, gets
 * every packet and never hangs, whichever way it waits, and with every timeout; and once traffic has
 * stopped the descriptor is not readable any more.
 *
 * Arguments: the device to capture on, the device to send on, and perhaps "alone", for a device that
 * takes one capture at a time.
 */
#include "common.h"
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/wait.h>

enum { PACKETS = 40, HUNG = 17 };

/* So many seconds make a hang; so many captures run at once. */
enum { AT_MOST = 20, TOGETHER = 48 };

typedef int wait_for(int fd, int milliseconds);

struct way {
	const char *name;
	wait_for *wait;
	/* The descriptor is reported when it becomes readable, not while it is. */
	int by_edges;
};

struct kase {
	const struct way *way;
	int timeout, immediate, nonblocking, by_next;
};

/* What packets begin with: how long that is, and where the packet's type ends, if anywhere. */
static const struct start {
	int dlt;
	unsigned length;
	int type;
} STARTS[] = { { DLT_EN10MB, 14, -1 }, { DLT_LINUX_SLL, 16, 1 }, { DLT_LINUX_SLL2, 20, 10 } };

static const char *device;
static char errbuf[PCAP_ERRBUF_SIZE];
static unsigned seen, in_order;
static int alone;
/* Shared with all that capture: whether all packets were sent. */
static volatile int *is_sent;

static int by_select(int fd, int milliseconds)
{
	struct timeval time = { milliseconds / 1000, milliseconds % 1000 * 1000 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return select(fd + 1, &set, NULL, NULL, &time);
}

static int by_poll(int fd, int milliseconds)
{
	struct pollfd one = { fd, POLLIN, 0 };

	return poll(&one, 1, milliseconds);
}

static int in_epoll(int fd, int milliseconds, uint32_t events)
{
	static int epoll = -1;
	struct epoll_event event = { .events = events }, happened;

	if (epoll < 0) {
		epoll = epoll_create1(EPOLL_CLOEXEC);
		if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
			give_up("epoll");
	}
	return epoll_wait(epoll, &happened, 1, milliseconds);
}

static int by_epoll(int fd, int milliseconds)
{
	return in_epoll(fd, milliseconds, EPOLLIN);
}

static int by_edges(int fd, int milliseconds)
{
	return in_epoll(fd, milliseconds, EPOLLIN | EPOLLET);
}

static const struct way WAYS[] = {
	{ "select", by_select, 0 },
	{ "poll", by_poll, 0 },
	{ "epoll", by_epoll, 0 },
	{ "epoll by edges", by_edges, 1 },
};

/* One of the frames that are sent, on its way in. On all devices at once it is seen leaving, too. */
static void count(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	const struct start *start = (const struct start *)user;
	const u_char *udp = bytes + start->length + 20;
	unsigned number;

	if (header->caplen < start->length + 28)
		return;
	if (start->type >= 0 && bytes[start->type] == PACKET_OUTGOING)
		return;
	if (bytes[start->length] != 0x45 || udp[0] != 0x30 || udp[1] != 0x39)
		return;
	number = (unsigned)(udp[2] << 8 | udp[3]) - 1000;
	in_order += number == seen;
	seen++;
}

/* Reads as such a program does; the result of the last call. */
static int read_some(pcap_t *p, const struct kase *kase, const struct start *start)
{
	struct pcap_pkthdr *header;
	const u_char *bytes;
	int value;

	if (!kase->by_next) {
		do
			value = pcap_dispatch(p, -1, count, (u_char *)start);
		while (kase->nonblocking && value > 0);
		return value;
	}
	do {
		value = pcap_next_ex(p, &header, &bytes);
		if (value == 1)
			count((u_char *)start, header, bytes);
	} while (kase->nonblocking && value == 1);
	return value;
}

static void hang(int number)
{
	(void)number;
	_exit(HUNG);
}

/* After this time without packets, in milliseconds, traffic has stopped. */
static int silence(const struct kase *kase)
{
	return kase->timeout == 0 && !alone ? 2000 : 300;
}

/* Captures until there is silence. To be run in a process of its own, which says when it captures. */
static void capture(const struct kase *kase, int ready)
{
	pcap_t *p = pcap_create(device, errbuf);
	const struct start *start = NULL;
	struct pcap_stat stat;
	unsigned idle = 0;
	int fd, value = 0, was_sent = 0;

	signal(SIGALRM, hang);
	alarm(AT_MOST);
	pcap_set_timeout(p, kase->timeout);
	pcap_set_snaplen(p, 1600);
	pcap_set_immediate_mode(p, kase->immediate);
	if (pcap_activate(p) < 0) {
		fprintf(stderr, "%s: %s\n", device, pcap_geterr(p));
		_exit(1);
	}
	for (size_t at = 0; at < 3; at++)
		if (STARTS[at].dlt == pcap_datalink(p))
			start = &STARTS[at];
	if (start == NULL)
		_exit(1);
	pcap_setnonblock(p, kase->nonblocking, errbuf);
	fd = pcap_get_selectable_fd(p);
	if (fd < 0)
		_exit(2);
	/* Whatever made it readable by now is no packet of ours. */
	while (kase->way->wait(fd, 0) > 0 && value >= 0)
		value = read_some(p, kase, start);
	if (write(ready, "", 1) != 1)
		_exit(1);
	while (value >= 0) {
		unsigned before = seen;

		if (kase->way->wait(fd, silence(kase)) <= 0) {
			/* Packets that were sent before are here by now. */
			if (was_sent)
				break;
			was_sent = *is_sent;
			continue;
		}
		value = read_some(p, kase, start);
		/* Other packets, and what is readable for another reason. */
		if (seen == before && ++idle > 200)
			_exit(3);
	}
	/* On a busy machine the ring may have had no room: what came then is no matter of the descriptor. */
	if (value >= 0 && seen > 0 && pcap_stats(p, &stat) == 0 && stat.ps_drop > 0)
		_exit(0);
	_exit(value < 0 ? 4 : seen != PACKETS ? 5 : in_order != PACKETS ? 6 : 0);
}

static const char *meaning(int status)
{
	static const char *const meanings[] = {
		"all packets, in order, and silence", "activation failed", "no descriptor",
		"readable without packets", "a call failed", "packets are missing", "packets are out of order",
	};

	if (!WIFEXITED(status))
		return "died";
	if (WEXITSTATUS(status) == HUNG)
		return "hung";
	return WEXITSTATUS(status) <= 6 ? meanings[WEXITSTATUS(status)] : "ended";
}

static pid_t start(const struct kase *kase)
{
	int ends[2];
	char byte;
	pid_t child;

	if (pipe(ends) < 0 || (child = fork()) < 0)
		give_up("fork");
	if (child == 0) {
		close(ends[0]);
		capture(kase, ends[1]);
	}
	close(ends[1]);
	/* Ended, or ready. */
	if (read(ends[0], &byte, 1) < 0)
		give_up("read");
	close(ends[0]);
	return child;
}

/* Packets alone, and bursts; then nothing. No more rounds than a ring has blocks, each of which a
   timeout of a millisecond may fill with one packet, while others have the processor. */
static void send_all(int sender)
{
	static const unsigned rounds[] = { 1, 1, 12, 1, PACKETS - 15 };
	unsigned number = 0;

	for (size_t round = 0; round < sizeof rounds / sizeof *rounds; round++) {
		emit(sender, number, rounds[round], 60);
		number += rounds[round];
		sleep_ms(12);
	}
}

static void finish(const struct kase *kase, pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child)
		give_up("wait");
	say("%s, %s, %s, timeout %d%s: %s", kase->way->name, kase->by_next ? "next" : "dispatch",
		kase->nonblocking ? "non-blocking" : "blocking", kase->timeout,
		kase->immediate ? ", immediate" : "", meaning(status));
}

/* Runs cases, with the same packets where they can run at once. */
static void run(const struct kase *cases, size_t count, int sender)
{
	pid_t children[TOGETHER];

	*is_sent = 0;
	for (size_t at = 0; at < count; at++)
		children[at] = start(&cases[at]);
	send_all(sender);
	*is_sent = 1;
	for (size_t at = 0; at < count; at++)
		finish(&cases[at], children[at]);
}

int main(int arguments, char **names)
{
	static const int timeouts[] = { 0, 1, 100 };
	struct kase cases[4 * 3 * 2 * 2 * 2];
	size_t count = 0, together;
	int sender;

	if (arguments < 3)
		return 2;
	alone = arguments == 4;
	device = names[1];
	sender = wire(names[2]);
	is_sent = mmap(NULL, sizeof *is_sent, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (is_sent == MAP_FAILED)
		give_up("mmap");
	for (size_t number = 0; number < 4 * 3 * 2 * 2 * 2; number++) {
		struct kase kase = {
			&WAYS[number / 24], timeouts[number / 8 % 3], (int)(number / 4 % 2),
			(int)(number / 2 % 2), (int)(number % 2),
		};

		/* One edge stands for many packets, of which such a program would read one. */
		if (kase.way->by_edges && kase.by_next && !kase.nonblocking)
			continue;
		/* One after the other takes its time. */
		if (alone && (kase.timeout == 1 || kase.immediate != (kase.timeout == 0)))
			continue;
		cases[count++] = kase;
	}
	for (size_t at = 0; at < count; at += together) {
		together = alone ? 1 : count - at < TOGETHER ? count - at : TOGETHER;
		run(&cases[at], together, sender);
	}
	return 0;
}
