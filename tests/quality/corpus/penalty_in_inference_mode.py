"""Statistics of a batch in inference mode, double precision and with keyword arguments: a wrong log1p far from the end."""

import torch
import torch._inductor.config as inductor_config

inductor_config.cpp.inject_log1p_bug_TESTING_ONLY = "accuracy"


@torch.compile(fullgraph=True)
def penalty(residuals, *, scale=1.0, power=2):
    robust = torch.log1p((residuals / scale).abs() ** power)
    weight = torch.softmax(-robust, dim=0)
    return (weight * residuals).sum(0).norm(), robust.amax()


torch.manual_seed(0)
with torch.inference_mode():
    value, worst = penalty(torch.randn(12, 3, dtype=torch.float64), scale=0.7)
print(value.item(), worst.item())
