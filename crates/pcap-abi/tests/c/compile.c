/* Filters: compiled, shown, checked, run; and every way in which that fails. */
#include "common.h"

static const char *const expressions[] = {
	"", "ip", "tcp port 80", "udp and not port 53", "host 10.0.0.1", "net 10.0.0.0/8", "ip6",
	"ether host 02:00:00:00:00:01", "vlan 5 and tcp", "ip broadcast", "ether[0] & 1 = 0",
	"tcp[tcpflags] & (tcp-syn|tcp-fin) != 0", "greater 100 and less 200", "icmp6", "portrange 20-25",
	"arp or rarp", "ip proto \\tcp", "src or dst host 1.2.3.4", "len = 60",
	/* wrong ones */
	"tcp port", "no such thing", "host 1.2.3.4.5", "port 99999", "ip[", "ether host 1:2", "(tcp",
	"tcp)", "vlan 5000", "net 10.0.0.1/8", "portrange 5", "ip proto 300", "\x01", "ether[100:3] = 1",
	"wlan addr1 1:2:3:4:5:6",
};
static const int link_types[] = { DLT_EN10MB, DLT_RAW, DLT_LINUX_SLL2, DLT_NULL, DLT_IEEE802_11 };

/* The text of an error in an expression is the compiler's own; that there is one is the library's. */
static void refused(const char *what, pcap_t *p, int value)
{
	say("%s: %d, %s", what, value, pcap_geterr(p)[0] != 0 ? "with a text" : "without a text");
}

static void each_expression(void)
{
	uint8_t frame[100];
	struct pcap_pkthdr header = { { 0, 0 }, sizeof frame, sizeof frame };

	make_frame(frame, sizeof frame, 3);
	for (size_t type = 0; type < sizeof link_types / sizeof *link_types; type++) {
		pcap_t *p = pcap_open_dead(link_types[type], 65535);

		for (size_t at = 0; at < sizeof expressions / sizeof *expressions; at++) {
			struct bpf_program program = { 0, NULL };
			int value = pcap_compile(p, &program, expressions[at], 1, 0x000000ffu);

			say("type %d, %s", link_types[type], expressions[at]);
			if (value != 0)
				refused("  compile", p, value);
			else
				say("  valid %d, on a packet %d",
					bpf_validate(program.bf_insns, (int)program.bf_len),
					pcap_offline_filter(&program, &header, frame));
			pcap_freecode(&program);
			pcap_freecode(&program);
		}
		pcap_close(p);
	}
}

static void shown(void)
{
	struct bpf_insn instructions[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x800, 0, 2),
		BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
		BPF_STMT(BPF_RET | BPF_K, 262144),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct bpf_program program = { 5, instructions };
	struct bpf_insn wide = { 0x1234, 0, 0, 0 };

	for (int option = 0; option < 5; option++)
		bpf_dump(&program, option);
	fflush(stdout);
	for (unsigned code = 0; code < 256; code++) {
		struct bpf_insn instruction = { (u_short)code, 3, 5, 0x12345678 };

		say("%02x %s", code, bpf_image(&instruction, 7));
	}
	say("1234 %s", bpf_image(&wide, 0));
}

static void netmasks(void)
{
	static const bpf_u_int32 masks[] = { 0, 0x00ffffff, PCAP_NETMASK_UNKNOWN };
	pcap_t *p = pcap_open_dead(DLT_EN10MB, 65535);

	for (size_t at = 0; at < sizeof masks / sizeof *masks; at++) {
		struct bpf_program program = { 0, NULL };
		uint8_t frame[60];
		struct pcap_pkthdr header = { { 0, 0 }, sizeof frame, sizeof frame };
		int value = pcap_compile(p, &program, "ip broadcast", 1, masks[at]);

		make_frame(frame, sizeof frame, 0);
		memset(frame + 30, 0xff, 4);
		if (value != 0)
			refused("ip broadcast", p, value);
		else
			say("ip broadcast: to all %d", pcap_offline_filter(&program, &header, frame));
		pcap_freecode(&program);
	}
	pcap_close(p);
}

