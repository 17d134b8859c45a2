"""models.json: embeddings of MiniLM, and outputs of models of transformers, for the tests of `pytree-models`.

    pip install -r requirements-models.txt
    python models_goldens.py MINILM SILERO

MINILM is the folder that `tools/fetch minilm` prints, and SILERO that of the unpacked wheel of silero-vad 6.2.3. The weights of the other models follow the formula of
`pretrained_goldens.py`.
"""

import json
import math
import pathlib
import sys

import numpy as np
import safetensors.torch
import torch
import torchvision
import transformers

from pretrained_goldens import fill, shapes, value_of

HERE = pathlib.Path(__file__).resolve().parent

SENTENCES = [
    "A cat sits on the roof.",
    "There is a kitten on top of the house.",
    "The stock market fell by three percent on Monday, after weeks of losses.",
    "Naïve café owners in Zürich sell 3.5 kg of Brötchen!",
    "",
]


def numbers(tensor, digits=9):
    return [float(f"{number:.{digits}g}") for number in tensor.detach().flatten().tolist()]


def minilm(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    batch = tokenizer(SENTENCES, padding="longest", truncation=True, max_length=256, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None].float()
    embeddings = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)
    lengths = batch["attention_mask"].sum(1).tolist()
    return {
        "sentences": SENTENCES,
        "ids": [row[:length] for row, length in zip(batch["input_ids"].tolist(), lengths)],
        # Every eighth number.
        "embeddings": [numbers(row[::8]) for row in embeddings],
        "similarities": numbers(embeddings @ embeddings.T),
    }


# The shapes of a layer of Qwen3-0.6B and of SmolLM2-135M, and small models with each scaling of rotary positions, with
# windows, and with biases. The keys are those of config.json.
SMALL = {
    "vocab_size": 31, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 48, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "hidden_act": "silu",
}
LLAMAS = {
    "qwen3": {
        **SMALL, "model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 1, "num_attention_heads": 16, "num_key_value_heads": 8,
        "head_dim": 128, "intermediate_size": 3072, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": True,
        "sliding_window": None, "use_sliding_window": False,
    },
    "smollm2": {
        **SMALL, "model_type": "llama", "hidden_size": 576, "num_hidden_layers": 2, "num_attention_heads": 9, "num_key_value_heads": 3,
        "intermediate_size": 1536, "rope_theta": 100000.0, "tie_word_embeddings": True,
    },
    "llama3": {
        **SMALL, "model_type": "llama", "rope_theta": 500000.0, "tie_word_embeddings": False,
        "rope_scaling": {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    },
    "linear": {**SMALL, "model_type": "llama", "rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 4.0}},
    "yarn": {
        **SMALL, "model_type": "qwen3", "head_dim": 16, "rope_theta": 10000.0,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    },
    "mistral": {**SMALL, "model_type": "mistral", "rope_theta": 10000.0, "sliding_window": 5},
    "qwen2": {**SMALL, "model_type": "qwen2", "rope_theta": 10000.0, "use_sliding_window": False},
}


def llama(config):
    options = {key: value for key, value in config.items() if key != "model_type"}
    config_of = transformers.AutoConfig.for_model(config["model_type"], **options)
    model = fill(transformers.AutoModelForCausalLM.from_config(config_of, attn_implementation="eager"))
    names = shapes(model)
    if config.get("tie_word_embeddings"):
        # Files have the table once.
        model.model.embed_tokens.weight.data.copy_(value_of("model.embed_tokens.weight", names["model.embed_tokens.weight"]))
        del names["lm_head.weight"]
    tokens = [[(7 * place * place + 11 * row) % 31 for place in range(24)] for row in range(2)]
    with torch.no_grad():
        logits = model(torch.tensor(tokens)).logits
    # The logits after the last token.
    found = {"config": config, "shapes": names, "tokens": tokens, "logits": [numbers(row, 7) for row in logits[:, -1]]}
    assert config_of.rope_parameters["rope_theta"] == config["rope_theta"]
    return found


def generated(config):
    """Tokens after texts of different lengths, each on its own: more than 64 of them, so that caches grow."""
    options = {key: value for key, value in config.items() if key != "model_type"}
    config_of = transformers.AutoConfig.for_model(config["model_type"], **options)
    model = fill(transformers.AutoModelForCausalLM.from_config(config_of, attn_implementation="eager")).eval()
    texts = [[3, 1, 4, 1, 5], [9], [2, 6, 5, 3, 5, 8, 9, 7, 9]]
    found = {"texts": texts}
    for penalty in [1.0, 1.3]:
        found[f"penalty {penalty}"] = [
            model.generate(
                torch.tensor([text]), max_new_tokens=70, do_sample=False, repetition_penalty=penalty, pad_token_id=0,
                eos_token_id=None,
            )[0, len(text):].tolist()
            for text in texts
        ]
    return found


# The keys are the fields of `Sampling`.
SAMPLINGS = [
    {"temperature": 0.5}, {"temperature": 1.0, "top_k": 5}, {"temperature": 1.0, "top_p": 0.6}, {"temperature": 1.0, "top_p": 0.01},
    {"temperature": 1.7, "top_k": 12, "top_p": 0.8, "repetition_penalty": 1.4},
]


def samplings():
    logits = torch.tensor([[3 * math.sin(1.7 * token * token + row) for token in range(31)] for row in range(2)])
    texts = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])
    found = {"logits": [numbers(row) for row in logits], "texts": texts.tolist(), "results": []}
    for sampling in SAMPLINGS:
        processors = transformers.LogitsProcessorList()
        if "repetition_penalty" in sampling:
            processors.append(transformers.RepetitionPenaltyLogitsProcessor(sampling["repetition_penalty"]))
        processors.append(transformers.TemperatureLogitsWarper(sampling["temperature"]))
        if "top_k" in sampling:
            processors.append(transformers.TopKLogitsWarper(sampling["top_k"]))
        if "top_p" in sampling:
            processors.append(transformers.TopPLogitsWarper(sampling["top_p"]))
        rows = processors(texts, logits.clone())
        # JSON has no infinity.
        rows = [[None if number == -math.inf else number for number in numbers(row)] for row in rows]
        found["results"].append({"sampling": sampling, "logits": rows})
    return found


