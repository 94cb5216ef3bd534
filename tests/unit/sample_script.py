"""A script that compiles a small model."""

from textwrap import dedent

SCRIPT = dedent(
    '''
    """A script."""
    import torch

    class Net(torch.nn.Module):
        def act(self, x):
            return torch.relu(x)

        def forward(self, x):
            return self.act(x)

    model = torch.compile(Net())
    model(torch.ones(3))
    '''
).lstrip()
