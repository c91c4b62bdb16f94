from ddetect.wire.v1 import snapshot_pb2 as _snapshot_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Hello(_message.Message):
    __slots__ = ("node", "job")
    NODE_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    node: str
    job: str
    def __init__(self, node: _Optional[str] = ..., job: _Optional[str] = ...) -> None: ...

class NodeRoster(_message.Message):
    __slots__ = ("version", "world_size", "restart", "roster", "framework")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    RESTART_FIELD_NUMBER: _ClassVar[int]
    ROSTER_FIELD_NUMBER: _ClassVar[int]
    FRAMEWORK_FIELD_NUMBER: _ClassVar[int]
    version: int
    world_size: int
    restart: int
    roster: _snapshot_pb2.Bundle
    framework: str
    def __init__(self, version: _Optional[int] = ..., world_size: _Optional[int] = ..., restart: _Optional[int] = ..., roster: _Optional[_Union[_snapshot_pb2.Bundle, _Mapping]] = ..., framework: _Optional[str] = ...) -> None: ...

class NodeBeat(_message.Message):
    __slots__ = ("roster_version", "beats")
    ROSTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    BEATS_FIELD_NUMBER: _ClassVar[int]
    roster_version: int
    beats: _snapshot_pb2.Table
    def __init__(self, roster_version: _Optional[int] = ..., beats: _Optional[_Union[_snapshot_pb2.Table, _Mapping]] = ...) -> None: ...

class NodeGone(_message.Message):
    __slots__ = ("gone",)
    GONE_FIELD_NUMBER: _ClassVar[int]
    gone: _containers.RepeatedCompositeFieldContainer[_snapshot_pb2.Gone]
    def __init__(self, gone: _Optional[_Iterable[_Union[_snapshot_pb2.Gone, _Mapping]]] = ...) -> None: ...

class JobEnds(_message.Message):
    __slots__ = ("signal", "exit_code", "age_s")
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    signal: int
    exit_code: int
    age_s: float
    def __init__(self, signal: _Optional[int] = ..., exit_code: _Optional[int] = ..., age_s: _Optional[float] = ...) -> None: ...

class Evidence(_message.Message):
    __slots__ = ("request", "look")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOOK_FIELD_NUMBER: _ClassVar[int]
    request: int
    look: _snapshot_pb2.Bundle
    def __init__(self, request: _Optional[int] = ..., look: _Optional[_Union[_snapshot_pb2.Bundle, _Mapping]] = ...) -> None: ...

class RanksEnded(_message.Message):
    __slots__ = ("killed", "alive", "left")
    KILLED_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    killed: _containers.RepeatedScalarFieldContainer[int]
    alive: _containers.RepeatedScalarFieldContainer[str]
    left: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, killed: _Optional[_Iterable[int]] = ..., alive: _Optional[_Iterable[str]] = ..., left: _Optional[_Iterable[str]] = ...) -> None: ...

class AgentMessage(_message.Message):
    __slots__ = ("hello", "roster", "beat", "gone", "evidence", "job_ends", "ranks_ended")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    ROSTER_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    JOB_ENDS_FIELD_NUMBER: _ClassVar[int]
    RANKS_ENDED_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    roster: NodeRoster
    beat: NodeBeat
    gone: NodeGone
    evidence: Evidence
    job_ends: JobEnds
    ranks_ended: RanksEnded
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., roster: _Optional[_Union[NodeRoster, _Mapping]] = ..., beat: _Optional[_Union[NodeBeat, _Mapping]] = ..., gone: _Optional[_Union[NodeGone, _Mapping]] = ..., evidence: _Optional[_Union[Evidence, _Mapping]] = ..., job_ends: _Optional[_Union[JobEnds, _Mapping]] = ..., ranks_ended: _Optional[_Union[RanksEnded, _Mapping]] = ...) -> None: ...

class TakeEvidence(_message.Message):
    __slots__ = ("request", "native_pids", "light")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    NATIVE_PIDS_FIELD_NUMBER: _ClassVar[int]
    LIGHT_FIELD_NUMBER: _ClassVar[int]
    request: int
    native_pids: _containers.RepeatedScalarFieldContainer[int]
    light: bool
    def __init__(self, request: _Optional[int] = ..., native_pids: _Optional[_Iterable[int]] = ..., light: bool = ...) -> None: ...

class EndRanks(_message.Message):
    __slots__ = ("grace_s", "sentence", "waiting")
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    grace_s: float
    sentence: str
    waiting: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, grace_s: _Optional[float] = ..., sentence: _Optional[str] = ..., waiting: _Optional[_Iterable[int]] = ...) -> None: ...

class CoordinatorMessage(_message.Message):
    __slots__ = ("take_evidence", "end_ranks")
    TAKE_EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    END_RANKS_FIELD_NUMBER: _ClassVar[int]
    take_evidence: TakeEvidence
    end_ranks: EndRanks
    def __init__(self, take_evidence: _Optional[_Union[TakeEvidence, _Mapping]] = ..., end_ranks: _Optional[_Union[EndRanks, _Mapping]] = ...) -> None: ...
