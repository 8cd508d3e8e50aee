"""The table of model families: small configurations with random weights, from transformers, timm, diffusers and torch.

A family builds its model on the CPU from the current seed, in f32 and without dropout, and makes one batch. Adding a family
is one entry; every mode of `modes.py` then runs on it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("DIFFUSERS_VERBOSITY", "error")

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, TOKENS, BATCH, CLASSES = 120, 24, 2, 10
Batch = dict[str, Any]


@dataclass(frozen=True)
class Family:
    """One row: how to build the model, what to feed it, which modes apply."""

    name: str
    kind: str
    build: Callable[[], nn.Module]
    inputs: Callable[[torch.Generator], Batch]  # keyword arguments of forward
    labels: Callable[[torch.Generator], Batch]  # what training adds
    loss: Callable[[Any, Batch], torch.Tensor] | None = None  # None: the model gets the labels and returns .loss
    checkpoint: str = ""  # how gradient checkpointing is switched on: a method's name, "" where the model has none
    generate: Batch | None = None  # arguments of generate(), None for what does not generate
    sample: bool = False  # part of `make test`
    compiled: bool = False  # also run through torch.compile
    tolerance: dict[str, float] = field(default_factory=dict)  # mode -> tol of torch._dynamo.utils.same, with a reason


def _without_dropout(config: Any) -> Any:
    for key, value in list(vars(config).items()):
        if hasattr(value, "to_dict"):
            _without_dropout(value)
        elif isinstance(value, float) and ("drop" in key or key.endswith("pdrop") or key.startswith("mask_")):
            setattr(config, key, 0.0)
    return config


def _drop_free(model: nn.Module) -> nn.Module:
    """Dropout, stochastic depth and label dropout off: two devices do not share their random numbers."""
    for m in model.modules():
        if isinstance(m, nn.Dropout):
            m.p = 0.0
        for name in ("drop_prob", "dropout_prob"):
            if isinstance(getattr(m, name, None), float):
                setattr(m, name, 0.0)
    return model


def _awake(model: nn.Module) -> nn.Module:
    """Residual branches that start at zero get a small weight: gradients reach them, and the net stays well conditioned."""
    with torch.no_grad():
        for m in model.modules():
            if isinstance(m, nn.BatchNorm2d) and not m.weight.any():
                m.weight.fill_(0.2)
    return model


def _hf(model: str, config: str, **settings: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import transformers

        made = _without_dropout(getattr(transformers, config)(**settings))
        return _drop_free(getattr(transformers, model)(made))

    return build


def _timm(name: str, **settings: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import timm

        return _awake(
            _drop_free(timm.create_model(name, pretrained=False, num_classes=CLASSES, drop_rate=0.0, **settings))
        )

    return build


def _tokens(g: torch.Generator, length: int = TOKENS) -> torch.Tensor:
    return torch.randint(3, VOCAB, (BATCH, length), generator=g)


def _padded(g: torch.Generator) -> Batch:
    mask = torch.ones(BATCH, TOKENS, dtype=torch.long)
    mask[-1, -5:] = 0
    return {"input_ids": _tokens(g), "attention_mask": mask}


def _left_padded(g: torch.Generator) -> Batch:
    mask = torch.ones(BATCH, TOKENS, dtype=torch.long)
    mask[-1, :5] = 0
    return {"input_ids": _tokens(g), "attention_mask": mask}


def _token_labels(g: torch.Generator) -> Batch:
    labels = _tokens(g)
    labels[0, :3] = -100
    return {"labels": labels}


def _seq2seq(g: torch.Generator) -> Batch:
    return {**_padded(g), "decoder_input_ids": _tokens(g, 12)}


def _seq2seq_labels(g: torch.Generator) -> Batch:
    return {"labels": _tokens(g, 12)}


def _classes(g: torch.Generator, batch: int = BATCH) -> Batch:
    return {"labels": torch.randint(0, CLASSES, (batch,), generator=g)}


def _images(size: int, key: str = "pixel_values", batch: int = BATCH) -> Callable[[torch.Generator], Batch]:
    return lambda g: {key: torch.randn(batch, 3, size, size, generator=g)}


def _classify(out: Any, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(out, batch["labels"])


def _text(name: str, kind: str, model: str, config: str, *, labels: Any = _token_labels, **rest: Any) -> Family:
    """A transformers text model with the hidden sizes that `rest["config"]` gives."""
    settings = rest.pop("settings")
    inputs = rest.pop("inputs", _left_padded if kind in ("decoder", "MoE", "state space") else _padded)
    if kind in ("decoder", "MoE", "state space", "encoder-decoder"):
        rest.setdefault("generate", {"max_new_tokens": 8})
    return Family(
        name, kind, _hf(model, config, **settings), inputs, labels, checkpoint="gradient_checkpointing_enable", **rest
    )


_ENC = dict(
    vocab_size=VOCAB, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
    max_position_embeddings=64, pad_token_id=0,
)  # fmt: skip
_DEC = dict(
    vocab_size=VOCAB, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    intermediate_size=128, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
_S2S = dict(
    vocab_size=VOCAB, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
    decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, max_position_embeddings=64, pad_token_id=0,
    bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, forced_eos_token_id=None,
)  # fmt: skip
_VIT = dict(
    hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=48, patch_size=8,
    num_labels=CLASSES,
)  # fmt: skip
_GPT = dict(
    vocab_size=VOCAB, n_positions=64, n_embd=64, n_layer=2, n_head=4, pad_token_id=0, bos_token_id=1, eos_token_id=2
)

TEXT = [
    _text("bert", "encoder", "BertForMaskedLM", "BertConfig", settings=_ENC, sample=True, compiled=True),
    _text("roberta", "encoder", "RobertaForMaskedLM", "RobertaConfig", settings=_ENC),
    _text("distilbert", "encoder", "DistilBertForMaskedLM", "DistilBertConfig",
          settings=dict(vocab_size=VOCAB, dim=64, n_layers=2, n_heads=4, hidden_dim=128, max_position_embeddings=64)),
    _text("albert", "encoder", "AlbertForMaskedLM", "AlbertConfig", settings=dict(_ENC, embedding_size=32)),
    _text("electra", "encoder", "ElectraForSequenceClassification", "ElectraConfig", labels=_classes,
          settings=dict(_ENC, embedding_size=32, num_labels=CLASSES)),
    _text("deberta_v2", "encoder", "DebertaV2ForMaskedLM", "DebertaV2Config",
          settings=dict(_ENC, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8, norm_rel_ebd="layer_norm",
                        share_att_key=True)),
    _text("modernbert", "encoder", "ModernBertForMaskedLM", "ModernBertConfig",
          settings=dict(_ENC, global_attn_every_n_layers=2, local_attention=8, cls_token_id=1, sep_token_id=2)),
    _text("gpt2", "decoder", "GPT2LMHeadModel", "GPT2Config", settings=_GPT, sample=True, compiled=True),
    _text("gpt_neox", "decoder", "GPTNeoXForCausalLM", "GPTNeoXConfig", settings=_DEC),
    _text("opt", "decoder", "OPTForCausalLM", "OPTConfig",
          settings=dict(vocab_size=VOCAB, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=128,
                        max_position_embeddings=64, word_embed_proj_dim=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)),
    _text("bloom", "decoder", "BloomForCausalLM", "BloomConfig",
          settings=dict(vocab_size=VOCAB, hidden_size=64, n_layer=2, n_head=4, pad_token_id=0, bos_token_id=1, eos_token_id=2)),
    _text("falcon", "decoder", "FalconForCausalLM", "FalconConfig",
          settings=dict(vocab_size=VOCAB, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                        pad_token_id=0, bos_token_id=1, eos_token_id=2)),
    _text("llama", "decoder", "LlamaForCausalLM", "LlamaConfig", settings=_DEC, sample=True, compiled=True),
    _text("mistral", "decoder", "MistralForCausalLM", "MistralConfig", settings=dict(_DEC, sliding_window=16)),
    _text("qwen3", "decoder", "Qwen3ForCausalLM", "Qwen3Config", settings=dict(_DEC, head_dim=16)),
    _text("gemma2", "decoder", "Gemma2ForCausalLM", "Gemma2Config", settings=dict(_DEC, head_dim=16, sliding_window=16)),
    _text("phi3", "decoder", "Phi3ForCausalLM", "Phi3Config", settings=_DEC),
    _text("mamba", "state space", "MambaForCausalLM", "MambaConfig", inputs=lambda g: {"input_ids": _tokens(g)},
          settings=dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, state_size=8, pad_token_id=0, bos_token_id=1,
                        eos_token_id=2, use_mambapy=False), compiled=True),
    _text("mixtral", "MoE", "MixtralForCausalLM", "MixtralConfig",
          settings=dict(_DEC, num_local_experts=4, num_experts_per_tok=2)),
    _text("qwen2_moe", "MoE", "Qwen2MoeForCausalLM", "Qwen2MoeConfig",
          settings=dict(_DEC, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=64)),
    _text("switch", "MoE", "SwitchTransformersForConditionalGeneration", "SwitchTransformersConfig", inputs=_seq2seq,
          labels=_seq2seq_labels,
          settings=dict(vocab_size=VOCAB, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_decoder_layers=2, num_heads=4,
                        num_experts=4, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1, router_jitter_noise=0.0,
                        pad_token_id=0, eos_token_id=2, decoder_start_token_id=0)),
    _text("t5", "encoder-decoder", "T5ForConditionalGeneration", "T5Config", inputs=_seq2seq, labels=_seq2seq_labels,
          settings=dict(vocab_size=VOCAB, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_decoder_layers=2, num_heads=4,
                        feed_forward_proj="gated-gelu", pad_token_id=0, eos_token_id=2, decoder_start_token_id=0),
          compiled=True),
    _text("bart", "encoder-decoder", "BartForConditionalGeneration", "BartConfig", settings=_S2S, inputs=_seq2seq,
          labels=_seq2seq_labels),
    _text("pegasus", "encoder-decoder", "PegasusForConditionalGeneration", "PegasusConfig", settings=_S2S, inputs=_seq2seq,
          labels=_seq2seq_labels),
]  # fmt: skip


def _cnn(name: str, build: Callable[[], nn.Module], size: int = 64, kind: str = "vision CNN", **rest: Any) -> Family:
    rest.setdefault("checkpoint", "set_grad_checkpointing")
    return Family(name, kind, build, _images(size, "x", 4), lambda g: _classes(g, 4), _classify, **rest)


def _resnet50() -> nn.Module:
    """ResNet-50's blocks at a quarter of the width."""
    from timm.models.resnet import Bottleneck, ResNet

    return _awake(ResNet(Bottleneck, [3, 4, 6, 3], num_classes=CLASSES, stem_width=16, channels=(16, 32, 64, 128)))


