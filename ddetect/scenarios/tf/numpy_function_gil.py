"""One worker's numpy_function calls a C function that never gives up the GIL: no Python thread of that worker runs."""

import ctypes

import numpy as np
import tensorflow as tf
import training

seen = 0


def tokenize(x: np.ndarray) -> np.ndarray:
    global seen
    seen += 1
    if seen == args.at * training.batch_size(strategy) and training.my_rank() == args.rank:
        ctypes.PyDLL(None).sleep(training.LIFETIME_S)  # <- stuck here
    return x


def prepare(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.ensure_shape(tf.numpy_function(tokenize, [x], tf.float32), (training.FEATURES,)), y


args = training.arguments()
strategy = training.workers()
training.train(args, examples=training.numbers().map(prepare), strategy=strategy)
