"""The oracle: whether a candidate still fails in the same way, with as many compilations as a flaky failure needs."""
