"""The adaptive agent: infers the hidden need from what the user says, and answers to that. No privileged information.

It learned what each need sounds like from the hints of the train personas; the people it is tested on are strangers to it.
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from rlver_gym.agents.base import turn_of, user_lines
from rlver_gym.agents.restate import clause, deeds, names, of_others, told
from rlver_gym.dialogue import Message
from rlver_gym.library import library
from rlver_gym.persona import HiddenNeed
from rlver_gym.words import sentences, stems


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
    "That took real care, and few people would do it.", "I have respect for that.", "That says something good about you.", "It took strength, and it deserves to be seen.",
    "Not everyone would have done that.", "There is courage in that.", "That counts, whatever anybody says.", "I admire how you managed that.",
    "That was decent of you, and skilful too.", "You deserve credit for that.",
    "You kept your word when it cost you something.", "Nobody made you do it, and you did it well.", "You can be proud of that.", "That was brave, and kind as well.",
    "You stayed when it would have been easier to go.", "I think that was well done.", "You did it quietly, and that makes it no smaller.", "That is real patience, and it was yours.",
    "You put work into that which nobody saw.", "That was generous of you.",
)  # fmt: skip
_SIDE = (
    "That is unfair, and it is not on you.", "You did nothing wrong there.", "They had no right to put that on you.", "I would have done the same.",
    "Nobody could have asked more of you.", "That was not right.", "You were right to see it that way.", "It was out of line, and not your doing.",
    "You could not have known.", "That is theirs to answer for, not your fault.",
    "They owed you better than that.", "You had every right to expect more.", "None of this is your doing.", "You did what could be asked of you, and more.",
    "They put on you what was theirs to carry.", "It wasn't you who broke this.", "You were treated badly there.", "There is nothing here that you need to be sorry for.",
    "They should have asked you first.", "I'm on your side in this.",
)  # fmt: skip
_FELT = (
    "You sound tired, and alone with it.", "Underneath the anger I hear that it hurt.", "There is shame and fear in it, I think, and you hold both.",
    "It sounds as if you have been exhausted for a long time.", "Part of you seems to grieve something that is lost.", "You sound as if you felt small and unseen there.",
    "That silence must ache.", "You carry guilt, I think, that nobody sees.", "You seem to be missing someone, even now.", "No wonder you feel betrayed and tired at once.",
    "You sound so sad about it.", "It must be frightening not to know how it ends.", "I hear how much it weighs on you.", "It sounds lonely, to be the only one who sees it.",
    "That must have stung.", "Somewhere in it there is a quiet grief.", "You must feel so helpless then.", "It hurts when nobody asks.",
    "I hear anger, and beneath it something softer.", "That sounds like a heavy thing to hold in silence.",
)  # fmt: skip
_ASKING = (
    "What was that like?", "Tell me more, I have time.", "Go on, what happened then?", "I'm listening, take your time.", "I want to hear the rest.",
    "What else belongs to it?", "Say more, there is no hurry.", "And then, what came next?", "You can say all of it here.", "What have you not told anyone yet?",
)  # fmt: skip
_DRIVEN = (
    "Maybe {who} was afraid of losing something, and hid it.", "Perhaps {who} felt guilty and ashamed, and could not say it.", "It could be that {who} was under pressure from somebody else.",
    "Maybe {who} felt left out, or not needed any more.", "Perhaps {who} wanted to protect themselves, or you, in a clumsy way.", "{who} may have been too proud to admit a mistake.",
    "It may be habit: {who} may never have learned to talk about it.", "Maybe {who} was hurt first, and anger was easier.", "Perhaps {who} may have envied you a little.", "I wonder whether {who} was tired and worried, and it came out wrong.",
    "Maybe {who} was ashamed, and shame makes people hard.", "Perhaps {who} was scared of what would come next.", "It may be that {who} needed to feel in charge of something.", "Maybe {who} saw no other way to be heard.",
    "Perhaps {who} felt hurt and wanted you to notice.", "{who} may have been trying to hold on to something that was slipping.", "Maybe {who} was lonely, and too proud to say so.", "Perhaps it was easier for {who} to be angry than sad.",
    "It could be that {who} wanted to be needed.", "Maybe {who} was afraid of your answer, and so never asked.",
)  # fmt: skip
_SEEN = (
    "From where {who} stands it may look different, and yet your half is true as well.", "On the other hand, {who} lost something too.", "At the same time, {who} may not have known what it meant to you.",
    "To {who} it may have felt like being left out; both can be true.", "To be fair, {who} did try in some way, even if it came too late.", "Seen from {who}'s side, there was pressure, and fear.",
    "And yet {who} had no say in it either.", "{who} carries a half of this as well.", "For {who} it was never about hurting you, perhaps.", "Each of you was waiting for the other, maybe.",
    "{who} may have been waiting for a sign from you, as you were.", "In {who}'s eyes you may have been the one who went quiet.", "{who} is perhaps as hurt as you are, in another way.", "Both of you have a point here.",
    "{who} may tell the same story with other words, and mean it too.", "What {who} did hurt you, and for {who} it may have been the only way out.", "It was hard for you, and it may have been hard for {who} as well.", "{who} may see it as help, where you see a push.",
    "You are right about what it did to you, and {who} may be right about why.", "Neither of you wanted it to come to this.",
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


class Adaptive:
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
        return f"{_LEADS[number % len(_LEADS)]}{clause(chosen[0])}." if chosen else ""

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
