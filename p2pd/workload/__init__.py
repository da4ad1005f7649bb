"""The user's side: what a workload is made of, and the process that runs it under torch.

Only the modules here and the reference workloads import torch; messages and source do not.
"""
