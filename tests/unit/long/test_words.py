"""Every word that stood in a folder is heard, and that it was taken back."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.long.words import Listener

VERDICT = {
    "incident": 1, "stage": "suspected", "status": "hang", "cause": "user_code", "confidence": 0.5, "summary": "s",
    "culprits": [{"rank": 1, "where": {"file": "/x/train.py", "function": "f", "line": 3}}],
}  # fmt: skip


def write(out: Path, **changed: object) -> None:
    folder = out / "incident-001"
    folder.mkdir(exist_ok=True)
    (folder / "verdict.json").write_text(json.dumps({**VERDICT, **changed}))


def test_what_changes_is_heard_once_each_time(tmp_path):
    listener = Listener()
    listener.look(tmp_path)
    write(tmp_path)
    for _ in range(3):
        listener.look(tmp_path)
    time.sleep(0.02)
    write(tmp_path, stage="confirmed", confidence=0.9, confirmed_at_unix_ns=1)
    listener.look(tmp_path)
    for file in (tmp_path / "incident-001").iterdir():
        file.unlink()
    listener.look(tmp_path)

    assert [(word.stage, word.confidence, word.alarm) for word in listener.words] == [
        ("suspected", 0.5, False), ("confirmed", 0.9, True), ("withdrawn", 0.9, True),
    ]  # fmt: skip
    assert listener.words[0].lines == (("train.py", "f", 3),)
    assert all(abs(word.at - time.monotonic()) < 5 for word in listener.words)
