"""``lockbuild bundle``: making, loading and verifying what a lock needs as one file."""
