"""`pytree-models/src/settings.json`, the tables of what is done with each key of a folder's files, and settings.json, outputs of
small models of transformers in which one key is changed.

    pip install -r requirements-settings.txt
    python settings_goldens.py

Each key of a configuration class of the original has a mark below, or the script ends with an error. The marks are checked: a key
that has no effect must not change the outputs of the original.
"""

import dataclasses
import inspect
import json
import math
import pathlib
import re

import sentence_transformers
import timm
import torch
import transformers
from sentence_transformers.base.modules import dense, normalize, transformer
from sentence_transformers.sentence_transformer.modules import pooling

from models_goldens import numbers
from pretrained_goldens import fill, shapes, value_of

HERE = pathlib.Path(__file__).resolve().parent
GENERATION = list(transformers.GenerationConfig._get_default_generation_params()) + """max_length min_length do_sample early_stopping
    num_beams num_beam_groups diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty
    no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids num_return_sequences output_scores return_dict_in_generate
    forced_bos_token_id forced_eos_token_id remove_invalid_values exponential_decay_length_penalty suppress_tokens
    begin_suppress_tokens prefix decoder_start_token_id sep_token_id bos_token_id eos_token_id pad_token_id""".split()
# Names, types of other heads, and what only training, generation and memory depend on.
NO_EFFECT = sorted(set(GENERATION + """transformers_version architectures output_hidden_states output_attentions return_dict dtype
    torch_dtype chunk_size_feed_forward id2label label2id num_labels problem_type _name_or_path name_or_path finetuning_task
    task_specific_params tokenizer_class torchscript use_bfloat16 tf_legacy_loss gradient_checkpointing initializer_range use_cache
    _attn_implementation _attn_implementation_autoset attn_implementation unsloth_version""".split()))
# The values that are not refused.
REFUSED = {
    "is_encoder_decoder": [False], "is_decoder": [False], "add_cross_attention": [False], "cross_attention_hidden_size": [None],
    "tie_encoder_decoder": [False], "pruned_heads": [{}, None], "quantization_config": [None], "auto_map": [None],
}
LLAMA = """model_type vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim hidden_act
    max_position_embeddings rms_norm_eps rope_parameters rope_scaling rope_theta tie_word_embeddings"""
WINDOW = {"use_sliding_window": [False], "layer_types": ["full_attention", None], "partial_rotary_factor": [1.0, None]}
# The keys that are used, those without an effect, and those that are refused, besides the ones above.
MARKS = {
    "bert": (
        """model_type vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act max_position_embeddings
        type_vocab_size layer_norm_eps""",
        "hidden_dropout_prob attention_probs_dropout_prob classifier_dropout tie_word_embeddings",
        {"position_embedding_type": ["absolute"]},
    ),
    "gpt2": (
        "model_type vocab_size n_positions n_embd n_layer n_head n_inner activation_function layer_norm_epsilon",
        """resid_pdrop embd_pdrop attn_pdrop summary_type summary_use_proj summary_activation summary_proj_to_labels
        summary_first_dropout reorder_and_upcast_attn n_ctx""",
        {"scale_attn_weights": [True], "scale_attn_by_inverse_layer_idx": [False], "tie_word_embeddings": [True]},
    ),
    "llama": (LLAMA + " attention_bias mlp_bias", "attention_dropout pretraining_tp rope_interleaved is_llama_config",
              {"partial_rotary_factor": [1.0, None]}),
    "mistral": (LLAMA + " sliding_window", "attention_dropout", {"partial_rotary_factor": [1.0, None]}),
    "qwen2": (LLAMA, "attention_dropout sliding_window max_window_layers", WINDOW),
    "qwen3": (LLAMA + " attention_bias", "attention_dropout sliding_window max_window_layers", WINDOW),
}
ROPE = {
    "used": """rope_theta rope_type type factor original_max_position_embeddings attention_factor beta_fast beta_slow low_freq_factor
        high_freq_factor mscale mscale_all_dim""",
    "refused": {"partial_rotary_factor": [1.0, None], "truncate": [True], "short_factor": [None], "long_factor": [None],
                "mrope_section": [None]},
}
NAMES = {"module_input_name": ["sentence_embedding"], "module_output_name": ["sentence_embedding", None]}
FILES = {
    "resnet18": ("architecture num_classes", "pretrained_cfg label_names label_descriptions", {
        "num_features": [512], "global_pool": ["avg"], "model_args": [{}, None]}),
    "modules.json": ("path type", "idx name", {"kwargs": [[]]}),
    "Pooling": ("pooling_mode pooling_mode_cls_token pooling_mode_mean_tokens", """embedding_dimension word_embedding_dimension
        include_prompt""", {f"pooling_mode_{mode}": [False] for mode in [
            "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"]}),
    "Dense": ("in_features out_features bias activation_function", "", {"use_residual": [False], **NAMES}),
    "Normalize": ("", "", NAMES),
    "sentence_bert_config.json": ("max_seq_length", "unpad_inputs", {
        "do_lower_case": [False], "transformer_task": ["feature-extraction"], "module_output_name": ["token_embeddings"],
        "modality_config": [{"text": {"method": "forward", "method_output_name": "last_hidden_state"}}], "processing_kwargs": [{}],
        "query_length": [None], "document_length": [None], "query_expansion": [None]}),
    "config_sentence_transformers.json": ("", "__version__ prompts similarity_fn_name", {
        "default_prompt_name": [None], "truncate_dim": [None], "model_type": ["SentenceTransformer"]}),
    "tokenizer_config.json": (
        """do_lower_case strip_accents tokenize_chinese_chars add_prefix_space add_bos_token add_eos_token bos_token eos_token
        truncation_side model_max_length added_tokens_decoder""",
        """unk_token sep_token pad_token cls_token mask_token additional_special_tokens extra_special_tokens name_or_path
        special_tokens_map_file tokenizer_class tokenizer_file processor_class chat_template model_input_names padding_side
        clean_up_tokenization_spaces spaces_between_special_tokens use_default_system_prompt sp_model_kwargs legacy use_fast
        never_split do_basic_tokenize errors max_length stride truncation_strategy pad_to_multiple_of pad_token_type_id backend is_local
        local_files_only model_specific_special_tokens transformers_version unk_id from_slow vocab_size pad_token_id bos_token_id
        eos_token_id unk_token_id full_tokenizer_file from_flax""",
        {"split_special_tokens": [False], "auto_map": [None]},
    ),
}


