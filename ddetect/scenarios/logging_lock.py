"""A thread of one rank logs to a destination that does not take it, and holds the handler's lock."""

import logging
import threading
import time

import training

log = logging.getLogger("training")
emitting = threading.Event()


class Slow(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        emitting.set()
        time.sleep(training.LIFETIME_S)


def log_loss() -> None:
    log.addHandler(Slow())
    threading.Thread(target=log.warning, args=("disk is nearly full",), daemon=True).start()
    emitting.wait()
    log.warning("loss is %.3f", 0.5)  # <- stuck here


training.run(log_loss)
