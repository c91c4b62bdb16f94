from ddetect.wire.v1 import snapshot_pb2 as _snapshot_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("job", "attempt", "world_size", "state", "steps_per_s", "stalled_for_s", "roster", "beats", "nodes", "incident", "summary", "verdict_status", "noticed", "outlook")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STEPS_PER_S_FIELD_NUMBER: _ClassVar[int]
    STALLED_FOR_S_FIELD_NUMBER: _ClassVar[int]
    ROSTER_FIELD_NUMBER: _ClassVar[int]
    BEATS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    INCIDENT_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    VERDICT_STATUS_FIELD_NUMBER: _ClassVar[int]
    NOTICED_FIELD_NUMBER: _ClassVar[int]
    OUTLOOK_FIELD_NUMBER: _ClassVar[int]
    job: str
    attempt: int
    world_size: int
    state: str
    steps_per_s: float
    stalled_for_s: float
    roster: _snapshot_pb2.Bundle
    beats: _snapshot_pb2.Table
    nodes: _containers.RepeatedCompositeFieldContainer[NodeStatus]
    incident: str
    summary: str
    verdict_status: str
    noticed: str
    outlook: Outlook
    def __init__(self, job: _Optional[str] = ..., attempt: _Optional[int] = ..., world_size: _Optional[int] = ..., state: _Optional[str] = ..., steps_per_s: _Optional[float] = ..., stalled_for_s: _Optional[float] = ..., roster: _Optional[_Union[_snapshot_pb2.Bundle, _Mapping]] = ..., beats: _Optional[_Union[_snapshot_pb2.Table, _Mapping]] = ..., nodes: _Optional[_Iterable[_Union[NodeStatus, _Mapping]]] = ..., incident: _Optional[str] = ..., summary: _Optional[str] = ..., verdict_status: _Optional[str] = ..., noticed: _Optional[str] = ..., outlook: _Optional[_Union[Outlook, _Mapping]] = ...) -> None: ...

class Outlook(_message.Message):
    __slots__ = ("situation", "after_s", "due_in_s", "because")
    SITUATION_FIELD_NUMBER: _ClassVar[int]
    AFTER_S_FIELD_NUMBER: _ClassVar[int]
    DUE_IN_S_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    situation: str
    after_s: float
    due_in_s: float
    because: str
    def __init__(self, situation: _Optional[str] = ..., after_s: _Optional[float] = ..., due_in_s: _Optional[float] = ..., because: _Optional[str] = ...) -> None: ...

class NodeStatus(_message.Message):
    __slots__ = ("name", "connected", "heard_s_ago")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    HEARD_S_AGO_FIELD_NUMBER: _ClassVar[int]
    name: str
    connected: bool
    heard_s_ago: float
    def __init__(self, name: _Optional[str] = ..., connected: bool = ..., heard_s_ago: _Optional[float] = ...) -> None: ...
