"""Watch a job that was started without ddetect: agent and coordinator in one process, stacks and /proc only."""
