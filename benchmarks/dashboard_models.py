"""Fifty models of the families that PyTorch's own dashboards of `torch.compile` run, shrunk and with random weights.

The families are those of TorchBench, HuggingFace and timm. Each becomes a program as people write it (`script`): three steps of training,
or three batches of inference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

IMAGES = "images = torch.randn(4, 3, 64, 64)"
TOKENS = "tokens = torch.randint(0, 128, (2, 16))"
CLASSES = "labels = torch.randint(0, 10, (4,))"
OF_IMAGES = "nn.functional.cross_entropy(compiled(images), labels)"
OF_TOKENS = "compiled(tokens, labels=tokens).loss"


@dataclass(frozen=True)
class Model:
    """One program. ``library``: the package it needs beside torch, if any; ``imports``: of that.

    ``model``: an expression that makes the module. ``batch``: statements that draw a batch. ``result``: the loss of a step of training, or
    what is printed of an inference.
    """

    suite: str
    library: str
    imports: str
    model: str
    batch: tuple[str, ...]
    result: str
    trains: bool = True


def script(model: Model) -> str:
    """The program as text."""
    lines = ["import torch", model.imports, "", "torch.manual_seed(0)"]
    batch = [f"    {line}" for line in model.batch]
    if model.trains:
        lines += [
            f"model = {model.model}.train()",
            "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)",
            "compiled = torch.compile(model)",
            "for step in range(3):",
            *batch,
            "    optimizer.zero_grad()",
            f"    loss = {model.result}",
            "    loss.backward()",
            "    optimizer.step()",
            '    print(f"step {step}: {loss.item():.4f}")',
        ]
    else:
        lines += [
            f"model = {model.model}.eval()",
            "compiled = torch.compile(model)",
            "for request in range(3):",
            *batch,
            "    with torch.inference_mode():",
            f"        answer = {model.result}",
            '    print(f"request {request}: {answer.float().mean().item():.4f}")',
        ]
    return "\n".join([*lines, ""])


def _language(name: str, config: str = "", *, result: str = OF_TOKENS, trains: bool = True, **sizes: object) -> Model:
    """A model of transformers over tokens; ``name``: of its class, ``config``: of its configuration's."""
    config = config or name.partition("For")[0].removesuffix("LMHeadModel") + "Config"
    options = ", ".join(f"{key}={value!r}" for key, value in {"vocab_size": 128, **sizes}.items())
    return Model(
        "HuggingFace", "transformers", f"from transformers import {config}, {name}",
        f"{name}({config}({options}))", (TOKENS,), result, trains,
    )  # fmt: skip


def _image(name: str, *, trains: bool = True, size: int = 64, **options: object) -> Model:
    """A model of timm over images."""
    given = "".join(f", {key}={value!r}" for key, value in {"num_classes": 10, **options}.items())
    images = f"images = torch.randn(4, 3, {size}, {size})"
    result = OF_IMAGES if trains else "compiled(images)"
    return Model(
        "timm", "timm", "import timm\nfrom torch import nn", f'timm.create_model("{name}"{given})',
        (images, CLASSES) if trains else (images,), result, trains,
    )  # fmt: skip


def _vision(name: str, *, trains: bool = True, **options: object) -> Model:
    """A model of torchvision over images, as TorchBench has them."""
    given = ", ".join(f"{key}={value!r}" for key, value in {"num_classes": 10, **options}.items())
    result = OF_IMAGES if trains else "compiled(images)"
    return Model(
        "TorchBench", "torchvision", f"from torch import nn\nfrom torchvision.models import {name}", f"{name}({given})",
        (IMAGES, CLASSES) if trains else (IMAGES,), result, trains,
    )  # fmt: skip


def _plain(definition: str, model: str, batch: tuple[str, ...], result: str, *, trains: bool = True) -> Model:
    """A model that is written out, as TorchBench has them."""
    return Model("TorchBench", "", f"from torch import nn\n\n{definition}", model, batch, result, trains)


