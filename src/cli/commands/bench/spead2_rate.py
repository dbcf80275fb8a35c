"""Receives heaps with spead2 on a port of an address for some seconds, with so many bytes of buffer in the system. Prints gigabytes of
complete heaps a second, and how many seconds its thread worked for a gigabyte."""

import sys
import time

import spead2
import spead2.recv

port, seconds, buffer = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
pool = spead2.MemoryPool(1 << 14, 1 << 24, 64, 64)
stream = spead2.recv.Stream(
    spead2.ThreadPool(1),
    spead2.recv.StreamConfig(max_heaps=64, memory_allocator=pool),
    spead2.recv.RingStreamConfig(heaps=64, contiguous_only=True),
)
stream.add_udp_reader(port, bind_hostname=sys.argv[4], buffer_size=buffer, max_size=9172)
print("ready", flush=True)


def worked():
    """Seconds of all threads but this one, which only counts."""
    return time.process_time() - time.thread_time()


total, begun = 0, None
for heap in stream:
    begun = begun or (time.monotonic(), worked())
    items = heap.get_items()
    total += sum(len(memoryview(item)) for item in items if item.id == 0x4300)
    if time.monotonic() - begun[0] > seconds:
        break
total /= 1e9
print(total / (time.monotonic() - begun[0]), (worked() - begun[1]) / total)
stream.stop()
