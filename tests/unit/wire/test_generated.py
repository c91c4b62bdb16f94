"""The committed protobuf code is what the .proto files say, and runs where TensorFlow's protobuf is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_generated_code_is_fresh(tmp_path):
    """`make proto` would change nothing."""
    protos = sorted(str(path) for path in (ROOT / "proto").rglob("*.proto"))
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}"]
        + [f"--{kind}={tmp_path}" for kind in ("python_out", "pyi_out", "grpc_python_out")]
        + protos,
        check=True,
    )

    made = tmp_path / "ddetect" / "wire" / "v1"
    committed = ROOT / "ddetect" / "wire" / "v1"
    names = sorted(path.name for path in committed.glob("*_pb2*.py*"))
    assert names
    stale = [name for name in names if (made / name).read_bytes() != (committed / name).read_bytes()]
    assert stale == [], "run `make proto` and commit what it writes"


def test_generated_code_asks_for_protobuf_6_31():
    """Code made by a newer protoc would refuse the protobuf that TensorFlow brings."""
    text = (ROOT / "ddetect" / "wire" / "v1" / "snapshot_pb2.py").read_text()

    assert re.search(r"Protobuf Python Version: 6\.31\.", text)
