from ddetect.wire.v1 import snapshot_pb2 as _snapshot_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Roster(_message.Message):
    __slots__ = ("rank", "lane", "node", "pid", "start_ticks", "nodes", "local_world")
    RANK_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    START_TICKS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    LOCAL_WORLD_FIELD_NUMBER: _ClassVar[int]
    rank: _containers.RepeatedScalarFieldContainer[int]
    lane: _containers.RepeatedScalarFieldContainer[int]
    node: _containers.RepeatedScalarFieldContainer[int]
    pid: _containers.RepeatedScalarFieldContainer[int]
    start_ticks: _containers.RepeatedScalarFieldContainer[int]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    local_world: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, rank: _Optional[_Iterable[int]] = ..., lane: _Optional[_Iterable[int]] = ..., node: _Optional[_Iterable[int]] = ..., pid: _Optional[_Iterable[int]] = ..., start_ticks: _Optional[_Iterable[int]] = ..., nodes: _Optional[_Iterable[str]] = ..., local_world: _Optional[_Iterable[int]] = ...) -> None: ...

class Beats(_message.Message):
    __slots__ = ("step", "step_age_s", "batch", "calls", "collectives", "activity_age_s", "phase", "phase_age_s", "tick_age_s", "state", "cpu_s", "io_bytes", "has_page")
    STEP_FIELD_NUMBER: _ClassVar[int]
    STEP_AGE_S_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    COLLECTIVES_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_AGE_S_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    PHASE_AGE_S_FIELD_NUMBER: _ClassVar[int]
    TICK_AGE_S_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    IO_BYTES_FIELD_NUMBER: _ClassVar[int]
    HAS_PAGE_FIELD_NUMBER: _ClassVar[int]
    step: _containers.RepeatedScalarFieldContainer[int]
    step_age_s: _containers.RepeatedScalarFieldContainer[float]
    batch: _containers.RepeatedScalarFieldContainer[int]
    calls: _containers.RepeatedScalarFieldContainer[int]
    collectives: _containers.RepeatedScalarFieldContainer[int]
    activity_age_s: _containers.RepeatedScalarFieldContainer[float]
    phase: _containers.RepeatedScalarFieldContainer[int]
    phase_age_s: _containers.RepeatedScalarFieldContainer[float]
    tick_age_s: _containers.RepeatedScalarFieldContainer[float]
    state: _containers.RepeatedScalarFieldContainer[int]
    cpu_s: _containers.RepeatedScalarFieldContainer[float]
    io_bytes: _containers.RepeatedScalarFieldContainer[int]
    has_page: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, step: _Optional[_Iterable[int]] = ..., step_age_s: _Optional[_Iterable[float]] = ..., batch: _Optional[_Iterable[int]] = ..., calls: _Optional[_Iterable[int]] = ..., collectives: _Optional[_Iterable[int]] = ..., activity_age_s: _Optional[_Iterable[float]] = ..., phase: _Optional[_Iterable[int]] = ..., phase_age_s: _Optional[_Iterable[float]] = ..., tick_age_s: _Optional[_Iterable[float]] = ..., state: _Optional[_Iterable[int]] = ..., cpu_s: _Optional[_Iterable[float]] = ..., io_bytes: _Optional[_Iterable[int]] = ..., has_page: _Optional[_Iterable[int]] = ...) -> None: ...

class Sample(_message.Message):
    __slots__ = ("rank", "role", "index", "pid", "sighting", "fetching", "fetch_age_s", "cpu_s", "io_bytes", "tick_age_s", "sightings", "frames", "gpu_busy")
    RANK_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    SIGHTING_FIELD_NUMBER: _ClassVar[int]
    FETCHING_FIELD_NUMBER: _ClassVar[int]
    FETCH_AGE_S_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    IO_BYTES_FIELD_NUMBER: _ClassVar[int]
    TICK_AGE_S_FIELD_NUMBER: _ClassVar[int]
    SIGHTINGS_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    GPU_BUSY_FIELD_NUMBER: _ClassVar[int]
    rank: _containers.RepeatedScalarFieldContainer[int]
    role: _containers.RepeatedScalarFieldContainer[int]
    index: _containers.RepeatedScalarFieldContainer[int]
    pid: _containers.RepeatedScalarFieldContainer[int]
    sighting: _containers.RepeatedScalarFieldContainer[int]
    fetching: _containers.RepeatedScalarFieldContainer[int]
    fetch_age_s: _containers.RepeatedScalarFieldContainer[float]
    cpu_s: _containers.RepeatedScalarFieldContainer[float]
    io_bytes: _containers.RepeatedScalarFieldContainer[int]
    tick_age_s: _containers.RepeatedScalarFieldContainer[float]
    sightings: _containers.RepeatedCompositeFieldContainer[_snapshot_pb2.Sighting]
    frames: _containers.RepeatedCompositeFieldContainer[_snapshot_pb2.Frame]
    gpu_busy: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, rank: _Optional[_Iterable[int]] = ..., role: _Optional[_Iterable[int]] = ..., index: _Optional[_Iterable[int]] = ..., pid: _Optional[_Iterable[int]] = ..., sighting: _Optional[_Iterable[int]] = ..., fetching: _Optional[_Iterable[int]] = ..., fetch_age_s: _Optional[_Iterable[float]] = ..., cpu_s: _Optional[_Iterable[float]] = ..., io_bytes: _Optional[_Iterable[int]] = ..., tick_age_s: _Optional[_Iterable[float]] = ..., sightings: _Optional[_Iterable[_Union[_snapshot_pb2.Sighting, _Mapping]]] = ..., frames: _Optional[_Iterable[_Union[_snapshot_pb2.Frame, _Mapping]]] = ..., gpu_busy: _Optional[_Iterable[float]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("rank", "group", "enqueued", "started", "completed", "oldest_open", "first_kept")
    RANK_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    OLDEST_OPEN_FIELD_NUMBER: _ClassVar[int]
    FIRST_KEPT_FIELD_NUMBER: _ClassVar[int]
    rank: _containers.RepeatedScalarFieldContainer[int]
    group: _containers.RepeatedScalarFieldContainer[int]
    enqueued: _containers.RepeatedScalarFieldContainer[int]
    started: _containers.RepeatedScalarFieldContainer[int]
    completed: _containers.RepeatedScalarFieldContainer[int]
    oldest_open: _containers.RepeatedScalarFieldContainer[int]
    first_kept: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, rank: _Optional[_Iterable[int]] = ..., group: _Optional[_Iterable[int]] = ..., enqueued: _Optional[_Iterable[int]] = ..., started: _Optional[_Iterable[int]] = ..., completed: _Optional[_Iterable[int]] = ..., oldest_open: _Optional[_Iterable[int]] = ..., first_kept: _Optional[_Iterable[int]] = ...) -> None: ...

