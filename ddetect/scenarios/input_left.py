"""Someone left an input() that one rank reaches; nobody sits at that keyboard."""

import training


def confirm_overwrite() -> str:
    return input("overwrite? ")  # <- stuck here


training.run(confirm_overwrite)
