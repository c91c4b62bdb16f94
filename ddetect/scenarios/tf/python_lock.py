"""One worker waits for a lock that a thread of it holds and never gives back; the others wait for that worker."""

import threading
import time

import training

lock = threading.Lock()
held = threading.Event()


def upload_metrics() -> None:
    with lock:
        held.set()
        time.sleep(training.LIFETIME_S)


def log_metrics() -> None:
    threading.Thread(target=upload_metrics, daemon=True).start()
    held.wait()
    with lock:  # <- stuck here
        print("logged")


training.train(training.arguments(), log_metrics)
