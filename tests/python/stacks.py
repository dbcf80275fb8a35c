"""Stacks of counts in HDF5, compressed as detectors and h5py do: run by tests/formats/stacks.rs."""

import sys

import h5py
import hdf5plugin
import numpy

folder = sys.argv[1]
random = numpy.random.default_rng(1)
plain = random.integers(0, 300, (5, 24, 37))
numpy.save(f"{folder}/plain.npy", plain.astype("uint16"))
filters = {
    "none": {},
    "gzip": {"compression": "gzip", "shuffle": True},
    "lz4": hdf5plugin.LZ4(),
    "bitshuffle": hdf5plugin.Bitshuffle(cname="none"),
    "bitshuffle-lz4": hdf5plugin.Bitshuffle(cname="lz4"),
    "zstd": hdf5plugin.Zstd(),
    "blosc": hdf5plugin.Blosc(cname="blosclz"),
    "blosc-lz4": hdf5plugin.Blosc(cname="lz4", shuffle=hdf5plugin.Blosc.BITSHUFFLE),
    "blosc-zstd": hdf5plugin.Blosc(cname="zstd"),
}
for kind in ["uint16", "uint32"]:
    for name, options in filters.items():
        with h5py.File(f"{folder}/{kind}-{name}.h5", "w") as file:
            file.create_dataset("entry/data/data", data=plain.astype(kind), chunks=(1, 24, 37), **options)
            print(f"{kind}-{name}.h5")
with h5py.File(f"{folder}/bitshuffle-zstd.h5", "w") as file:
    options = hdf5plugin.Bitshuffle(cname="zstd")
    file.create_dataset("entry/data/data", data=plain.astype("uint16"), chunks=(1, 24, 37), **options)
wide = plain.astype("uint32")
wide[1, 2, 3] = 2**32 - 1
with h5py.File(f"{folder}/absent.h5", "w") as file:
    file["entry/data/data"] = wide
wide[2, 0, 0] = 65536
with h5py.File(f"{folder}/large.h5", "w") as file:
    file["entry/data/data"] = wide
numpy.save(f"{folder}/large.npy", wide)
