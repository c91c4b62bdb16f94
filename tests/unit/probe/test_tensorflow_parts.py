"""The parts of TensorFlow's hooks that need no TensorFlow: ranks of tasks, numbers of collectives, calls from below."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from ddetect_probe import page, state
from ddetect_probe.hooks.tensorflow import (
    alone,
    data_hooks,
    inner_hooks,
    mail,
    messages,
    optimizer_hooks,
    sequences,
    step_hooks,
    strategy_hooks,
    tasks,
)

from tests.unit.probe.conftest import Actor

DEVICE = "/job:worker/replica:0/task:1/device:GPU:"


@pytest.mark.parametrize(
    ("sizes", "kind", "index", "rank", "world"),
    [
        ({"worker": 3}, "worker", 2, 2, 3),
        ({"chief": 1, "worker": 2}, "chief", 0, 0, 3),
        ({"chief": 1, "worker": 2}, "worker", 1, 2, 3),
        ({"chief": 1, "worker": 2, "evaluator": 1}, "worker", 0, 1, 3),
        ({"chief": 1, "worker": 2, "evaluator": 1}, "evaluator", 0, 3, 4),
        ({"worker": 2}, "evaluator", 0, 2, 3),
        ({"chief": 1, "worker": 2, "ps": 2}, "worker", 1, -1, -1),
        ({"worker": 2}, "worker", 5, -1, -1),
        ({"chief": 1, "master": 1, "worker": 1}, "worker", 0, 1, 2),
        ({"chief": 1, "worker": 2, "ps": 2}, "ps", 1, -1, -1),
    ],
)
def test_task_has_its_place(sizes: dict[str, int], kind: str, index: int, rank: int, world: int) -> None:
    """The chief first, workers in order, evaluators last; nobody who works for parameter servers is a rank."""
    task = tasks.place(sizes, kind, index)

    assert (task.kind, task.number, task.rank, task.world) == (kind, index, rank, world)


@pytest.mark.parametrize(
    "told",
    ["", "{", "[]", "{}", '{"cluster": {}}', '{"cluster": {"worker": ["a"]}}', '{"cluster": 3, "task": 4}'],
)
def test_tf_config_that_says_nothing_is_none(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever somebody put there, it is no exception of ours."""
    monkeypatch.setenv("TF_CONFIG", told)

    assert tasks.from_environment() is None


def test_tf_config_says_who_this_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number in quotes is one too: TensorFlow takes it."""
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
    monkeypatch.setenv(
        "TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": "1"}})
    )

    task = tasks.from_environment()

    assert task == tasks.Task("worker", 1, 2, 3, 3)


@pytest.fixture
def cluster(seen: page.Page) -> Iterator[page.Page]:
    """A page of worker 1 of 3."""
    sequences.join("worker", 1, "ring", 3)
    yield seen
    sequences.forget()
    sequences.join("", 0, "", 1)


def test_numbers_of_a_call_are_open_until_it_returns(cluster: page.Page) -> None:
    """Who waits in a step has taken its numbers; who has not come is behind."""
    for key in (100, 101, 102):
        sequences.take(7, DEVICE + "0", key)
    inside = cluster.sequences()
    sequences.close(state.main)

    assert [row[:5] for row in inside] == [(0, 0, 102, 100, 99)]
    assert [row[:5] for row in cluster.sequences()] == [(0, 0, 102, 0, 102)]
    assert cluster.groups() == [page.GroupText(0, "7", "", "ring", "0-2")]


def test_devices_and_groups_have_rows_of_their_own(cluster: page.Page, actor: Actor) -> None:
    """Two replicas of a worker are two lanes; what one thread ends is its own."""
    sequences.take(7, DEVICE + "0", 100)
    actor(sequences.take, 7, DEVICE + "1", 100)
    sequences.take(8, DEVICE + "0", 500)

    actor(lambda: sequences.close(actor.ident))

    assert [row[:5] for row in cluster.sequences()] == [
        (0, 0, 100, 100, 99),
        (1, 0, 100, 0, 100),
        (0, 1, 500, 500, 499),
    ]


def test_number_of_another_thread_in_the_same_row_stays_open(cluster: page.Page, actor: Actor) -> None:
    """The oldest open one is the oldest of all threads."""
    actor(sequences.take, 7, DEVICE + "0", 100)
    sequences.take(7, DEVICE + "0", 101)
    sequences.close(state.main)

    assert [row[:5] for row in cluster.sequences()] == [(0, 0, 101, 100, 99)]


def test_job_of_one_process_has_no_sequences(cluster: page.Page) -> None:
    """MirroredStrategy takes numbers as well; a device of no cluster, and a cluster of one, are nobody's concern."""
    sequences.take(7, "/job:localhost/replica:0/task:0/device:GPU:0", 100)
    sequences.join("worker", 1, "ring", 1)
    sequences.take(7, DEVICE + "0", 100)

    assert cluster.sequences() == []