SMALL: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
DECODER: dict[str, Any] = {**SMALL, "num_key_value_heads": 1}
ENCODER: dict[str, Any] = {**SMALL, "max_position_embeddings": 32}
SEQUENCE: dict[str, Any] = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 32,
}  # fmt: skip
T5: dict[str, Any] = {
    "d_model": 32,
    "d_kv": 16,
    "d_ff": 64,
    "num_layers": 1,
    "num_heads": 2,
    "decoder_start_token_id": 0,
}
LOGITS = "compiled(tokens).logits"

MODELS = {
    "bert": _language("BertForMaskedLM", **ENCODER),
    "bert_answers": _language("BertForQuestionAnswering", result="compiled(tokens).start_logits", trains=False, **ENCODER),
    "albert": _language("AlbertForMaskedLM", embedding_size=16, **ENCODER),
    "roberta": _language("RobertaForCausalLM", is_decoder=True, **{**ENCODER, "max_position_embeddings": 40}),
    "distilbert": _language("DistilBertForMaskedLM", dim=32, n_layers=2, n_heads=2, hidden_dim=64, max_position_embeddings=32),
    "electra": _language("ElectraForCausalLM", is_decoder=True, embedding_size=16, **ENCODER),
    "deberta": _language("DebertaV2ForMaskedLM", relative_attention=True, pos_att_type=["p2c", "c2p"], **ENCODER),
    "mobilebert": _language("MobileBertForMaskedLM", embedding_size=16, intra_bottleneck_size=32, true_hidden_size=32, **ENCODER),
    "layoutlm": _language("LayoutLMForMaskedLM", **ENCODER),
    "gpt2": _language("GPT2LMHeadModel", n_embd=32, n_layer=2, n_head=2, n_positions=32),
    "gpt_neo": _language("GPTNeoForCausalLM", hidden_size=32, num_layers=2, num_heads=2, attention_types=[[["global", "local"], 1]], max_position_embeddings=32, window_size=8),
    "opt": _language("OPTForCausalLM", hidden_size=32, num_hidden_layers=2, num_attention_heads=2, ffn_dim=64, max_position_embeddings=32, word_embed_proj_dim=32),
    "bloom": _language("BloomForCausalLM", hidden_size=32, n_layer=2, n_head=2),
    "llama": _language("LlamaForCausalLM", **DECODER),
    "mistral": _language("MistralForCausalLM", sliding_window=8, **DECODER),
    "mixtral": _language("MixtralForCausalLM", num_local_experts=4, num_experts_per_tok=2, **DECODER),
    "qwen3": _language("Qwen3ForCausalLM", head_dim=16, result=LOGITS, trains=False, **DECODER),
    "gemma": _language("GemmaForCausalLM", head_dim=16, **DECODER),
    "phi": _language("PhiForCausalLM", result=LOGITS, trains=False, **SMALL),
    "falcon": _language("FalconForCausalLM", hidden_size=32, num_hidden_layers=2, num_attention_heads=2),
    "mamba": _language("MambaForCausalLM", hidden_size=32, num_hidden_layers=2, state_size=8),
    "t5": _language("T5ForConditionalGeneration", **T5),
    "mt5": _language("MT5ForConditionalGeneration", trains=False, result="compiled(tokens, decoder_input_ids=tokens).logits", **T5),
    "bart": _language("BartForConditionalGeneration", **SEQUENCE),
    "pegasus": _language("PegasusForCausalLM", **SEQUENCE),
    "vit": Model(
        "HuggingFace", "transformers", "from transformers import ViTConfig, ViTForImageClassification",
        "ViTForImageClassification(ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=64, num_labels=10))",
        (IMAGES, CLASSES), "compiled(images, labels=labels).loss",
    ),
    "resnet10t": _image("resnet10t"),
    "mobilenetv3": _image("mobilenetv3_small_050"),
    "efficientnet": _image("efficientnet_lite0", trains=False),
    "convnext": _image("convnext_atto", depths=[1, 1, 2, 1]),
    "regnet": _image("regnetx_002"),
    "ghostnet": _image("ghostnet_050", trains=False),
    "res2net": _image("res2net50_14w_8s", trains=False, layers=[1, 1, 1, 1]),
    "deit": _image("deit_tiny_patch16_224", img_size=64, depth=2),
    "beit": _image("beit_base_patch16_224", img_size=64, depth=2, embed_dim=48, num_heads=2),
    "swin": _image("swin_tiny_patch4_window7_224", img_size=64, window_size=4, depths=[1, 1, 2, 1], embed_dim=24),
    "mixer": _image("mixer_s32_224", img_size=64, trains=False),
    "cait": _image("cait_xxs24_224", img_size=64, depth=2, trains=False),
    "poolformer": _image("poolformer_s12", trains=False),
    "xcit": _image("xcit_nano_12_p16_224", img_size=64, depth=2),
    "alexnet": _vision("alexnet"),
    "mobilenet_v2": _vision("mobilenet_v2", width_mult=0.35),
    "squeezenet": _vision("squeezenet1_1"),
    "shufflenet": _vision("shufflenet_v2_x0_5", trains=False),
    "resnet18": _vision("resnet18", trains=False),
    "dcgan": _plain(
        "def net():\n    return nn.Sequential(\n        nn.ConvTranspose2d(16, 32, 4, 1, 0, bias=False), nn.BatchNorm2d(32), nn.ReLU(True),\n"
        "        nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),\n"
        "        nn.ConvTranspose2d(16, 3, 4, 2, 1, bias=False), nn.Tanh(),\n    )\n",
        "net()", ("noise = torch.randn(4, 16, 1, 1)",), "(compiled(noise) - 0.5).pow(2).mean()",
    ),
    "recommender": _plain(
        "class Recommender(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.tables = nn.ModuleList(nn.EmbeddingBag(50, 8, mode=\"sum\") for _ in range(3))\n"
        "        self.bottom = nn.Sequential(nn.Linear(5, 8), nn.ReLU())\n        self.top = nn.Sequential(nn.Linear(14, 16), nn.ReLU(), nn.Linear(16, 1))\n\n"
        "    def forward(self, dense, sparse):\n        rows = [self.bottom(dense), *(table(ids) for table, ids in zip(self.tables, sparse))]\n"
        "        stacked = torch.stack(rows, 1)\n        products = stacked @ stacked.mT\n        above = torch.triu_indices(4, 4, 1)\n"
        "        return self.top(torch.cat([rows[0], products[:, above[0], above[1]]], 1)).squeeze(1)\n",
        "Recommender()", ("dense, sparse = torch.randn(6, 5), torch.randint(0, 50, (3, 6, 4))", "clicks = torch.randint(0, 2, (6,)).float()"),
        "nn.functional.binary_cross_entropy_with_logits(compiled(dense, sparse), clicks)",
    ),
    "speech_tagger": _plain(
        "class Tagger(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.conv = nn.Conv1d(12, 16, 3, padding=1)\n"
        "        self.cell, self.head = nn.GRUCell(16, 16), nn.Linear(16, 8)\n\n    def forward(self, frames):\n"
        "        state = frames.new_zeros(frames.shape[0], 16)\n        for step in self.conv(frames).unbind(2):\n            state = self.cell(step, state)\n"
        "        return nn.functional.normalize(self.head(state), dim=1)\n",
        "Tagger()", ("frames = torch.randn(4, 12, 6)",), "compiled(frames)", trains=False,
    ),
    "lennard_jones": _plain(
        "class Potential(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))\n\n"
        "    def forward(self, r):\n        return self.net(r)\n",
        "Potential()", ("r = torch.rand(64, 1) * 1.5 + 1.0", "energy = 4 * (r.pow(-12) - r.pow(-6))"),
        "nn.functional.mse_loss(compiled(r), energy)",
    ),
    "unet": _plain(
        "class UNet(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.down, self.deep = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)\n"
        "        self.up, self.out = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 1, 1)\n        self.norm = nn.BatchNorm2d(8)\n\n"
        "    def forward(self, x):\n        skip = torch.relu(self.norm(self.down(x)))\n        deep = torch.relu(self.deep(nn.functional.max_pool2d(skip, 2)))\n"
        "        return self.out(torch.cat([skip, self.up(deep)], 1))\n",
        "UNet()", ("images = torch.randn(2, 3, 32, 32)", "masks = (images.mean(1, keepdim=True) > 0).float()"),
        "nn.functional.binary_cross_entropy_with_logits(compiled(images), masks)",
    ),
}  # fmt: skip
"""The programs, by name."""
