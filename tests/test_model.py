"The decoder: counts, cache, sampling, files. What is too slow or too roundabout for a cell of chapter 06."
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from z80lit import model as M
from z80lit.model import BOS, CONTEXT, EOS, PAD, PRESETS, Config, Model, build, byte_mask, compose, count, encode, load, sample, save

torch.set_num_threads(1)
TINY = Config(d=32, layers=2, heads=2, ff=64)

def contexts(n, seed=0):
    c = np.random.default_rng(seed).integers(0, 256, (n, CONTEXT)); c[:, 0] %= 16
    return c

@pytest.mark.parametrize('name, millions', [('pocket', 0.99), ('warmup', 6.63), ('article', 51.27), ('mnemonic', 228.10)])
def test_counts(name, millions):
    with torch.device('meta'): assert round(count(Model(PRESETS[name])) / 1e6, 2) == millions

def test_build_is_seeded_and_leaves_the_global_generator_alone():
    torch.manual_seed(5); before = torch.get_rng_state()
    a, b, c = build(TINY, 1), build(TINY, 1), build(TINY, 2)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters()))
    assert not torch.equal(a.head.weight, c.head.weight)

@torch.inference_mode()
def greedy_without_cache(model, context, limit):
    "The slow way: the whole sequence again for each byte"
    tokens, mask = [BOS], byte_mask(model.config.vocab)
    while len(tokens) <= limit:
        chosen = int((model(torch.as_tensor(context[None]), torch.tensor([tokens]))[0, -1] + mask).argmax())
        if chosen == EOS: break
        tokens.append(chosen)
    return bytes(tokens[1:])

def test_cached_sampling_equals_uncached():
    model, c = build(TINY, 3), contexts(6)
    model.head.weight.data *= 20      # decided choices
    assert compose(model, c, max_len=40) == [greedy_without_cache(model, x, 40) for x in c]

def test_longest_program_fills_the_positions():
    model = build(Config(d=32, layers=1, heads=2, ff=32, positions=20))
    model.head.weight.data[EOS] = 0   # a logit of 0 for EOS: something else is larger
    tokens, lengths = sample(model, contexts(3), max_len=10_000)
    assert tokens.shape == (3, 10) and (lengths == 10).all() and model.max_len == 10

def test_batches_do_not_change_greedy_programs():
    model, c = build(TINY, 4), contexts(37)
    assert compose(model, c, max_len=9) == [bytes(p[:n]) for p, n in zip(*sample(model, c, max_len=9, batch=5))]

def test_a_context_asked_many_times_gets_the_same_answer_as_asked_once():
    model, c = build(TINY, 4), contexts(12)
    model.head.weight.data[EOS] *= 2          # some end early, some do not: rows leave the batch at different times
    once = compose(model, c, max_len=40)
    assert len({len(p) for p in once}) > 3
    assert compose(model, np.tile(c, (10, 1)), max_len=40) == once * 10

def test_nothing_asked_nothing_written():
    tokens, lengths = sample(build(TINY), np.zeros((0, CONTEXT)))
    assert tokens.shape[0] == lengths.shape[0] == 0

def test_only_bytes_come_out_of_a_vocabulary_of_words(monkeypatch):
    model, chosen, choose = build(Config(d=32, layers=1, heads=2, ff=32, vocab=1000)), [], M.choose
    model.head.weight.data[:256] = 0  # the words are as good as the bytes, and three times as many
    monkeypatch.setattr(M, 'choose', lambda *a: chosen.append(choose(*a)) or chosen[-1])
    sample(model, contexts(64), temperature=1.0, max_len=20)
    assert len(chosen) > 1 and set(torch.cat(chosen).tolist()) <= {*range(256), EOS}

def test_sampled_frequencies_follow_the_probabilities():
    model, c = build(TINY, 6), np.repeat(contexts(1), 20_000, 0)
    first, lengths = sample(model, c, temperature=1.0, max_len=1, seed=1)
    with torch.inference_mode():
        p = (model(torch.as_tensor(c[:1]), torch.tensor([[BOS]]))[0, -1] + byte_mask(260)).softmax(-1).numpy()
    seen = np.bincount(first[lengths == 1, 0], minlength=256) / 20_000
    assert np.abs(seen - p[:256]).max() < 0.004 and abs((lengths == 0).mean() - p[EOS]) < 0.004

@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=20), min_size=1, max_size=6))
def test_encode_round_trip(programs):
    batch = encode(np.zeros((len(programs), CONTEXT)), programs)
    for i, p in enumerate(programs):
        row = batch.targets[i].tolist()
        assert row == [*p, EOS] + [PAD] * (len(row) - len(p) - 1)
        assert batch.inputs[i].tolist() == [BOS, *p] + [PAD] * (len(row) - len(p) - 1)

@pytest.mark.parametrize('bad, says', [
    (np.zeros((2, 8)), 'expected (N, 9)'), (np.zeros(9), 'expected (N, 9)'), (np.full((1, 9), 300), 'outside 0..255'),
    (np.full((1, 9), -1), 'outside 0..255'), ([[16] + [0] * 8], 'type 16')])
