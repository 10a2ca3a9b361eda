/* Handles in every state, and each function in the wrong one. */
#include "common.h"

static char errbuf[PCAP_ERRBUF_SIZE];

static void ignore(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	(void)user;
	(void)header;
	(void)bytes;
}

static void not_activated(const char *device)
{
	struct bpf_insn all[] = { BPF_STMT(BPF_RET | BPF_K, 100) };
	struct bpf_program program = { 1, all };
	struct pcap_pkthdr header, *at;
	struct pcap_stat stat;
	const u_char *bytes;
	int *list = NULL;
	pcap_t *p = pcap_create(device, errbuf);

	result("dispatch", p, pcap_dispatch(p, 1, ignore, NULL));
	result("loop", p, pcap_loop(p, 1, ignore, NULL));
	say("next: %s", pcap_next(p, &header) == NULL ? pcap_geterr(p) : "a packet");
	result("next_ex", p, pcap_next_ex(p, &at, &bytes));
	result("stats", p, pcap_stats(p, &stat));
	result("setfilter", p, pcap_setfilter(p, &program));
	result("setdirection", p, pcap_setdirection(p, PCAP_D_IN));
	say("getnonblock: %d", pcap_getnonblock(p, errbuf));
	say("setnonblock: %d", pcap_setnonblock(p, 1, errbuf));
	say("getnonblock: %d", pcap_getnonblock(p, errbuf));
	result("inject", p, pcap_inject(p, "x", 1));
	result("datalink", p, pcap_datalink(p));
	result("datalink_ext", p, pcap_datalink_ext(p));
	result("list_datalinks", p, pcap_list_datalinks(p, &list));
	result("set_datalink", p, pcap_set_datalink(p, DLT_EN10MB));
	say("snapshot: %d", pcap_snapshot(p));
	say("is_swapped: %d", pcap_is_swapped(p));
	say("major_version: %d", pcap_major_version(p));
	say("minor_version: %d", pcap_minor_version(p));
	say("bufsize: %d", pcap_bufsize(p));
	say("file: %s", pcap_file(p) == NULL ? "NULL" : "some");
	say("fileno: %d", pcap_fileno(p));
	say("selectable fd: %d", pcap_get_selectable_fd(p));
	say("required timeout: %s", pcap_get_required_select_timeout(p) == NULL ? "NULL" : "some");
	result("precision", p, pcap_get_tstamp_precision(p));
	pcap_breakloop(p);
	pcap_close(p);
}

static void set_before(const char *device)
{
	const char *elsewhere[] = { "no-such-device", "any", "lo", "" };
	pcap_t *p = pcap_create(device, errbuf);

	result("set_snaplen 100", p, pcap_set_snaplen(p, 100));
	result("set_snaplen 0", p, pcap_set_snaplen(p, 0));
	result("set_snaplen -1", p, pcap_set_snaplen(p, -1));
	result("set_snaplen 2^31-1", p, pcap_set_snaplen(p, 0x7fffffff));
	result("set_promisc 5", p, pcap_set_promisc(p, 5));
	result("set_timeout 10", p, pcap_set_timeout(p, 10));
	result("set_timeout 0", p, pcap_set_timeout(p, 0));
	result("set_timeout -1", p, pcap_set_timeout(p, -1));
	result("set_immediate_mode", p, pcap_set_immediate_mode(p, 1));
	result("set_buffer_size 1 MiB", p, pcap_set_buffer_size(p, 1 << 20));
	result("set_buffer_size 0", p, pcap_set_buffer_size(p, 0));
	result("set_buffer_size -1", p, pcap_set_buffer_size(p, -1));
	for (int type = -1; type < 8; type++)
		say("set_tstamp_type %d: %d", type, pcap_set_tstamp_type(p, type));
	for (int precision = -1; precision < 4; precision++)
		say("set_tstamp_precision %d: %d", precision, pcap_set_tstamp_precision(p, precision));
	result("get_tstamp_precision", p, pcap_get_tstamp_precision(p));
	result("set_protocol_linux", p, pcap_set_protocol_linux(p, 0x0800));
	result("set_protocol_linux 0", p, pcap_set_protocol_linux(p, 0));
	result("can_set_rfmon", p, pcap_can_set_rfmon(p));
	result("set_rfmon", p, pcap_set_rfmon(p, 0));
	result("activate", p, pcap_activate(p));
	result("activate again", p, pcap_activate(p));
	result("snapshot", p, pcap_snapshot(p));
	result("set_snaplen", p, pcap_set_snaplen(p, 5));
	result("set_promisc", p, pcap_set_promisc(p, 1));
	result("set_timeout", p, pcap_set_timeout(p, 1));
	result("set_immediate_mode", p, pcap_set_immediate_mode(p, 1));
	result("set_buffer_size", p, pcap_set_buffer_size(p, 1));
	result("set_tstamp_type", p, pcap_set_tstamp_type(p, 0));
	result("set_tstamp_precision", p, pcap_set_tstamp_precision(p, 1));
	result("set_protocol_linux", p, pcap_set_protocol_linux(p, 0));
	result("set_rfmon", p, pcap_set_rfmon(p, 1));
	pcap_close(p);

	p = pcap_create(device, errbuf);
	result("set_rfmon", p, pcap_set_rfmon(p, 1));
	result("activate with rfmon", p, pcap_activate(p));
	pcap_close(p);
	for (size_t at = 0; at < sizeof elsewhere / sizeof *elsewhere; at++) {
		p = pcap_create(elsewhere[at], errbuf);
		say("%s: can_set_rfmon: %d, %s", elsewhere[at], pcap_can_set_rfmon(p), pcap_geterr(p));
		pcap_set_rfmon(p, 1);
		say("activate with rfmon: %d", pcap_activate(p));
		pcap_close(p);
	}
}

