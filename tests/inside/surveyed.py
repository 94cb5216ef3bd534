"""What tests of surveys share: two faulty compilers as scripts set them, and what a survey came back with."""

from __future__ import annotations

from minimizer.engine.child.protocol import Finished, Held
from minimizer.engine.child.survey import Survey
from minimizer.engine.program.model import Program

RELU_BUG = 'import torch._inductor.config\ntorch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "{}"\n'

BACKENDS = """
import torch

def rejects(gm, example):
    if any(node.target in (torch.sin, "sin") for node in gm.graph.nodes):
        raise NotImplementedError("no sin here")
    return gm

def breaks(gm, example):
    def run(*args):
        raise ValueError("only when it runs")
    return run

def wrong(gm, example):
    return lambda *args: [out + 1 for out in gm(*args)]

def zero_gradient(gm, example):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()
        @staticmethod
        def backward(ctx, grad):
            return grad * 2
    return lambda *args: [Wrong.apply(out) for out in gm(*args)]
"""


def held(found: Survey) -> Held:
    assert found.held is not None, found.finished or found.log
    found.close()
    return found.held


def finished(found: Survey) -> Finished:
    assert found.finished is not None, found.held.failure if found.held else found.log
    return found.finished


def targets(program: Program) -> list[str]:
    return [node.target for node in program.nodes]