def _mixer() -> nn.Module:
    from timm.models.mlp_mixer import MlpMixer

    model = MlpMixer(num_classes=CLASSES, img_size=64, patch_size=16, num_blocks=2, embed_dim=64)
    nn.init.normal_(model.head.weight, std=0.02)  # zero in timm, and so were all results
    return model


VISION = [
    _cnn("resnet50", _resnet50, sample=True, compiled=True),
    _cnn("mobilenetv3", _timm("mobilenetv3_small_050"), compiled=True),
    _cnn("efficientnet", _timm("efficientnet_b0")),
    _cnn("convnext", _timm("convnext_atto", depths=(1, 1, 2, 1), dims=(16, 32, 48, 64)), sample=True),
    _cnn("regnet", _timm("regnety_002")),
    _cnn("densenet", _timm("densenet121", growth_rate=8, block_config=(2, 2, 4, 2))),
    _cnn("ghostnet", _timm("ghostnet_050")),
    _cnn("mlp_mixer", _mixer, kind="vision MLP"),
    _cnn("vit", _timm("vit_tiny_patch16_224", img_size=64, depth=2, embed_dim=64, num_heads=4), kind="vision transformer",
         sample=True, compiled=True),
    _cnn("swin", _timm("swin_tiny_patch4_window7_224", img_size=56, embed_dim=32, depths=(2, 2), num_heads=(2, 4)), 56,
         kind="vision transformer", compiled=True),
    _cnn("deit3", _timm("deit3_small_patch16_224", img_size=64, depth=2, embed_dim=64, num_heads=4), kind="vision transformer"),
    Family("beit", "vision transformer", _hf("BeitForImageClassification", "BeitConfig", **_VIT, use_relative_position_bias=True),
           _images(48), _classes, checkpoint="gradient_checkpointing_enable"),
    Family("dinov2", "vision transformer", _hf("Dinov2ForImageClassification", "Dinov2Config", **_VIT),
           _images(48), _classes, checkpoint="gradient_checkpointing_enable"),
    Family("clip", "multimodal", _hf("CLIPModel", "CLIPConfig",
                                     text_config=dict(_ENC, eos_token_id=2, projection_dim=32),
                                     vision_config=dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                                                        intermediate_size=128, image_size=48, patch_size=8, projection_dim=32),
                                     projection_dim=32),
           lambda g: {**_padded(g), **_images(48)(g)}, lambda g: {"return_loss": True},
           # its logits are bf16 products times 14: a rounding there is an error of all gradients
           tolerance={"amp_bf16": 6e-2, "amp_bf16_scaler": 6e-2},
           checkpoint="gradient_checkpointing_enable"),
]  # fmt: skip


