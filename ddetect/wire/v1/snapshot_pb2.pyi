from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Table(_message.Message):
    __slots__ = ("rows", "columns", "numbers")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    columns: _containers.RepeatedScalarFieldContainer[str]
    numbers: bytes
    def __init__(self, rows: _Optional[int] = ..., columns: _Optional[_Iterable[str]] = ..., numbers: _Optional[bytes] = ...) -> None: ...

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
    __slots__ = ("name", "is_main", "active", "owns_gil", "stack", "state", "wchan", "syscall", "target", "native", "lane_plus_one", "phase_plus_one")
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
    PHASE_PLUS_ONE_FIELD_NUMBER: _ClassVar[int]
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
    phase_plus_one: int
    def __init__(self, name: _Optional[str] = ..., is_main: bool = ..., active: bool = ..., owns_gil: bool = ..., stack: _Optional[_Iterable[int]] = ..., state: _Optional[str] = ..., wchan: _Optional[str] = ..., syscall: _Optional[str] = ..., target: _Optional[str] = ..., native: _Optional[_Iterable[str]] = ..., lane_plus_one: _Optional[int] = ..., phase_plus_one: _Optional[int] = ...) -> None: ...

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

class CallSpec(_message.Message):
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

class Gone(_message.Message):
    __slots__ = ("rank", "role", "index", "pid", "how", "age_s", "exception", "where", "signal", "code", "last_call", "stack", "below", "stderr")
    RANK_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    EXCEPTION_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    LAST_CALL_FIELD_NUMBER: _ClassVar[int]
    STACK_FIELD_NUMBER: _ClassVar[int]
    BELOW_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    rank: int
    role: int
    index: int
    pid: int
    how: str
    age_s: float
    exception: str
    where: Frame
    signal: int
    code: int
    last_call: LastCall
    stack: _containers.RepeatedCompositeFieldContainer[Frame]
    below: bool
    stderr: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, rank: _Optional[int] = ..., role: _Optional[int] = ..., index: _Optional[int] = ..., pid: _Optional[int] = ..., how: _Optional[str] = ..., age_s: _Optional[float] = ..., exception: _Optional[str] = ..., where: _Optional[_Union[Frame, _Mapping]] = ..., signal: _Optional[int] = ..., code: _Optional[int] = ..., last_call: _Optional[_Union[LastCall, _Mapping]] = ..., stack: _Optional[_Iterable[_Union[Frame, _Mapping]]] = ..., below: bool = ..., stderr: _Optional[_Iterable[str]] = ...) -> None: ...

