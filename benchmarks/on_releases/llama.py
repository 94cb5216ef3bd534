"""A small Llama with random weights, of the transformers that are installed: it trains a step and writes some words."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=64,
)  # fmt: skip
model = LlamaForCausalLM(config)
model.forward = torch.compile(model.forward)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
words = torch.randint(0, 64, (2, 12))
loss = model(input_ids=words, labels=words).loss
loss.backward()
optimizer.step()
model.eval()
with torch.no_grad():
    model.generate(words[:, :4], max_new_tokens=4, do_sample=False, pad_token_id=0)
