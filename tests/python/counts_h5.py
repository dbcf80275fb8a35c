"""Writes counts as HDF5 files into the folder of the first argument, as h5py and BrightEyes-FFS do, each beside a
NumPy file of the same counts `[instant][sensor]`."""

import pathlib
import sys

import h5py
import numpy as np

folder = pathlib.Path(sys.argv[1])
random = np.random.default_rng(1)
cases = {
    # What BrightEyes-FFS makes of an array: chunks that h5py chooses.
    "plain": ((4001, 25), np.uint16, {"compression": "gzip"}),
    # Repetition, z, y, x, time, channel; chunks that fit no axis.
    "image": ((2, 1, 3, 7, 11, 5), np.uint16, {"chunks": (1, 1, 2, 3, 4, 5), "compression": "gzip", "shuffle": True}),
    "bytes": ((3, 1000, 4), np.uint8, {}),
    "swapped": ((999, 3), ">u2", {"chunks": (100, 2)}),
    "long": ((40_000, 25), np.uint16, {"chunks": (4096, 25), "compression": "gzip", "compression_opts": 1}),
}
for name, (shape, dtype, options) in cases.items():
    top = 255 if np.dtype(dtype).itemsize == 1 else 65_535
    counts = random.integers(0, top, shape, endpoint=True).astype(dtype)
    if name == "long":
        counts = random.poisson(0.1, shape).astype(dtype)
    with h5py.File(folder / f"{name}.h5", "w") as file:
        file.create_group("configurationGUI_beforeStart").attrs["time_resolution"] = 10.0
        file.create_dataset("data", data=counts, **options)
    flat = counts.reshape(-1, shape[-1])
    np.save(folder / f"{name}.npy", flat.astype(flat.dtype.newbyteorder("=")))

with h5py.File(folder / "float.h5", "w") as file:
    file.create_dataset("data", data=np.ones((10, 2)))
with h5py.File(folder / "none.h5", "w") as file:
    file.create_dataset("counts", data=np.ones((10, 2), np.uint16))
with h5py.File(folder / "flat.h5", "w") as file:
    file.create_dataset("data", data=np.ones(10, np.uint16))
with h5py.File(folder / "empty.h5", "w") as file:
    file.create_dataset("data", shape=(0, 25), dtype=np.uint16, maxshape=(None, 25))
with h5py.File(folder / "beside.h5", "w") as file:
    (folder / "beside.raw").write_bytes(bytes(20))
    file.create_dataset("data", (10, 2), np.uint8, external=[(str(folder / "beside.raw"), 0, 20)])
with h5py.File(folder / "virtual.h5", "w") as file:
    layout = h5py.VirtualLayout((4001, 25), np.uint16)
    layout[...] = h5py.VirtualSource(str(folder / "plain.h5"), "data", (4001, 25))
    file.create_virtual_dataset("data", layout)
whole = (folder / "plain.h5").read_bytes()
(folder / "short.h5").write_bytes(whole[: len(whole) // 2])
