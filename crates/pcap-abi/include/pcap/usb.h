/*
 * DLT_USB_LINUX and DLT_USB_LINUX_MMAPPED: what usbmon says of a transfer, in the byte order of the
 * host that captured. SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef lib_pcap_usb_h
#define lib_pcap_usb_h

#include <pcap/pcap-inttypes.h>

/* transfer_type; this bit of endpoint_number means towards the host. */
#define URB_TRANSFER_IN 0x80
#define URB_ISOCHRONOUS 0x0
#define URB_INTERRUPT 0x1
#define URB_CONTROL 0x2
#define URB_BULK 0x3

/* event_type */
#define URB_SUBMIT 'S'
#define URB_COMPLETE 'C'
#define URB_ERROR 'E'

/* USB 2.0, 9.3: little-endian. */
typedef struct _usb_setup {
	uint8_t bmRequestType;
	uint8_t bRequest;
	uint16_t wValue;
	uint16_t wIndex;
	uint16_t wLength;
} pcap_usb_setup;

/* In place of a setup packet, of isochronous transfers. */
typedef struct _iso_rec {
	int32_t error_count;
	int32_t numdesc;
} iso_rec;

/* DLT_USB_LINUX */
typedef struct _usb_header {
	uint64_t id; /* the same in submission and completion */
	uint8_t event_type;
	uint8_t transfer_type;
	uint8_t endpoint_number;
	uint8_t device_address;
	uint16_t bus_id;
	char setup_flag; /* 0: setup holds something */
	char data_flag;  /* 0: data follows */
	int64_t ts_sec;
	int32_t ts_usec;
	int32_t status;
	uint32_t urb_len;  /* bytes of the transfer */
	uint32_t data_len; /* bytes that follow */
	pcap_usb_setup setup;
} pcap_usb_header;

/* DLT_USB_LINUX_MMAPPED */
typedef struct _usb_header_mmapped {
	uint64_t id;
	uint8_t event_type;
	uint8_t transfer_type;
	uint8_t endpoint_number;
	uint8_t device_address;
	uint16_t bus_id;
	char setup_flag;
	char data_flag;
	int64_t ts_sec;
	int32_t ts_usec;
	int32_t status;
	uint32_t urb_len;
	uint32_t data_len;
	union {
		pcap_usb_setup setup;
		iso_rec iso;
	} s;
	int32_t interval;
	int32_t start_frame;
	uint32_t xfer_flags;
	uint32_t ndesc; /* descriptors that follow, of isochronous transfers */
} pcap_usb_header_mmapped;

/* The most of them. */
#define USB_MAXDESC 128

typedef struct _usb_isodesc {
	int32_t status;
	uint32_t offset;
	uint32_t len;
	uint8_t pad[4];
} usb_isodesc;

#endif
