"""What the case of bad workloads knows of its workload, which takes torch to import."""

BATCH = 16
STEP = 7
"""In which it goes wrong, counted over leases."""
SLOW_S = 2.0
"""For which a step takes after one that went wrong."""
WAYS_FILE = "P2PD_TEST_WAYS"
"""In a node's environment: a file that says how the next lease goes wrong; empty for not at all."""
EVALUATE = "P2PD_TEST_EVALUATE"
"""The same of evaluations."""
BROKEN = "P2PD_TEST_BROKEN"
"""In a node's environment: the module cannot be imported."""
