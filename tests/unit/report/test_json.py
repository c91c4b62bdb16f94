from __future__ import annotations

import json
from dataclasses import replace

from ddetect.model import Names, Waiting
from ddetect.report.json_ import format_verdict_json, verdict_json
from ddetect.report.text import format_report
from tests.unit.report import incidents


def test_loader_hang_reads_as_the_contract_says():
    """Every field of schema 1 is there, under its name and in its form."""
    said = verdict_json(incidents.loader_hang())

    assert said["schema"] == 1
    assert (said["status"], said["cause"], said["stage"], said["proof"]) == (
        "hang",
        "data_loading",
        "confirmed",
        "time",
    )
    assert said["confidence"] == 0.97
    (culprit,) = said["culprits"]
    assert (
        culprit.items()
        >= {
            "rank": 2,
            "lane": None,
            "host": "node-0",
            "pid": 4705,
            "process": {"role": "loader_worker", "index": 1, "pid": 4711},
            "where": {"function": "read_shard", "file": "dataset.py", "line": 88},
        }.items()
    )
    assert said["waiting"] == [
        {
            "ranks": "0-1,3",
            "on": "all_reduce",
            "backend": "gloo",
            "group": "default_pg",
            "seq": 412,
            "lanes": None,
        }
    ]
    assert (said["unread"], said["history"], said["closed"]) == ([], [], None)
    assert (said["job"], said["attempt"], said["world_size"], said["members"]) == ("night-run", 0, 4, 4)
    assert said["stalled_for_s"] == 72.04
    assert said["judged_at_unix_ns"] == incidents.JUDGED_NS
    assert said["last_progress_unix_ns"] == incidents.JUDGED_NS - 4_000_000_000
    assert said["confirmed_at_unix_ns"] == incidents.JUDGED_NS + 60_000_000_000
    assert said["summary"].startswith("rank 2 waits")
    assert len(said["evidence"]) == 2
    assert len(said["advice"]) == 1


def test_unconfirmed_incident_has_no_time_of_confirmation():
    """The field is added on confirmation and not before."""
    assert "confirmed_at_unix_ns" not in verdict_json(incidents.undecided())


def test_undecided_has_null_cause_and_names_what_was_unread():
    """An honest verdict without a cause still says which ranks are missing, as a rank set."""
    said = verdict_json(incidents.undecided())

    assert (said["status"], said["cause"]) == ("undecided", None)
    assert said["unread"] == [{"ranks": "7", "reason": "ptrace is not permitted on node-1 (yama scope 3)"}]
    assert said["waiting"][0]["ranks"] == "0-6"


def test_culprit_without_line_or_process_has_nulls():
    """Absent is null, never a missing key and never an empty string."""
    for culprit in verdict_json(incidents.mismatch())["culprits"]:
        assert (culprit["where"], culprit["process"], culprit["lane"], culprit["pid"]) == (None,) * 4


def test_line_of_a_library_is_marked():
    """A field beside those that everybody reads, only where it says something."""
    (culprit,) = verdict_json(incidents.library_line())["culprits"]

    assert culprit["where"] == {
        "function": "url_opener",
        "file": "tariterators.py",
        "line": 88,
        "library": True,
    }


def test_closed_incident_keeps_history_and_reason():
    """Earlier judgements and the end of the incident are part of the file."""
    said = verdict_json(incidents.closed())

    assert said["closed"] == {
        "reason": "progress resumed: step 413",
        "lasted_s": 75.5,
        "at_unix_ns": incidents.JUDGED_NS + 75_500_000_000,
        "recovered": True,
    }
    assert [(item["stage"], item["cause"], item["culprits"]) for item in said["history"]] == [
        ("suspected", "user_code", "2"),
        ("suspected", "data_loading", "2"),
    ]


def test_text_is_strict_json_even_with_an_infinite_stall():
    """A job that never moved has no finite age; the file stays readable by strict parsers."""
    endless = replace(incidents.loader_hang(), stalled_for_s=float("inf"))

    assert json.loads(format_verdict_json(endless))["stalled_for_s"] is None


def test_lanes_are_told_where_members_share_a_process():
    """Ranks times lanes are exactly those that wait; members are counted beside ranks."""
    base = incidents.loader_hang()
    verdict = replace(
        base.verdict,
        culprits=(replace(base.verdict.culprits[0], rank=0, lane=1),),
        waiting=(Waiting((0,), "all_reduce", lanes=(0, 2, 3)),),
        names=Names(ranks=1, lanes=4),
    )
    incident = replace(base, verdict=verdict, world_size=1, members=4)
    said = verdict_json(incident)

    assert (said["world_size"], said["members"]) == (1, 4)
    assert (said["waiting"][0]["ranks"], said["waiting"][0]["lanes"]) == ("0", "0,2-3")
    assert (said["culprits"][0]["rank"], said["culprits"][0]["lane"]) == (0, 1)
    report = format_report(incident)
    assert "(replica 1, node-0, pid 4705," in report
    assert "  - replicas 0,2-3 in all_reduce\n" in report
    assert "Job night-run, 4 replicas." in report
