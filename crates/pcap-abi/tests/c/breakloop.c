/* pcap_breakloop: from signal handlers and other threads, with traffic and without, before, within
 * and between calls. */
#include "common.h"
#include <pthread.h>
#include <signal.h>

static pcap_t *handle;
static int sender;
static unsigned seen;

static void on_alarm(int signal)
{
	(void)signal;
	pcap_breakloop(handle);
}

static void only_wake(int signal)
{
	(void)signal;
}

static void install(void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_flags = flags };

	action.sa_handler = handler;
	sigemptyset(&action.sa_mask);
	if (sigaction(SIGALRM, &action, NULL) < 0)
		give_up("sigaction");
}

static void in_ms(int milliseconds)
{
	struct itimerval time = { { 0, 0 }, { 0, milliseconds * 1000 } };

	if (setitimer(ITIMER_REAL, &time, NULL) < 0)
		give_up("setitimer");
}

static void count(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	(void)header;
	(void)bytes;
	seen++;
	if (user != NULL && --*user == 0)
		pcap_breakloop(handle);
}

static void by_signal(int flags)
{
	struct pcap_pkthdr *header;
	const u_char *bytes;

	install(on_alarm, flags);
	in_ms(60);
	result("loop", handle, pcap_loop(handle, -1, count, NULL));
	in_ms(60);
	result("dispatch", handle, pcap_dispatch(handle, -1, count, NULL));
	in_ms(60);
	result("next_ex", handle, pcap_next_ex(handle, &header, &bytes));
}

/* A signal alone ends nothing. */
static void by_other_signal(int flags)
{
	seen = 0;
	install(only_wake, flags);
	in_ms(60);
	pthread_t thread;
	u_char until = 1;

	/* The packet comes after the signal. */
	extern void *send_later(void *);
	if (pthread_create(&thread, NULL, send_later, NULL) != 0)
		give_up("pthread_create");
	result("loop", handle, pcap_loop(handle, -1, count, &until));
	say("seen %u", seen);
	pthread_join(thread, NULL);
}

void *send_later(void *unused)
{
	sigset_t all;

	(void)unused;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	sleep_ms(150);
	emit(sender, 0, 1, 60);
	return NULL;
}

static void *break_later(void *unused)
{
	(void)unused;
	sleep_ms(60);
	pcap_breakloop(handle);
	return NULL;
}

static void by_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, break_later, NULL) != 0)
		give_up("pthread_create");
	result("loop", handle, pcap_loop(handle, -1, count, NULL));
	pthread_join(thread, NULL);
}

static void within_a_call(void)
{
	u_char after = 2;

	seen = 0;
	emit(sender, 0, 5, 60);
	result("loop", handle, pcap_loop(handle, -1, count, &after));
	say("seen %u", seen);
	result("loop for the others", handle, pcap_loop(handle, 3, count, NULL));
	say("seen %u", seen);
	/* With the last packet that was asked for; the next call knows nothing of it. */
	after = 3;
	emit(sender, 0, 5, 60);
	result("loop 3", handle, pcap_loop(handle, 3, count, &after));
	after = 1;
	result("dispatch", handle, pcap_dispatch(handle, -1, count, &after));
	result("loop for the other", handle, pcap_loop(handle, 1, count, NULL));
	say("seen %u", seen);
}

static void between_calls(void)
{
	struct pcap_pkthdr header, *at;
	const u_char *bytes;

	pcap_breakloop(handle);
	result("loop", handle, pcap_loop(handle, -1, count, NULL));
	pcap_breakloop(handle);
	pcap_breakloop(handle);
	result("dispatch", handle, pcap_dispatch(handle, -1, count, NULL));
	pcap_breakloop(handle);
	result("next_ex", handle, pcap_next_ex(handle, &at, &bytes));
	pcap_breakloop(handle);
	say("next: %s", pcap_next(handle, &header) == NULL ? "NULL" : "a packet");
	nothing_left(handle);
	seen = 0;
	emit(sender, 0, 1, 60);
	result("loop 1", handle, pcap_loop(handle, 1, count, NULL));
	say("seen %u", seen);
}

int main(int arguments, char **names)
{
	char errbuf[PCAP_ERRBUF_SIZE] = "";

	if (arguments != 3)
		return 2;
	/* A read timeout that is longer than what is waited for. */
	handle = pcap_open_live(names[1], 65535, 0, 300, errbuf);
	if (handle == NULL)
		give_up(errbuf);
	pcap_setnonblock(handle, 0, errbuf);
	sender = wire(names[2]);
	say("-- by a signal");
	by_signal(0);
	say("-- by a signal that restarts calls");
	by_signal(SA_RESTART);
	say("-- by a signal that does not");
	by_other_signal(0);
	by_other_signal(SA_RESTART);
	say("-- by a thread");
	by_thread();
	by_thread();
	say("-- within a call");
	within_a_call();
	say("-- between calls");
	between_calls();
	pcap_close(handle);
	return 0;
}
