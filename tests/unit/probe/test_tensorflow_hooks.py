"""What real TensorFlow jobs write into their pages while they run. Programs stand still where the test looks.

They run in TensorFlow's own interpreter, which has nothing of ddetect: the probe comes in as with `ddetect launch`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from ddetect_probe import page

from tests.live.tf_workers import tf_python
from tests.unit.probe.conftest import Job
from tests.unit.stacks.targets import until

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(240),
]  # each imports TensorFlow: seconds, and minutes on a busy machine

HEAD = """
import os, sys, threading
import numpy as np

def stand(where):
    print(where, flush=True)
    sys.stdin.readline()

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import tensorflow as tf
"""
PLAIN = """
def numbers():
    for number in range(12):
        if number == 8:
            stand("in the generator")
        yield np.float32(number)

def below(x):
    if float(x) > 30:
        stand("in py_function")
    return x

total = tf.Variable(0.0)

@tf.function
def helper(x):
    return tf.reduce_sum(x)

@tf.function
def step(x):
    stand("in the trace")
    total.assign_add(tf.py_function(below, [helper(x)], tf.float32))
    return total

data = tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec((), tf.float32)).batch(4)
for batch in data:
    step(batch)
stand(f"traced {step.experimental_get_tracing_count()} {helper.experimental_get_tracing_count()}")
"""
FIT = """
import KERAS as keras

def samples():
    for number in range(64 * 8):
        if number == 40 * 8:
            stand("in the generator")
        yield np.ones(4, "float32"), np.ones(1, "float32")

signature = (tf.TensorSpec((4,), tf.float32), tf.TensorSpec((1,), tf.float32))
data = tf.data.Dataset.from_generator(samples, output_signature=signature).batch(8)
model = keras.Sequential([keras.layers.Dense(2), keras.layers.Dense(1)])
model.compile("adam", "mse", steps_per_execution=STEPS)
model.fit(data, steps_per_epoch=60, epochs=1, verbose=0)
stand("done")
"""
MIRRORED = """
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1", "CPU:2"])
with strategy.scope():
    total = tf.Variable(0.0, aggregation=tf.VariableAggregation.MEAN)
"""
EAGER = """
def work(number):
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    total.assign_add(1.0)
    if number == 3 and int(replica) == 1:
        stand("replica 1")
    total.assign_add(1.0)

for number in range(5):
    strategy.run(work, args=(number,))
stand("done")
"""
TRACED = """
asked = [0]

def below(x):
    asked[0] += 1
    if asked[0] == 3:
        stand("replica 1 in py_function")
    return x

def nothing(x):
    return x

def work():
    replica = int(tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group))
    if replica == 1:
        stand("replica 1 in the trace")
    total.assign_add(tf.py_function(below if replica == 1 else nothing, [tf.constant(1.0)], tf.float32))

@tf.function(autograph=False)
def step():
    strategy.run(work)

for number in range(5):
    step()
stand(f"traced {step.experimental_get_tracing_count()}")
"""
WORKERS = """
strategy = tf.distribute.MultiWorkerMirroredStrategy()
task = strategy.cluster_resolver.task_id
with strategy.scope():
    total = tf.Variable(0.0, aggregation=tf.VariableAggregation.MEAN)

def work(x):
    total.assign_add(tf.reduce_sum(x))

@tf.function
def step(x):
    strategy.run(work, args=(x,))

data = tf.data.Dataset.range(1000).map(lambda n: tf.cast(n, tf.float32)).batch(4)
batches = iter(strategy.experimental_distribute_dataset(data))
for number in range(5):
    step(next(batches))
print("five", flush=True)
if task == 1:
    stand("before next")
batch = next(batches)
if task == 1:
    stand("before the step")
step(batch)
stand("done")
"""


def start(job: Job, text: str, **more: str) -> subprocess.Popen[str]:
    program = job.write("train.py", HEAD + text)
    return job.start(program, python=tf_python(), TF_CPP_MIN_LOG_LEVEL="2", **more)


def heard(process: subprocess.Popen[str]) -> str:
    """What it says where it stands, without the end of the line."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return line.strip()


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def ended(process: subprocess.Popen[str]) -> int:
    process.communicate("\n", timeout=60)
    return process.returncode


def lane_0(seen: page.Page) -> page.LaneRow:
    return seen.lanes()[0]


