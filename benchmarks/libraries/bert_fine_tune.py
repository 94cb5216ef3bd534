"""A BERT with random weights learns to tell two kinds of sentences apart, as the fine-tuning scripts do it."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

torch.manual_seed(0)
config = BertConfig(
    vocab_size=120, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
    max_position_embeddings=32, num_labels=2,
)  # fmt: skip
model = BertForSequenceClassification(config)
compiled = torch.compile(model)

tokens = torch.randint(5, 120, (32, 16))
lengths = torch.randint(6, 17, (32,))
mask = (torch.arange(16)[None] < lengths[:, None]).long()
labels = (tokens[:, 1] > 60).long()
loader = DataLoader(TensorDataset(tokens * mask, mask, labels), batch_size=8, shuffle=True)

optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.01)
scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=2, num_training_steps=8)

model.train()
for epoch in range(2):
    total = 0.0
    for input_ids, attention_mask, target in loader:
        optimizer.zero_grad()
        out = compiled(input_ids=input_ids, attention_mask=attention_mask, labels=target)
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        total += out.loss.item()
    print(f"epoch {epoch}: loss {total / len(loader):.4f}")
