"""What a rank's interpreter says of itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ddetect_probe import beat, homes, state

from tests.unit.probe.conftest import Job
from tests.unit.stacks.targets import until

STANDS = "import sys, torch\nprint('ready', flush=True)\nsys.stdin.read()\n"


def test_ranks_of_one_program_write_one_file(job: Job, fake_torch: str) -> None:
    """Folders and `__main__`, whole or not at all, and nothing of it reaches the job."""
    program = job.write("train.py", STANDS)
    ranks = [job.start(program, path=fake_torch, RANK=rank) for rank in "01"]
    for process in ranks:
        assert process.stdout is not None
        process.stdout.readline()
    until(lambda: list((job.run / "homes").glob("*.json")))
    ends = [process.communicate("", timeout=60) for process in ranks]

    assert [end[1] for end in ends] == ["", ""]
    (file,) = (job.run / "homes").iterdir()
    told = json.loads(file.read_text())
    assert (told["main"], told["module"]) == (str(program), "")
    assert told["stdlib"] == [str(Path(json.__file__).parent.parent)]
    assert any(path.endswith("site-packages") for path in told["site"])


@pytest.fixture
def ticking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(state, "run_dir", str(tmp_path))
    monkeypatch.setattr(homes, "_ticks", 0)
    monkeypatch.setattr(beat, "each_tick", [homes.tell])
    return tmp_path


def test_main_that_is_known_late_is_told_too(ticking: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A spawned child imports torch before its `__main__` is the program's; after that nobody asks again."""
    homes.tell()
    late = type(sys)("__mp_main__")
    late.__file__ = "/job/late.py"
    monkeypatch.setitem(sys.modules, "__main__", late)

    while beat.each_tick:
        homes.tell()

    told = [json.loads(path.read_text())["main"] for path in (ticking / "homes").iterdir()]
    assert len(told) == 2
    assert "/job/late.py" in told


def test_full_disk_is_no_broken_hook(ticking: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the file paths alone tell: nobody is blind for that."""
    monkeypatch.setattr(state, "run_dir", str(ticking / "file"))
    (ticking / "file").write_text("")

    while beat.each_tick:
        homes.tell()

    assert (ticking / "file").read_text() == ""