class LastCall(_message.Message):
    __slots__ = ("inside", "op", "backend", "group", "label", "seq", "root", "reduce_op", "elements", "size")
    INSIDE_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    REDUCE_OP_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    inside: bool
    op: str
    backend: str
    group: str
    label: str
    seq: int
    root: int
    reduce_op: str
    elements: int
    size: int
    def __init__(self, inside: bool = ..., op: _Optional[str] = ..., backend: _Optional[str] = ..., group: _Optional[str] = ..., label: _Optional[str] = ..., seq: _Optional[int] = ..., root: _Optional[int] = ..., reduce_op: _Optional[str] = ..., elements: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("phase", "longest_s", "seen", "place")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    LONGEST_S_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    phase: int
    longest_s: float
    seen: int
    place: str
    def __init__(self, phase: _Optional[int] = ..., longest_s: _Optional[float] = ..., seen: _Optional[int] = ..., place: _Optional[str] = ...) -> None: ...

class Settings(_message.Message):
    __slots__ = ("patience_s", "floor_s", "startup_s", "samples", "sample_gap_s", "signatures", "startup_patience_s", "note_after_s")
    PATIENCE_S_FIELD_NUMBER: _ClassVar[int]
    FLOOR_S_FIELD_NUMBER: _ClassVar[int]
    STARTUP_S_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_GAP_S_FIELD_NUMBER: _ClassVar[int]
    SIGNATURES_FIELD_NUMBER: _ClassVar[int]
    STARTUP_PATIENCE_S_FIELD_NUMBER: _ClassVar[int]
    NOTE_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    patience_s: float
    floor_s: float
    startup_s: float
    samples: int
    sample_gap_s: float
    signatures: str
    startup_patience_s: float
    note_after_s: float
    def __init__(self, patience_s: _Optional[float] = ..., floor_s: _Optional[float] = ..., startup_s: _Optional[float] = ..., samples: _Optional[int] = ..., sample_gap_s: _Optional[float] = ..., signatures: _Optional[str] = ..., startup_patience_s: _Optional[float] = ..., note_after_s: _Optional[float] = ...) -> None: ...

class Values(_message.Message):
    __slots__ = ("texts", "frames", "groups", "calls", "sightings", "unread")
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    SIGHTINGS_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    texts: _containers.RepeatedScalarFieldContainer[str]
    frames: _containers.RepeatedCompositeFieldContainer[Frame]
    groups: _containers.RepeatedCompositeFieldContainer[Group]
    calls: _containers.RepeatedCompositeFieldContainer[CallSpec]
    sightings: _containers.RepeatedCompositeFieldContainer[Sighting]
    unread: _containers.RepeatedCompositeFieldContainer[Unread]
    def __init__(self, texts: _Optional[_Iterable[str]] = ..., frames: _Optional[_Iterable[_Union[Frame, _Mapping]]] = ..., groups: _Optional[_Iterable[_Union[Group, _Mapping]]] = ..., calls: _Optional[_Iterable[_Union[CallSpec, _Mapping]]] = ..., sightings: _Optional[_Iterable[_Union[Sighting, _Mapping]]] = ..., unread: _Optional[_Iterable[_Union[Unread, _Mapping]]] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("path", "table", "values")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    path: str
    table: Table
    values: Values
    def __init__(self, path: _Optional[str] = ..., table: _Optional[_Union[Table, _Mapping]] = ..., values: _Optional[_Union[Values, _Mapping]] = ...) -> None: ...

class Bundle(_message.Message):
    __slots__ = ("parts",)
    PARTS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[Part]
    def __init__(self, parts: _Optional[_Iterable[_Union[Part, _Mapping]]] = ...) -> None: ...

class SnapshotHeader(_message.Message):
    __slots__ = ("job", "attempt", "world_size", "framework", "taken_at_unix_ns", "stalled_for_s", "settings", "limits", "unread", "gone", "stage", "looks", "phase", "still_s")
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
    LOOKS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    STILL_S_FIELD_NUMBER: _ClassVar[int]
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
    looks: int
    phase: int
    still_s: float
    def __init__(self, job: _Optional[str] = ..., attempt: _Optional[int] = ..., world_size: _Optional[int] = ..., framework: _Optional[str] = ..., taken_at_unix_ns: _Optional[int] = ..., stalled_for_s: _Optional[float] = ..., settings: _Optional[_Union[Settings, _Mapping]] = ..., limits: _Optional[_Iterable[_Union[Limit, _Mapping]]] = ..., unread: _Optional[_Iterable[_Union[Unread, _Mapping]]] = ..., gone: _Optional[_Iterable[_Union[Gone, _Mapping]]] = ..., stage: _Optional[str] = ..., looks: _Optional[int] = ..., phase: _Optional[int] = ..., still_s: _Optional[float] = ...) -> None: ...

class SnapshotEnd(_message.Message):
    __slots__ = ("chunks",)
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    chunks: int
    def __init__(self, chunks: _Optional[int] = ...) -> None: ...

class SnapshotChunk(_message.Message):
    __slots__ = ("header", "data", "end")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    header: SnapshotHeader
    data: Part
    end: SnapshotEnd
    def __init__(self, header: _Optional[_Union[SnapshotHeader, _Mapping]] = ..., data: _Optional[_Union[Part, _Mapping]] = ..., end: _Optional[_Union[SnapshotEnd, _Mapping]] = ...) -> None: ...