def test_more_rows_than_there_is_room_for_are_left_out(cluster: page.Page) -> None:
    """What lies behind them in the page stays what it was."""
    for group in range(page.SEQS_ROWS + 3):
        sequences.take(group, DEVICE + "0", 100)

    assert len(cluster.sequences()) == page.SEQS_ROWS
    assert cluster.inner_calls() == []


@pytest.fixture
def inner(seen: page.Page) -> Iterator[page.Page]:
    """A page, and tokens as TensorFlow would have given them while it built a graph."""
    inner_hooks.inserted_of(lambda: False)(None, "pyfunc_0")
    yield seen
    inner_hooks.forget()
    inner_hooks._meant.clear()
    step_hooks.forget()


def test_call_from_below_is_a_row_while_it_lasts(inner: page.Page, actor: Actor) -> None:
    """In a graph that is not tf.data's it is a part of the step."""
    row = actor(inner_hooks.enter_inner, "pyfunc_0")
    (call,) = inner.inner_calls()
    actor(inner_hooks.leave_inner, row)

    assert call[:4] == (page.INNER_STEP, 0, actor.ident, actor.tid)
    assert inner.inner_calls() == []


def test_function_that_is_traced_for_tf_data_is_data(inner: page.Page) -> None:
    """Also when a tf.function in between was traced for itself."""

    class Options:
        name = "map"
        attributes = ("_tf_data_function",)

    class Nested:
        name = "decode"
        attributes = None

    tokens = step_hooks.enter_trace(Options()), step_hooks.enter_trace(Nested())
    inner_hooks.inserted_of(lambda: False)(None, "pyfunc_1")
    for token in reversed(tokens):
        step_hooks.leave_trace(token)

    inner_hooks.enter_inner("pyfunc_1")

    assert [call[:2] for call in inner.inner_calls()] == [(page.INNER_DATA, -1)]


def test_function_that_eager_code_calls_is_no_row(inner: page.Page) -> None:
    """Its own stack shows all of it."""
    inner_hooks.inserted_of(lambda: True)(None, "pyfunc_2")

    entered = inner_hooks.enter_inner("pyfunc_2")

    assert inner.inner_calls() == []
    inner_hooks.leave_inner(entered)


def test_call_without_a_free_row_is_not_recorded_and_the_next_is(inner: page.Page) -> None:
    """A ninth call at a time changes nothing; rows come back."""
    rows = [inner_hooks.enter_inner("pyfunc_0") for _ in range(page.INNER_ROWS + 1)]
    assert len(inner.inner_calls()) == page.INNER_ROWS
    for row in reversed(rows):
        inner_hooks.leave_inner(row)
    assert inner.inner_calls() == []

    inner_hooks.enter_inner("pyfunc_0")

    assert len(inner.inner_calls()) == 1


def test_function_that_is_called_from_below_does_no_steps(inner: page.Page, actor: Actor) -> None:
    """It prepares samples, in a thread of the runtime; in the main thread it is inside a step already."""
    entered = actor(inner_hooks.enter_inner, "pyfunc_0")
    assert actor(call_of) is None
    actor(inner_hooks.leave_inner, entered)
    enter = step_hooks.enter_of(SimpleNamespace(RUN_FUNCTIONS_EAGERLY=False))
    step = enter()  # from here: a frame that has ended is nobody's caller
    (
        lambda: inner_hooks.leave_inner(inner_hooks.enter_inner("pyfunc_0"))
    )()  # the runtime, called by the step
    assert call_of() is None
    step_hooks.leave_call(step)

    assert (actor(call_of) is None, inner.lanes()[0].steps) == (False, 1)


def call_of(compiled: bool = True) -> int | None:
    return step_hooks.enter_of(SimpleNamespace(RUN_FUNCTIONS_EAGERLY=not compiled))()


