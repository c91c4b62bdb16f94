"""One rank raises an exception that nobody catches; the others lose their connection to it."""

import training


def parse_record() -> None:
    raise ValueError("record 17 has 3 fields, expected 4")  # <- stuck here


training.run(parse_record)