def test_plain_loop_says_data_trace_step_and_who_is_called_from_below(job: Job) -> None:
    """A generator, a trace and a py_function that stand still are told apart; nothing is traced more often."""
    process = start(job, PLAIN)
    assert heard(process) == "in the trace"
    seen = job.page_of(process.pid)
    assert (lane_0(seen).phase, seen.tracing(), lane_0(seen).tid) == (page.TRACING, "step", process.pid)
    go_on(process)

    assert heard(process) == "in the generator"
    until(
        lambda: (lane_0(seen).phase, lane_0(seen).batches) == (page.DATA, 2)
    )  # tf.data runs ahead by itself
    (call,) = seen.inner_calls()
    assert (call.what, call.lane) == (page.INNER_DATA, -1)
    assert call.tid != process.pid
    assert (lane_0(seen).steps, seen.tracing()) == (2, "")
    go_on(process)

    assert heard(process) == "in py_function"
    assert lane_0(seen).phase == page.STEP
    # The pipeline may still be asking the generator whether it has more.
    until(lambda: [(call.what, call.lane) for call in seen.inner_calls()] == [(page.INNER_STEP, 0)])
    go_on(process)

    assert heard(process) == "traced 1 1"
    header = seen.header()
    assert (header[page.S_ROLE], header[page.S_RANK], header[page.S_WORLD]) == (page.ROLE_RANK, 0, 1)
    assert (lane_0(seen).phase, lane_0(seen).steps, lane_0(seen).batches) == (page.OTHER, 3, 3)
    assert (seen.inner_calls(), seen.hooks_off(), seen.frameworks()) == ([], [], ["tensorflow"])
    assert ended(process) == 0
    assert seen.header()[page.S_EXIT] == page.EXITED


@pytest.mark.parametrize("keras", ["keras", "tf_keras"])
def test_keras_fit_is_in_a_step_while_its_generator_stands_still(job: Job, keras: str) -> None:
    """Python cannot tell what a train function waits for; the generator's thread can."""
    process = start(job, FIT.replace("KERAS", keras).replace("STEPS", "1"))
    assert heard(process) == "in the generator"
    seen = job.page_of(process.pid)
    until(lambda: lane_0(seen).phase == page.STEP)
    assert [(call.what, call.lane) for call in seen.inner_calls()] == [(page.INNER_DATA, -1)]
    assert 0 < lane_0(seen).steps <= 40
    go_on(process)

    assert heard(process) == "done"
    assert (lane_0(seen).phase, lane_0(seen).steps) == (page.OTHER, 60)
    assert (seen.hooks_off(), seen.strategy() or {}) == (
        [],
        {"kind": "", "replicas": 1, "workers": 1, "task": "", "index": 0},
    )
    assert ended(process) == 0


@pytest.mark.parametrize("keras", ["keras", "tf_keras"])
def test_steps_inside_one_long_call_are_seen(job: Job, keras: str) -> None:
    """60 steps are one call; `iterations` is read meanwhile."""
    text = FIT.replace("KERAS", keras).replace("STEPS", "60")
    slowly = "        if number > 8 * 8:\n            time.sleep(0.02)\n        yield"
    process = start(job, "import time\n" + text.replace("        yield", slowly))
    assert heard(process) == "in the generator"  # after 30 * 8 * 0.02 s
    seen = job.page_of(process.pid)

    inside = lane_0(seen)

    assert (inside.phase, inside.steps > 0) == (page.STEP, True)
    go_on(process)
    assert heard(process) == "done"
    assert seen.hooks_off() == []
    assert ended(process) == 0


def test_each_replica_of_an_eager_step_is_a_lane(job: Job) -> None:
    """Replica 1 is in the user's code; 0 waits for it in merge_call, and 2 for its turn."""
    process = start(job, MIRRORED + EAGER)
    assert heard(process) == "replica 1"
    seen = job.page_of(process.pid)
    rows = seen.lanes()

    assert [(row.lane, row.phase) for row in rows] == [
        (0, page.COLLECTIVE),
        (1, page.OTHER),
        (2, page.COLLECTIVE),
    ]
    assert len({row.tid for row in rows} - {0, process.pid}) == 3
    assert [row.steps for row in rows] == [3, 3, 3]
    told: Any = seen.strategy()
    assert (told["kind"], told["replicas"], told["workers"]) == ("MirroredStrategy", 3, 1)
    go_on(process)
    assert heard(process) == "done"
    assert (lane_0(seen).tid, lane_0(seen).phase, lane_0(seen).steps) == (process.pid, page.OTHER, 5)
    assert (seen.header()[page.S_WORLD], seen.hooks_off()) == (1, [])
    assert ended(process) == 0


def test_replicas_of_a_traced_step_are_lanes_while_it_is_traced(job: Job) -> None:
    """Afterwards only a py_function tells whose it is."""
    process = start(job, MIRRORED + TRACED)
    assert heard(process) == "replica 1 in the trace"
    seen = job.page_of(process.pid)
    assert [(row.lane, row.phase) for row in seen.lanes()][:2] == [(0, page.COLLECTIVE), (1, page.TRACING)]
    assert seen.tracing() == "step"
    go_on(process)

    assert heard(process) == "replica 1 in py_function"
    assert [(call.what, call.lane) for call in seen.inner_calls()] == [(page.INNER_STEP, 1)]
    until(lambda: [row.lane for row in seen.lanes()] == [0])
    assert (lane_0(seen).phase, lane_0(seen).tid) == (page.STEP, process.pid)
    go_on(process)
    assert heard(process) == "traced 1"
    assert (lane_0(seen).steps, seen.hooks_off()) == (5, [])
    assert ended(process) == 0


def free_ports(count: int) -> list[int]:
    with_ports = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in with_ports]
    for server in with_ports:
        server.close()
    return ports