static void activated(const char *device)
{
	pcap_t *p = open_quiet(device);
	struct bpf_insn endless[] = { BPF_STMT(BPF_LD | BPF_IMM, 1) };
	struct bpf_program invalid = { 1, endless }, empty = { 0, NULL };
	int *list;
	int value;

	result("datalink", p, pcap_datalink(p));
	result("datalink_ext", p, pcap_datalink_ext(p));
	value = pcap_list_datalinks(p, &list);
	say("list_datalinks: %d", value);
	for (int at = 0; at < value; at++)
		say("  %d", list[at]);
	pcap_free_datalinks(list);
	result("set_datalink to the same", p, pcap_set_datalink(p, DLT_EN10MB));
	result("set_datalink to DOCSIS", p, pcap_set_datalink(p, DLT_DOCSIS));
	result("datalink", p, pcap_datalink(p));
	result("set_datalink to 802.11", p, pcap_set_datalink(p, DLT_IEEE802_11));
	result("set_datalink to none", p, pcap_set_datalink(p, -1));
	value = pcap_list_tstamp_types(p, &list);
	say("list_tstamp_types: %d", value);
	for (int at = 0; at < value; at++)
		say("  %d", list[at]);
	pcap_free_tstamp_types(list);
	result("snapshot", p, pcap_snapshot(p));
	result("is_swapped", p, pcap_is_swapped(p));
	result("major_version", p, pcap_major_version(p));
	result("minor_version", p, pcap_minor_version(p));
	say("bufsize: %s", pcap_bufsize(p) > 0 ? "some" : "none");
	say("file: %s", pcap_file(p) == NULL ? "NULL" : "some");
	say("fileno: %s", pcap_fileno(p) >= 0 ? "some" : "none");
	say("selectable fd: %s", pcap_get_selectable_fd(p) >= 0 ? "some" : "none");
	result("precision", p, pcap_get_tstamp_precision(p));
	result("an invalid filter", p, pcap_setfilter(p, &invalid));
	result("an empty filter", p, pcap_setfilter(p, &empty));
	result("no filter", p, pcap_setfilter(p, NULL));
	result("a wrong direction", p, pcap_setdirection(p, (pcap_direction_t)9));
	pcap_close(p);
}

