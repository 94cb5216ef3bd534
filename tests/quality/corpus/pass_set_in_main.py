"""A pass that drops additions, installed where the program starts and not where it is defined."""

import torch
import torch._inductor.config as inductor_config


def drops_add(graph):
    for node in list(graph.nodes):
        if node.target is torch.ops.aten.add.Tensor:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def f(x, y):
    return (torch.sin(torch.cos(x) * y) + y).amax(-1)


def main():
    inductor_config.post_grad_custom_post_pass = drops_add
    torch.manual_seed(0)
    print(torch.compile(f)(torch.randn(8, 32), torch.randn(8, 32)).norm())


if __name__ == "__main__":
    main()