def test_workers_number_their_collectives_and_a_letter_ends_the_wait(job: Job) -> None:
    """Who waits has taken numbers that the other has not; the sentence of a letter is in what it raises."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    config = {"cluster": {"worker": addresses}}
    processes = [
        start(job, WORKERS, TF_CONFIG=json.dumps({**config, "task": {"type": "worker", "index": index}}))
        for index in range(2)
    ]
    waits, late = processes
    assert [heard(process) for process in processes] == ["five", "five"]
    pages = [job.page_of(process.pid) for process in processes]
    assert heard(late) == "before next"
    until(lambda: lane_0(pages[0]).phase == page.COLLECTIVE and waits_inside(pages[0]))
    assert_behind(pages)
    go_on(late)

    assert heard(late) == "before the step"
    until(lambda: lane_0(pages[0]).phase == page.STEP and waits_inside(pages[0]))
    assert_behind(pages)
    assert [lane_0(seen).phase for seen in pages] == [page.STEP, page.OTHER]
    for index, seen in enumerate(pages):
        header = seen.header()
        assert (header[page.S_RANK], header[page.S_WORLD], header[page.S_PG_STATE]) == (
            index,
            2,
            page.PG_READY,
        )
        assert [group.members for group in seen.groups()] == ["0-1"] * len(seen.groups())
        told: Any = seen.strategy()
        assert told == {
            "kind": "MultiWorkerMirroredStrategy", "replicas": 1, "workers": 2, "task": "worker", "index": index,
        }  # fmt: skip
        assert seen.hooks_off() == []

    page.write_mail(pages[0].path, "abort ddetect: worker 1 stands before the step")

    assert "ddetect: worker 1 stands before the step" in waits.communicate(timeout=60)[1]
    exception: Any = pages[0].exception()
    assert "ddetect: worker 1 stands before the step" in exception["message"]
    assert (exception["type"], os.path.basename(exception["file"])) == ("UnavailableError", "train.py")


def waits_inside(seen: page.Page) -> bool:
    """Numbers are taken a moment after the phase is written."""
    return any(row.oldest_open for row in seen.sequences())


def assert_behind(pages: list[page.Page]) -> None:
    """Worker 0 is inside a number of some group that worker 1 has not taken."""
    ahead = {row.group: row for row in pages[0].sequences()}
    behind = {row.group: row for row in pages[1].sequences()}
    open_groups = [group for group, row in ahead.items() if row.oldest_open]
    assert all(behind[group].enqueued < ahead[group].oldest_open for group in open_groups)
    assert all(row.oldest_open == 0 for row in behind.values())


BOTH = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=4)
writes = tf.function(lambda x: x + 1)

def train_with_torch():
    for batch in batches:
        model(batch).sum().backward()
        optimizer.step()

def train_with_tensorflow():
    for _ in range(3):
        writes(tf.constant(1.0))

"""


@pytest.mark.parametrize(
    ("uses", "framework", "steps"),
    [("train_with_torch()", "torch", 2), ("train_with_tensorflow()", "tensorflow", 3)],
)
@pytest.mark.parametrize("first", ["torch", "tensorflow"])
def test_process_with_both_frameworks_trains_with_the_one_it_uses(
    job: Job, uses: str, framework: str, steps: int, first: str
) -> None:
    """Real ones, imported in either order; the job ends as it would alone, and nothing of it is printed."""
    torchs = str(Path(torch.__file__).parents[1])
    imports = f"import sys\nsys.path.append({torchs!r})\nimport {first}\n"
    program = job.write("train.py", imports + HEAD + BOTH + uses + "\nstand('done')\n")
    process = job.start(program, python=tf_python(), TF_CPP_MIN_LOG_LEVEL="3")

    assert heard(process) == "done"
    seen = job.page_of(process.pid)
    assert (seen.frameworks()[0], seen.hooks_off()) == (framework, [])
    assert (lane_0(seen).steps, seen.header()[page.S_RANK]) == (steps, 0)
    assert ended(process) == 0


SESSION = """
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    number = tf.constant(1.0) + 1.0
    for _ in range(5):
        session.run(number)
    stand("done")
"""
EAGER_OPTIMIZER = """
import KERAS as keras
weight = keras.Variable(1.0) if "KERAS" == "keras" else tf.Variable(1.0)
optimizer = keras.optimizers.SGD(0.1)
for _ in range(5):
    optimizer.apply_gradients([(tf.constant(1.0), weight)])
stand("done")
"""


@pytest.mark.parametrize(
    "text",
    [SESSION, EAGER_OPTIMIZER.replace("KERAS", "keras"), EAGER_OPTIMIZER.replace("KERAS", "tf_keras")],
    ids=["session", "keras", "tf_keras"],
)
def test_steps_without_a_tf_function_are_counted(job: Job, text: str) -> None:
    """A session of old, and optimizers that are applied in Python."""
    process = start(job, text)
    assert heard(process) == "done"
    seen = job.page_of(process.pid)

    assert (lane_0(seen).steps, seen.hooks_off()) == (5, [])
    assert ended(process) == 0