def _boxes(g: torch.Generator) -> Batch:
    """COCO style targets: three boxes per image, (centre x, centre y, width, height) relative to the image."""
    return {
        "labels": [
            {
                "class_labels": torch.randint(0, CLASSES, (3,), generator=g),
                "boxes": torch.rand(3, 4, generator=g) * 0.3 + 0.2,
            }
            for _ in range(BATCH)
        ]
    }


def _pixels(size: int, batch: int = BATCH) -> Callable[[torch.Generator], Batch]:
    return lambda g: {"labels": torch.randint(0, CLASSES, (batch, size, size), generator=g)}


def _resnet_backbone(**more: Any) -> dict[str, Any]:
    return dict(
        model_type="resnet", embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], layer_type="basic", **more
    )  # fmt: skip


def _deeplab() -> nn.Module:
    from torchvision.models.segmentation import deeplabv3_mobilenet_v3_large

    model = deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=CLASSES, aux_loss=None)
    return _drop_free(model)


DENSE = [
    Family("detr", "detection", _hf("DetrForObjectDetection", "DetrConfig", use_timm_backbone=False, use_pretrained_backbone=False,
                                    backbone=None, backbone_config=_resnet_backbone(out_features=["stage4"]), d_model=64,
                                    encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                                    encoder_ffn_dim=128, decoder_ffn_dim=128, num_queries=8, num_labels=CLASSES),
           _images(96), _boxes),
    Family("yolos", "detection", _hf("YolosForObjectDetection", "YolosConfig", **{**_VIT, "image_size": [48, 48]},
                                     num_detection_tokens=8),
           _images(48), _boxes, checkpoint="gradient_checkpointing_enable"),
    Family("deformable_detr", "detection",
           _hf("DeformableDetrForObjectDetection", "DeformableDetrConfig", use_timm_backbone=False, use_pretrained_backbone=False,
               backbone=None, backbone_config=_resnet_backbone(out_features=["stage2", "stage3", "stage4"]), d_model=64,
               encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128,
               decoder_ffn_dim=128, num_queries=8, num_labels=CLASSES),
           _images(96), _boxes),
    Family("segformer", "segmentation", _hf("SegformerForSemanticSegmentation", "SegformerConfig", hidden_sizes=[16, 32, 48, 64],
                                            depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=32,
                                            num_labels=CLASSES),
           _images(64), _pixels(64), checkpoint="gradient_checkpointing_enable"),
    Family("deeplabv3", "segmentation", _deeplab, _images(64, "x", 4), _pixels(64, 4),
           lambda out, b: F.cross_entropy(out["out"], b["labels"])),
]  # fmt: skip


