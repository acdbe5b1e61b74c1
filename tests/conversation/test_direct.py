"""A question in a frame of politeness is the question itself."""

import pytest

from rlver_gym.conversation.direct import ask_directly


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("Can I ask what you do for work?", "what do you do for work?"),
        ("Mind if I ask how old you are?", "how old are you?"),
        ("Would you mind telling me who else knows?", "who else knows?"),
        ("I'm curious, what happened next?", "what happened next?"),
        ("I was wondering if you have told anyone.", "have you told anyone?"),
        ("Could you tell me a bit more about what your mum said?", "what did your mum said?"),
        ("I'd love to hear what she's like.", "what is she like?"),
        ("Would you be willing to share how long it's been?", "how long has it been?"),
        ("I'm wondering how you feel about it now.", "how do you feel about it now?"),
        ("Help me understand why it hurt so much.", "why does it hurt so much?"),
        ("I'm curious about what you did that evening.", "what did you do that evening?"),
        ("Are you comfortable telling me what the letter says?", "what does the letter says?"),
        ("Can I ask what your partner's name is?", "what is your partner's name?"),
        ("Could you say when it's due?", "when is it due?"),
        ("Can I ask, are you sleeping?", "are you sleeping?"),
        ("What was his name, if you don't mind me asking?", "What was his name?"),
        ("So, may I ask why you're here?", "why are you here?"),
        ("I wonder how much of it is fear.", "how much of it is fear?"),
        ("Can I ask your name?", "what is your name?"),
        ("Could you tell me your name, so that I know who I'm talking to?", "what is your name?"),
        ("Would you mind telling me your sister's name?", "what is your sister's name?"),
        (
            "Can I ask his name, and would you mind telling me who else knows?",
            "what is his name? who else knows?",
        ),
        ("I wonder if that's the list you carry.", "is that the list you carry?"),
    ],
)
def test_a_polite_frame_is_taken_off_and_the_verb_put_in_front(said: str, asked: str) -> None:
    assert ask_directly(said) == asked
    assert ask_directly(f"That sounds hard. {said}") == f"That sounds hard. {asked}"
    assert ask_directly(asked) == asked


@pytest.mark.parametrize(
    "said",
    [
        "",
        "   ",
        "Can you call her?",
        "I can tell you what I think.",
        "Tell me about your mum.",
        "Do you know who sent it?",
        "Can I ask you something? What do you want?",
        "I wonder if part of you is relieved.",
        "I wonder if that photo was her way of saying it.",
        "What a day! You asked him what he wanted, and he said nothing.",
        "我想知道你怎么了。",
        "I'm curious.",
        "Are you all right, and do you mind the noise much?",
        "Can I ask you to mind the door?",
        "Your name is Joe.",
        "I'd like to hear more about that, if you want to tell me.",
        "Two  blanks stay,\nand lines.",
    ],
)
def test_everything_else_stays_as_it_is(said: str) -> None:
    assert ask_directly(said) == said


@pytest.mark.parametrize(
    "text",
    [
        "and　　　　" * 1500,
        ", if" * 2000,
        "　" * 8000 + "?",
        " if you don't mind" * 450 + "?",
        "can i ask what " + "your " * 1500,
        "can i ask how many " + "a " * 4000,
    ],
)
def test_hostile_texts_are_read_in_one_pass(text: str) -> None:
    """A pattern that tries every split of the blanks would not come back."""
    assert isinstance(ask_directly(text), str)