def speech(package):
    """Probabilities of Silero VAD for the audio of examples/speech.rs, chunk by chunk.

    The program is `silero_vad.jit`, whose own weights are those of another training than the ones of the safetensors file. So it
    gets the ones of the file.
    """
    folder = pathlib.Path(package) / "silero_vad/data"
    detector = torch.jit.load(folder / "silero_vad.jit")
    state = detector._model.state_dict()
    names = {"stft_conv.weight": "stft.forward_basis_buffer"}
    for part in ["weight", "bias"]:
        names |= {f"conv{i + 1}.{part}": f"encoder.{i}.reparam_conv.{part}" for i in range(4)}
        names |= {f"lstm_cell.{part}_{of}": f"decoder.rnn.{part}_{of}" for of in ["ih", "hh"]}
        names[f"final_conv.{part}"] = f"decoder.decoder.2.{part}"
    for name, tensor in safetensors.torch.load_file(folder / "silero_vad_16k.safetensors").items():
        state[names.pop(name)].copy_(tensor)
    assert not names
    noise, phase, samples = 1, 0.0, []
    for n in range(3 * 16000):
        t = n / 16000
        noise = (noise * 1664525 + 1013904223) % 2**32
        sample = (noise / (2**32 - 1) - 0.5) * 0.004
        if 1.0 <= t < 2.0:
            pitch = 140.0 - 30.0 * (t - 1.0)
            phase += math.tau * pitch / 16000
            for harmonic in range(1, 31):
                frequency = harmonic * pitch
                loudness = 0.05
                for at, width, height in [(730.0, 150.0, 1.0), (1090.0, 200.0, 0.5), (2440.0, 300.0, 0.2)]:
                    loudness += height * math.exp(-(((frequency - at) / width) ** 2))
                swell = math.sin(math.tau / 2.0 * 4.0 * t) ** 2
                sample += 0.15 * swell * loudness * math.sin(harmonic * phase)
        samples.append(sample)
    chunks = torch.tensor(samples, dtype=torch.float32)[: len(samples) // 512 * 512].reshape(-1, 1, 512)
    with torch.no_grad():
        return [float(f"{detector(chunk, 16000).item():.7g}") for chunk in chunks]


def main():
    torch.set_num_threads(1)
    modules = [np, safetensors, torch, torchvision, transformers]
    goldens = {"versions": {module.__name__: str(module.__version__).split("+")[0] for module in modules}}
    goldens["minilm"] = minilm(sys.argv[1])
    goldens["speech"] = speech(sys.argv[2])
    goldens["llama"] = {name: llama(config) for name, config in LLAMAS.items()}
    goldens["generated"] = {name: generated(LLAMAS[name]) for name in ["llama3", "mistral"]}
    goldens["samplings"] = samplings()
    (HERE / "models.json").write_text(json.dumps(goldens, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
