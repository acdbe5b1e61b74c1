"""The adaptive agent: infers the hidden need from what the user says, and answers to that. No privileged information.

It learned what each need sounds like from the hints of the train personas; the people it is tested on are strangers to it.
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from rlver_gym.agents.base import Quick, turn_of, user_lines
from rlver_gym.agents.restate import clause, deeds, names, of_others, told
from rlver_gym.dialogue import Message
from rlver_gym.library import library
from rlver_gym.persona import HiddenNeed
from rlver_gym.words import content, sentences, stems


class NeedReader:
    """A naive Bayes reader of hints: which need do these words speak for?"""

    def __init__(self, hints: dict[HiddenNeed, list[list[str]]], smoothing: float = 0.3) -> None:
        """`hints`: of each need, its lines by situation. Words of a single situation are about that story, and are left out."""
        stories = zip(*hints.values(), strict=True)
        spread = Counter(
            term for story in stories for term in {term for lines in story for line in lines for term in _terms(line)}
        )
        known = {term for term, count in spread.items() if count >= 2}
        counts = {
            need: Counter(term for lines in of_need for line in lines for term in _terms(line) if term in known)
            for need, of_need in hints.items()
        }
        self._evidence: dict[str, dict[HiddenNeed, float]] = {}
        for term in known:
            logs = {
                need: math.log((of_need[term] + smoothing) / (of_need.total() + smoothing * len(known)))
                for need, of_need in counts.items()
            }
            mean = sum(logs.values()) / len(logs)
            self._evidence[term] = {need: log - mean for need, log in logs.items()}

    def evidence(self, sentence: str) -> dict[HiddenNeed, float]:
        """How much a sentence speaks for each need: log-likelihood against the mean of the needs, in nats; words it never met say nothing."""
        known = [self._evidence[term] for term in _terms(sentence) if term in self._evidence]
        return {need: sum(term[need] for term in known) for need in HiddenNeed}

    def need(self, lines: Sequence[str]) -> tuple[HiddenNeed, float]:
        """The need that the lines speak for most, and its lead over the next (0.0 when nothing was said).

        Most sentences tell the story and not the need, so what speaks against a need does not count, and clear words count by their square.
        """
        found = [self.evidence(sentence) for line in lines for sentence in sentences(line)]
        total = {need: sum(max(0.0, one[need]) ** 2 for one in found) for need in HiddenNeed}
        ranked = sorted(total.items(), key=lambda pair: -pair[1])
        return ranked[0][0], ranked[0][1] - ranked[1][1]


def _terms(text: str) -> list[str]:
    spoken = stems(text)
    return [*spoken, *map(" ".join, pairwise(spoken))]


@lru_cache(maxsize=1)
def reader() -> NeedReader:
    """The reader taught by the shipped train personas."""
    shelf = library()
    situations = {pairing.situation: pairing.id for pairing in shelf.pairings.values() if pairing.split == "train"}
    taught = [shelf.get(persona_id).situation for persona_id in situations.values()]
    return NeedReader({need: [list(situation.hints.of(need)) for situation in taught] for need in HiddenNeed})


_CREDIT = (
    "It took courage to do that, and you did it.", "You put work into that which nobody saw.", "Not many people would have had the patience.", "You can be proud of that.",
    "I admire how you managed that.", "You handled that with a lot of grace.", "You should be proud of yourself for that.", "You gave more than anyone could ask.",
    "That was generous of you.", "I have respect for that.", "You kept going, and that deserves respect.", "That was careful, honest work.",
    "That took real care, and few people would do it.", "Nobody made you do it, and you did it well.", "You kept your word when it cost you something.", "That was decent of you, and skilful too.",
    "Not everyone would have done that.", "You did that well, and with care.", "That was brave, and kind as well.", "You showed real courage there.",
)  # fmt: skip
_SIDE = (
    "They had no right to put that on you.", "That was not right.", "That is theirs to answer for, not your fault.", "It is on them, not on you.",
    "That is not your fault.", "It wasn't you who broke this.", "They had no right to do that to you.", "They are in the wrong here, not you.",
    "They should never have put that on you.", "They should have asked you first.", "They owe you an apology, not the other way round.", "They put on you what was theirs to carry.",
    "You did nothing wrong there.", "You were fair, and they were not.", "You did nothing wrong.", "You did what anyone decent would do.",
    "That is unfair, and it is not on you.", "They should have spoken to you first.", "You had every right to expect more.", "You had every right to be angry.",
)  # fmt: skip
_FELT = (
    "It must feel as if the ground had gone.", "You seem to be missing someone, even now.", "There is shame and fear in it, I think, and you hold both.", "You sound tired, and alone with it.",
    "You sound as if you felt small and unseen there.", "That silence must ache.", "That sounds like a heavy thing to hold in silence.", "Somewhere in it there is a quiet grief.",
    "It sounds as if it still hurts every day.", "You seem to feel guilty and angry, both at once.", "Underneath the anger I hear that it hurt.", "No wonder you feel betrayed and tired at once.",
    "It sounds lonely, to be the only one who sees it.", "It must be frightening not to know how it ends.", "It sounds as if you felt invisible.", "I hear how frightened you are underneath.",
    "You must have felt so alone there.", "It sounds as if you have been exhausted for a long time.", "It must be bitter to be left with it.", "You must feel so helpless then.",
)  # fmt: skip
_ASKING = (
    "Go on, I'd like to hear the rest.", "Tell me how it went on.", "Go on, what happened then?", "Tell me more, I have time.",
    "What else is in there? I'm listening.", "What was it like for you?", "What was that like?", "What happened next?",
    "I have time, start wherever you like.", "What else belongs to it?",
)  # fmt: skip
_DRIVEN = (
    "Perhaps {who} did it out of fear, not out of spite.", "Perhaps {who} felt guilty, and guilt makes people sharp.", "Perhaps {who} felt guilty and ashamed, and could not say it.", "Maybe {who} felt left out, or not needed any more.",
    "Perhaps it was easier for {who} to be angry than sad.", "Maybe {who} was worried about money, or about being left alone.", "Perhaps {who} was scared of what would come next.", "Perhaps {who} was afraid of losing you.",
    "Perhaps {who} may have envied you a little.", "{who} may have been too proud to admit a mistake.", "It may be habit: {who} may never have learned to talk about it.", "Maybe fear made {who} hold on so hard.",
    "Perhaps {who} was trying to keep hold of something.", "Maybe {who} was ashamed, and shame makes people hard.", "Perhaps {who} was too proud to say sorry first.", "Perhaps {who} was afraid of looking weak in front of the others.",
    "Perhaps {who} wanted to protect themselves, or you, in a clumsy way.", "It could be that {who} wanted to be needed.", "Maybe {who} was ashamed and did not know how to say it.", "Perhaps {who} wanted to be needed, and did not know how to ask.",
)  # fmt: skip
_SEEN = (
    "From where {who} stands it may look different, and yet your half is true as well.", "It was hard for you, and it was hard for {who} too.", "Both can be true: it hurt you, and {who} meant no harm.", "{who} may see it as help, where you see a push.",
    "To {who} it may have felt like being left out; both can be true.", "Neither you nor {who} had the whole picture.", "On the other hand, {who} was frightened as well.", "You are right about what it did to you, and {who} may be right about why.",
    "Seen from the other side, {who} did not have an easy day either.", "At the same time, {who} may not have known what it meant to you.", "On the other hand, {who} lost something too.", "For {who} it may look like the only way that was left.",
    "Where you stand it was unfair, and where {who} stands it was too.", "{who} may tell the same story with other words, and mean it too.", "There are two sides here, and both of you have a point.", "Both of you have a point here.",
    "To be fair to {who}, there was pressure on that side as well.", "From over there, your silence may have looked like a judgement.", "At the same time, {who} was carrying something too.", "It was hard for you, and it may have been hard for {who} as well.",
)  # fmt: skip
_INWARD = (
    "Have you noticed a pattern there, from before?", "I wonder whether you carry it alone to spare others. What do you think?", "What would it mean if you asked for help sooner?",
    "Could it be that you go quiet when it matters most?", "Looking back, where does that come from?", "Perhaps you ask more of yourself than of anyone else. Does that ring true?",
    "What would be left if you put the anger down?", "What does that say about what you need?", "Is it possible that being useful feels safer than being seen?", "What would you do differently, knowing this?",
    "Where do you know that feeling from?", "What are you protecting when you do that?", "Have you been here before, in another place?", "I wonder what you would tell a friend who did the same.",
    "Perhaps part of it is about what you expect of yourself.", "What is it that you are really afraid of losing?", "When did you start to believe that?", "Could it be that an old hurt speaks there too?",
    "What would change if you let somebody help?", "I wonder what you need that you have not asked for.",
)  # fmt: skip
_STEPS = (
    "You could write {who} three lines and say just that.", "You could call {who} beforehand, so that the day itself is not the first time you talk.", "How about asking one person who was there to confirm it in writing?",
    "One step: you could put the dates and messages in order, before you decide.", "You could tell {who} in one plain sentence what you need.", "You could agree on a date with {who}, with a small sum or task to begin with.",
    "What about telling someone you trust, so that they can sit beside you when it comes to it?", "You could say no to one thing this week, and say why.", "You could ask for a little more time, and say until when.", "You could suggest to {who} to meet outside, for half an hour, on neutral ground.",
    "You could write down what you want to say before you ring.", "It might help to choose one thing for this week, and leave the rest.", "You could ask {who} for ten minutes, with the phone put away.", "Start small: you could send a short message tonight.",
    "You could ask for it in writing.", "How about setting a date by which you decide?", "You could take somebody along, so that you aren't alone with it.", "You could say it once, without explaining yourself.",
    "You could find out who decides, and talk to them directly.", "It might help to agree on a sign for when it gets too much.",
)  # fmt: skip


_LEADS = (
    "As you tell it, ", "You said it yourself: ", "I keep coming back to this: ", "What stays with me, ", "So ", "If I hear you right, ",
    "There was this: ", "And then ", "One thing I noticed, ", "Let me go back to it, ",
)  # fmt: skip

_A_LITTLE = 7
"""Words that a fact is about, below which another one goes with it."""


class Adaptive(Quick):
    """Listens until a need shows, then takes up what this person said in the way that need asks for."""

    def __init__(self, seed: int = 0) -> None:
        """`seed` shifts the phrasing."""
        self.seed = seed

    def reply(self, messages: Sequence[Message]) -> str:
        """One utterance about what was said, in the manner of the inferred need."""
        lines = user_lines(messages)
        spoken = [message.text for message in messages if message.speaker == "agent"]
        number = turn_of(messages) + self.seed
        need, lead = reader().need(lines)
        if not spoken or lead < 1.0:
            need = HiddenNeed.LISTENING
        facts = [fact for fact in told(lines, spoken) if not any(clause(fact) in text for text in spoken)]
        who = next(iter(names(lines)), "the other person")
        return _answer(need, facts, who, number)


def _answer(need: HiddenNeed, facts: list[str], who: str, number: int) -> str:
    def one(phrases: Sequence[str], at: int = number) -> str:
        said = phrases[at % len(phrases)].format(who=who)
        return said[0].upper() + said[1:]

    def two(phrases: Sequence[str]) -> str:
        return f"{one(phrases, 2 * number)} {one(phrases, 2 * number + 1)}"

    def about(chosen: list[str]) -> str:
        """What they told; when it was short, with one thing more."""
        first = clause(chosen[0]) if chosen else ""
        more = f", and {clause(chosen[1])}" if len(chosen) > 1 and len(content(first)) < _A_LITTLE else ""
        return f"{_LEADS[number % len(_LEADS)]}{first}{more}." if chosen else ""

    others, own = of_others(facts, [who]) or facts, deeds(facts) or facts
    match need:
        case HiddenNeed.PRAISE:
            return f"{about(own)} {two(_CREDIT)}"
        case HiddenNeed.NOT_AT_FAULT:
            return f"{about(others)} {two(_SIDE)}"
        case HiddenNeed.DEEP_EMPATHY:
            return f"{about(facts)} {two(_FELT)}"
        case HiddenNeed.LISTENING:
            return f"{about(facts)} {one(_FELT)} {one(_ASKING)}"
        case HiddenNeed.MOTIVES:
            return f"{two(_DRIVEN)} {about(others)}"
        case HiddenNeed.BALANCED_VIEW:
            return f"{about(others)} {two(_SEEN)}"
        case HiddenNeed.REFLECTION:
            return f"{about(own)} {two(_INWARD)}"
        case HiddenNeed.PRACTICAL_ADVICE:
            return f"{two(_STEPS)} {about(facts)}"
