"""A Keras fit job that takes the probe's hooks out and puts them back every few steps, and times both.

Runs in TensorFlow's own interpreter, under the probe. Prints one line of JSON: for each pair of blocks the logarithm of
hooked over plain, of wall and of CPU time, and the time of a plain step. Usage: tf_job.py SECONDS
"""

import json
import math
import os
import sys
import time

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import keras
import numpy as np
import tensorflow as tf

WARM_UP = 200  # steps
BLOCK = 20  # few: what disturbs a block should be a small part of all
SETTLE = 4  # of these: Python has to get used to code that was exchanged


class Alternate(keras.callbacks.Callback):
    """At the end of each block: note what it took, and switch."""

    def __init__(self, seconds):
        super().__init__()
        from ddetect_probe.splice import switch

        self.switch = switch
        self.until = time.monotonic() + seconds
        self.order = [True, False, False, True]  # a drift of the machine's pace falls on both
        self.blocks = []
        self.begun = None

    def on_train_batch_end(self, batch, logs=None):
        if batch % BLOCK == SETTLE:
            self.begun = time.perf_counter(), time.process_time()
        if batch < WARM_UP or batch % BLOCK:
            return
        now = time.perf_counter(), time.process_time()
        if batch > WARM_UP:
            self.blocks.append((now[0] - self.begun[0], now[1] - self.begun[1]))
        if time.monotonic() > self.until and len(self.blocks) % 4 == 0:
            raise KeyboardInterrupt
        self.switch(self.order[len(self.blocks) % 4])


def main(seconds):
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    samples = np.random.default_rng(0).random((128, 64), dtype="float32")
    data = tf.data.Dataset.from_tensors((samples, samples[:, :1])).repeat()
    # As small as a job may be that anybody would train: some milliseconds a step, on one core.
    model = keras.Sequential([keras.layers.Dense(512, "relu") for _ in range(2)] + [keras.layers.Dense(1)])
    model.compile("adam", "mse")
    alternate = Alternate(seconds)
    try:
        model.fit(data, steps_per_epoch=10**9, verbose=0, callbacks=[alternate])
    except KeyboardInterrupt:
        pass
    blocks = alternate.blocks
    pairs = {"wall": [], "cpu": []}
    for first in range(0, len(blocks) - 3, 4):
        for hooked, plain in ((first, first + 1), (first + 3, first + 2)):
            for kind, index in (("wall", 0), ("cpu", 1)):
                pairs[kind].append(math.log(blocks[hooked][index] / blocks[plain][index]))
    plain = sorted(blocks[n][0] for n in range(len(blocks)) if n % 4 in (1, 2))
    print(json.dumps({"step_ms": plain[len(plain) // 2] / (BLOCK - SETTLE) * 1e3, **pairs}), flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]))
