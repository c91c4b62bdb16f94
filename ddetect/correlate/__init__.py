"""Who waits for whom: a Snapshot enters, a Verdict leaves. Never here: clocks, processes, protobuf, logging."""
