"""What the TensorFlow programs in this folder share, as a team's own package would: a strategy, data, a model, a step.

Enters: TF_CONFIG. Leaves: a small job of two workers, or of two replicas in one process. Never here: ddetect.
"""

from collections.abc import Callable, Iterator

import tensorflow as tf

FEATURES = 16
BATCH_SIZE = 4  # of each replica
Example = tuple[list[float], list[float]]
_iterators: list[object] = []

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(2)


def workers() -> tf.distribute.Strategy:
    """One replica in each task of TF_CONFIG."""
    ring = tf.distribute.experimental.CommunicationImplementation.RING
    options = tf.distribute.experimental.CommunicationOptions(implementation=ring)
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


def mirrored(replicas: int = 2) -> tf.distribute.Strategy:
    """Several replicas in this process, each on a part of the CPU."""
    parts = [tf.config.LogicalDeviceConfiguration()] * replicas
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])


def numbers() -> Iterator[Example]:
    """Examples without end."""
    for index in range(10**9):
        yield [float(index % 7)] * FEATURES, [0.0]


def dataset(examples: Callable[[], Iterator[Example]] = numbers) -> tf.data.Dataset:
    signature = (tf.TensorSpec((FEATURES,)), tf.TensorSpec((1,)))
    return tf.data.Dataset.from_generator(examples, output_signature=signature)


def batches(examples: tf.data.Dataset, strategy: tf.distribute.Strategy) -> tf.data.Dataset:
    """Batches for all replicas; every task reads the whole of it."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    size = BATCH_SIZE * strategy.num_replicas_in_sync
    return examples.batch(size, drop_remainder=True).prefetch(1).with_options(options)


def iterate(data: tf.data.Dataset, strategy: tf.distribute.Strategy) -> Iterator[object]:
    """An iterator that is never freed: who frees one waits for its autotuning thread, for up to a minute."""
    _iterators.append(iter(strategy.experimental_distribute_dataset(data)))
    return _iterators[-1]


class Model:
    """A line through the examples, and the step that improves it."""

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self.strategy = strategy
        with strategy.scope():
            self.weights = tf.Variable(tf.ones((FEATURES, 1)))
            self.bias = tf.Variable(tf.zeros((1,)))
        self.step = tf.function(self._step)

    def predict(self, x: tf.Tensor) -> tf.Tensor:
        return x @ self.weights + self.bias

    def improve(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        """What each replica does with its part of a batch."""
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.predict(x) - y) ** 2)
        variables = [self.weights, self.bias]
        gradients = tape.gradient(loss, variables)
        together = tf.distribute.get_replica_context().all_reduce("mean", gradients)
        for variable, gradient in zip(variables, together, strict=True):
            variable.assign_sub(0.01 * gradient)
        return loss

    def _step(self, iterator: Iterator[object]) -> tf.Tensor:
        """A step that fetches its batch itself."""
        losses = self.strategy.run(self.improve, args=next(iterator))
        return self.strategy.reduce("mean", losses, axis=None)
