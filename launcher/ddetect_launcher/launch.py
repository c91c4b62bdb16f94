"""`ddetect launch`, start to end: find the program, watch, start the job, wait, return its exit code.

Enters: the command line of the job. Leaves: its exit code. Whatever of ours fails on the way is said in one sentence on
stderr and left out; only a program that does not exist stops us (127, or 126 when it is not executable).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ddetect_launcher.options import Commands, Options
from ddetect_launcher.screen import Screen
from ddetect_launcher.spawn import NoProgram, find_program, read_start_ticks, start_job
from ddetect_launcher.supervise import end_was_asked, forget_signals, take_signals, wait_for_job
from ddetect_launcher.watch import JobWatch
from ddetect_launcher.witness import Witness

TICK_S = 0.5


def launch(
    argv: Sequence[str],
    options: Options | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    commands: Commands | None = None,
) -> int:
    """Run the job under ddetect and return its exit code: 128+N when signal N ended it."""
    options = options or Options()
    environ = os.environ if environ is None else environ
    screen = Screen(quiet=options.quiet)
    try:
        path = find_program(argv[0], environ)
    except NoProgram as error:
        screen.say(f"{error}.")
        return error.exit_code
    born = take_signals()
    guard = _Guard(screen)
    try:
        guard.witness = Witness()  # before the run directory: see there
    except OSError:
        pass
    try:
        guard.watch = JobWatch(argv, environ, options, commands or Commands(), screen)
    except Exception as error:
        guard.give_up(error)
    try:
        try:
            pid = start_job(path, argv, guard.watch.environ if guard.watch else environ, born)
        except OSError as error:
            screen.say(f"cannot run {argv[0]}: {error.strerror}.")
            return 126
        began = read_start_ticks(pid)
        guard.exit_code = wait_for_job(
            pid,
            guard.witness,
            tick=guard.tick,
            before_stop=screen.clear,
            on_signal=guard.tell_signal,
            on_exit=lambda status: guard.tell_exit(pid, began, status),
            every_s=TICK_S,
        )
        return guard.exit_code
    finally:
        guard.finish()


class _Guard:
    """Keeps faults of ours away from the job."""

    def __init__(self, screen: Screen) -> None:
        self.watch: JobWatch | None = None
        self.witness: Witness | None = None
        self.exit_code: int | None = None
        self._screen = screen
        self._ticking = True

    def give_up(self, error: Exception) -> None:
        """Say once why nobody watches."""
        what = getattr(error, "strerror", None) or str(error) or type(error).__name__
        self._screen.say(f"cannot watch this job ({what}); it runs as it would alone.")

    def tick(self, now: float) -> None:
        """Tick the watch, until it fails."""
        if self.watch is None or not self._ticking:
            return
        try:
            self.watch.tick(now)
        except Exception as error:
            self._ticking = False
            self.give_up(error)

    def tell_signal(self, number: int) -> None:
        """Somebody ends the job: what dies now dies as it should."""
        try:
            if self.watch is not None:
                self.watch.line.passes_on(number)
                self.watch.write_ending("signal", number)
        except Exception:
            pass  # the job gets its signal all the same

    def tell_exit(self, pid: int, start_ticks: int, status: int) -> None:
        """The job's own process has ended, and we have just taken its status away from everybody else."""
        try:
            if self.watch is not None:
                self.watch.line.child_ended(pid, start_ticks, status)
        except Exception:
            pass

    def finish(self) -> None:
        """End everything of ours; a failure here must not cost the job's exit code."""
        try:
            forget_signals()
            if self.watch is not None:
                self.watch.finish(self.exit_code, end_was_asked)
        except Exception as error:
            self._screen.say(f"could not clean up ({error}).")
        finally:
            self._screen.close()
            if self.witness is not None:
                self.witness.close()
