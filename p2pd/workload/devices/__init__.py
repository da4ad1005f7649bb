"""Several devices for one trainer: a worker process for each, which torch.distributed ties together.

The main worker (rank 0, the first device) is the process that the daemon talks to. It starts its fellows
here, and waits for those on other machines; it alone validates, reports and writes.
"""
