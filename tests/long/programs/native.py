"""The team's own extension (native.c), built by whoever imports it. Without the GIL, as every call through ctypes."""

import ctypes
import os
import subprocess
import tempfile

_SOURCE = os.path.join(os.path.dirname(__file__), "native.c")


def build(folder: str) -> ctypes.CDLL:
    """The library stays in the folder: what is mapped and gone has no name for whoever reads a stack."""
    library = os.path.join(folder or tempfile.mkdtemp(), f"native-{os.getpid()}.so")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-pthread", "-o", library, _SOURCE], check=True)
    built = ctypes.CDLL(library)
    built.work.argtypes = [ctypes.c_double, ctypes.c_double]
    built.work_in_threads.argtypes = [ctypes.c_double, ctypes.c_double, ctypes.c_int]
    return built
