"""`make bench`: what ddetect costs and how fast it is, measured in one run on this machine.

python -m tests.bench [events] [steps] [keras] [agent] [looks] [speed]
"""

from __future__ import annotations

import statistics
import sys

from tests.bench import agent_cpu, looks, probe_events, speed, step_time, tf_step

PARTS = ("events", "steps", "keras", "agent", "looks", "speed")


def main(wanted: list[str]) -> None:
    """Measure the parts named, all by default."""
    if "events" in wanted:
        print("cost of one probe event (hold <= 1000 ns)")
        for name, ns in probe_events.measure().items():
            print(f"  {name:<40} {ns:7.0f} ns")
    if "steps" in wanted:
        print("step time of a 2-rank DDP job, alone and under ddetect launch, alternating runs")
        seen = step_time.measure()
        print(f"  alone {seen['alone_ms']:.2f} ms, watched {seen['watched_ms']:.2f} ms (medians)")
        print(
            f"  ratio {seen['ratio']:.3f}, 95 % interval {seen['low']:.3f} to {seen['high']:.3f}, "
            f"{seen['pairs']:.0f} pairs"
        )
    if "keras" in wanted:
        print("step of a Keras fit job, hooks in and out in alternating blocks of one process (hold <= 1 %)")
        costs = tf_step.measure()
        for name in ("wall", "cpu"):
            mean, half, pairs = costs[name]
            print(f"  {name:<40} {mean:+7.2%} +- {half:.2%}, {pairs} pairs")
        print(f"  a step takes {costs['step_ms'][0]:.2f} ms")
    if "agent" in wanted:
        print("CPU beside 8 training ranks (agent: hold <= 1 % of one core)")
        for name, share in agent_cpu.measure().items():
            print(f"  {name:<40} {share:7.2%} of one core")
    if "looks" in wanted:
        print("a look at 8 ranks with 4 loader workers each (light: hold no turn of the job's threads)")
        for name, cost in looks.measure().items():
            print(
                f"  {name:<40} {cost.wall_ms:6.0f} ms, CPU {cost.agent_ms:5.0f} ms agent"
                f" {cost.dumpers_ms:6.0f} ms dumpers, {cost.woken:.1f} turns of each main thread"
            )
        print(f"  {'metering, for one thread':<40} {looks.thread_us():6.1f} us")
    if "speed" in wanted:
        print("last progress -> culprit on disk (hold: median <= 5 s, worst <= 10 s) -> alarm")
        rows = speed.measure(speed.learned_hangs())
        for name, proof, suspected, confirmed, right in rows:
            print(
                f"  {name:<24} {proof:<10} {suspected:5.1f} s {confirmed:6.1f} s  {'right' if right else 'WRONG'}"
            )
        suspicions = [row[2] for row in rows]
        structural = [row[3] for row in rows if row[1] == "structural"]
        timed = [row[3] for row in rows if row[1] == "time"]
        print(
            f"  culprit on disk: median {statistics.median(suspicions):.1f} s, worst {max(suspicions):.1f} s"
        )
        print(f"  alarm, structural: worst {max(structural):.1f} s (hold <= 10 s)")
        print(
            f"  alarm, time: worst {max(timed):.1f} s with patience {speed.PATIENCE_S:.0f} s (hold <= patience + 5 s)"
        )
        print(f"  right: {sum(row[4] for row in rows)} of {len(rows)}")


if __name__ == "__main__":
    main(sys.argv[1:] or list(PARTS))
