"""The engine: from a script that fails under ``torch.compile`` to a verified repro and its diagnosis, without torch.

`pipeline` is the whole story; each package is a step of it, or something that several steps share. In which order suspects are attempted is
`order` in `suspects`, which ways lead from one to a repro `routes`, how long each step may take `budget.patience`, and who is at fault where
a process died `trouble`. Steps return values (`findings`); `fold` alone writes the report.
"""
