"""How slow nodes are told to be; beside the workload, which takes torch to import."""

PACE = "P2PD_TEST_PACE_S"
"""In a node's environment: what each training step takes, in seconds."""
