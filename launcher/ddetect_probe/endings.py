"""How this process ends: its last uncaught exception, and that it is shutting down.

Enters: sys.excepthook, threading.excepthook, interpreter shutdown, the end of a multiprocessing child. Leaves: the
exception text, S_EXIT, the EXITING phase. Never here: a change to what the job prints.
"""

from __future__ import annotations

import atexit
import functools
import json
import multiprocessing.process
import os
import sys
import threading
from types import TracebackType
from typing import Any, Dict, List, NoReturn, Optional, Tuple

from ddetect_probe import lane, page, state
from ddetect_probe.splice import splice

Frame = Tuple[str, str, int]  # function, file, line

_MESSAGE_BYTES = 400
_TEXT_BYTES = 2000  # the page has 2048 for it
_FRAMES = 8
_PYTHONS = "<python>"  # where the standard library and the probe are at home
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


def watch_endings() -> None:
    """Chain to the hooks that are there."""
    previous = sys.excepthook

    def excepthook(kind: Any, value: Any, trace: Optional[TracebackType]) -> None:
        try:
            note(kind, value, trace)
            state.mark_exit(page.RAISED)
            lane.main_ends(raised=True)
        except Exception:
            state.broken("excepthook")
        previous(kind, value, trace)

    sys.excepthook = excepthook
    previous_in_thread = threading.excepthook

    def thread_excepthook(args: Any, /) -> None:
        try:
            if args.exc_type is not SystemExit:
                note(args.exc_type, args.exc_value, args.exc_traceback)
        except Exception:
            state.broken("threading.excepthook")
        previous_in_thread(args)

    threading.excepthook = thread_excepthook
    atexit.register(_last_word)
    _watch_hard_exit()
    # Finalization begins here, before non-daemon threads are joined and before any atexit function.
    splice(threading._shutdown, _shutting_down, _nothing)  # type: ignore[attr-defined]
    splice(multiprocessing.process.BaseProcess.run, _nothing_yet, _child_done)


def _watch_hard_exit() -> None:
    """os._exit skips every hook: without this, a script that ends so would look killed."""
    leave = os._exit

    def _exit(status: int) -> NoReturn:
        try:
            state.mark_code(status)
            if status == 0:
                state.mark_exit(page.EXITED)
        except Exception:
            state.broken("os._exit")
        leave(status)

    os._exit = functools.update_wrapper(_exit, leave)


def _last_word() -> None:
    """Runs when all threads that Python waits for have ended."""
    state.mark_exit(page.EXITED)
    _shutting_down()


def _shutting_down() -> None:
    if threading.get_ident() == state.main:
        lane.main_ends()


def _nothing_yet() -> None:
    return None


def _nothing(token: None) -> None:
    return None


def _child_done(token: None) -> None:
    """A multiprocessing child prints its own traceback and leaves through os._exit: no other hook sees it."""
    value = sys.exc_info()[1]
    if isinstance(value, SystemExit):  # torch's spawn turns exceptions into sys.exit(1)
        state.mark_code(_code_of(value))
        value = value.__context__
    if value is not None:
        note(type(value), value, value.__traceback__)
    state.mark_exit(page.EXITED if value is None else page.RAISED)
    lane.main_ends(raised=value is not None)


def _code_of(leaves: SystemExit) -> int:
    """What multiprocessing makes of it: no code is success, and a message is none."""
    code = leaves.code
    return 0 if code is None else code if isinstance(code, int) else 1


def note(kind: Any, value: Any, trace: Optional[TracebackType]) -> None:
    """Write an exception into the page, with the frames among which the agent chooses the line to look at."""
    frames = candidates(trace)
    outside = [frame for frame in frames if not _home(frame[1])]
    function, file, line = (outside or frames or [("", "", 0)])[0]
    # Cut by bytes and written as UTF-8: gloo ends every message with an emoji, and its reason must survive the cut.
    message = _message(value).encode("utf-8", "replace")[:_MESSAGE_BYTES].decode("utf-8", "ignore")
    told: Dict[str, Any] = {
        "type": getattr(kind, "__name__", str(kind)),
        "message": message,
        "function": function[-100:],
        "file": file[-200:],
        "line": line,
    }
    text = json.dumps(told, ensure_ascii=False)
    if len(frames) > 1:
        told["frames"] = []
        for function, file, line in frames[:_FRAMES]:
            told["frames"].append((function[-100:], file[-200:], line))
            longer = json.dumps(told, ensure_ascii=False)
            if len(longer.encode("utf-8", "replace")) > _TEXT_BYTES:
                break  # half a text is none: better fewer frames
            text = longer
    state.text("exception", text)


def _message(value: Any) -> str:
    try:
        message = str(value)
        for shorten in state.shorten:
            message = shorten(message)
        return message
    except Exception:  # the job's own code
        return ""


def candidates(trace: Optional[TracebackType]) -> List[Frame]:
    """The innermost frame of each package and of what is not installed, innermost first; of Python's own only the last.

    Which of them is the user's is not known here: only the agent knows what the job has installed.
    """
    found: Dict[str, Frame] = {}
    innermost: List[Frame] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        home = _home(code.co_filename)
        frame = (code.co_name, code.co_filename, trace.tb_lineno)
        innermost = [frame]
        if home != _PYTHONS:
            found.pop(home, None)  # a dict keeps the order in which its keys came
            found[home] = frame
        trace = trace.tb_next
    return list(found.values())[::-1] or innermost


def _home(file: str) -> str:
    """The top-level package that a file belongs to, where it is installed; "" is outside of all."""
    for folder in ("/site-packages/", "/dist-packages/"):
        if folder in file:
            return file.rpartition(folder)[2].partition("/")[0]
    # A relative name is the script's; to complete it, the working directory would have to be there still.
    return _PYTHONS if file.startswith(("<", _HERE, _STDLIB)) else ""
