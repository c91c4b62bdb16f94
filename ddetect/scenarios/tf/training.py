"""What the TensorFlow programs in this folder share, as a team's own package would: arguments, data, a model, a loop.

Enters: the command line (which task or replica is struck, at which step, how long a step takes) and TF_CONFIG.
Leaves: a small job of several workers, or of several replicas in one process. Never here: ddetect, Keras, and a program
that outlives ten minutes.
"""

import argparse
import ctypes
import json
import os
import signal
import time
from collections.abc import Callable

import tensorflow as tf

LIFETIME_S = 600
BATCH_SIZE = 4  # of each replica
FEATURES = 16
_PR_SET_PDEATHSIG = 1
_iterators: list[object] = []


def arguments(**options: float) -> argparse.Namespace:
    """Read the command line, and make sure that this process ends by itself whatever happens to it.

    `options` are what one program has beside the common ones, with their defaults.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, default=1, help="the task, or the replica, that is struck")
    parser.add_argument("--at", type=int, default=40, help="the step at which it is struck")
    parser.add_argument("--step-ms", type=int, default=50, help="how long a step takes")
    parser.add_argument("--replicas", type=int, default=3, help="of a job in one process")
    for name, default in options.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default)
    # The alarm needs no GIL. A stopped process does not see it, hence the second line: it goes with its parent.
    signal.alarm(LIFETIME_S)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    return parser.parse_args()


def my_rank() -> int:
    """The chief is the first, then come the workers in order; a job of one process has only the first."""
    told = json.loads(os.environ.get("TF_CONFIG", "{}"))
    if not told or told["task"]["type"] == "chief":
        return 0
    return len(told["cluster"].get("chief", [])) + int(told["task"]["index"])


def workers() -> tf.distribute.Strategy:
    """One replica in each task of TF_CONFIG."""
    ring = tf.distribute.experimental.CommunicationImplementation.RING
    options = tf.distribute.experimental.CommunicationOptions(implementation=ring)
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


def mirrored(replicas: int) -> tf.distribute.Strategy:
    """Several replicas in this process, each on a part of the CPU."""
    parts = [tf.config.LogicalDeviceConfiguration()] * replicas
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])


def numbers() -> tf.data.Dataset:
    """Examples without end."""
    return tf.data.Dataset.range(10**9).map(example)


def example(index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    value = tf.cast(index % 7, tf.float32) / 7
    return tf.fill((FEATURES,), value), tf.fill((1,), value)


def batches(examples: tf.data.Dataset, strategy: tf.distribute.Strategy) -> tf.data.Dataset:
    """Batches for all replicas; every task reads the whole of it, so that the batch of an example can be told."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return examples.batch(batch_size(strategy), drop_remainder=True).prefetch(1).with_options(options)


def iterate(data: tf.data.Dataset, strategy: tf.distribute.Strategy) -> object:
    """An iterator that is never freed: who frees one waits for its autotuning thread, for up to a minute."""
    _iterators.append(iter(strategy.experimental_distribute_dataset(data)))
    return _iterators[-1]


def batch_size(strategy: tf.distribute.Strategy) -> int:
    return BATCH_SIZE * strategy.num_replicas_in_sync


class Model:
    """A line through the examples, and the step that improves it."""

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self.strategy = strategy
        with strategy.scope():
            self.weights = tf.Variable(tf.ones((FEATURES, 1)))
            self.bias = tf.Variable(tf.zeros((1,)))

    def improve(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        """What each replica does with its part of a batch."""
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ self.weights + self.bias - y) ** 2)
        variables = [self.weights, self.bias]
        gradients = tape.gradient(loss, variables)
        together = tf.distribute.get_replica_context().all_reduce("mean", gradients)
        for variable, gradient in zip(variables, together, strict=True):
            variable.assign_sub(0.01 * gradient)
        return loss

    def step_on(self, batch: object) -> tf.Tensor:
        """A step with a batch that was fetched before."""
        return self.strategy.reduce("mean", self.strategy.run(self.improve, args=batch), axis=None)

    def step_from(self, iterator: object) -> tf.Tensor:
        """A step that fetches its batch itself."""
        return self.step_on(next(iterator))


def train(
    args: argparse.Namespace,
    when_struck: Callable[[], object] = lambda: None,
    examples: tf.data.Dataset | None = None,
    steps: int = 1_000_000,
    strategy: tf.distribute.Strategy | None = None,
) -> None:
    """Train; each step fetches its batch inside the graph. The struck task calls `when_struck` before its step."""
    strategy = strategy or workers()
    model = Model(strategy)
    step = tf.function(model.step_from)
    data = batches(numbers() if examples is None else examples, strategy)
    iterator = iterate(data, strategy)
    for number in range(steps):
        if number == args.at and my_rank() == args.rank:
            when_struck()
        time.sleep(args.step_ms / 1000)
        step(iterator)


def train_on_batches(
    args: argparse.Namespace,
    examples: tf.data.Dataset | None = None,
    steps: int = 1_000_000,
    strategy: tf.distribute.Strategy | None = None,
) -> None:
    """The same with a loop over the batches, which are fetched in Python."""
    strategy = strategy or workers()
    model = Model(strategy)
    step = tf.function(model.step_on)
    data = batches(numbers() if examples is None else examples, strategy)
    for _, batch in zip(range(steps), iterate(data, strategy), strict=False):
        time.sleep(args.step_ms / 1000)
        step(batch)