def test_only_the_outermost_call_is_a_step(seen: page.Page) -> None:
    """Keras' train function calls others; it is one step."""
    enter = step_hooks.enter_of(SimpleNamespace(RUN_FUNCTIONS_EAGERLY=False))
    outer = enter()
    inside = seen.lanes()[0].phase
    nested = call_of()
    step_hooks.leave_call(nested)
    assert (nested, seen.lanes()[0].phase, seen.lanes()[0].steps) == (None, inside, 0)

    step_hooks.leave_call(outer)

    assert (inside, seen.lanes()[0].phase, seen.lanes()[0].steps) == (page.STEP, page.OTHER, 1)


def test_call_whose_end_was_lost_blinds_nobody(seen: page.Page) -> None:
    """A signal handler raised between two lines of our hook: the next call is the outermost one all the same."""
    call_of()  # and never left
    again = call_of()
    assert again is not None
    step_hooks.leave_call(again)

    assert seen.lanes()[0].steps == 1


def test_call_of_a_daemon_is_no_step(seen: page.Page) -> None:
    """The main thread has trained, and stands in the user's code; another thread calls a tf.function."""
    step_hooks.leave_call(call_of())
    thread = threading.Thread(target=lambda: step_hooks.leave_call(call_of()))
    thread.start()
    thread.join()

    assert seen.lanes()[0].steps == 1


def test_call_that_raised_is_no_step(seen: page.Page) -> None:
    """The end of an epoch is an exception in Keras' train function."""

    def step() -> None:
        token = call_of()
        try:
            raise StopIteration
        finally:
            step_hooks.leave_call(token)

    with pytest.raises(StopIteration):
        step()

    assert (seen.lanes()[0].phase, seen.lanes()[0].steps) == (page.OTHER, 0)


def test_training_in_an_except_clause_counts(seen: page.Page) -> None:
    """A script that falls back to something trains there for weeks; the exception it handles is none of the step's."""

    def step() -> None:
        step_hooks.leave_call(call_of())

    try:
        raise ImportError("no faster kernel")
    except ImportError:
        step()

    assert seen.lanes()[0].steps == 1


def test_call_while_a_graph_is_built_is_nothing(seen: page.Page) -> None:
    """It adds a node to the graph."""
    trace = step_hooks.enter_trace(SimpleNamespace(name="concrete", attributes=None))
    assert call_of() is None
    step_hooks.leave_trace(trace)
    assert (seen.lanes()[0].phase, seen.lanes()[0].steps) == (page.STARTING, 0)


def test_function_that_is_not_compiled_counts_and_has_no_phase(seen: page.Page) -> None:
    """Its body is the user's Python, which the stack shows."""
    token = call_of(compiled=False)
    inside = seen.lanes()[0].phase
    step_hooks.leave_call(token)

    assert (inside, seen.lanes()[0].steps) == (page.STARTING, 1)


def test_trace_inside_a_step_is_told_and_over_when_it_is_done(seen: page.Page) -> None:
    """Building a graph is not running it."""

    class Options:
        name = "train_step"
        attributes = None

    step = call_of()
    trace = step_hooks.enter_trace(Options())
    inside = (seen.lanes()[0].phase, seen.tracing())
    step_hooks.leave_trace(trace)
    after = (seen.lanes()[0].phase, seen.tracing())
    step_hooks.leave_call(step)

    assert (inside, after) == ((page.TRACING, "train_step"), (page.STEP, ""))


def test_batch_of_several_parts_counts_once(seen: page.Page) -> None:
    """A distributed iterator asks one for each replica."""
    enter = data_hooks.enter_of(lambda: True)
    outer = enter()
    for _ in range(2):
        part = enter()
        data_hooks.got(part, None)
        data_hooks.leave_next(part)
    inside = seen.lanes()[0].phase
    data_hooks.got(outer, None)
    data_hooks.leave_next(outer)

    assert (inside, seen.lanes()[0].phase, seen.lanes()[0].batches) == (page.DATA, page.STARTING, 1)


def test_next_inside_a_graph_is_no_wait(seen: page.Page) -> None:
    """It adds a node, and counts nothing."""
    token = data_hooks.enter_of(lambda: False)()
    data_hooks.got(token, None)
    data_hooks.leave_next(token)

    assert (seen.lanes()[0].phase, seen.lanes()[0].batches) == (page.STARTING, 0)