static void valid(void)
{
	static const struct bpf_insn programs[][3] = {
		{ BPF_STMT(BPF_RET | BPF_K, 1), BPF_STMT(0, 0), BPF_STMT(0, 0) },
		{ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_STMT(BPF_RET | BPF_A, 0), BPF_STMT(0, 0) },
		{ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_STMT(BPF_MISC | BPF_TAX, 0), BPF_STMT(0, 0) },
		{ BPF_JUMP(BPF_JMP | BPF_JA, 0, 0, 0), BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(0, 0) },
		{ BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0), BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(0, 0) },
		{ BPF_JUMP(BPF_JMP | BPF_JEQ, 1, 1, 0), BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(0, 0) },
		{ BPF_STMT(BPF_ST, 15), BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(0, 0) },
		{ BPF_STMT(BPF_ST, 16), BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(0, 0) },
		{ BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0), BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(0, 0) },
		{ BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, 0), BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(0, 0) },
		{ BPF_STMT(BPF_ALU | 0xb0, 0), BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(0, 0) },
		{ BPF_STMT(BPF_LD | BPF_MEM, 20), BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(0, 0) },
	};
	struct bpf_insn one = BPF_STMT(BPF_RET | BPF_K, 5);

	for (size_t at = 0; at < sizeof programs / sizeof *programs; at++)
		for (int length = 0; length < 3; length++)
			say("program %zu of length %d: %d", at, length, bpf_validate(programs[at], length));
	say("no length: %d", bpf_validate(&one, 0));
	say("negative length: %d", bpf_validate(&one, -1));
}

static void run(void)
{
	static const char *const filters[] = {
		"udp", "tcp", "udp port 1003", "ether[60] = 1", "len = 100", "ip[2:2] = 86", "udp[20] = 0x40",
	};
	pcap_t *p = pcap_open_dead(DLT_EN10MB, 77);
	uint8_t frame[100];

	make_frame(frame, sizeof frame, 3);
	for (size_t at = 0; at < sizeof filters / sizeof *filters; at++) {
		struct bpf_program program;
		struct pcap_pkthdr header = { { 0, 0 }, sizeof frame, sizeof frame };

		if (pcap_compile(p, &program, filters[at], 0, 0) != 0)
			continue;
		int whole = pcap_offline_filter(&program, &header, frame);
		header.caplen = 40;
		int part = pcap_offline_filter(&program, &header, frame);
		header.caplen = 0;
		int none = pcap_offline_filter(&program, &header, frame);
		say("%s: %d, of 40 bytes %d, of 0 %d; by the machine %u", filters[at], whole, part, none,
			bpf_filter(program.bf_insns, frame, sizeof frame, sizeof frame));
		pcap_freecode(&program);
	}
	say("no program: %u", bpf_filter(NULL, frame, sizeof frame, sizeof frame));
	struct bpf_program empty = { 0, NULL };
	struct pcap_pkthdr header = { { 0, 0 }, sizeof frame, sizeof frame };
	say("empty program: %d", pcap_offline_filter(&empty, &header, frame));
	pcap_close(p);
}

static void set(void)
{
	char errbuf[PCAP_ERRBUF_SIZE];
	pcap_t *p = pcap_open_dead(DLT_EN10MB, 65535);
	struct bpf_program program;

	result("compile", p, pcap_compile(p, &program, "ip", 1, 0));
	result("setfilter of a dead handle", p, pcap_setfilter(p, &program));
	pcap_freecode(&program);
	pcap_close(p);

	p = pcap_create("lo", errbuf);
	result("compile before activation", p, pcap_compile(p, &program, "ip", 1, 0));
	pcap_close(p);

	p = pcap_open_dead(DLT_EN10MB, 0);
	refused("compile with snapshot length 0", p, pcap_compile(p, &program, "ip", 1, 0));
	pcap_close(p);

	p = pcap_open_dead(DLT_USER0, 65535);
	refused("compile for a user's type", p, pcap_compile(p, &program, "ip", 1, 0));
	result("compile of nothing for it", p, pcap_compile(p, &program, NULL, 1, 0));
	pcap_freecode(&program);
	pcap_close(p);

	int value = (pcap_compile_nopcap)(128, DLT_EN10MB, &program, "tcp", 1, 0);
	say("compile_nopcap: %d, %s", value, program.bf_len > 1 ? "a program" : "none");
	pcap_freecode(&program);
	say("compile_nopcap of an error: %d", (pcap_compile_nopcap)(128, DLT_EN10MB, &program, "tcp tcp tcp", 1, 0));
}

int main(void)
{
	each_expression();
	shown();
	netmasks();
	valid();
	run();
	set();
	return 0;
}
