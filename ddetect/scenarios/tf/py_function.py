"""One worker's py_function waits for an image that never comes; the others wait for that worker."""

import time

import tensorflow as tf
import training

# A dataset's functions are called from TensorFlow's own threads, as often as there are examples.
seen = 0


def decode_image(x: tf.Tensor) -> tf.Tensor:
    global seen
    seen += 1
    if seen == args.at * training.batch_size(strategy) and training.my_rank() == args.rank:
        time.sleep(training.LIFETIME_S)  # <- stuck here
    return x


def decode(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.ensure_shape(tf.py_function(decode_image, [x], tf.float32), (training.FEATURES,)), y


args = training.arguments()
strategy = training.workers()
training.train(args, examples=training.numbers().map(decode), strategy=strategy)
