"""Stand between the job and whoever started us: pass signals on, stop when it stops, return what it returns.

Enters: the job's pid, the signals sent to the launcher. Leaves: the job's exit code, 128+N when signal N ended it.
All of them are blocked and fetched one by one, so nothing interrupts the launcher half-way, and siginfo says who sent
them: a signal from the terminal has reached the job already.
Never here: threads, handlers, anything about detection (that is `tick`).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from ddetect_launcher.inbox import Inbox
from ddetect_launcher.spawn import Born
from ddetect_launcher.witness import Witness

_STOPS = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
_FORWARDED = frozenset(
    {
        signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT,
        signal.SIGWINCH, signal.SIGALRM, signal.SIGPWR, signal.SIGURG, *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
    }
)  # fmt: skip
_TAKEN = _FORWARDED | _STOPS | {signal.SIGCHLD}
_STOP_BELIEVED_S = 2.0
ENDING = frozenset(
    {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
)  # what people end jobs with


def take_signals() -> Born:
    """Block every signal we pass on, from now to the launcher's end; remember how the job should have them."""
    ignored = frozenset(
        number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN
    )
    mask = frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, _TAKEN))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, the kernel would throw the job's exit code away
    return Born(mask, ignored)


def wait_for_job(
    pid: int,
    witness: Witness | None,
    *,
    tick: Callable[[float], None],
    before_stop: Callable[[], None],
    on_signal: Callable[[int], None],
    on_exit: Callable[[int], None],
    every_s: float,
) -> int:
    """Wait until the job ends, calling `tick` about every `every_s`; returns its exit code as a shell would.

    `on_signal` is called before a signal that may end the job is passed on, `on_exit` with the job's wait status.
    """
    inbox = Inbox(_TAKEN)
    stopped = False
    stop_asked_at = float("-inf")
    next_tick = time.monotonic()
    while True:
        done, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        if done and (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
            inbox.close()
            on_exit(status)
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if done:
            stopped = os.WIFSTOPPED(status)
        now = time.monotonic()
        if stopped and now - stop_asked_at < _STOP_BELIEVED_S:
            # Both were asked to stop (Ctrl-Z) and the job did: stop too, so that the shell sees a stopped job. If
            # only the job was stopped we go on: somebody will wake it alone, or ddetect has something to report.
            before_stop()
            stopped, stop_asked_at = False, float("-inf")
            os.kill(os.getpid(), signal.SIGSTOP)
            continue
        if now >= next_tick:
            tick(now)
            next_tick = now + every_s
        got = inbox.next(max(0.0, min(next_tick - time.monotonic(), every_s)))
        if got is None or got.si_signo == signal.SIGCHLD:
            continue
        if got.si_signo in _STOPS:
            stop_asked_at = time.monotonic()
        in_vain = _ignores(pid, got.si_signo)  # SIGHUP under nohup
        if got.si_signo in ENDING and not in_vain:
            on_signal(got.si_signo)
        if not _job_got(got, witness) and not in_vain:
            try:
                os.kill(pid, got.si_signo)
            except OSError:  # gone, or another user's by now (sudo)
                pass


def _ignores(pid: int, number: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            ignored = next(line for line in status if line.startswith(b"SigIgn:"))
        return bool(int(ignored.split()[1], 16) >> (number - 1) & 1)
    except (OSError, StopIteration, ValueError, IndexError):
        return False


def end_was_asked() -> bool:
    """Whether somebody wants the launcher gone while it waits for its companions after the job."""
    return signal.sigtimedwait(ENDING, 0) is not None


def forget_signals() -> None:
    """Drop what was sent for the job after it ended."""
    while signal.sigtimedwait(_FORWARDED | _STOPS, 0) is not None:
        pass


def _job_got(info: signal.struct_siginfo, witness: Witness | None) -> bool:
    from_kernel = info.si_code > 0  # the terminal's, for the whole foreground group
    # Ask in any case: the witness's copy has to be taken away before the next signal of this number.
    group = witness is not None and witness.group_got(info.si_signo)
    return from_kernel or group
