"""Embeddings by MiniLM in transformers, as in benches/minilm.rs.

Usage: python torch_minilm.py FOLDER eager|compile [--bf16 | --cold]; needs the packages of benches/comparison/requirements-torch.txt.
"""

import os
import sys
import time

import torch
import transformers

import measure


def main(folder, mode, *options):
    dtype, workload = (torch.bfloat16, "minilm-bf16") if "--bf16" in options else (torch.float32, "minilm")
    start = time.perf_counter()
    model = transformers.AutoModel.from_pretrained(folder, dtype=dtype).eval()
    load = (time.perf_counter() - start) * 1e3
    sentences = 1 if "--cold" in options else 32
    ids = torch.tensor([[1000 + (row * 977 + place * 131) % 28000 for place in range(32)] for row in range(sentences)])
    mask = torch.ones_like(ids)
    run = torch.compile(model) if mode == "compile" else model

    @torch.inference_mode()
    def embed():
        pooled = run(input_ids=ids, attention_mask=mask).last_hidden_state.mean(1)
        return torch.nn.functional.normalize(pooled, dim=-1)

    number = lambda embeddings: embeddings[:, 0].double().sum().item()
    if "--cold" in options:
        return measure.report_cold_start("minilm-cold", f"torch-{mode}", number(embed()))
    measure.report("K", workload, "load_ms", f"torch-{mode}", "ms", load)
    measure.measure_steps("K", workload, f"torch-{mode}", embed, number)


if __name__ == "__main__":
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    main(*sys.argv[1:])
