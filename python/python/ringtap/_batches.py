"""Iterators and wrappers around a reader, for which Python is the shorter language."""


def batches(reader, size, fields):
    """Yields batches of at most `size` packets, up to the end."""
    while (batch := reader.batch(size, fields=fields)) is not None:
        if len(batch):
            yield batch


class Stream:
    """A capsule as an object that Arrow's libraries take."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema=None):
        return self._capsule
