"""A Llama with random weights writes with a cache of fixed size, so that each step has the same shapes."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

torch.manual_seed(3)
config = LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=64, pad_token_id=0,
)  # fmt: skip
model = LlamaForCausalLM(config).eval()
prompt = torch.randint(1, 64, (2, 5))

cache = StaticCache(config=config, max_cache_len=16)
decode = torch.compile(model, fullgraph=True)
with torch.inference_mode():
    positions = torch.arange(prompt.shape[1])
    out = model(prompt, position_ids=positions[None], past_key_values=cache, use_cache=True)
    word = out.logits[:, -1:].argmax(-1)
    written = [word]
    for place in range(prompt.shape[1], prompt.shape[1] + 5):
        out = decode(word, position_ids=torch.tensor([[place]]), past_key_values=cache, use_cache=True)
        word = out.logits[:, -1:].argmax(-1)
        written.append(word)
print(torch.cat(written, 1).tolist())

model.forward = torch.compile(model.forward)
with torch.no_grad():
    out = model.generate(prompt, cache_implementation="static", max_new_tokens=4, do_sample=False)
print(out.tolist())