def fields(name):
    """The keys of a configuration class, and their defaults."""
    of = type(transformers.AutoConfig.for_model(name))
    keys = of().to_dict()
    found = {field.name: field.default for field in dataclasses.fields(of) if field.init and field.name in keys}
    return {key: found.get(key) for key in keys}


def signature(of):
    parameters = inspect.signature(inspect.unwrap(of)).parameters.values()
    return {one.name: None if one.default is one.empty else one.default for one in parameters}


def table(used, no_effect, refused, defaults=None):
    used, no_effect = used.split(), no_effect if isinstance(no_effect, list) else no_effect.split()
    listed = [*used, *no_effect, *refused]
    assert len(set(listed)) == len(listed), [key for key in listed if listed.count(key) > 1]
    if defaults is not None:
        assert not (missing := set(defaults) - set(listed)), f"no mark: {missing}"
    default = lambda key: (defaults or {}).get(key) if isinstance((defaults or {}).get(key), (bool, int, float, str)) else None
    return {"used": {key: None if key == "model_type" else default(key) for key in used}, "no effect": sorted(no_effect),
            "refused": refused}


def tables():
    found = {"versions": {of.__name__.replace("_", "-"): of.__version__ for of in [sentence_transformers, timm, transformers]}}
    for name, (used, no_effect, refused) in MARKS.items():
        keys = set(used.split()) | set(refused)
        no_effect = [key for key in [*NO_EFFECT, *no_effect.split()] if key not in keys]
        found[name] = table(used, no_effect, {**REFUSED, **refused}, fields(name))
    rope = {key: None for key in transformers.modeling_rope_utils.RopeParameters.__annotations__}
    found["rope"] = table(ROPE["used"], "", ROPE["refused"], rope)
    # The keys that the modules write.
    written = {
        "Pooling": dict.fromkeys(pooling.Pooling.config_keys),
        "Dense": {"bias": True, "activation_function": "torch.nn.modules.activation.Tanh", **dict.fromkeys(
            key for key in dense.Dense.config_keys if key not in ["bias", "activation_function"])},
        "Normalize": dict.fromkeys(normalize.Normalize.config_keys),
        "sentence_bert_config.json": dict.fromkeys([*transformer.Transformer.config_keys, "max_seq_length", "do_lower_case"]),
    }
    for name, marks in FILES.items():
        found[name] = table(*marks, written.get(name))
    return found


SMALL = {"vocab_size": 31, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24,
         "max_position_embeddings": 32}
