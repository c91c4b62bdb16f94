"""One rank searches for something that is not there and burns a core; the others wait for it."""

import training


def find_free_slot(slots: bytes) -> int:
    slot = 0
    while slots[slot] != 1:  # <- stuck here
        slot = (slot + 1) % len(slots)  # <- stuck here
    return slot


training.run(lambda: find_free_slot(bytes(64)))
