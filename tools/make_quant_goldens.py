#!/usr/bin/env python3
"""Makes tests/golden/quants/*.bin: blocks of every GGUF type beside what they decode to.

An independent decoder judges: numpy's, in the `gguf` package from PyPI.
  pip install gguf numpy && python3 tools/make_quant_goldens.py tests/golden/quants
A file holds kBlocks blocks as stored, then their elements as float32, little-endian.

The formats of safetensors with scales that lie apart, by torch and compressed-tensors:
  pip install torch compressed-tensors && python3 tools/make_quant_goldens.py tests/golden/quants scaled
Such a file holds the codes, the scales and the elements of a matrix.
"""
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T

TYPES = [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K,
         T.IQ4_NL, T.IQ4_XS, T.MXFP4]
# Where a block has float16 numbers: random bits there would often be NaN or infinite.
HALVES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82],
          T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0],
          T.IQ4_XS: [0], T.MXFP4: []}
BLOCKS = 6


def blocks_of(kind, random):
    elements, size = GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    for at in HALVES[kind]:
        halves = (random.uniform(-2, 2, BLOCKS) * 10.0 ** random.uniform(-4, 2, BLOCKS))
        halves[0] = 6e-8  # a subnormal number
        blocks[:, at:at + 2] = halves.astype("<f2").view(np.uint8).reshape(BLOCKS, 2)
    if kind == T.MXFP4:
        blocks[:, 0] = [0, 1, 2, 127, 140, 250]
    return blocks, elements


def main(folder):
    random = np.random.default_rng(20240607)
    for kind in TYPES:
        blocks, elements = blocks_of(kind, random)
        values = gguf.quants.dequantize(blocks, kind).astype("<f4").reshape(BLOCKS, elements)
        Path(folder, kind.name.lower() + ".bin").write_bytes(blocks.tobytes() + values.tobytes())


def block_fp8(random):
    """Rows 126 to 129 of a matrix of 160 columns, all codes among them: four blocks."""
    import torch
    rows, columns = range(126, 130), 160
    codes = np.concatenate([np.arange(256), random.integers(0, 256, len(rows) * columns - 256)])
    codes = torch.from_numpy(codes.astype(np.uint8).reshape(len(rows), columns))
    scales = torch.tensor([[0.0123, 3.75], [1e-4, 0.5]])
    each = torch.stack([scales[row // 128].repeat_interleave(128)[:columns] for row in rows])
    return codes, scales, codes.view(torch.float8_e4m3fn).float() * each


def int4(random):
    import torch
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
    codes = torch.from_numpy(random.integers(-8, 8, (5, 96)).astype(np.int8))
    scales = torch.from_numpy(random.uniform(-0.1, 0.1, (5, 3)).astype(np.float32)).bfloat16()
    values = codes.float() * scales.float().repeat_interleave(32, dim=1)
    return pack_to_int32(codes, 4), scales.view(torch.int16), values


def main_scaled(folder):
    random = np.random.default_rng(20241226)
    for name, made in (("f8_e4m3", block_fp8(random)), ("int4", int4(random))):
        Path(folder, name + ".bin").write_bytes(b"".join(part.numpy().tobytes() for part in made))


if __name__ == "__main__":
    if sys.argv[2:] == ["scaled"]:
        main_scaled(sys.argv[1])
    else:
        main(sys.argv[1])
