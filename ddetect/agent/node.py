"""One node of the job: everything the agent knows and can say, without a word about how it is carried.

Enters: the run directory, orders. Leaves: messages. `tick` each second; `retell` whenever someone new
listens.
Never here: gRPC, asyncio.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from ddetect_launcher.words import Word
from ddetect_probe import rundir
from typing_extensions import assert_never

from ddetect.agent.beat import BeatMaker, Recorder
from ddetect.agent.census import Census, Departed
from ddetect.agent.deaths import Death
from ddetect.agent.discover import Scan
from ddetect.agent.end import RAISES_WITHIN_S, ask_to_raise, end_ranks
from ddetect.agent.flight import FlightReader
from ddetect.agent.last_words import LastWords
from ddetect.agent.members import JobProcess
from ddetect.agent.pages import Told, framework_of, gone_from, read_told
from ddetect.agent.sample import Sampler
from ddetect.agent.sources import FlightRecorderSource, PageSource, Source
from ddetect.frameworks import FRAMEWORKS, Registry
from ddetect.frameworks.general import GENERAL
from ddetect.messages import (
    EndRanks,
    Evidence,
    FromAgent,
    Hello,
    JobEnds,
    NodeBeat,
    NodeGone,
    NodeRoster,
    TakeEvidence,
    ToAgent,
)
from ddetect.model import Departure, Gone, Role

_MOST_GONE = 1024
_MOST_ENDINGS = 16


class Node:
    """Use it from one thread, except `answer`, which may block and takes a thread of its own."""

    def __init__(
        self,
        run_dir: str,
        *,
        name: str,
        job: str,
        deaths: Mapping[tuple[int, int], Death] | None = None,
        words: Callable[[], Sequence[Word]] = tuple,
        scan: Scan | None = None,
        tell: Callable[[JobProcess, int], Told] = read_told,
        probes: bool = True,
        sources: Sequence[Source] | None = None,
        frameworks: Registry = FRAMEWORKS,
        framework: str = "",
    ) -> None:
        """`words` are the launchers' of this node, each once; they are asked for before every look for deaths.

        `scan` finds ranks that have no page, `tell` says how a rank is; without `probes` no page is missed.

        `sources` read what a process does with others; without them, those of torch. `framework` is what processes
        without a page train with.
        """
        self._frameworks = frameworks
        self._hello = Hello(name, job)
        self.census = Census(run_dir, deaths, scan)
        flight = FlightReader(run_dir)
        self._background = ThreadPoolExecutor(1, "ddetect-poll")
        self._beats = BeatMaker(name, self.census, Recorder(flight, self._background), tell)
        read_by = sources if sources is not None else (FlightRecorderSource(flight), PageSource())
        self._sampler = Sampler(
            self.census, read_by, probes=probes, frameworks=frameworks, framework=framework
        )
        self._words = words
        self._endings: deque[Word] = deque(maxlen=_MOST_ENDINGS)
        self._last_words = LastWords(run_dir)
        self._gone: deque[Departed] = deque(maxlen=_MOST_GONE)
        self._told: tuple[NodeRoster, NodeBeat] | None = None
        self._lock = threading.Lock()  # `answer` reads the census from another thread

    def close(self) -> None:
        """Let go of the threads."""
        self._sampler.close()
        self._background.shutdown(wait=False, cancel_futures=True)

    def tick(self) -> list[FromAgent]:
        """Look once, and say what is new. Never raises: a watcher that stops looking is worse than one that errs."""
        with self._lock:
            said: list[FromAgent] = []
            try:
                # First: a launcher says that it ends the job before it does, so who is found dead now was asked to.
                said += self._tell_endings(time.monotonic_ns())
                said += self._look(time.monotonic_ns())
            except Exception:
                traceback.print_exc(file=sys.stderr)
            return said

    def _tell_endings(self, now_ns: int) -> list[JobEnds]:
        endings = [word for word in self._words() if word.signal or word.exit_code is not None]
        self._endings.extend(endings)
        return [_job_ends(word, now_ns) for word in endings]

    def _look(self, now_ns: int) -> list[FromAgent]:
        news = [departed for departed in self.census.look(now_ns) if _worth_telling(departed, now_ns)]
        self._gone.extend(news)
        self._last_words.note(self.census.ranks())
        roster, changed, beat = self._beats.make(now_ns)
        self._told = roster, beat
        said: list[FromAgent] = [roster] if changed else []
        if news:
            said.append(NodeGone(tuple(self._tell_gone(departed, now_ns) for departed in news)))
        said.append(beat)
        return said

    def retell(self) -> list[FromAgent]:
        """All there is to know, for someone who has heard nothing yet."""
        now_ns = time.monotonic_ns()
        said: list[FromAgent] = [self._hello]
        with self._lock:
            if self._told is not None:
                said.append(self._told[0])
            said += [_job_ends(word, now_ns) for word in self._endings]
            gone = [departed for departed in self._gone if self._is_of_this_attempt(departed)]
            if gone:
                said.append(NodeGone(tuple(self._tell_gone(departed, now_ns) for departed in gone)))
        return said

    def _tell_gone(self, departed: Departed, now_ns: int) -> Gone:
        return self._last_words.add(gone_from(departed, now_ns), departed.member)

    def _is_of_this_attempt(self, departed: Departed) -> bool:
        """Who died before a restart is no longer missed: another process has taken its rank."""
        ranks = self.census.ranks()
        if departed.member.role is Role.RANK:
            return departed.member in ranks
        return departed.member.parent in {rank.pid for rank in ranks}

    def answer(self, order: ToAgent) -> Evidence | None:
        """Do as told. Blocks for as long as that takes."""
        match order:
            case TakeEvidence():
                with self._lock:
                    ranks, helpers = self._sampler.targets()
                return self._sampler.take(order, ranks, helpers)
            case EndRanks():
                with self._lock:
                    ranks = self.census.ranks()
                hearing = [m for m in ranks if m.rank in order.waiting and self._raises_letters(m)]
                if order.sentence and hearing:
                    pages = os.path.join(self.census.run_dir, rundir.PAGES)
                    ask_to_raise(hearing, pages, order.sentence, RAISES_WITHIN_S)
                end_ranks(ranks, order.grace_s)
                return None
            case _:
                assert_never(order)

    def _raises_letters(self, member: JobProcess) -> bool:
        return self._frameworks.get(framework_of(member), GENERAL).raises_letters


def _job_ends(word: Word, now_ns: int) -> JobEnds:
    return JobEnds(word.signal, word.exit_code, max(0, now_ns - word.at_ns) / 1e9)


def _worth_telling(departed: Departed, now_ns: int) -> bool:
    """Loader workers come and go with every epoch; only one that did not end well is news."""
    gone = gone_from(departed, now_ns)
    return gone.role is Role.RANK or (gone.role is not Role.OTHER and gone.how is not Departure.EXITED)
