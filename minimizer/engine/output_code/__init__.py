"""Inductor's generated code for a repro, read from a structured trace (``TORCH_TRACE``) of one more run.

`generated_code` makes that run; `choose` finds the kernel that computes the culprit, `marks` its lines.
"""

from minimizer.engine.output_code.run import generated_code as generated_code
