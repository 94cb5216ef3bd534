"""Measurements that judge nothing: the error of each layer, and how healthy the compiled code is."""
