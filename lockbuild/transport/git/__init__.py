"""Git repositories: their references, objects and trees, through mirrors and a cache; git runs as a process."""
