"""The asynchronous iterator over a reader's packets."""

import asyncio

# Packets of a batch, and how long a thread waits for them before it looks whether it is still wanted.
SIZE = 4096
PATIENCE = 0.1


class Packets:
    """Waits for packets in a thread, so that other tasks run meanwhile."""

    def __init__(self, reader):
        self._reader = reader
        self._waiting = iter(())

    def __aiter__(self):
        return self

    async def __anext__(self):
        while True:
            for packet in self._waiting:
                return packet
            batch = await asyncio.to_thread(self._reader.batch, SIZE, timeout=PATIENCE)
            if batch is None:
                raise StopAsyncIteration
            self._waiting = iter(batch)
