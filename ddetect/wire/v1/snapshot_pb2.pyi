from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Frame(_message.Message):
    __slots__ = ("function", "file", "line")
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    function: str
    file: str
    line: int
    def __init__(self, function: _Optional[str] = ..., file: _Optional[str] = ..., line: _Optional[int] = ...) -> None: ...

class Thread(_message.Message):
    __slots__ = ("name", "is_main", "active", "owns_gil", "stack", "state", "wchan", "syscall", "target", "native", "lane_plus_one")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_MAIN_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    OWNS_GIL_FIELD_NUMBER: _ClassVar[int]
    STACK_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    WCHAN_FIELD_NUMBER: _ClassVar[int]
    SYSCALL_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    NATIVE_FIELD_NUMBER: _ClassVar[int]
    LANE_PLUS_ONE_FIELD_NUMBER: _ClassVar[int]
    name: str
    is_main: bool
    active: bool
    owns_gil: bool
    stack: _containers.RepeatedScalarFieldContainer[int]
    state: str
    wchan: str
    syscall: str
    target: str
    native: _containers.RepeatedScalarFieldContainer[str]
    lane_plus_one: int
    def __init__(self, name: _Optional[str] = ..., is_main: bool = ..., active: bool = ..., owns_gil: bool = ..., stack: _Optional[_Iterable[int]] = ..., state: _Optional[str] = ..., wchan: _Optional[str] = ..., syscall: _Optional[str] = ..., target: _Optional[str] = ..., native: _Optional[_Iterable[str]] = ..., lane_plus_one: _Optional[int] = ...) -> None: ...

class Raised(_message.Message):
    __slots__ = ("exception", "where", "fatal")
    EXCEPTION_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    FATAL_FIELD_NUMBER: _ClassVar[int]
    exception: str
    where: Frame
    fatal: bool
    def __init__(self, exception: _Optional[str] = ..., where: _Optional[_Union[Frame, _Mapping]] = ..., fatal: bool = ...) -> None: ...

class Sighting(_message.Message):
    __slots__ = ("state", "threads", "dumper", "unread", "raised")
    STATE_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    DUMPER_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    RAISED_FIELD_NUMBER: _ClassVar[int]
    state: str
    threads: _containers.RepeatedCompositeFieldContainer[Thread]
    dumper: str
    unread: str
    raised: Raised
    def __init__(self, state: _Optional[str] = ..., threads: _Optional[_Iterable[_Union[Thread, _Mapping]]] = ..., dumper: _Optional[str] = ..., unread: _Optional[str] = ..., raised: _Optional[_Union[Raised, _Mapping]] = ...) -> None: ...

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
    sightings: _containers.RepeatedCompositeFieldContainer[Sighting]
    frames: _containers.RepeatedCompositeFieldContainer[Frame]
    gpu_busy: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, rank: _Optional[_Iterable[int]] = ..., role: _Optional[_Iterable[int]] = ..., index: _Optional[_Iterable[int]] = ..., pid: _Optional[_Iterable[int]] = ..., sighting: _Optional[_Iterable[int]] = ..., fetching: _Optional[_Iterable[int]] = ..., fetch_age_s: _Optional[_Iterable[float]] = ..., cpu_s: _Optional[_Iterable[float]] = ..., io_bytes: _Optional[_Iterable[int]] = ..., tick_age_s: _Optional[_Iterable[float]] = ..., sightings: _Optional[_Iterable[_Union[Sighting, _Mapping]]] = ..., frames: _Optional[_Iterable[_Union[Frame, _Mapping]]] = ..., gpu_busy: _Optional[_Iterable[float]] = ...) -> None: ...

class Group(_message.Message):
    __slots__ = ("backend", "name", "desc", "members")
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESC_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    backend: str
    name: str
    desc: str
    members: str
    def __init__(self, backend: _Optional[str] = ..., name: _Optional[str] = ..., desc: _Optional[str] = ..., members: _Optional[str] = ...) -> None: ...

class Signature(_message.Message):
    __slots__ = ("op", "in_sizes", "in_dtypes", "out_sizes", "out_dtypes", "root", "reduce_op")
    OP_FIELD_NUMBER: _ClassVar[int]
    IN_SIZES_FIELD_NUMBER: _ClassVar[int]
    IN_DTYPES_FIELD_NUMBER: _ClassVar[int]
    OUT_SIZES_FIELD_NUMBER: _ClassVar[int]
    OUT_DTYPES_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    REDUCE_OP_FIELD_NUMBER: _ClassVar[int]
    op: str
    in_sizes: str
    in_dtypes: str
    out_sizes: str
    out_dtypes: str
    root: int
    reduce_op: str
    def __init__(self, op: _Optional[str] = ..., in_sizes: _Optional[str] = ..., in_dtypes: _Optional[str] = ..., out_sizes: _Optional[str] = ..., out_dtypes: _Optional[str] = ..., root: _Optional[int] = ..., reduce_op: _Optional[str] = ...) -> None: ...

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

