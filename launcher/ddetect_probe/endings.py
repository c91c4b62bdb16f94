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
from typing import Any, NoReturn, Optional, Tuple

from ddetect_probe import lane, page, state
from ddetect_probe.splice import splice

# Frames of these are never "the line to look at"; a company's own package in site-packages is.
FRAMEWORKS = frozenset(
    (
        "torch", "torchvision", "torchaudio", "torchdata", "numpy", "scipy", "pandas", "PIL", "cv2", "tensorflow",
        "keras", "jax", "accelerate", "transformers", "datasets", "tokenizers", "deepspeed", "lightning",
        "pytorch_lightning", "lightning_fabric", "fairscale", "megatron", "apex", "ray", "horovod", "ignite", "timm",
        "peft", "trl", "hydra", "omegaconf", "click", "typer", "fire", "absl", "tqdm", "wandb", "_pytest", "pluggy",
        "ddetect", "ddetect_probe", "ddetect_launcher",
    )
)  # fmt: skip
_MESSAGE_BYTES = 400
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
    """os._exit(0) skips every hook: without this, a script that ends so would look killed."""
    leave = os._exit

    def _exit(status: int) -> NoReturn:
        try:
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
        value = value.__context__
    if value is not None:
        note(type(value), value, value.__traceback__)
    state.mark_exit(page.EXITED if value is None else page.RAISED)
    lane.main_ends(raised=value is not None)


def note(kind: Any, value: Any, trace: Optional[TracebackType]) -> None:
    """Write an exception into the page."""
    function, file, line = innermost_user_frame(trace)
    # Cut by bytes and written as UTF-8: gloo ends every message with an emoji, and its reason must survive the cut.
    message = _message(value).encode("utf-8", "replace")[:_MESSAGE_BYTES].decode("utf-8", "ignore")
    state.text(
        "exception",
        json.dumps(
            {
                "type": getattr(kind, "__name__", str(kind)),
                "message": message,
                "function": function[-100:],
                "file": file[-200:],
                "line": line,
            },
            ensure_ascii=False,
        ),
    )


def _message(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # the job's own code
        return ""


def innermost_user_frame(trace: Optional[TracebackType]) -> Tuple[str, str, int]:
    """Function, file and line of the innermost frame that is the user's, or of the innermost there is."""
    best: Tuple[str, str, int] = ("", "", 0)
    innermost = best
    while trace is not None:
        code = trace.tb_frame.f_code
        innermost = (code.co_name, code.co_filename, trace.tb_lineno)
        if is_user_file(code.co_filename):
            best = innermost
        trace = trace.tb_next
    return best if best[1] else innermost


def is_user_file(file: str) -> bool:
    """Whether a file is neither a named framework's nor the standard library's."""
    if file.startswith("<"):
        return False
    for folder in ("/site-packages/", "/dist-packages/"):
        if folder in file:
            package = file.rpartition(folder)[2].partition("/")[0]
            return package.partition(".")[0] not in FRAMEWORKS
    # A relative name is the script's; to complete it, the working directory would have to be there still.
    return not file.startswith((_HERE, _STDLIB))
