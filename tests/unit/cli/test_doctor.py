from __future__ import annotations

import argparse
import json
import os

from ddetect.cli import abilities, doctor
from ddetect.cli.abilities import FAIL, OK, WARN, Ability


def test_this_host_is_tried_for_real(capsys):
    """Every ability is tried; where ptrace is denied this test says so with the remedy."""
    code = doctor.run(argparse.Namespace(json=True))
    told = json.loads(capsys.readouterr().out)
    states = {ability["name"]: ability["state"] for ability in told["abilities"]}

    assert code == 0, told
    assert told["works"] is True
    assert {"py-spy", "pystack", "/proc", "shared memory", "unix socket", "torch"} <= set(states)
    assert OK in (states["py-spy"], states["pystack"]), told


def test_failure_is_shown_with_its_remedy_and_ends_in_the_answer():
    """What does not work comes with what to do, and the last line says whether detection can work."""
    printed = doctor.format_abilities(
        (Ability("py-spy", FAIL, "denied", "Do this.\nOr that."), Ability("grpc", OK, "1.0", "never shown"))
    )

    assert printed.splitlines() == [
        "fail  py-spy  denied",
        "              Do this.",
        "              Or that.",
        "ok    grpc    1.0",
        "",
        "Detection cannot work here until this is fixed: py-spy.",
    ]


def test_one_failing_dumper_is_a_warning_and_two_are_a_failure():
    """One way to see stacks is enough; none is not. Nobody can dump a process that is not there."""
    gone = 2**22 + 1
    assert {one.state for one in abilities.try_dumpers(gone)} == {FAIL}


def test_other_program_of_the_same_name_is_not_taken_for_a_dump():
    """A dumper that answers without the function we wait in has not seen our process."""
    assert abilities._try_dumper("py-spy", lambda: ()).state == WARN


def test_yama_without_capability_warns_though_our_own_child_may_be_traced():
    """The rule that most often forbids dumps is named, with the way out."""
    powerless, capable = {"CapEff": "0000000000000000"}, {"CapEff": "0000000000080000"}
    denied = abilities.ptrace_ability("", 1, powerless)
    allowed = abilities.ptrace_ability("", 1, capable)
    refused = abilities.ptrace_ability("a seccomp filter forbids it", 0, capable)

    assert (denied.state, denied.found) == (
        WARN,
        "yama scope 1, no CAP_SYS_PTRACE; only children may be traced",
    )
    assert "ptrace_scope" in denied.remedy
    assert (allowed.state, allowed.found) == (OK, "yama scope 1, CAP_SYS_PTRACE held")
    assert (refused.state, refused.found.split("; ")[1]) == (WARN, "a seccomp filter forbids it")


def test_unreadable_proc_files_are_named(tmp_path):
    """`stat` is needed; what else is missing is a warning with its names."""
    assert abilities.try_proc(7, tmp_path).state == FAIL
    (tmp_path / "7").mkdir()
    for name in ("stat", "status", "wchan", "environ"):
        (tmp_path / "7" / name).write_text("")

    partly = abilities.try_proc(7, tmp_path)

    assert partly.state == WARN
    assert "io, syscall" in partly.found


def test_full_or_missing_base_folder_is_told(tmp_path, monkeypatch):
    """A base that cannot be written to is named, and so is the folder that serves instead."""
    monkeypatch.setenv("DDETECT_RUN_BASE", "/proc/ddetect")
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    told = abilities.try_shared_memory()

    assert told.state == WARN
    assert f"{tmp_path} is used instead" in told.found
    assert "DDETECT_RUN_BASE" in told.remedy
    assert abilities.try_unix_socket() == Ability("unix socket", OK, f"listened in {tmp_path}")


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    """Files and sockets of the tries are gone afterwards."""
    monkeypatch.setenv("DDETECT_RUN_BASE", str(tmp_path))
    abilities.try_shared_memory()
    abilities.try_unix_socket()

    assert os.listdir(tmp_path) == []


def test_token_is_reported_without_being_shown():
    """The secret itself is never printed."""
    assert abilities.try_token("hunter2") == Ability("DDETECT_TOKEN", OK, "set")
    assert abilities.try_token(None).state == WARN


def test_tensorflow_jobs_are_watched_though_it_is_not_installed_here():
    """A job has an environment of its own; that it is missing beside ddetect is nothing to repair."""
    told = abilities.tensorflow_ability("", {"py-spy", "pystack"})

    assert told.state == OK
    assert "jobs are watched" in told.found
    assert "not installed beside ddetect, and need not be" in told.found


def test_what_is_missing_for_tensorflow_is_named():
    """Python stacks come from py-spy, C++ threads from pystack, counters from the hooks of newer versions."""
    old = abilities.tensorflow_ability("2.15.1", {"py-spy", "pystack"})
    without_cpp = abilities.tensorflow_ability("2.21.0", {"py-spy"})
    blind = abilities.tensorflow_ability("", {"pystack"})

    assert (old.state, "2.16 and newer" in old.remedy) == (WARN, True)
    assert (without_cpp.state, "pip install pystack" in without_cpp.remedy) == (WARN, True)
    assert (blind.state, "py-spy cannot look" in blind.found) == (WARN, True)
