"""One rank reads from a named pipe that nobody writes to; the others wait for that rank."""

import os
import tempfile

import training


def read_manifest() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "manifest")
        os.mkfifo(path)
        manifest = os.open(
            path, os.O_RDWR
        )  # read-only would wait for a writer here, and leave the pipe behind
    return os.read(manifest, 4096)  # <- stuck here


training.run(read_manifest)
