"""Two threads of one rank take two locks in opposite order; the others wait for that rank."""

import threading

import training

metrics_lock = threading.Lock()
upload_lock = threading.Lock()
uploader_has_its_lock = threading.Event()
logger_has_its_lock = threading.Event()


def upload_metrics() -> None:
    with upload_lock:
        uploader_has_its_lock.set()
        logger_has_its_lock.wait()
        with metrics_lock:
            pass


def log_metrics() -> None:
    threading.Thread(target=upload_metrics, name="uploader", daemon=True).start()
    with metrics_lock:
        logger_has_its_lock.set()
        uploader_has_its_lock.wait()
        with upload_lock:  # <- stuck here
            pass


training.run(log_metrics)
