"""One file per family of hangs: a Scene and its waits enter, Findings leave. Rules never rank each other."""
