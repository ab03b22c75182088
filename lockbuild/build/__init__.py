"""Building a target: the plan (pure; its digest is the input digest), the run, and what it may leak."""
