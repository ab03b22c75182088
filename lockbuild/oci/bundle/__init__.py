"""The bundle format (docs/bundles.md): its contents, and writing and reading it."""
