/*
 * The filtering machine: its instructions, and functions that run and show them.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The machine has an accumulator A, an index register X, BPF_MEMWORDS words of scratch memory and
 * the packet. Jumps go forward only; a program ends by returning how many bytes of the packet to
 * keep, 0 for none. Loads beyond the packet return 0.
 */
#if !defined(_NET_BPF_H_) && !defined(_NET_BPF_H_INCLUDED) && !defined(_BPF_H_) && \
	!defined(_H_BPF) && !defined(lib_pcap_bpf_h)
#define lib_pcap_bpf_h

#include <sys/types.h>

#include <pcap/funcattrs.h>
#include <pcap/dlt.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BPF_RELEASE 199606

typedef int bpf_int32;
typedef u_int bpf_u_int32;

#define BPF_ALIGNMENT sizeof(bpf_int32)
#define BPF_WORDALIGN(x) (((x)+(BPF_ALIGNMENT-1))&~(BPF_ALIGNMENT-1))

/* A program, as pcap_compile() makes it and pcap_freecode() frees it. */
struct bpf_program {
	u_int bf_len; /* instructions */
	struct bpf_insn *bf_insns;
};

/* An operation code: its class, */
#define BPF_CLASS(code) ((code) & 0x07)
#define BPF_LD 0x00
#define BPF_LDX 0x01
#define BPF_ST 0x02
#define BPF_STX 0x03
#define BPF_ALU 0x04
#define BPF_JMP 0x05
#define BPF_RET 0x06
#define BPF_MISC 0x07

/* of a load, its width: 4, 2 or 1 bytes, */
#define BPF_SIZE(code) ((code) & 0x18)
#define BPF_W 0x00
#define BPF_H 0x08
#define BPF_B 0x10

/* and from where: k, packet at k, at X + k, memory, the packet's length, 4 times a nibble at k; */
#define BPF_MODE(code) ((code) & 0xe0)
#define BPF_IMM 0x00
#define BPF_ABS 0x20
#define BPF_IND 0x40
#define BPF_MEM 0x60
#define BPF_LEN 0x80
#define BPF_MSH 0xa0

/* of arithmetic, which, */
#define BPF_OP(code) ((code) & 0xf0)
#define BPF_ADD 0x00
#define BPF_SUB 0x10
#define BPF_MUL 0x20
#define BPF_DIV 0x30
#define BPF_OR 0x40
#define BPF_AND 0x50
#define BPF_LSH 0x60
#define BPF_RSH 0x70
#define BPF_NEG 0x80
#define BPF_MOD 0x90
#define BPF_XOR 0xa0

/* of a jump, on which relation of A, */
#define BPF_JA 0x00
#define BPF_JEQ 0x10
#define BPF_JGT 0x20
#define BPF_JGE 0x30
#define BPF_JSET 0x40

/* to k or X; */
#define BPF_SRC(code) ((code) & 0x08)
#define BPF_K 0x00
#define BPF_X 0x08

/* of a return, what (also BPF_K); */
#define BPF_RVAL(code) ((code) & 0x18)
#define BPF_A 0x10

/* of the last class, which register is copied. */
#define BPF_MISCOP(code) ((code) & 0xf8)
#define BPF_TAX 0x00
#define BPF_TXA 0x80

struct bpf_insn {
	u_short code;
	u_char jt; /* instructions to skip when the relation holds */
	u_char jf; /* and when not */
	bpf_u_int32 k;
};

/* Initialisers of instructions. The kernel's header has its own. */
#undef BPF_STMT
#define BPF_STMT(code, k) { (u_short)(code), 0, 0, k }
#undef BPF_JUMP
#define BPF_JUMP(code, k, jt, jf) { (u_short)(code), jt, jf, k }

/* Runs a program on a packet of wirelen bytes, buflen of which are at hand. */
PCAP_AVAILABLE_0_4
PCAP_API u_int bpf_filter(const struct bpf_insn *, const u_char *, u_int, u_int);

/* 1 when the program has an end and stays within itself and the memory, else 0. */
PCAP_AVAILABLE_0_6
PCAP_API int bpf_validate(const struct bpf_insn *f, int len);

/* An instruction as text; the result is overwritten by the next call. */
PCAP_AVAILABLE_0_4
PCAP_API char *bpf_image(const struct bpf_insn *, int);

/* A program on standard output; option 2: as C, 3: as numbers, else as text. */
PCAP_AVAILABLE_0_6
PCAP_API void bpf_dump(const struct bpf_program *, int);

#define BPF_MEMWORDS 16

#ifdef __cplusplus
}
#endif

#endif
