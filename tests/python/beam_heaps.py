"""Receives beams as spead2 does: heaps of MeerKAT's tied-array channelised voltages, a stream at each port.

beam_heaps.py BEAMS.npy STEP PORT...

Says "ready" once it listens, and at the streams' ends writes what came, int8 [stream][channel][time][2], and says the first
timestamp of all, the number of antennas and that of the first channel.
"""

import sys

import numpy
import spead2
import spead2.recv

path, step, *ports = sys.argv[1:]
streams = []
for port in ports:
    stream = spead2.recv.Stream(spead2.ThreadPool(), spead2.recv.StreamConfig())
    stream.add_udp_reader(int(port), bind_hostname="127.0.0.1")
    streams.append(stream)
print("ready", flush=True)

beams, firsts, antennas, channels = [], set(), set(), set()
for stream in streams:
    heaps = {}
    for heap in stream:
        items = {item.id: item for item in heap.get_items()}
        assert set(items) == {0x1600, 0x4103, 0x5000, 0x5004}, sorted(items)
        value = {number: items[number].immediate_value for number in (0x1600, 0x4103, 0x5004)}
        channels.add(value[0x4103])
        antennas.add(value[0x5004])
        assert value[0x1600] not in heaps, value
        heaps[value[0x1600]] = numpy.frombuffer(items[0x5000], numpy.int8).reshape(-1, 256, 2)
    order = sorted(heaps)
    assert order == [order[0] + 256 * int(step) * place for place in range(len(order))], order
    firsts.add(order[0])
    beams.append(numpy.concatenate([heaps[timestamp] for timestamp in order], axis=1))
(first,) = firsts
(count,) = antennas
(channel,) = channels
numpy.save(path, numpy.array(beams))
print(first, count, channel)
