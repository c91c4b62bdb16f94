"""A py_function in the step of one replica never comes back; the graph of all replicas waits for it."""

import time

import tensorflow as tf
import training

calls = [0] * 64


def score_samples(replica: tf.Tensor) -> None:
    calls[int(replica)] += 1
    if calls[int(replica)] == args.at and int(replica) == args.rank:
        time.sleep(training.LIFETIME_S)  # <- stuck here


class Scored(training.Model):
    def improve(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        with tf.control_dependencies([tf.py_function(score_samples, [replica], [])]):
            x = tf.identity(x)
        return super().improve(x, y)


args = training.arguments()
strategy = training.mirrored(args.replicas)
model = Scored(strategy)
step = tf.function(model.step_on)
for batch in strategy.experimental_distribute_dataset(training.batches(training.numbers(), strategy)):
    time.sleep(args.step_ms / 1000)
    step(batch)
