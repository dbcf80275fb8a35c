"""Receives heaps with spead2 on a port for some seconds, and prints bytes of complete heaps a second."""

import sys
import time

import spead2
import spead2.recv

port, seconds = int(sys.argv[1]), float(sys.argv[2])
pool = spead2.MemoryPool(1 << 14, 1 << 24, 64, 64)
stream = spead2.recv.Stream(
    spead2.ThreadPool(1),
    spead2.recv.StreamConfig(max_heaps=64, memory_allocator=pool),
    spead2.recv.RingStreamConfig(heaps=64, contiguous_only=True),
)
stream.add_udp_reader(port, bind_hostname="127.0.0.1", buffer_size=64 << 20, max_size=9172)
print("ready", flush=True)
total, begun = 0, None
for heap in stream:
    begun = begun or time.monotonic()
    items = heap.get_items()
    total += sum(len(memoryview(item)) for item in items if item.id == 0x4300)
    if time.monotonic() - begun > seconds:
        break
print(total / (time.monotonic() - begun))
stream.stop()
