"""Real tensors under the real protocol in virtual time: simulated fleets whose nodes train and merge in earnest."""