static void other_devices(const char *device)
{
	char long_name[200];
	pcap_t *p;
	int *list = NULL;
	int value;

	memset(long_name, 'x', sizeof long_name - 1);
	long_name[sizeof long_name - 1] = 0;
	const char *const names[] = { "no-such-device", "", long_name, "lo", "any" };

	for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
		errbuf[0] = 0;
		p = pcap_create(names[at], errbuf);
		say("device %.20s: %s", names[at], p != NULL ? "created" : errbuf);
		if (p == NULL)
			continue;
		value = pcap_list_tstamp_types(p, &list);
		say("  list_tstamp_types: %d", value);
		if (value > 0)
			pcap_free_tstamp_types(list);
		pcap_set_promisc(p, 1);
		value = pcap_activate(p);
		say("  activate: %d, %s", value, value != 0 ? pcap_geterr(p) : "no text");
		if (value >= 0)
			result("  datalink", p, pcap_datalink(p));
		else
			result("  set_snaplen after the failure", p, pcap_set_snaplen(p, 10));
		pcap_close(p);
	}
	p = pcap_create(NULL, errbuf);
	say("device NULL: %s", p != NULL ? "created" : errbuf);
	result("  activate", p, pcap_activate(p));
	result("  datalink", p, pcap_datalink(p));
	pcap_close(p);

	p = pcap_open_live("no-such-device", 100, 0, 10, errbuf);
	say("open_live: %s", p != NULL ? "opens" : errbuf);
	errbuf[0] = 0;
	p = pcap_open_live(device, 100, 1, 10, errbuf);
	say("open_live: %s, snapshot %d, text '%s'", p != NULL ? "opens" : "fails", pcap_snapshot(p), errbuf);
	pcap_close(p);
}

static void dead(void)
{
	pcap_t *p = pcap_open_dead(DLT_RAW, 77);
	struct pcap_pkthdr header, *at;
	struct pcap_stat stat;
	const u_char *bytes;
	int *list;
	int value;

	result("datalink", p, pcap_datalink(p));
	result("snapshot", p, pcap_snapshot(p));
	result("precision", p, pcap_get_tstamp_precision(p));
	result("bufsize", p, pcap_bufsize(p));
	say("fileno: %d", pcap_fileno(p));
	say("selectable fd: %d", pcap_get_selectable_fd(p));
	say("file: %s", pcap_file(p) == NULL ? "NULL" : "some");
	result("dispatch", p, pcap_dispatch(p, 1, ignore, NULL));
	result("loop", p, pcap_loop(p, 1, ignore, NULL));
	say("next: %s", pcap_next(p, &header) == NULL ? "NULL" : "a packet");
	result("next_ex", p, pcap_next_ex(p, &at, &bytes));
	result("stats", p, pcap_stats(p, &stat));
	result("setdirection", p, pcap_setdirection(p, PCAP_D_OUT));
	result("inject", p, pcap_inject(p, "x", 1));
	errbuf[0] = 0;
	say("getnonblock: %d, %s", pcap_getnonblock(p, errbuf), errbuf);
	errbuf[0] = 0;
	say("setnonblock: %d, %s", pcap_setnonblock(p, 1, errbuf), errbuf);
	value = pcap_list_datalinks(p, &list);
	say("list_datalinks: %d", value);
	pcap_free_datalinks(list);
	result("set_datalink", p, pcap_set_datalink(p, DLT_EN10MB));
	result("activate", p, pcap_activate(p));
	result("set_snaplen", p, pcap_set_snaplen(p, 5));
	pcap_breakloop(p);
	pcap_close(p);

	static const u_int precisions[] = { 0, 1, 2, 9, 0xffffffffu };

	for (size_t at = 0; at < sizeof precisions / sizeof *precisions; at++) {
		p = pcap_open_dead_with_tstamp_precision(DLT_EN10MB, 100, precisions[at]);
		say("dead with precision %u: %s", precisions[at], p != NULL ? "opens" : "NULL");
		if (p == NULL)
			continue;
		result("precision", p, pcap_get_tstamp_precision(p));
		pcap_close(p);
	}
}

int main(int count, char **arguments)
{
	if (count != 3)
		return 2;
	say("-- not activated");
	not_activated(arguments[1]);
	say("-- settings");
	set_before(arguments[1]);
	say("-- activated");
	activated(arguments[1]);
	say("-- devices");
	other_devices(arguments[1]);
	say("-- dead");
	dead();
	return 0;
}
