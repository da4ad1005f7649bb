"""What cases know of their workload, which takes torch to import."""

BATCH = 32
PACE = "P2PD_TEST_PACE_S"
"""In a node's environment: what each training step takes, in seconds."""
