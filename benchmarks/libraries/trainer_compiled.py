"""The Trainer of transformers with ``torch_compile=True``: a DistilBERT with random weights, evaluated after each epoch."""

import tempfile

import torch
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainingArguments


class Sentences(torch.utils.data.Dataset):
    def __init__(self, size, seed):
        generator = torch.Generator().manual_seed(seed)
        self.words = torch.randint(2, 90, (size, 12), generator=generator)

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        words = self.words[index]
        return {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": (words[0] > 45).long()}


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main():
    config = DistilBertConfig(vocab_size=90, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=16)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=8, num_train_epochs=1, learning_rate=1e-3, torch_compile=True, seed=3,
            report_to=[], save_strategy="no", eval_strategy="epoch", logging_steps=2, disable_tqdm=True, use_cpu=True,
        )  # fmt: skip
        trainer = Trainer(
            DistilBertForSequenceClassification(config), arguments, train_dataset=Sentences(32, 0),
            eval_dataset=Sentences(8, 1), compute_metrics=accuracy,
        )  # fmt: skip
        trainer.train()


if __name__ == "__main__":
    main()