class Variable:
    """As much of one as is read."""

    def __init__(self, device: str = "/job:localhost/replica:0/task:0/device:CPU:0") -> None:
        self.device = device
        self.count = 0

    def numpy(self) -> int:
        return self.count


class Optimizer:
    """As much of one as is read."""

    def __init__(self, variable: Variable) -> None:
        self._iterations = variable


@pytest.fixture
def optimizers() -> Iterator[None]:
    yield
    optimizer_hooks._known.clear()
    optimizer_hooks._seen.clear()


def test_iterations_that_grew_are_a_step(optimizers: None) -> None:
    """The first look only says where it stands."""
    optimizer = Optimizer(Variable())
    optimizer_hooks.made(optimizer)
    first = optimizer_hooks.read()
    still = optimizer_hooks.read()
    optimizer._iterations.count = 40

    assert (first, still, optimizer_hooks.read(), optimizer_hooks.read()) == (False, False, True, False)


def test_variable_on_a_gpu_is_never_read(optimizers: None) -> None:
    """Its value comes when the device has time, and a hung device never has."""

    class Never(Variable):
        def numpy(self) -> int:
            raise AssertionError("read")

    optimizer = Optimizer(Never("/job:localhost/replica:0/task:0/device:GPU:0"))
    optimizer_hooks.made(optimizer)

    assert optimizer_hooks.read() is False


def test_optimizer_that_is_gone_is_no_error(optimizers: None) -> None:
    """Nobody keeps it alive for us."""
    optimizer_hooks.made(Optimizer(Variable()))

    assert optimizer_hooks.read() is False


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("CollectiveAllReduceStrategy", "MultiWorkerMirroredStrategy"),
        ("ParameterServerStrategyV2", "ParameterServerStrategy"),
        ("MirroredStrategy", "MirroredStrategy"),
        ("_DefaultDistributionStrategy", ""),
    ],
)
def test_strategy_has_the_name_that_users_know(name: str, public: str) -> None:
    """The classes are called otherwise inside."""
    assert strategy_hooks.public_name(type(name, (), {})()) == public


def test_letter_for_somebody_else_is_left_alone() -> None:
    """And one that comes before TensorFlow was ever used is no error."""
    mail.receive("hello")
    mail.receive("abort ddetect: rank 1 is stuck")


def test_process_that_another_framework_trains_in_is_not_decided_by_data(
    seen: page.Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many load with tf.data and train with something else."""
    monkeypatch.setattr(state, "_frameworks", ["torch", "tensorflow"])
    monkeypatch.setattr(state, "undecided", True)
    monkeypatch.setattr(alone, "_told", False)
    state.slots[page.S_ROLE] = page.ROLE_OTHER

    alone.decide_by_data()
    assert (seen.header()[page.S_ROLE], state.undecided) == (page.ROLE_OTHER, True)
    alone.decide()

    assert (seen.header()[page.S_ROLE], seen.frameworks()[0]) == (page.ROLE_RANK, "tensorflow")
    assert seen.strategy() == {"kind": "", "replicas": 1, "workers": 1, "task": "", "index": 0}


GRAPH = "Graph execution error:\n\nDetected at node Reduce_1 defined at (most recent call last):\n"
PLACES = '  File "/job/train.py", line 7, in <module>\n\n  File "/job/model.py", line 9, in fit\n\n' * 20
REASON = "Collective ops is aborted by: ddetect: worker 1 stands\nbefore the step\n\t [[{{node Reduce_1}}]]"


@pytest.mark.parametrize(
    ("message", "shorter"),
    [
        (GRAPH + PLACES + REASON, REASON),
        (GRAPH + "<stack traces unavailable>\n" + GRAPH.partition("\n\n")[2] + PLACES + REASON, REASON),
        (
            "{{function_node __wrapped__Next_device_/job:a/task:0/device:CPU:0}} corrupt record",
            "corrupt record",
        ),
        ("Connection closed by peer", "Connection closed by peer"),
        ("Graph execution error:\n\n", "Graph execution error:\n\n"),
        ("", ""),
    ],
)
def test_message_begins_with_its_reason(message: str, shorter: str) -> None:
    """Where a node was made can be pages of text; the page of a rank has room for 400 bytes."""
    assert messages.reason(message) == shorter