class Ops(_message.Message):
    __slots__ = ("rank", "group", "seq", "signature", "state", "frame")
    RANK_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    rank: _containers.RepeatedScalarFieldContainer[int]
    group: _containers.RepeatedScalarFieldContainer[int]
    seq: _containers.RepeatedScalarFieldContainer[int]
    signature: _containers.RepeatedScalarFieldContainer[int]
    state: _containers.RepeatedScalarFieldContainer[int]
    frame: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, rank: _Optional[_Iterable[int]] = ..., group: _Optional[_Iterable[int]] = ..., seq: _Optional[_Iterable[int]] = ..., signature: _Optional[_Iterable[int]] = ..., state: _Optional[_Iterable[int]] = ..., frame: _Optional[_Iterable[int]] = ...) -> None: ...

class OpenP2P(_message.Message):
    __slots__ = ("rank", "kind", "peer", "tag", "group", "waiting", "age_s")
    RANK_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    rank: _containers.RepeatedScalarFieldContainer[int]
    kind: _containers.RepeatedScalarFieldContainer[int]
    peer: _containers.RepeatedScalarFieldContainer[int]
    tag: _containers.RepeatedScalarFieldContainer[int]
    group: _containers.RepeatedScalarFieldContainer[int]
    waiting: _containers.RepeatedScalarFieldContainer[int]
    age_s: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, rank: _Optional[_Iterable[int]] = ..., kind: _Optional[_Iterable[int]] = ..., peer: _Optional[_Iterable[int]] = ..., tag: _Optional[_Iterable[int]] = ..., group: _Optional[_Iterable[int]] = ..., waiting: _Optional[_Iterable[int]] = ..., age_s: _Optional[_Iterable[float]] = ...) -> None: ...

class Collectives(_message.Message):
    __slots__ = ("groups", "signatures", "frames")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURES_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[_snapshot_pb2.Group]
    signatures: _containers.RepeatedCompositeFieldContainer[_snapshot_pb2.CallSpec]
    frames: _containers.RepeatedCompositeFieldContainer[_snapshot_pb2.Frame]
    def __init__(self, groups: _Optional[_Iterable[_Union[_snapshot_pb2.Group, _Mapping]]] = ..., signatures: _Optional[_Iterable[_Union[_snapshot_pb2.CallSpec, _Mapping]]] = ..., frames: _Optional[_Iterable[_Union[_snapshot_pb2.Frame, _Mapping]]] = ...) -> None: ...

class SnapshotChunk(_message.Message):
    __slots__ = ("header", "roster", "beats", "sample", "collectives", "progress", "ops", "p2p", "end")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    ROSTER_FIELD_NUMBER: _ClassVar[int]
    BEATS_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    COLLECTIVES_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    OPS_FIELD_NUMBER: _ClassVar[int]
    P2P_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    header: _snapshot_pb2.SnapshotHeader
    roster: Roster
    beats: Beats
    sample: Sample
    collectives: Collectives
    progress: Progress
    ops: Ops
    p2p: OpenP2P
    end: _snapshot_pb2.SnapshotEnd
    def __init__(self, header: _Optional[_Union[_snapshot_pb2.SnapshotHeader, _Mapping]] = ..., roster: _Optional[_Union[Roster, _Mapping]] = ..., beats: _Optional[_Union[Beats, _Mapping]] = ..., sample: _Optional[_Union[Sample, _Mapping]] = ..., collectives: _Optional[_Union[Collectives, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., ops: _Optional[_Union[Ops, _Mapping]] = ..., p2p: _Optional[_Union[OpenP2P, _Mapping]] = ..., end: _Optional[_Union[_snapshot_pb2.SnapshotEnd, _Mapping]] = ...) -> None: ...
