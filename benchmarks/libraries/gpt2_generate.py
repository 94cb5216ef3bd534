"""A GPT-2 with random weights writes on greedily and by sampling; its forward is compiled, its cache grows."""

import torch
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel

torch.manual_seed(2)
config = GPT2Config(
    vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=63, pad_token_id=0
)
model = GPT2LMHeadModel(config).eval()
model.forward = torch.compile(model.forward, dynamic=True)

prompts = torch.randint(1, 63, (2, 6))
mask = torch.ones_like(prompts)
with torch.no_grad():
    greedy = model.generate(prompts, attention_mask=mask, max_new_tokens=5, do_sample=False)
    drawn = model.generate(prompts, attention_mask=mask, max_new_tokens=4, do_sample=True, top_k=8, temperature=0.8)
    cache = DynamicCache(config=config)
    words = prompts
    for _ in range(3):
        out = model(words, past_key_values=cache, use_cache=True)
        words = out.logits[:, -1:].argmax(-1)
print(greedy.tolist())
print(drawn.tolist())
print(words.flatten().tolist())
