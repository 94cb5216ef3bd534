"""The engine: from a script that fails under ``torch.compile`` to a verified repro and its diagnosis, without torch.

`pipeline` tells the whole story; each package is one of its steps, or is shared by several steps. `suspects.order`
orders the suspects, `routes` lists the ways from a suspect to a repro, `budget.patience` limits the time of each step,
and `child.trouble` decides what killed a process: the candidate, the machine or a limit. Steps return values
(`findings`); only `fold` writes the report.
"""
