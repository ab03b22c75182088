"""An environment in the files that editors and CI read: one module for each format, all of them pure."""
