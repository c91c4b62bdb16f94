"""One rank wants a lock that it shares with another process, which was killed while it held it."""

import multiprocessing
import os
import signal

import training

context = multiprocessing.get_context("fork")
tokenizer_lock = context.Lock()


def die_with_lock() -> None:
    tokenizer_lock.acquire()
    os.kill(os.getpid(), signal.SIGKILL)


def use_tokenizer() -> None:
    helper = context.Process(target=die_with_lock)
    helper.start()
    helper.join()
    with tokenizer_lock:  # <- stuck here
        pass


training.run(use_tokenizer)
