"""A Llama with random weights is trained under bfloat16 autocast with a cosine schedule and checkpointed layers."""

import math

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(4)
config = LlamaConfig(
    vocab_size=96, hidden_size=48, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=64, use_cache=False,
)  # fmt: skip
model = LlamaForCausalLM(config)
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
model.train()
compiled = torch.compile(model)

decayed = [p for p in model.parameters() if p.dim() > 1]
others = [p for p in model.parameters() if p.dim() <= 1]
optimizer = torch.optim.AdamW(
    [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=1e-3, fused=True
)
steps = 4
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * step / steps)))

for step in range(steps):
    words = torch.randint(0, 96, (2, 20))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = compiled(input_ids=words, labels=words).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    print(f"step {step}: {loss.item():.3f}")
