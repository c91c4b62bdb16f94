"""Where the nodes of a job meet, read from the command line. Words and environment in, a Rendezvous out; pure.

Understands torchrun (also as `python -m torch.distributed.run`, also behind `env`, `numactl` and the like) with its
PET_* environment, and `accelerate launch`. Only the launcher's own options are read: what stands behind the
script's name belongs to the script.
Never here: resolving names, opening sockets, deciding who serves.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

STATIC_PORT = 29500
C10D_PORT = 29400

_TORCHRUN_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_TORCHRUN_FLAGS = {
    "standalone",
    "module",
    "m",
    "no_python",
    "run_path",
    "virtual_local_rank",
    "use_env",
    "h",
    "help",
}
_ACCELERATE_FLAGS = {
    "cpu", "multi_gpu", "tpu", "ipex", "use_xpu", "use_mps_device", "use_deepspeed", "use_fsdp", "use_megatron_lm",
    "use_parallelism_config", "quiet", "q", "module", "m", "no_python", "debug", "tpu_cluster", "no_tpu_cluster",
    "tpu_use_sudo", "tpu_use_cluster", "enable_cpu_affinity", "dynamo_use_fullgraph", "dynamo_use_dynamic",
    "dynamo_use_regional_compilation", "fp16", "h", "help",
}  # fmt: skip


@dataclass(frozen=True)
class Rendezvous:
    """How many nodes there are and where they meet; host None when the command line does not tell."""

    nodes: int = 1
    host: str | None = None
    port: int | None = None
    node_rank: int | None = None
    host_is_node: bool = True  # False: an etcd server, which need not be one of the job's nodes
    launcher: bool = field(default=False, compare=False)  # the command line is torchrun's or accelerate's


def parse_rendezvous(argv: Sequence[str], environ: Mapping[str, str]) -> Rendezvous:
    """The meeting point named by a torchrun or accelerate line; one node when it is neither."""
    found = _parse(argv, environ)
    return Rendezvous() if found is None else replace(found, launcher=True)


def _parse(argv: Sequence[str], environ: Mapping[str, str]) -> Rendezvous | None:
    for index, word in enumerate(argv):
        name = posixpath.basename(word)
        behind = argv[index + 1] if index + 1 < len(argv) else ""
        if name == "torchrun":
            return _torchrun(_options(argv[index + 1 :], _TORCHRUN_FLAGS), environ)
        if word == "-m" and behind in _TORCHRUN_MODULES:
            return _torchrun(_options(argv[index + 2 :], _TORCHRUN_FLAGS), environ)
        if name == "accelerate" and behind == "launch":
            return _accelerate(_options(argv[index + 2 :], _ACCELERATE_FLAGS))
        if name == "accelerate-launch":
            return _accelerate(_options(argv[index + 1 :], _ACCELERATE_FLAGS))
        if word == "-m" and behind == "accelerate.commands.launch":
            return _accelerate(_options(argv[index + 2 :], _ACCELERATE_FLAGS))
        if name.endswith(".py"):
            break  # a script: what follows is its own
    return None


def parse_address(text: str, default_port: int | None = None) -> tuple[str, int] | None:
    """Split HOST:PORT, [V6]:PORT or a bare HOST (then with the default port); None when it is neither."""
    text = text.strip()
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            return None
        port = rest[1:]
    elif text.count(":") > 1:
        host, port = text, ""  # a bare IPv6 address
    else:
        host, _, port = text.partition(":")
    number = _number(port) if port else default_port
    if not host or number is None or not 0 < number < 65536:
        return None
    return host, number


def _options(words: Sequence[str], flags: set[str]) -> dict[str, str]:
    """The options before the script, with `_` for `-` in their names."""
    found: dict[str, str] = {}
    index = 0
    while index < len(words):
        word = words[index]
        if word == "--" or not word.startswith("-"):
            break
        key, equals, value = word.lstrip("-").partition("=")
        key = key.replace("-", "_")
        if key in flags:
            found[key] = value if equals else "1"
        elif equals:
            found[key] = value
        elif index + 1 < len(words):
            index += 1
            found[key] = words[index]
        index += 1
    return found


def _torchrun(options: dict[str, str], environ: Mapping[str, str]) -> Rendezvous:
    def option(name: str) -> str:
        return options.get(name) or environ.get(f"PET_{name.upper()}", "")

    nodes = _number(option("nnodes").rpartition(":")[2]) or 1  # "MIN:MAX" for elastic jobs
    if nodes <= 1 or option("standalone") not in ("", "0"):
        return Rendezvous()
    backend = option("rdzv_backend") or "static"
    endpoint = option("rdzv_endpoint")
    if not endpoint and backend == "static":
        host = option("master_addr")
        endpoint = f"{_bracketed(host)}:{option('master_port') or STATIC_PORT}" if host else ""
    address = parse_address(endpoint, STATIC_PORT if backend == "static" else C10D_PORT)
    met, port = address if address else (None, None)
    return Rendezvous(nodes, met, port, _number(option("node_rank")), not backend.startswith("etcd"))


def _accelerate(options: dict[str, str]) -> Rendezvous:
    nodes = _number(options.get("num_machines", "")) or 1
    if nodes <= 1:
        return Rendezvous()
    port = _number(options.get("main_process_port", "")) or STATIC_PORT
    return Rendezvous(nodes, options.get("main_process_ip"), port, _number(options.get("machine_rank", "")))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None
