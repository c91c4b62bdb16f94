"""A thread of one rank imports a plugin that never finishes; the main thread wants the same module."""

import importlib
import os
import sys
import tempfile
import threading

import training

PLUGIN = """
import threading, time
threading.main_thread().plugin_is_loading.set()
time.sleep(600)
"""


def load_plugin() -> None:
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "slow_plugin.py"), "w") as file:
            file.write(PLUGIN)
        sys.path.insert(0, folder)
        loading = threading.main_thread().plugin_is_loading = threading.Event()
        threading.Thread(target=importlib.import_module, args=("slow_plugin",), daemon=True).start()
        loading.wait()
    importlib.import_module("slow_plugin")  # <- stuck here


training.run(load_plugin)