def _waves(g: torch.Generator) -> Batch:
    return {"input_values": torch.randn(BATCH, 1600, generator=g)}


_W2V = dict(
    vocab_size=32, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, conv_dim=[32, 32, 32],
    conv_stride=[5, 2, 2], conv_kernel=[10, 3, 3], num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
    num_feat_extract_layers=3, apply_spec_augment=False, ctc_loss_reduction="mean", ctc_zero_infinity=True, pad_token_id=0,
)  # fmt: skip
_WHISPER = dict(
    vocab_size=VOCAB, num_mel_bins=16, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
    decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, max_source_positions=32, max_target_positions=32,
    pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None,
)  # fmt: skip


class LSTMTagger(nn.Module):
    """Embedding, a bidirectional LSTM of two layers, a GRU, a linear head. (N, T) tokens -> (N, T, CLASSES) logits."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 32)
        self.lstm = nn.LSTM(32, 32, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(64, 32, batch_first=True)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.gru(self.lstm(self.embed(input_ids))[0])[0])


SPEECH = [
    Family("wav2vec2", "speech", _hf("Wav2Vec2ForCTC", "Wav2Vec2Config", **_W2V), _waves,
           lambda g: {"labels": torch.randint(1, 32, (BATCH, 8), generator=g)}, checkpoint="gradient_checkpointing_enable"),
    Family("hubert", "speech", _hf("HubertForSequenceClassification", "HubertConfig", **_W2V, num_labels=CLASSES), _waves, _classes,
           checkpoint="gradient_checkpointing_enable"),
    Family("whisper", "speech", _hf("WhisperForConditionalGeneration", "WhisperConfig", **_WHISPER),
           lambda g: {"input_features": torch.randn(BATCH, 16, 64, generator=g), "decoder_input_ids": _tokens(g, 12)},
           _seq2seq_labels, checkpoint="gradient_checkpointing_enable", generate={"max_new_tokens": 8},
           compiled=True),
    Family("lstm", "recurrent", LSTMTagger, lambda g: {"input_ids": _tokens(g)},
           lambda g: {"labels": torch.randint(0, CLASSES, (BATCH, TOKENS), generator=g)},
           lambda out, b: F.cross_entropy(out.transpose(1, 2), b["labels"])),
]  # fmt: skip


def _diffusers(name: str, **settings: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import diffusers

        return _drop_free(getattr(diffusers, name)(**settings))

    return build


def _target(shape: tuple[int, ...]) -> Callable[[torch.Generator], Batch]:
    return lambda g: {"labels": torch.randn(shape, generator=g)}


def _denoise(out: Any, batch: Batch) -> torch.Tensor:
    return F.mse_loss(out.sample.float(), batch["labels"].float())


DIFFUSION = [
    Family("unet", "diffusion",
           _diffusers("UNet2DConditionModel", sample_size=16, block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8,
                      down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
                      cross_attention_dim=32, attention_head_dim=8, in_channels=4, out_channels=4),
           lambda g: {"sample": torch.randn(BATCH, 4, 16, 16, generator=g), "timestep": torch.tensor([10, 500]),
                      "encoder_hidden_states": torch.randn(BATCH, 8, 32, generator=g)},
           _target((BATCH, 4, 16, 16)), _denoise, checkpoint="enable_gradient_checkpointing", sample=True, compiled=True),
    Family("vae", "diffusion",
           _diffusers("AutoencoderKL", block_out_channels=(16, 32), down_block_types=("DownEncoderBlock2D",) * 2,
                      up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4, norm_num_groups=8, sample_size=32),
           _images(32, "sample"), _target((BATCH, 3, 32, 32)), _denoise, checkpoint="enable_gradient_checkpointing"),
    Family("dit", "diffusion",
           _diffusers("DiTTransformer2DModel", num_attention_heads=4, attention_head_dim=16, in_channels=4, out_channels=4,
                      num_layers=2, sample_size=16, patch_size=2, norm_num_groups=8, num_embeds_ada_norm=100),
           lambda g: {"hidden_states": torch.randn(BATCH, 4, 16, 16, generator=g), "timestep": torch.tensor([10, 50]),
                      "class_labels": torch.tensor([1, 2])},
           _target((BATCH, 4, 16, 16)), _denoise, checkpoint="enable_gradient_checkpointing"),
]  # fmt: skip

FAMILIES: dict[str, Family] = {f.name: f for f in [*TEXT, *VISION, *DENSE, *SPEECH, *DIFFUSION]}
