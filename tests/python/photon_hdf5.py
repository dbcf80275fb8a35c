"""Writes photons as Photon-HDF5 into the folder of the first argument, by phconvert, beside what phconvert reads of them:
`[detector, time, microtime]` of each photon of a spot as JSON. Then files that are none."""

import json
import pathlib
import sys

import numpy as np
import phconvert
import tables

folder = pathlib.Path(sys.argv[1])
random = np.random.default_rng(1)
UNIT, BIN = 12.5e-9, 16e-12


def photons(count, ids, microtimes):
    times = np.cumsum(random.integers(0, 40, count)).astype(np.int64)
    data = {
        "timestamps": times,
        "detectors": random.choice(np.array(ids), count).astype(np.uint8 if max(ids) < 256 else np.uint16),
        "timestamps_specs": {"timestamps_unit": UNIT},
    }
    if microtimes:
        data["nanotimes"] = random.integers(0, 780, count).astype(np.uint16)
        data["nanotimes_specs"] = {"tcspc_unit": BIN, "tcspc_num_bins": 781, "tcspc_range": 781 * BIN}
    return data


def save(name, groups, ids):
    setup = {
        "num_pixels": len(ids), "num_spots": len(groups), "num_spectral_ch": 1, "num_polarization_ch": 1, "num_split_ch": 1,
        "modulated_excitation": False, "excitation_alternated": [False], "lifetime": True, "excitation_cw": [False],
        "laser_repetition_rates": [8e7], "excitation_wavelengths": [532e-9],
    }
    path = str(folder / f"{name}.h5")
    phconvert.hdf5.save_photon_hdf5(
        {"description": "photons of a test", "setup": setup, **groups}, h5_fname=path, overwrite=True, close=True
    )
    # As phconvert finds them.
    file = phconvert.hdf5.load_photon_hdf5(path)
    for group in groups:
        node = file.get_node("/" + group)
        columns = [node.detectors.read(), node.timestamps.read()]
        columns.append(node.nanotimes.read() if "nanotimes" in node else np.zeros(len(columns[0]), int))
        rows = np.array([column.astype(np.int64) for column in columns]).T
        (folder / f"{name}.{group}.json").write_text(json.dumps(rows.tolist()))
    file.close()


save("single", {"photon_data": photons(200_000, [0, 3, 62], True)}, [0, 3, 62])
save("wide", {"photon_data": photons(3000, [1, 64, 700], False)}, [1, 64, 700])
save("spots", {f"photon_data{spot}": photons(5000, [spot, 5], True) for spot in range(3)}, [0, 1, 2, 5])


def changed(name, change, of="single"):
    (folder / f"{name}.h5").write_bytes((folder / f"{of}.h5").read_bytes())
    with tables.open_file(str(folder / f"{name}.h5"), "a") as file:
        change(file)


def replaced(group, name, values):
    def change(file):
        file.remove_node(group, name)
        file.create_array(group, name, obj=values)

    return change


changed("alone", lambda file: file.remove_node("/photon_data/detectors"))
changed("unitless", lambda file: file.remove_node("/photon_data/timestamps_specs", recursive=True))
changed("zero_unit", replaced("/photon_data/timestamps_specs", "timestamps_unit", 0.0))
changed("timeless", lambda file: file.remove_node("/photon_data/timestamps"))
changed("shorter", replaced("/photon_data", "detectors", np.zeros(7, np.uint8)))
changed("signed", replaced("/photon_data", "timestamps", np.arange(-5, 199_995)))
changed("backwards", replaced("/photon_data", "timestamps", np.r_[np.arange(100_000), np.arange(100_000)]))
changed("floats", replaced("/photon_data", "timestamps", np.arange(200_000.0)))
changed("flat", replaced("/photon_data", "timestamps", np.zeros((2, 100_000), np.int64)))
changed("numbers", replaced("/photon_data", "detectors", np.full(200_000, 70_000, np.uint32)))
changed("gateless", lambda file: file.remove_node("/photon_data/nanotimes"))
changed("both", lambda file: file.create_group("/", "photon_data0"))
changed("none", lambda file: file.remove_node("/photon_data", recursive=True))


def long(seconds, offset):
    def change(file):
        times = file.get_node("/photon_data/timestamps").read().astype(np.int64)
        replaced("/photon_data", "timestamps", times + offset)(file)
        replaced("/", "acquisition_duration", seconds)(file)

    return change


changed("late", long(0.1, 9 * 10**18))
changed("long", long(3.0, 10**15))
changed("rounded", long(0.1, 0))


def marked(file):
    group = file.create_group("/photon_data/measurement_specs", "detectors_specs", createparents=True)
    file.create_array(group, "non_photon_id1", obj=np.array([3], np.uint8))


changed("marked", marked)
changed("empty", lambda file: [replaced("/photon_data", name, np.zeros(0, np.int64))(file) for name in ("timestamps", "detectors", "nanotimes")])
whole = (folder / "single.h5").read_bytes()
(folder / "short.h5").write_bytes(whole[: len(whole) // 2])
