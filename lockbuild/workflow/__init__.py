"""The only place where stages meet: one module a verb."""