class Gone(_message.Message):
    __slots__ = ("rank", "role", "index", "pid", "how", "age_s", "exception", "where", "signal")
    RANK_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    EXCEPTION_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    rank: int
    role: int
    index: int
    pid: int
    how: str
    age_s: float
    exception: str
    where: Frame
    signal: int
    def __init__(self, rank: _Optional[int] = ..., role: _Optional[int] = ..., index: _Optional[int] = ..., pid: _Optional[int] = ..., how: _Optional[str] = ..., age_s: _Optional[float] = ..., exception: _Optional[str] = ..., where: _Optional[_Union[Frame, _Mapping]] = ..., signal: _Optional[int] = ...) -> None: ...

class Unread(_message.Message):
    __slots__ = ("ranks", "reason", "node", "silent_s")
    RANKS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    SILENT_S_FIELD_NUMBER: _ClassVar[int]
    ranks: str
    reason: str
    node: str
    silent_s: float
    def __init__(self, ranks: _Optional[str] = ..., reason: _Optional[str] = ..., node: _Optional[str] = ..., silent_s: _Optional[float] = ...) -> None: ...

class Limit(_message.Message):
    __slots__ = ("phase", "longest_s", "seen")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    LONGEST_S_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    phase: int
    longest_s: float
    seen: int
    def __init__(self, phase: _Optional[int] = ..., longest_s: _Optional[float] = ..., seen: _Optional[int] = ...) -> None: ...

class Settings(_message.Message):
    __slots__ = ("patience_s", "floor_s", "startup_s", "samples", "sample_gap_s")
    PATIENCE_S_FIELD_NUMBER: _ClassVar[int]
    FLOOR_S_FIELD_NUMBER: _ClassVar[int]
    STARTUP_S_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_GAP_S_FIELD_NUMBER: _ClassVar[int]
    patience_s: float
    floor_s: float
    startup_s: float
    samples: int
    sample_gap_s: float
    def __init__(self, patience_s: _Optional[float] = ..., floor_s: _Optional[float] = ..., startup_s: _Optional[float] = ..., samples: _Optional[int] = ..., sample_gap_s: _Optional[float] = ...) -> None: ...

class SnapshotHeader(_message.Message):
    __slots__ = ("job", "attempt", "world_size", "framework", "taken_at_unix_ns", "stalled_for_s", "settings", "limits", "unread", "gone", "stage")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    FRAMEWORK_FIELD_NUMBER: _ClassVar[int]
    TAKEN_AT_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    STALLED_FOR_S_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    job: str
    attempt: int
    world_size: int
    framework: str
    taken_at_unix_ns: int
    stalled_for_s: float
    settings: Settings
    limits: _containers.RepeatedCompositeFieldContainer[Limit]
    unread: _containers.RepeatedCompositeFieldContainer[Unread]
    gone: _containers.RepeatedCompositeFieldContainer[Gone]
    stage: str
    def __init__(self, job: _Optional[str] = ..., attempt: _Optional[int] = ..., world_size: _Optional[int] = ..., framework: _Optional[str] = ..., taken_at_unix_ns: _Optional[int] = ..., stalled_for_s: _Optional[float] = ..., settings: _Optional[_Union[Settings, _Mapping]] = ..., limits: _Optional[_Iterable[_Union[Limit, _Mapping]]] = ..., unread: _Optional[_Iterable[_Union[Unread, _Mapping]]] = ..., gone: _Optional[_Iterable[_Union[Gone, _Mapping]]] = ..., stage: _Optional[str] = ...) -> None: ...

class Collectives(_message.Message):
    __slots__ = ("groups", "signatures", "frames")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURES_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[Group]
    signatures: _containers.RepeatedCompositeFieldContainer[Signature]
    frames: _containers.RepeatedCompositeFieldContainer[Frame]
    def __init__(self, groups: _Optional[_Iterable[_Union[Group, _Mapping]]] = ..., signatures: _Optional[_Iterable[_Union[Signature, _Mapping]]] = ..., frames: _Optional[_Iterable[_Union[Frame, _Mapping]]] = ...) -> None: ...

class SnapshotEnd(_message.Message):
    __slots__ = ("chunks",)
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    chunks: int
    def __init__(self, chunks: _Optional[int] = ...) -> None: ...

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
    header: SnapshotHeader
    roster: Roster
    beats: Beats
    sample: Sample
    collectives: Collectives
    progress: Progress
    ops: Ops
    p2p: OpenP2P
    end: SnapshotEnd
    def __init__(self, header: _Optional[_Union[SnapshotHeader, _Mapping]] = ..., roster: _Optional[_Union[Roster, _Mapping]] = ..., beats: _Optional[_Union[Beats, _Mapping]] = ..., sample: _Optional[_Union[Sample, _Mapping]] = ..., collectives: _Optional[_Union[Collectives, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., ops: _Optional[_Union[Ops, _Mapping]] = ..., p2p: _Optional[_Union[OpenP2P, _Mapping]] = ..., end: _Optional[_Union[SnapshotEnd, _Mapping]] = ...) -> None: ...