GQA = {**SMALL, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "hidden_act": "silu"}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 8}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
# Small models of each type: the type, and its keys.
BASES = {
    "bert": ("bert", {**SMALL, "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12}),
    "gpt2": ("gpt2", {"vocab_size": 31, "n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 4, "activation_function": "gelu_new"}),
    "llama": ("llama", GQA),
    "mistral": ("mistral", {**GQA, "head_dim": 4, "sliding_window": 6}),
    "qwen2": ("qwen2", GQA),
    "qwen3": ("qwen3", {**GQA, "head_dim": 4}),
    "yarn": ("llama", {**GQA, "rope_parameters": YARN}),
    "llama3": ("llama", {**GQA, "rope_parameters": LLAMA3}),
    "linear": ("llama", {**GQA, "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}}),
}
# Other values. Otherwise, a bool is inverted, a number increased, and a text is another text.
CHANGED = {
    "vocab_size": 37, "hidden_size": 24, "n_embd": 24, "num_attention_heads": 2, "n_head": 2, "num_key_value_heads": 1, "head_dim": 8,
    "intermediate_size": 20, "n_inner": 20, "num_hidden_layers": 1, "n_layer": 1, "max_position_embeddings": 40, "n_positions": 40,
    "type_vocab_size": 3, "layer_norm_eps": 0.1, "layer_norm_epsilon": 0.1, "rms_norm_eps": 0.1, "hidden_act": "relu",
    "activation_function": "gelu", "rope_theta": 100.0, "rope_scaling": {"type": "linear", "factor": 3.0}, "sliding_window": 3,
    "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}, "layer_types": ["sliding_attention", "full_attention"],
    "partial_rotary_factor": 0.5, "position_embedding_type": "relative_key", "id2label": {"0": "A"}, "label2id": {"A": 0},
    "pruned_heads": {"0": [1]}, "quantization_config": {"quant_method": "gptq"}, "auto_map": {"AutoModel": "m.Model"},
    "attention_factor": 1.5, "beta_fast": 6.0, "beta_slow": 0.5, "mscale": 0.7, "mscale_all_dim": 0.4, "factor": 2.5,
    "original_max_position_embeddings": 12, "low_freq_factor": 0.5, "high_freq_factor": 2.0, "truncate": False, "type": "linear",
    "short_factor": [1.0], "long_factor": [1.0], "mrope_section": [1], "rope_type": "default", "dtype": "bfloat16",
    "torch_dtype": "bfloat16", "problem_type": "regression", "is_decoder": True, "cross_attention_hidden_size": 8, "prefix": "a",
    "bos_token_id": 3, "eos_token_id": 4, "pad_token_id": 5, "sep_token_id": 6, "decoder_start_token_id": 7, "classifier_dropout": 0.5,
    "summary_activation": "tanh", "architectures": ["A"],
}
TOKENS = [[(7 * place * place + 11 * row) % 31 for place in range(12)] for row in range(2)]


def output(name, config):
    """The shapes of the weights, and some numbers of the features or logits of the last token."""
    config = transformers.AutoConfig.for_model(name, **config)
    of = transformers.AutoModel if name == "bert" else transformers.AutoModelForCausalLM
    options = {"add_pooling_layer": False} if name == "bert" else {}
    model = of.from_config(config, attn_implementation="eager", **options).float()
    found = shapes(model)
    fill(model)
    if config.tie_word_embeddings and name != "bert":
        first = model.get_input_embeddings().weight
        first.data.copy_(value_of([key for key in found if key.endswith(("embed_tokens.weight", "wte.weight"))][0], first.shape))
        del found["lm_head.weight"]
    with torch.no_grad():
        out = model(torch.tensor(TOKENS), use_cache=False, return_dict=True)
    out = out.last_hidden_state if name == "bert" else out.logits
    return found, numbers(out[:, -1, ::5], 7)


def other(key, value):
    if key in CHANGED:
        return CHANGED[key]
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, str):
        return value + "x"
    return value + 1 if isinstance(value, int) else value / 2 + 0.125


def cases(base, marks):
    name, config = BASES[base]
    weights, expected = output(name, config)
    section = config.get("rope_parameters")
    found = {"config": {"model_type": name, **config}, "shapes": weights, "output": expected, "changed": []}
    defaults = fields(name)
    for mark, keys in marks["rope" if section else name].items():
        for key in keys:
            if key == "model_type":
                continue
            holder = section or config
            allowed = keys[key][0] if mark == "refused" else None
            value = other(key, holder.get(key, allowed if mark == "refused" else defaults.get(key)))
            changed = {"rope_parameters": {**section, key: value}} if section else {key: value}
            case = {**changed, "mark": mark}
            if mark == "used":
                if key == "mscale" and section:
                    changed["rope_parameters"]["mscale_all_dim"] = 0.4
                # Shapes of weights that are not those of the base; null if they are absent.
                after, case["output"] = output(name, {**config, **changed})
                case["shapes"] = {key: after.get(key) for key in {**weights, **after} if after.get(key) != weights.get(key)}
            elif mark == "no effect" and key in defaults and key != "return_dict":  # GPT-2 fails without it
                rows = zip(output(name, {**config, **changed})[1], expected, strict=True)
                assert all(abs(one - other) < 1e-5 for one, other in rows), (base, key)
            found["changed"].append({"key": f"rope_parameters.{key}" if section else key, **case})
    return found


def sentences():
    """The modules after BERT: pooling with each mode, Dense with each activation, and Normalize, with a text that has no token."""
    name, config = BASES["bert"]
    model = fill(transformers.BertModel(transformers.AutoConfig.for_model(name, **config), add_pooling_layer=False))
    ids = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0], [0, 0, 0, 0, 0]])
    mask = torch.tensor([[1] * 5, [1] * 3 + [0] * 2, [0] * 5])
    linear = {"linear.weight": [8, 16], "linear.bias": [8]}
    found = {"shapes": linear, "ids": [[3, 1, 4, 1, 5], [9, 2, 6], []], "cases": []}
    with torch.no_grad():
        hidden = model(ids, attention_mask=mask).last_hidden_state
        for mode in ["mean", "cls"]:
            for activation in [None, "activation.Tanh", "linear.Identity", "activation.ReLU", "activation.GELU", "activation.Sigmoid", "activation.SiLU"]:
                for is_normalized in [False, True]:
                    features = {"token_embeddings": hidden, "attention_mask": mask}
                    features = pooling.Pooling(16, mode)(features)
                    if activation:
                        function = getattr(torch.nn, activation.split(".")[1])()
                        layer = dense.Dense(16, 8, activation_function=function)
                        layer.load_state_dict({key: value_of(key, shape) for key, shape in linear.items()})
                        features = layer(features)
                    if is_normalized:
                        features = normalize.Normalize()(features)
                    found["cases"].append({
                        "mode": mode, "activation": activation and f"torch.nn.modules.{activation}", "normalize": is_normalized,
                        "output": [numbers(row, 7) for row in features["sentence_embedding"]],
                    })
    return found


def top_p():
    """Which of equal logits stay."""
    logits = torch.tensor([[0.0] * 8, [1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, -2.0]])
    found = {"logits": logits.tolist(), "kept": {}}
    for top_p in [0.01, 0.3, 0.55, 0.9, 0.99]:
        kept = transformers.TopPLogitsWarper(top_p)(None, logits.clone())
        found["kept"][str(top_p)] = [[not math.isinf(one) for one in row] for row in kept.tolist()]
    return found


def heads():
    """The names of weights beside those of the base model, in each model with another head."""
    found = {}
    for name, (of, config) in BASES.items():
        if name != of:
            continue
        config = transformers.AutoConfig.for_model(of, **config)
        base = transformers.AutoModel.from_config(config)
        found[name] = {}
        for mapping in ["SEQUENCE_CLASSIFICATION", "TOKEN_CLASSIFICATION", "QUESTION_ANSWERING", "CAUSAL_LM", "MASKED_LM", "PRETRAINING",
                        "NEXT_SENTENCE_PREDICTION", "MULTIPLE_CHOICE"]:
            mapping = getattr(transformers, f"MODEL_FOR_{mapping}_MAPPING")
            head = mapping.get(type(config), None)
            if head is not None:
                head = head[0] if isinstance(head, tuple) else head
                found[name][head.__name__] = shapes(head(config))
        found[name][type(base).__name__] = shapes(base)
    return found


def main():
    torch.set_num_threads(1)
    marks = tables()
    text = json.dumps(marks, indent=1)
    # One line for each list and each object without further ones.
    text = re.sub(r"[\[{][^\[\]{}]*[\]}]", lambda found: re.sub(r"\s+", " ", found[0]), text)
    (HERE / "../../pytree-models/src/settings.json").resolve().write_text(text + "\n")
    goldens = {"versions": marks["versions"], "tokens": TOKENS}
    goldens["models"] = {base: cases(base, marks) for base in BASES}
    goldens["sentences"], goldens["top_p"], goldens["heads"] = sentences(), top_p(), heads()
    (HERE / "settings.json").write_text(json.dumps(goldens) + "\n")


if __name__ == "__main__":
    main()
