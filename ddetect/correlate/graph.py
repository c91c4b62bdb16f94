"""Strongly connected components. Edges enter, components leave. Never here: what the nodes mean (waits.py)."""

from __future__ import annotations


def components(edges: dict[int, set[int]]) -> list[tuple[int, ...]]:
    """Tarjan's strongly connected components, without recursion."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    found: list[tuple[int, ...]] = []
    for start in sorted(edges):
        if start in number:
            continue
        work = [(start, iter(sorted(edges[start])))]
        number[start] = low[start] = len(number)
        path.append(start)
        on_path.add(start)
        while work:
            node, rest = work[-1]
            step = next((target for target in rest if target not in number or target in on_path), None)
            if step is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    component = []
                    while True:
                        member = path.pop()
                        on_path.discard(member)
                        component.append(member)
                        if member == node:
                            break
                    found.append(tuple(sorted(component)))
            elif step in number:
                low[node] = min(low[node], number[step])
            else:
                number[step] = low[step] = len(number)
                path.append(step)
                on_path.add(step)
                work.append((step, iter(sorted(edges[step]))))
    return found
