"""The command line of torchrun, as torch itself reads it."""

from __future__ import annotations

from torch.distributed.run import get_args_parser

from minimizer.cli.launchers import Launch, launch_of

OTHERS = ("--help", "--nnodes", "--nproc-per-node", "--no-python", "--run-path", "--print-completion")
"""Options whose values count, and ones by which no script is run."""


def test_torchs_own_parser_reads_the_line_alike() -> None:
    """Or an option with a value that we do not know would take the script for its value."""
    for action in get_args_parser()._actions:
        options = [name for name in action.option_strings if name.startswith("--")]
        if not options or options[0] in OTHERS:
            continue
        words = [options[0]] if action.nargs == 0 else [options[0], "1"]
        assert launch_of("torchrun", [*words, "train.py"]) in (
            Launch("train.py", None, (), is_rank=True),
            Launch(None, "train.py", (), is_rank=True),
        ), options[0]
