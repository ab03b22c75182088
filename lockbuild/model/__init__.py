"""Values that the stages exchange. No I/O; imports nothing of lockbuild but errors and events."""
