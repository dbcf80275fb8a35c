"""Sends a recording as F-engines do, with spead2, as a JSON file says; see tests/live/spead.rs."""

import json
import os
import sys

import numpy
import spead2
import spead2.send

plan = json.load(open(sys.argv[1]))
x = numpy.load(plan["recording"])  # [time][channel][input][re, im]
t, p = plan["heap_times"], plan["polarisations"]
flavour = spead2.Flavour(4, 64, 48, 0)
pool = spead2.ThreadPool()
config = spead2.send.StreamConfig(max_packet_size=plan["packet"], rate=plan["rate"], max_heaps=4096)


def connect():
    """A stream of each F-engine's own, from a port of its own."""
    fengs = x.shape[2] // p
    return [spead2.send.UdpStream(pool, [(plan["host"], plan["port"])], config) for _ in range(fengs)]


streams = connect()
ended = []
groups = {}


def group(feng, shape):
    if (feng, shape) not in groups:
        made = spead2.send.ItemGroup(flavour=flavour)
        for number, name in [(0x1600, "timestamp"), (0x4101, "feng_id"), (0x4103, "frequency")]:
            made.add_item(number, name, "", shape=(), format=[("u", 48)])
        made.add_item(0x4300, "feng_raw", "", shape=shape, dtype=numpy.int8)
        groups[feng, shape] = made
    return groups[feng, shape]


for slot, feng, first, count, times in plan["heaps"]:
    if slot < 0:  # All senders begin again.
        ended.append(streams)
        streams = connect()
        continue
    samples = x[slot * t : (slot + 1) * t, first : first + count, feng * p : (feng + 1) * p]
    samples = numpy.ascontiguousarray(samples.transpose(1, 0, 2, 3))
    items = group(feng, samples.shape)
    items["timestamp"].value = (plan["first_time"] + slot * t * plan["step"]) % 2**48
    items["feng_id"].value = feng
    items["frequency"].value = plan["first_channel"] + first
    items["feng_raw"].value = samples
    for _ in range(times):
        heap = items.get_heap(descriptors=plan["descriptors"], data="all")
        heap.repeat_pointers = plan["repeat_pointers"]
        streams[feng].send_heap(heap)
for feng, stream in enumerate(streams):
    stream.send_heap(group(feng, tuple(samples.shape)).get_end())
# All is sent. What takes streams down waits, now and then forever.
os._exit(0)
