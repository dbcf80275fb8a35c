"""Samples of 2 bits as blimpy reads them: run by tests/formats/headers.rs."""

import sys

import numpy
from blimpy.utils import unpack_2to8

numpy.save(sys.argv[2], unpack_2to8(numpy.fromfile(sys.argv[1], "uint8")))
