"""Everything of ours around one job, behind three doors: `environ` for the job, `tick` while it runs, `finish` after.

Enters: a Plan and the user's options. Leaves: a run directory, an agent, perhaps a coordinator, alarms on stderr, and
in the end nothing but the incident folders. Every door is closed at its first exception, said in a sentence: the job
goes on unwatched.
Never here: signals, the job's process.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence

from ddetect_probe import rundir

from ddetect_launcher.companion import Companion, companion_environ
from ddetect_launcher.options import Commands, Options
from ddetect_launcher.place import RunDir, open_run_dir
from ddetect_launcher.plan import Plan, make_plan
from ddetect_launcher.screen import Screen
from ddetect_launcher.words import Line

LAST_WORDS_S = 4.0  # to flush a last verdict after the job ended
_AGENT_SHARE_S = 2.0  # of it: the coordinator hears the agent out before it is told to finish


class NotWatched(Exception):
    """A job that ddetect knows nothing about; the message says which."""


class JobWatch:
    """The watching of one job, as one launcher sees it."""

    def __init__(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        options: Options,
        commands: Commands,
        screen: Screen,
    ) -> None:
        """Make the run directory; nothing is started before the first tick.

        Raises OSError when there is no place, and NotWatched.
        """
        self._screen = screen
        plan = make_plan(
            argv,
            environ,
            coordinator=options.coordinator,
            fresh_name=_fresh_name(),
            owned_address=owned_address,
        )
        if plan.refusal:
            raise NotWatched(plan.refusal)
        for note in plan.notes:
            screen.say(note)
        self._run, note = open_run_dir(plan.run_name, environ, shared=plan.shared)
        if note:
            screen.say(note)
        self.line = Line(self._run.path)
        self._out, self._made_out = _usable_out(options.out, screen.say)
        self._bootstrap = find_bootstrap()
        self.environ = job_environ(environ, plan.job, self._run.path, self._bootstrap)
        _describe(self._run, plan, argv, self._out)
        ours = companion_environ(self.environ, without_path=self._bootstrap)
        agent = (*commands.agent, "--run-dir", self._run.path)
        if plan.dial and not plan.serves:
            agent = (*agent, "--coordinator", plan.dial)
        self._companions = [Companion("agent", agent, ours, self._run.path, screen.say)]
        if plan.serves:
            words = coordinator_words(commands, self._run.path, self._out, plan, options, screen.say)
            self._companions.insert(0, Companion("coordinator", words, ours, self._run.path, screen.say))

    def tick(self, now: float) -> None:
        """Keep the companions alive and show what they found."""
        for companion in self._companions:
            companion.tick(now)
        self.line.repeat()
        self._screen.look(self._run.path, now)

    def finish(self, exit_code: int | None, hurry: Callable[[], bool]) -> None:
        """After the job: hear the last verdict, end the companions, leave nothing behind."""
        if not self._run.leave():
            self.line.close()
            return  # other launchers of this node still have ranks to watch
        try:
            if exit_code is not None:
                self.line.job_ended(exit_code)
            self.line.close()
            deadline = time.monotonic() + LAST_WORDS_S
            for companion in reversed(self._companions):
                share = (
                    _AGENT_SHARE_S
                    if companion.name == "agent" and len(self._companions) > 1
                    else LAST_WORDS_S
                )
                companion.end(min(deadline, time.monotonic() + share), hurry)
            self._screen.clear()
            self._screen.print_alarms(self._run.path)
            self._screen.print_summary(self._run.path)
            self._keep_logs()
        finally:
            self._run.remove()
            for folder in self._made_out:
                try:
                    os.rmdir(folder)  # nothing happened, nothing stays
                except OSError:
                    break

    def _keep_logs(self) -> None:
        for companion in self._companions:
            try:
                if companion.crashed and os.path.getsize(companion.log_path):
                    os.makedirs(self._out, exist_ok=True)
                    shutil.copy(companion.log_path, os.path.join(self._out, f"{companion.name}.log"))
            except OSError:
                pass


def job_environ(environ: Mapping[str, str], job: str, run_dir: str, bootstrap: str) -> dict[str, str]:
    """The job's environment: the user's and three names of ours."""
    theirs = {**environ, "DDETECT_RUN_DIR": run_dir, "DDETECT_JOB": job}
    if bootstrap and environ.get("DDETECT_PROBE") != "0":
        old = environ.get("PYTHONPATH", "")
        if bootstrap not in old.split(os.pathsep):
            theirs["PYTHONPATH"] = f"{bootstrap}{os.pathsep}{old}" if old else bootstrap
    return theirs


def coordinator_words(
    commands: Commands, run_dir: str, out: str, plan: Plan, options: Options, say: Callable[[str], None]
) -> tuple[str, ...]:
    """The coordinator's command line."""
    words = [
        *commands.coordinator,
        "--run-dir",
        run_dir,
        "--out",
        out,
        "--patience",
        f"{options.patience_s:g}",
        "--startup-patience",
        f"{options.startup_patience_s:g}",
        "--note-after",
        f"{options.note_after_s:g}",
    ]
    if plan.listen:
        words += ["--listen", plan.listen]
    if options.on_hang != "report":
        words += ["--on-hang", options.on_hang]
    if options.notify:
        words += ["--notify", options.notify]
    if options.signatures:
        if os.access(options.signatures, os.R_OK):
            words += ["--signatures", os.path.abspath(options.signatures)]
        else:
            say(f"cannot read the signatures in {options.signatures}; ddetect uses its own.")
    return tuple(words)


def find_bootstrap() -> str:
    """The folder that goes on the job's PYTHONPATH: installed beside us. "" when the installation lacks it."""
    folder = os.path.join(
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "ddetect_probe", "bootstrap"
    )
    return folder if os.path.isdir(folder) else ""


def owned_address(host: str) -> str | None:
    """The numeric address of a host name when it is one of this machine's: one that a socket can be bound to."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as trial:
                trial.bind(address)
            return str(address[0])
        except OSError:
            continue
    return None


def _usable_out(wanted: str, say: Callable[[str], None]) -> tuple[str, list[str]]:
    """The output folder, made for real, and the folders made for it (innermost first)."""
    out = os.path.abspath(wanted)
    missing = []
    folder = out
    while not os.path.lexists(folder) and folder != os.path.dirname(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    try:
        os.makedirs(out, exist_ok=True)
        handle, trial = tempfile.mkstemp(prefix=".ddetect-", dir=out)
        os.close(handle)
        os.unlink(trial)
        return out, missing
    except OSError as error:
        instead = tempfile.mkdtemp(prefix="ddetect-out-")
        say(f"cannot write to --out {wanted} ({error.strerror}); incidents go to {instead}.")
        return instead, [instead]


def _describe(run: RunDir, plan: Plan, argv: Sequence[str], out: str) -> None:
    rundir.write_about(run.path, rundir.About(plan.job, tuple(argv), os.getpid(), time.time(), out))


def _fresh_name() -> str:
    return f"{time.strftime('%m%d-%H%M%S')}-{os.getpid()}"
