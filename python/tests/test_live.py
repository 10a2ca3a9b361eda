"""Interfaces: capture, time limits, signals, threads, asyncio and sending."""

import asyncio
import os
import signal
import threading

import pytest
import ringtap
from conftest import frames, needs_root

pytestmark = needs_root
ENGINES = ["packet", "tcx", "xdp"]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_sent_is_captured(wire, engine):
    left, right = wire
    with ringtap.capture(f"{engine}:{right}", "ip", direction="in", count=10) as capture:
        report = ringtap.send(left, frames(), pps=2000)
        assert (report["packets"], report["rejected"]) == (10, 0)
        packets = list(capture)
        assert [packet.data for packet in packets] == frames()
        stats = capture.stats()
        assert stats["received"] == 10
        assert stats["dropped"]["ring"] == 0
        assert engine in capture.explain()


def test_a_capture_ends_after_its_duration(wire):
    _, right = wire
    assert list(ringtap.capture(right, duration=0.2)) == []


def test_a_batch_comes_in_time(wire):
    left, right = wire
    with ringtap.capture(right, "ip", direction="in") as capture:
        assert len(capture.batch(timeout=0.0)) == 0
        ringtap.send(left, frames())
        found = 0
        while found < 10:
            found += len(capture.batch(timeout=5.0))
        assert found == 10


def test_ctrl_c_ends_the_wait(wire):
    _, right = wire
    # A shell starts programs in the background with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with ringtap.capture(right, "ip") as capture:
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            next(capture)
        timer.join()
    signal.signal(signal.SIGINT, before)


def test_other_threads_run_while_one_waits(wire):
    _, right = wire
    capture = ringtap.capture(right, "ip")
    ended = threading.Event()

    def wait():
        assert list(capture) == []
        ended.set()

    thread = threading.Thread(target=wait)
    thread.start()
    capture.close()
    assert ended.wait(20)
    thread.join()


def test_packets_come_to_a_task(wire):
    left, right = wire

    async def collect():
        found = []
        with ringtap.capture(right, "ip", direction="in", count=10) as capture:
            sending = asyncio.create_task(asyncio.to_thread(ringtap.send, left, frames()))
            async for packet in capture:
                found.append(packet.data)
            await sending
        return found

    assert asyncio.run(collect()) == frames()


def test_recorded_packets_are_sent_again(wire, folder):
    left, right = wire
    with ringtap.capture(right, "udp", direction="in", count=2) as capture:
        ringtap.send(left, ringtap.read("web.pcap", "udp"), speed=1.0)
        assert [packet.data for packet in capture] == frames()[:2]
