"""Processes that use sockets in the ways that the tests name. Each writes its number into what it sends."""

import ctypes
import mmap
import os
import socket
import struct
import sys
import tempfile
import threading


def own():
    return b"pid=%d;" % os.getpid()


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def connect(address, port):
    return socket.create_connection((address, int(port)))


def short_lived(address, port, count):
    """Processes that connect, write and exit at once."""
    for _ in range(int(count)):
        if os.fork() == 0:
            connect(address, port).sendall(own())
            os._exit(0)
        os.wait()


def aborted(address, port, own_port):
    """A connection that ends by a reset, so that nothing of it stays."""
    connection = socket.socket(family(address))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.bind(("", int(own_port)))
    connection.connect((address, int(port)))
    connection.sendall(own())
    connection.recv(100)
    connection.close()


def datagrams(address, port):
    """UDP without and with a connection, and back."""
    for is_connected in False, True:
        if os.fork() == 0:
            sender = socket.socket(family(address), socket.SOCK_DGRAM)
            if is_connected:
                sender.connect((address, int(port)))
                sender.send(own())
            else:
                sender.sendto(own(), (address, int(port)))
            sender.recv(100)
            os._exit(0)
        os.wait()


def passed(address, port):
    """A connection that is passed to another process, which did not inherit it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    if os.fork() == 0:
        _, fds, _, _ = socket.recv_fds(theirs, 10, 1)
        socket.socket(fileno=fds[0]).sendall(own())
        os._exit(0)
    connection = connect(address, port)
    connection.sendall(own())
    connection.recv(100)
    socket.send_fds(ours, [b"x"], [connection.fileno()])
    os.wait()


def listener(address, port):
    server = socket.socket(family(address))
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, int(port)))
    server.listen(8)
    return server


def ready():
    print("ready %d" % os.getpid(), flush=True)


def accepting_worker(address, port):
    """A listening process whose forked worker accepts and answers."""
    server = listener(address, port)
    if os.fork() == 0:
        connection, _ = server.accept()
        connection.sendall(own())
        os._exit(0)
    ready()
    os.wait()


def forking_worker(address, port):
    """A process that accepts, and a worker forked afterwards that answers."""
    server = listener(address, port)
    ready()
    connection, _ = server.accept()
    if os.fork() == 0:
        connection.sendall(own())
        os._exit(0)
    os.wait()


def reuse_port(address, port):
    """Answers datagrams on a port that other processes have too, until the input ends."""
    server = socket.socket(family(address), socket.SOCK_DGRAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind((address, int(port)))
    ready()

    def answer():
        while True:
            _, sender = server.recvfrom(100)
            server.sendto(own(), sender)

    threading.Thread(target=answer, daemon=True).start()
    sys.stdin.read()


def send_file(address, port):
    connection = connect(address, port)
    with tempfile.TemporaryFile() as file:
        file.write(own())
        file.flush()
        os.sendfile(connection.fileno(), file.fileno(), 0, len(own()))
    connection.close()


class Ring:
    """An io_uring(7) of a few entries."""

    ENTRIES = 4
    SEND = 26
    ASYNCHRONOUS = 1 << 4

    def __init__(self):
        self.libc = ctypes.CDLL(None, use_errno=True)
        parameters = ctypes.create_string_buffer(120)
        self.fd = self.call(425, self.ENTRIES, parameters)
        # The places of the submission queue's members: head, tail, mask, entries, flags, dropped, array.
        places = struct.unpack_from("7I", parameters.raw, 40)
        self.tail, self.array = places[1], places[6]
        self.queue = mmap.mmap(self.fd, self.array + 4 * self.ENTRIES)
        self.entries = mmap.mmap(self.fd, 64 * self.ENTRIES, offset=0x10000000)

    def call(self, number, *arguments):
        result = self.libc.syscall(number, *arguments)
        if result < 0:
            raise OSError(ctypes.get_errno(), "io_uring")
        return result

    def send(self, connection, data, flags):
        """Sends through the kernel, and waits until it is done."""
        buffer = ctypes.create_string_buffer(data, len(data))
        entry = struct.pack(
            "BBHiQQI", self.SEND, flags, 0, connection.fileno(), 0, ctypes.addressof(buffer), len(data)
        )
        (tail,) = struct.unpack_from("I", self.queue, self.tail)
        index = tail % self.ENTRIES
        self.entries[64 * index : 64 * index + 64] = entry.ljust(64, b"\0")
        struct.pack_into("I", self.queue, self.array + 4 * index, index)
        struct.pack_into("I", self.queue, self.tail, tail + 1)
        # Completions are not taken away: there must be one for each so far.
        self.call(426, self.fd, 1, tail + 1, 1, None, 0)


def ring(address, port):
    """Sends by io_uring: in the call, by a thread of the kernel, and both by another process with the same socket."""
    connection = socket.socket(family(address), socket.SOCK_DGRAM)
    connection.connect((address, int(port)))
    for is_other in False, True:
        if is_other and os.fork() != 0:
            os.wait()
            return
        own_ring = Ring()
        for flags in 0, Ring.ASYNCHRONOUS:
            own_ring.send(connection, own(), flags)


def echo_request():
    data = struct.pack("!BBHHH", 8, 0, 0, 7, 1) + own() + b"." * 20
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return data[:2] + struct.pack("!H", total ^ 0xFFFF) + data[4:]


def raw(address):
    sender = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    sender.sendto(echo_request(), (address, 0))


def ping(address):
    """A socket for echo requests (icmp(7))."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    sender.sendto(echo_request(), (address, 0))
    sender.settimeout(20)
    sender.recv(100)


def frames(device):
    """Frames from a packet socket."""
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sender.bind((device, 0))
    for _ in range(3):
        sender.send(b"\xff" * 6 + b"\x02" * 6 + b"\x88\xb5" + own() + b"." * 40)


def holder(address, port):
    """Connects, and sends only when a line comes."""
    connection = connect(address, port)
    ready()
    sys.stdin.readline()
    connection.sendall(own())
    sys.stdin.read()


def named(address, port, name, uid):
    """A process of that name and user, which sends a datagram from a new socket for each line."""
    with open("/proc/self/comm", "w") as file:
        file.write(name)
    os.setuid(int(uid))
    ready()
    for _ in sys.stdin:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(own(), (address, int(port)))


def wildcard(port):
    """Listens for datagrams to any address, until the input ends."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("0.0.0.0", int(port)))
    ready()
    sys.stdin.read()


def answers(address, port):
    """Accepts one connection, and answers with its number."""
    server = listener(address, port)
    ready()
    connection, _ = server.accept()
    connection.recv(100)
    connection.sendall(own())
    connection.recv(100)


def answers_all(address, port):
    """Accepts connections, and answers each with its number and the end, until the input ends."""
    server = listener(address, port)
    ready()

    def answer():
        while True:
            connection, _ = server.accept()
            connection.sendall(own())
            connection.shutdown(socket.SHUT_WR)
            connection.recv(100)
            connection.close()

    threading.Thread(target=answer, daemon=True).start()
    sys.stdin.read()


def asks(address, port):
    connection = connect(address, port)
    connection.sendall(own())
    connection.recv(100)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
