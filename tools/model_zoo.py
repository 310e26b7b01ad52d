"""Models of transformers made small, with inputs for one step: every model of tests/models."""

import csv
import dataclasses
from pathlib import Path

import torch
import transformers
from model_sizes import EXCEPTIONS, KINDS_OF_LAYERS, SMALL, VARIANTS, VOCAB

LIST = Path(__file__).resolve().parent.parent / "tests/models/models.tsv"
LENGTH = 6
MOST_PARAMETERS = 3_000_000


@dataclasses.dataclass(frozen=True)
class Entry:
    """One model: its kind (what it takes and gives), its class, and a variant of it."""

    kind: str
    model: str
    variant: str = ""

    @property
    def name(self) -> str:
        return f"{self.model}-{self.variant}" if self.variant else self.model


def entries() -> list[Entry]:
    """Read the list of models."""
    with LIST.open() as file:
        return [
            Entry(r["kind"], r["model"], r["variant"] or "")
            for r in csv.DictReader(file, delimiter="\t")
        ]


def made(entry: Entry, **fields) -> torch.nn.Module:
    """Make a model small, in float64, without dropout; the same weights each time. ``fields`` of
    its configuration go before those known here.

    Raises:
        ValueError: some size that is not known here keeps it large.
    """
    kind = getattr(transformers, entry.model)
    config = small_config(kind.config_class, _exceptions(entry) | fields)
    if "experts_implementation" not in fields:
        config._experts_implementation = "eager"
    with torch.device("meta"):
        size = sum(p.numel() for p in kind(config).parameters())
    if size > MOST_PARAMETERS:
        raise ValueError(f"{size} parameters are too many")
    torch.manual_seed(0)
    model = kind(config).double().eval()
    # Fresh weights are small, biases zero and norms one: much would not matter.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def _exceptions(entry: Entry) -> dict:
    found = {}
    for start in sorted(EXCEPTIONS, key=len):
        if entry.model.startswith(start):
            found.update(EXCEPTIONS[start])
    return found | VARIANTS.get(entry.variant, {})


def small_config(kind: type, exceptions: dict):
    """Make a configuration in which each field that makes a model large is small."""
    config = kind()
    fields = _small_fields(config)
    inner = dict(getattr(config, "sub_configs", None) or {})
    for name in inner:
        sub = getattr(config, name, None)
        if sub is None:
            continue
        here = {
            k.removeprefix(f"{name}."): v for k, v in exceptions.items() if k.startswith(f"{name}.")
        }
        fields[name] = small_config(type(sub), here).to_dict()
    fields.update({k: v for k, v in exceptions.items() if "." not in k})
    return kind(**fields)


def _small_fields(config) -> dict:
    values = config.to_dict()
    fields = {}
    for name, value in SMALL.items():
        if isinstance(getattr(type(config), name, None), property):
            continue
        real = getattr(config, "attribute_map", {}).get(name, name)
        old = values.get(real)
        if old is not None and not isinstance(old, (list, tuple, dict, bool)):
            fields[real] = value
        elif name in ("pad_token_id", "bos_token_id", "eos_token_id") and name in values:
            fields[name] = value
    if "qk_rope_head_dim" in values:
        fields.update(head_dim=fields["qk_rope_head_dim"], num_key_value_heads=4)
    lists = {k: list(values[k]) for k in KINDS_OF_LAYERS if values.get(k)}
    if lists:
        count = min(len(v) for v in lists.values())
        rows = list(zip(*(v[:count] for v in lists.values()), strict=True))
        kept = sorted({rows.index(row) for row in rows})
        kept += range(kept[-1] + 1, kept[-1] + 3 - len(kept))
        kept = [i for i in kept if i < count] if len(kept) > 1 else [0, 0]
        fields.update({k: [v[i] for i in kept] for k, v in lists.items()})
        for name in ("num_hidden_layers", "num_layers"):
            if name in fields:
                fields[name] = len(kept)
    return fields


# ---- Inputs --------------------------------------------------------------------------------


def batch_of(entry: Entry) -> int:
    """Give the batch: cut unevenly over dp, into 2 and 1; for Cvt into 3 and 2, as torch's own
    gradient of batch_norm in eval mode is wrong for its batch of one, on one device too."""
    return 5 if entry.model.startswith("Cvt") else 3


def inputs(entry: Entry, model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Make what one step takes, by argument name; the first dim is the batch, but of pictures that
    come as a row of patches."""
    return {
        "causal": _text,
        "masked": _text,
        "seq2seq": _text,
        "class": _text_class,
        "clip": _clip,
        "ctc": _sound,
        "image": _image,
        "segment": _segments,
        "speech": _speech,
        "vl": _pictured_text,
    }[entry.kind](model.config, batch_of(entry))


def _drawn(low: int, high: int, *shape: int) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(1))


def _noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def ids(batch: int) -> torch.Tensor:
    return _drawn(3, VOCAB - 6, batch, LENGTH)  # above are pictures


def _text(config, batch: int) -> dict[str, torch.Tensor]:
    return {"input_ids": ids(batch), "labels": ids(batch)}


def _text_class(config, batch: int) -> dict[str, torch.Tensor]:
    return {"input_ids": ids(batch), "labels": _drawn(0, config.num_labels, batch)}


def _pixels(config, batch: int) -> torch.Tensor:
    size = getattr(config, "image_size", None) or 32
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return _noise(batch, getattr(config, "num_channels", None) or 3, height, width)


def _image(config, batch: int) -> dict[str, torch.Tensor]:
    return {"pixel_values": _pixels(config, batch), "labels": _drawn(0, config.num_labels, batch)}


def _segments(config, batch: int) -> dict[str, torch.Tensor]:
    pixels = _pixels(config, batch)
    labels = _drawn(0, config.num_labels, batch, *pixels.shape[2:])
    return {"pixel_values": pixels, "labels": labels}


def _clip(config, batch: int) -> dict[str, torch.Tensor]:
    return {"input_ids": ids(batch), "pixel_values": _pixels(config.vision_config, batch)}


def _sound(config, batch: int) -> dict[str, torch.Tensor]:
    return {"input_values": _noise(batch, 400), "labels": _drawn(3, config.vocab_size, batch, 3)}


def _speech(config, batch: int) -> dict[str, torch.Tensor]:
    shape = (batch, config.num_mel_bins, 2 * config.max_source_positions)
    return {"input_features": _noise(*shape), "labels": ids(batch)}


def _pictured_text(config, batch: int) -> dict[str, torch.Tensor]:
    """Text that starts with one picture; its tokens stand for patches, some merged."""
    vision = config.vision_config
    merge = getattr(vision, "spatial_merge_size", 2)
    place = getattr(config, "image_token_id", None)
    given = _text(config, batch)
    pixels = _noise(batch, 3, 32, 32)
    count = (32 // vision.patch_size // merge) ** 2
    picture = torch.full((batch, count), place)
    given["input_ids"] = torch.cat([picture, given["input_ids"]], 1)
    given["labels"] = torch.cat([picture, given["labels"]], 1)
    if hasattr(vision, "temporal_patch_size"):  # patches of all pictures in a row, and their grid
        side = 32 // vision.patch_size
        size = 3 * vision.temporal_patch_size * vision.patch_size**2
        pixels = _noise(batch * side * side, size)
        given["image_grid_thw"] = torch.tensor([[1, side, side]] * batch)
        given["mm_token_type_ids"] = (given["input_ids"] == place).long()
    return given | {"pixel_values": pixels}