def test_bad_contexts(bad, says):
    with pytest.raises(ValueError, match='.*') as e: sample(build(TINY), bad)
    assert says in str(e.value)

def test_round_trip_and_names(tmp_path):
    model = build(TINY, 7)
    save(model, tmp_path / 'deep' / 'm.safetensors')
    again = load(tmp_path / 'deep' / 'm')
    assert again.config == TINY and all(torch.equal(p, q) for p, q in zip(model.parameters(), again.parameters()))
    assert sorted(p.name for p in (tmp_path / 'deep').iterdir()) == ['m.json', 'm.safetensors']
    again.head.weight.data += 1       # loaded weights can be trained

def test_every_cut_of_a_checkpoint_is_an_error(tmp_path):
    save(build(TINY), tmp_path / 'm')
    whole = (tmp_path / 'm.safetensors').read_bytes()
    for n in (0, 1, 7, 8, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / 'm.safetensors').write_bytes(whole[:n])
        with pytest.raises(ValueError, match='m.safetensors: broken or no safetensors'): load(tmp_path / 'm')

@pytest.mark.parametrize('change, says', [
    ('{', 'no JSON'), ('[]', 'no configuration of a z80lit model'), ('{"format": "z80lit.model/2"}', 'no configuration of a z80lit model'),
    ('{"format": "z80lit.model/1"}', 'bad configuration'), ('{"format": "z80lit.model/1", "config": {"depth": 3}}', 'bad configuration'),
    ('{"format": "z80lit.model/1", "config": {"d": 32, "layers": 3, "heads": 2, "ff": 64}}', 'do not match'),
    ('{"format": "z80lit.model/1", "config": {"d": 32, "layers": 2, "heads": 2, "ff": 64, "vocab": 500}}', 'vocabulary of 260')])
def test_wrong_configurations(tmp_path, change, says):
    save(build(TINY), tmp_path / 'm'); (tmp_path / 'm.json').write_text(change)
    with pytest.raises(ValueError) as e: load(tmp_path / 'm')
    assert says in str(e.value) and str(tmp_path) in str(e.value)

def test_no_pickle_is_ever_read(tmp_path):
    for name in ('model', 'rl', 'attempts', 'causes', 'sft', 'dissect'):
        source = Path(M.__file__).with_name(f'{name}.py').read_text()
        assert 'pickle' not in source and 'torch.load' not in source
    save(build(TINY), tmp_path / 'm')
    torch.save({'x': torch.zeros(1)}, tmp_path / 'm.safetensors')
    with pytest.raises(ValueError, match='no safetensors'): load(tmp_path / 'm')

# the same arithmetic as transformers' Llama

class NoRotation(torch.nn.Module):
    "Rotary positions turned by nothing: cosine 1, sine 0"
    def __init__(self, width): super().__init__(); self.width = width
    def forward(self, x, position_ids): shape = (*position_ids.shape, self.width); return torch.ones(shape), torch.zeros(shape)

def twin(model):
    "transformers' Llama with our weights. What it has no place for (learned positions, the reader of contexts) goes into its input vectors."
    c, llama = model.config, M.Llama(model.config).llama
    llama.model.rotary_emb = NoRotation(c.d // c.heads)
    with torch.no_grad():
        for ours, theirs in zip(model.blocks, llama.model.layers):
            a, f = theirs.self_attn, theirs.mlp
            pairs = [*zip((a.q_proj, a.k_proj, a.v_proj), ours.attention.qkv.weight.chunk(3)), (a.o_proj, ours.attention.out.weight), (theirs.input_layernorm, ours.norm1.weight),
                     (theirs.post_attention_layernorm, ours.norm2.weight), *zip((f.gate_proj, f.up_proj, f.down_proj), (ours.feed.gate.weight, ours.feed.up.weight, ours.feed.down.weight))]
            for module, weight in pairs: module.weight.copy_(weight)
        llama.model.norm.weight.copy_(model.norm.weight); llama.lm_head.weight.copy_(model.head.weight)
    return llama

@pytest.mark.slow
@pytest.mark.parametrize('config', [TINY, PRESETS['pocket'], Config(d=96, layers=3, heads=6, ff=200)], ids=['tiny', 'pocket', 'odd'])
def test_logits_equal_those_of_transformers_llama(config):
    pytest.importorskip('transformers', reason='a development dependency')
    model, c = build(config, 3), torch.as_tensor(contexts(5))
    for p in model.parameters(): p.data += 0.02 * torch.randn(p.shape, generator=torch.Generator().manual_seed(1))   # norms that are not 1
    tokens = torch.randint(0, 256, (5, 30), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        x = torch.cat((model.context(c, model.token), model.token(tokens)), 1) + model.position.weight[:CONTEXT + 30]
        theirs = twin(model)(inputs_embeds=x, use_cache=False).logits[:, CONTEXT:]
        ours = model(c, tokens)
    assert ours.std() > 0.1 and (ours - theirs).abs().max() < 1e-4 * ours.abs().max()
