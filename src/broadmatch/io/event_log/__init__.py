"""The event log: what was served and what became of it, acknowledged when it is on disk, read with positions."""
