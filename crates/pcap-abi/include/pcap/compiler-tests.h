/*
 * Which compiler this is, for the headers that ask. SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * gcc and clang are told apart, as programs that use these macros expect: each is "at least" a
 * version of itself only.
 */
#ifndef lib_pcap_compiler_tests_h
#define lib_pcap_compiler_tests_h

#ifndef __has_attribute
#define __has_attribute(x) 0
#endif
#ifndef __has_feature
#define __has_feature(x) 0
#endif

#if defined(__clang__)
#define PCAP_IS_AT_LEAST_CLANG_VERSION(major, minor) \
	(__clang_major__ > (major) || (__clang_major__ == (major) && __clang_minor__ >= (minor)))
#else
#define PCAP_IS_AT_LEAST_CLANG_VERSION(major, minor) 0
#endif

#if defined(__GNUC__) && !defined(__clang__)
#define PCAP_IS_AT_LEAST_GNUC_VERSION(major, minor) \
	(__GNUC__ > (major) || (__GNUC__ == (major) && __GNUC_MINOR__ >= (minor)))
#else
#define PCAP_IS_AT_LEAST_GNUC_VERSION(major, minor) 0
#endif

/* Compilers that Linux does not have. */
#define PCAP_IS_AT_LEAST_SUNC_VERSION(major, minor) 0
#define PCAP_IS_AT_LEAST_XL_C_VERSION(major, minor) 0
#define PCAP_IS_AT_LEAST_HP_C_VERSION(major, minor) 0

#endif
