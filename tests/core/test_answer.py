"""One reading of a model's answer: what is words, what is not, and why there are none."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlver_gym.answers.markup import carries_structure, find_open_thought
from rlver_gym.answers.reading import (
    classify_ending,
    read_answer,
    read_content,
    read_words,
)

SAID = "What did he say?"
THOUGHT = "She lost her job.\nBe kind."
THINKING = [
    "{t}\n</think>\n\n{w}",
    "<think>{t}</think>{w}",
    "<think>\n{t}\n</think>\n\n{w}",
    "<thinking>{t}</thinking>{w}",
    "<Thinking >{t}</ THINKING>{w}",
    "<THINK>{t}</THINK>{w}",
    '<think effort="low">{t}</think>{w}',
    "<think>{t}</thinking>{w}",
    "<thought>{t}</thought>{w}",
    "<reasoning>{t}</reasoning>{w}",
    "<reflection>{t}</reflection>{w}",
    "<inner_monologue>{t}</inner_monologue>\n{w}",
    "<seed:think>{t}</seed:think>{w}",
    "<longcat_think>{t}</longcat_think>{w}",
    "<thought_process>{t}</thought_process>{w}",
    "[unused16]{t}[unused17]{w}",
    "[THINK]{t}[/THINK]{w}",
    "{t}[/THINK]{w}",
    "[think]{t}[/think]{w}",
    "◁think▷{t}◁/think▷{w}",
    "＜think＞{t}＜/think＞{w}",
    "&lt;think&gt;{t}&lt;/think&gt;{w}",
    "<|think|>{t}<|/think|>{w}",
    "<|begin_of_thought|>{t}<|end_of_thought|>\n\n<|begin_of_solution|>{w}<|end_of_solution|>",
    "<|START_THINKING|>{t}<|END_THINKING|><|START_RESPONSE|>{w}<|END_RESPONSE|>",
    "<|thinking_start|>{t}<|thinking_end|>{w}",
    "<|inner_prefix|>{t}<|inner_suffix|>{w}",
    "<unused94>thought\n{t}<unused95>{w}",
    "<|channel>thought\n{t}<channel|>{w}",
    "Here is my thought process: {t} Here is my response: {w}",
    "<|channel|>analysis<|message|>{t}<|end|><|start|>assistant<|channel|>final<|message|>{w}",
    "<|channel|>analysis<|message|>{t}<|end|><|channel|>commentary<|message|>{t}<|end|>"
    "<|start|>assistant<|channel|>final<|message|>{w}<|return|>",
    "<|channel|>analysis{t}<|channel|>final<|message|>{w}",
    "analysis<|message|>{t}<|end|><|start|>assistant<|channel|>final<|message|>{w}",
    "analysis{t}assistantfinal{w}",
    "{w}<think>{t}</think>",
    "{w}\n\n<think>{t}",
    "<think>{t}</think><thinking>{t}</thinking>{w}",
    "<think>{t}</think>{w}<think>{t}</think>",
    "<think>{t}<think>{t}</think>{w}",
    "<think>{t}</think>{w}</think>",
    "{t}</think>{t}</think>{w}",
    "<think>{t} They wrote `</think>`.</think>{w}",
    "<think>{t}</think><answer>{w}</answer>",
]


@pytest.mark.parametrize("form", THINKING)
def test_a_thought_in_the_markup_of_any_family_is_not_heard(form):
    answer = read_answer(form.format(t=THOUGHT, w=SAID))
    assert (answer.words, answer.silence) == (SAID, None)
    assert "Be kind." in answer.thought
    assert read_words(form.format(t=THOUGHT, w=SAID)) == SAID


@pytest.mark.parametrize(
    "form",
    [
        "{w}<|im_end|>",
        "{w}<|im_end|>\n<|im_start|>user\nHe said no.<|im_end|>",
        "{w}<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHe said no.",
        "{w}</s>",
        "<s>{w}</s>",
        "{w}<end_of_turn>\n<start_of_turn>user\nHe said no.",
        "{w}<|endoftext|>Another document.",
        "{w}<|end_of_text|>",
        "{w}<|end|>",
        "{w}<|return|>",
        "{w}<｜end▁of▁sentence｜>",
        "{w}<|END_OF_TURN_TOKEN|>",
        "{w}[INST] Well? [/INST]",
        "<|im_start|>assistant\n{w}<|im_end|>",
        "assistant\n\n{w}",
        "<|reserved_1|>{w}<|reserved_2|>Well?",
        "<start_of_turn>model\n{w}<end_of_turn>",
        "<|start|>assistant<|message|>{w}<|end|>",
        "\n<|start_header_id|>assistant<|end_header_id|>\n\n{w}",
    ],
)
def test_nothing_after_the_end_of_the_turn_is_heard(form):
    assert read_answer(form.format(w=SAID)) == (SAID, "", "finished", None)


@pytest.mark.parametrize(
    "words",
    [
        "I think so. What do you think?",
        "Thinking of you. My reasoning: none.",
        "[thinking] That sounds hard.",
        "*thinks for a moment* Hm.",
        "Final answer: stay.",
        "An analysis of this would miss the point.",
        "analysis paralysis is real, and the final word is yours",
        "I say <think> aloud </think>.",
        "Such models print `</think>` when they are done.",
        'He wrote "<think>" on the board.',
        "The <s>old</s> new plan.",
        "I <3 you, and 2 > 1.",
        "<thought of the day> be kind",
        '{"reading": "they wrote </think> and <|im_end|>", "change": -4}',
        "你觉得呢？我想 <先> 听你说。",
    ],
)
def test_words_that_merely_speak_of_thoughts_stay_as_they_are(words):
    assert read_answer(words) == (words, "", "finished", None)


@pytest.mark.parametrize(
    ("text", "finish_reason", "silence"),
    [
        ("", None, "empty"),
        (" \n", "stop", "empty"),
        ("<|im_end|>", "stop", "empty"),
        ("", "length", "thoughts_cut"),
        ("<think>I should", "length", "thoughts_cut"),
        ("<think>I should", None, "thoughts_cut"),
        ("<|channel|>analysis<|message|>I should", "length", "thoughts_cut"),
        ("analysisWe should", None, "thoughts_cut"),
        ("[THINK]I should", None, "thoughts_cut"),
        ("<think>I should.</think>", "stop", "thoughts"),
        ("I should.</think>", "stop", "thoughts"),
        ("", "content_filter", "withheld"),
        ("", "error", "broken"),
    ],
)
def test_an_answer_without_words_says_why(text, finish_reason, silence):
    answer = read_answer(text, finish_reason)
    assert (answer.words, answer.silence) == ("", silence)


def test_words_that_were_cut_are_words_and_say_that_they_were_cut():
    answer = read_answer("<think>Hm.</think>I hear you, and", "length")
    assert (answer.words, answer.ending, answer.silence) == ("I hear you, and", "cut", None)


@pytest.mark.parametrize(
    ("finish_reason", "ending"),
    [
        *((one, "finished") for one in (None, "", "stop", "eos_token", "tool_calls", "end_turn")),
        *((one, "cut") for one in ("length", "MAX_TOKENS", "max-tokens", "model_length")),
        *((one, "cut") for one in ("incomplete", "FinishReason.MAX_TOKENS")),
        *((one, "withheld") for one in ("content_filter", "SAFETY", "sensitive", "RECITATION")),
        *((one, "broken") for one in ("error", "abort", "insufficient_system_resource")),
    ],
)
def test_how_an_answer_ended_is_read_in_the_words_of_many_servers(finish_reason, ending):
    assert classify_ending(finish_reason) == ending


HI, HM = ({"type": "text", "text": text} for text in ("hi", "hm"))


@pytest.mark.parametrize(
    ("message", "text", "thought", "refusal"),
    [
        ({"content": "hi"}, "hi", "", ""),
        ({"content": None, "reasoning_content": "hm"}, "", "hm", ""),
        ({"content": "hi", "reasoning": "hm"}, "hi", "hm", ""),
        ({"content": [HI]}, "hi", "", ""),
        ({"content": ["h", {"type": "output_text", "text": "i"}]}, "hi", "", ""),
        ({"content": {"type": "text", "text": {"value": "hi"}}}, "hi", "", ""),
        ({"content": [{"type": "thinking", "thinking": [HM]}, HI]}, "hi", "hm", ""),
        ({"content": [{"type": "reasoning", "summary": "hm"}, {"text": "hi"}]}, "hi", "hm", ""),
        ({"content": [{"text": "hm", "thought": True}, {"text": "hi"}]}, "hi", "hm", ""),
        ({"content": [{"type": "refusal", "refusal": "no"}]}, "", "", "no"),
        ({"content": [{"type": "image_url", "image_url": {"url": "x"}}, 7, None]}, "", "", ""),
    ],
)
def test_parts_of_a_content_are_joined_and_thoughts_told_apart(message, text, thought, refusal):
    assert read_content(message) == (text, thought, refusal)


def test_a_half_character_is_mended_wherever_it_stands():
    assert read_answer("I hear you \ud83d").words == "I hear you \ufffd"
    assert read_answer("Hi \ud83d\ude00").words == "Hi \U0001f600"


@given(st.text(max_size=300))
def test_any_text_is_read(text):
    answer = read_answer(text)
    assert answer.words == answer.words.strip()
    assert bool(answer.words) == (answer.silence is None)


FAMILIES = [
    ("<think>", "</think>"),
    ("<Reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<seed:think>\n", "\n</seed:think>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
]


@given(st.lists(st.one_of(st.none(), st.sampled_from(FAMILIES)), min_size=1, max_size=9))
def test_any_number_of_thoughts_anywhere_leaves_all_words_and_no_thought(segments):
    text = "\n".join(
        f"{one[0]}Private {number}.{one[1]}" if one else f"Open {number}."
        for number, one in enumerate(segments)
    )
    answer = read_answer(text)
    for number, one in enumerate(segments):
        assert (f"Open {number}." in answer.words) == (one is None)
        assert (f"Private {number}." in answer.thought) == (one is not None)


@pytest.mark.parametrize(
    "text",
    [
        "<think>" * 7_000,
        "<think></thinking>" * 3_000,
        "</think>" * 7_000,
        "<think>x</think>a " * 3_000,
        "<s>" * 15_000,
        "</s>" * 12_000,
        "<|channel|>analysis" * 2_500,
        "<" + " " * 50_000 + "x",
        "a" + " \n" * 25_000 + "b",
        '{"a":' * 10_000 + "<think>",
        "{" * 50_000 + "<think>",
    ],
    ids=lambda text: text[:12],
)
def test_hostile_markup_is_read_in_a_moment(text):
    began = time.process_time()
    read_answer(text)
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    ("cue", "opened"),
    [
        ("<|im_start|>assistant\n<think>\n", "<think>"),
        ("<|assistant|>[THINK]", "[THINK]"),
        ("assistant: ◁think▷", "◁think▷"),
        ("<|start|>assistant<|channel|>analysis<|message|>",) * 2,
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", ""),
        ("<|start|>assistant<|channel|>final<|message|>", ""),
        ("<|im_start|>assistant\n", ""),
    ],
)
def test_a_thought_that_the_prompt_begins_is_found(cue, opened):
    assert find_open_thought(cue) == opened
    if opened:
        assert read_answer(THOUGHT, opened=opened).words == ""


def test_tokens_that_tell_thoughts_from_words_are_known():
    kept = ["<think>", "</think>", "[THINK]", "◁think▷", "<|channel|>", "<|message|>", "<|end|>"]
    assert [one for one in (*kept, "<|im_end|>", "<pad>", "</s>") if carries_structure(one)] == kept
