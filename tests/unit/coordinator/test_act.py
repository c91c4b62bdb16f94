"""What follows an alarm, with a real web server, a real shell and real folders."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ddetect.coordinator import act
from ddetect.coordinator.incidents import Incidents
from ddetect.errors import UsageError
from ddetect.messages import EndRanks
from ddetect.model import Snapshot
from ddetect.wire.file import read_snapshot
from tests.unit.report.incidents import loader_hang

FOLDERS = ("incident-001", "incident-002")


@pytest.fixture
def hook():
    """A web hook that keeps what it is sent."""
    posts: list[tuple[str, dict[str, object]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posts.append((self.headers["Content-Type"], json.loads(body)))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook", posts
    server.shutdown()
    thread.join()
    server.server_close()


def test_order_to_end_carries_the_verdict_to_those_that_wait():
    """Who waits is told why; the sentence is one line, and marked as ours."""
    incident = loader_hang()
    spread = replace(incident, verdict=replace(incident.verdict, summary="rank 3 \n sleeps"))

    order = act.end_ranks(spread)

    waiting = sorted({rank for one in incident.verdict.waiting for rank in one.ranks})
    assert waiting
    assert order == EndRanks(act.STOP_GRACE_S, "ddetect: rank 3 sleeps", tuple(waiting))


def test_notify_posts_what_slack_shows_and_programs_read(hook, tmp_path):
    """`text` for people, `verdict` for programs, as JSON."""
    url, posts = hook
    incident = loader_hang()

    asyncio.run(act.notify(url, incident, str(tmp_path)))

    ((kind, payload),) = posts
    assert kind == "application/json"
    assert incident.verdict.summary in payload["text"]
    assert payload["verdict"]["status"] == "hang"


def test_suspicion_that_is_posted_says_that_it_is_no_alarm(hook, tmp_path):
    """Both the person and the program are told."""
    url, posts = hook

    asyncio.run(act.notify(url, loader_hang(), str(tmp_path), alarm=False))
    asyncio.run(act.notify(url, loader_hang(), str(tmp_path)))

    assert [payload["alarm"] for _, payload in posts] == [False, True]
    assert [str(payload["text"]).startswith("not an alarm, no progress for ") for _, payload in posts] == [
        True,
        False,
    ]


def test_notify_survives_a_hook_that_is_gone(tmp_path):
    """A dead web hook is a line in the log, nothing more."""
    asyncio.run(act.notify("http://127.0.0.1:9/nobody", loader_hang(), str(tmp_path)))


def test_command_gets_the_folder_and_the_verdict(tmp_path):
    """$1 is the incident's folder, DDETECT_* says what it is."""
    script = tmp_path / "page-me.sh"
    script.write_text('printf "%s %s %s" "$1" "$DDETECT_STATUS" "$DDETECT_CAUSE" > "$(dirname "$0")/said"\n')

    asyncio.run(act.run_command(f"sh {script}", loader_hang(), str(tmp_path / "incident-001")))

    assert (tmp_path / "said").read_text() == f"{tmp_path / 'incident-001'} hang data_loading"


@pytest.mark.parametrize("text", ["", "kill", "exec:", "exec"])
def test_unknown_action_is_a_usage_error(text):
    """The sentence names what is taken."""
    with pytest.raises(UsageError, match="report, stop or exec:CMD"):
        act.parse_on_hang(text)


def test_incident_is_three_files_and_numbers_go_on(tmp_path):
    """What an earlier run left is never overwritten."""
    incidents = Incidents(tmp_path / "out")
    folder = incidents.write(loader_hang(), Snapshot(job="j"))

    assert sorted(path.name for path in folder.iterdir()) == ["report.txt", "snapshot.ddsnap", "verdict.json"]
    assert json.loads((folder / "verdict.json").read_text())["cause"] == "data_loading"
    assert read_snapshot(folder / "snapshot.ddsnap").job == "j"
    assert Incidents(tmp_path / "out").next_number() == loader_hang().number + 1


def test_incident_an_earlier_coordinator_left_open_is_closed(tmp_path):
    """A folder that says "confirmed" for ever would be a lie."""
    incidents = Incidents(tmp_path)
    folder = incidents.write(loader_hang(), Snapshot())

    incidents.close_stale("somebody else's job")
    assert json.loads((folder / "verdict.json").read_text())["closed"] is None
    incidents.close_stale(loader_hang().job)

    said = json.loads((folder / "verdict.json").read_text())
    assert said["stage"] == "closed"
    assert "restarted" in said["closed"]["reason"]


def test_two_jobs_with_one_folder_keep_their_evidence_apart(tmp_path):
    """A sweep starts its jobs from one directory: each incident gets a folder of its own, and says its number."""
    first, second = Incidents(tmp_path), Incidents(tmp_path)
    ours, theirs = (
        replace(loader_hang(), number=store.next_number(), job=job)
        for store, job in ((first, "a"), (second, "b"))
    )
    first.write(ours, Snapshot(job="a"))
    folder = second.write(theirs, Snapshot(job="b"))

    said = [json.loads((tmp_path / name / "verdict.json").read_text()) for name in FOLDERS]
    assert [(one["job"], one["incident"]) for one in said] == [("a", 1), ("b", 2)]
    assert (folder, second.folder(theirs), second.numbered(theirs).number) == (
        tmp_path / FOLDERS[1],
        folder,
        2,
    )


def test_incident_is_rewritten_in_the_folder_that_it_claimed(tmp_path):
    """More is known later; the number stays, and the next incident takes the next free one."""
    first, second = Incidents(tmp_path), Incidents(tmp_path)
    for store in (first, second, second, first):
        folder = store.write(replace(loader_hang(), number=1), Snapshot())
    assert folder == tmp_path / FOLDERS[0]

    assert first.write(replace(loader_hang(), number=2), Snapshot()) == tmp_path / "incident-003"


def test_folder_that_is_not_written_yet_is_not_shown(tmp_path):
    """Until it is written nobody knows its number, nor finds anything in it."""
    incidents = Incidents(tmp_path)
    assert (incidents.shown(None), incidents.shown(loader_hang())) == ("", "")

    folder = incidents.write(loader_hang(), Snapshot())

    assert incidents.shown(loader_hang()) == str(folder)


def test_message_of_an_incident_without_a_folder_says_so():
    """The file system does not answer: a path that may become another incident's is worse than none."""
    said = act.message(loader_hang(), "")

    assert said.endswith("its evidence is not written yet")
