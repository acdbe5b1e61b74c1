"""What supporters ask about any story, ask of another person in it, and do without asking: the
vocabulary of cards and of the recogniser. Knows no card.
"""

from enum import StrEnum


class Inquiry(StrEnum):
    """What is asked of a person, whatever their story.

    A card answers each with lines of its own.
    """

    HAPPENED = "happened"
    """What happened? What's going on? What brings you here?"""
    BEGAN = "began"
    """How did it start? When did you first notice? What was the first sign?"""
    MOMENT = "moment"
    """What was that moment like? Take me back to when it happened. What went through your head
    right then?
    """
    REACTED = "reacted"
    """What did you do then? What did you say? How did you react?"""
    SINCE = "since"
    """How have things been since? What's it been like for you these days? What has changed?"""
    NOW = "now"
    """How are you right now, today? Where are you at this moment? What are you doing while we talk?
    """
    WHY = "why"
    """Why do you think it happened? Whose fault is it? How do you explain it to yourself?"""
    REGRET = "regret"
    """What do you wish you'd done differently? Would you do it again? Do you regret it?"""
    WARNING = "warning"
    """Did you see it coming? Were there signs?"""
    BEFORE = "before"
    """What was it like before? How were things when they were good? What do you miss?"""
    FEEL_NOW = "feel_now"
    """How do you feel (about it)? How does that make you feel? What's going on inside you?"""
    FEEL_THEN = "feel_then"
    """How did you feel when it happened? What did that do to you?"""
    HARDEST = "hardest"
    """What's the hardest part? What hurts most? What bothers you most? What weighs heaviest?"""
    AFRAID = "afraid"
    """What are you most afraid of? What's the worst that could happen? What worries you?"""
    UNDERNEATH = "underneath"
    """What's underneath that? Is there something you haven't said yet? What's behind the anger?"""
    BODY = "body"
    """Where do you feel it in your body? How does it show? What does it do to you physically?"""
    SLEEP = "sleep"
    """How are you sleeping? Are you getting any rest?"""
    EATING = "eating"
    """Are you eating? How's your appetite?"""
    DAYS = "days"
    """How do you get through the day? What does a day look like? How's work / school with all this
    going on?
    """
    MIND = "mind"
    """What goes round in your head? What do you think about at night? What keeps you awake?"""
    MEANS = "means"
    """What does it say about you, to you? What do you tell yourself? How do you see yourself now?
    What does it mean to you?
    """
    MATTERS = "matters"
    """Why does this matter so much? What was at stake for you? What made it so important?"""
    FAMILIAR = "familiar"
    """Has this happened before? Does it remind you of something? Is it a pattern?"""
    STRENGTH = "strength"
    """What keeps you going? What gives you strength? What helps, even a little?"""
    PROUD = "proud"
    """What did you do well? Is there something you're proud of in this?"""
    PART = "part"
    """Is there a part you played in it? What would you say is your share? What could you have done?
    """
    TOLD = "told"
    """Have you told anyone? Who knows about it? Have you talked to anybody?"""
    SUPPORT = "support"
    """Who's there for you? Who can you turn to? Do you have somebody?"""
    SILENCE = "silence"
    """What stops you from telling them? Why haven't you said anything? What makes it hard to talk
    about?
    """
    OTHERS = "others"
    """What do others say? How do your friends / family see it?"""
    UNDERSTOOD = "understood"
    """Does anyone understand? Do you feel heard? Has anybody asked how YOU are?"""
    WANT = "want"
    """What do you want? What do you wish would happen? What would you like most? What would be the
    ideal?
    """
    NEED = "need"
    """What do you need right now? What would help? What would make it easier?"""
    NEXT = "next"
    """What are you going to do? What's next? Have you thought about what to do? Do you have a plan?
    """
    COMING = "coming"
    """What's coming up? When do you have to decide? What happens now?"""
    STEP = "step"
    """What's one small thing you could do? What would be a first step? What could you do tomorrow?
    """
    TRIED = "tried"
    """What have you tried? What have you done about it so far? Did it help?"""
    STOPS = "stops"
    """What stops you? What's in the way? What makes it so hard to do?"""
    OPTIONS = "options"
    """What are your options? Which way are you leaning? What speaks for and against?"""
    UNCHANGED = "unchanged"
    """What if nothing changes? What if it goes wrong? Can you live with that?"""
    SOLVED = "solved"
    """If it was all solved tomorrow, what would be different? What would a good outcome look like?
    How would you know it's better?
    """
    FRIEND = "friend"
    """What would you tell a friend in your place?"""
    TONIGHT = "tonight"
    """What will you do tonight / after we talk? What could you do for yourself?"""
    HELP = "help"
    """Have you seen a doctor, a counsellor, a lawyer, somebody who knows about this? Would you
    think about getting help?
    """
    FORGIVE = "forgive"
    """Could you forgive them? Could it be mended? Is there a way back?"""
    GIVE_UP = "give_up"
    """Do you want to give up, quit, leave, end it? Have you thought of walking away?"""
    SURE = "sure"
    """Are you sure? How do you know? Could it be different from what you think?"""
    EXPECTED = "expected"
    """What did you expect? What were you hoping for? How did you imagine it?"""
    LEARNED = "learned"
    """What have you learned from it? What does it show you? What would you take away?"""
    OTHER_SIDE = "other_side"
    """How might it look from their side? What may they have felt? Could you see it their way?"""
    FAIR = "fair"
    """Was that fair? Do you think you deserved that? Is it right to carry it alone?"""
    MEMORY = "memory"
    """What do you think of when you remember? Is there a picture that stays with you?"""
    TALK = "talk"
    """Is it hard to talk about this? Is it okay that I ask?"""
    REST = "rest"
    """What do you do to relax? What does you good?"""
    SAFE = "safe"
    """Are you safe? Do you think of harming yourself?"""
    HEAR_ME = "hear_me"
    """What would you like from me? Advice, or just an ear?"""
    MORE = "more"
    """Tell me more. Go on."""
    ABOUT_YOU = "about_you"
    """How old are you? Where do you live?"""


PERSONAL_INQUIRIES = frozenset({Inquiry.TALK, Inquiry.REST, Inquiry.SAFE})
"""Asked of the person rather than of their story: the person's card answers first."""


class InquiryAboutOther(StrEnum):
    """What is asked about somebody else of the story, who is NAME here."""

    WHO = "who"
    """Who's NAME? How do you know each other? What is NAME to you?"""
    LIKE = "like"
    """What's NAME like? Tell me about NAME. How do you get on?"""
    FEEL = "feel"
    """How do you feel about NAME? Are you angry with NAME? What do you feel when you see NAME?"""
    WHY = "why"
    """Why did NAME do that? What was going on in NAME? What might NAME have been thinking?"""
    SAY = "say"
    """What would you like to say to NAME? What do you wish NAME knew? If NAME sat here, what would
    you say?
    """
    REACTED = "reacted"
    """What did NAME say? How did NAME react? What did NAME do?"""
    CONTACT = "contact"
    """Have you talked to NAME since? Where do things stand with NAME? Have you heard from NAME?"""
    WANT = "want"
    """What do you want from NAME? What should NAME have done? What would you need from NAME?"""
    KNOWS = "knows"
    """Does NAME know (how you feel, what it does to you)? Have you told NAME?"""


class Remark(StrEnum):
    """What a supporter does in a sentence that asks nothing."""

    SYMPATHY = "sympathy"
    """I'm so sorry. That's awful. Ouch, that must hurt. My heart goes out to you."""
    VALIDATE = "validate"
    """Anyone would feel that. That makes sense. It's normal to be furious. You have every right to
    be sad.
    """
    REFLECT = "reflect"
    """Names what the person feels or means, in other words: It sounds as if you're carrying it
    alone. So part of you wants to go and part of you is scared. You wanted to be seen.
    """
    RETELL = "retell"
    """Says back facts of the story, adds no feeling: So he left on Tuesday and took the car. Eleven
    drafts, then.
    """
    PRAISE = "praise"
    """Praises something the person did or is: That took courage. You looked after her for three
    years, that's a lot.
    """
    SIDE = "side"
    """Takes their side: You did nothing wrong. That was unfair of him. She had no right."""
    REASSURE = "reassure"
    """It'll be all right. You'll get through this. Don't worry."""
    BELITTLE = "belittle"
    """Plays it down: It's only an exam. Others have it worse. Don't take it so hard. At least you
    have your health.
    """
    CLICHE = "cliche"
    """Platitudes: Time heals all wounds. Everything happens for a reason. Communication is key.
    Stay positive.
    """
    ADVISE = "advise"
    """Suggests or tells them to do something: You should ring her. Maybe write it down. Why don't
    you talk to your boss? Have you thought of a counsellor? Go for a walk.
    """
    LISTEN = "listen"
    """I'm here. I'm listening. Go on. Take all the time you need to tell it."""
    PERMIT = "permit"
    """You don't have to answer that. No rush. You needn't decide today. It's okay not to know."""
    CONFIDE = "confide"
    """Tells of themselves: That happened to me too, when my dad died. I once failed an exam as
    well.
    """
    MOTIVE = "motive"
    """Guesses why another person acted so, or how it looks to them: Maybe she was scared of losing
    you. He may not have known what to say.
    """
    REFRAME = "reframe"
    """A new angle on the person themself: Maybe it hurts so much because you care. Perhaps the
    anger protects something. That same stubbornness got you this far.
    """
    BLAME = "blame"
    """Well, you should have known. You brought it on yourself. You let it happen."""
    INSULT = "insult"
    """You're pathetic. Grow up. Stop whining. Fuck off."""
    JOKE = "joke"
    """Teasing, light humour: Remind me never to play cards with you. So the cake outlived the
    party, ha.
    """
    SORRY = "sorry"
    """Apologises for what they said themselves: Sorry, I asked too soon. My mistake, I misread
    that.
    """
    THANKS = "thanks"
    """Thank you for telling me that. I appreciate your trust."""
    GREET = "greet"
    """Hi there. Good evening."""
    BYE = "bye"
    """I have to go now, take care. Good night."""
    ENCOURAGE = "encourage"
    """You can do this. You're stronger than you think. I believe in you."""
    EXPLAIN = "explain"
    """General knowledge, teaching: Panic is the body's alarm. Grief comes in waves. A notice period
    is usually three months.
    """
    OFFER = "offer"
    """Asks leave or offers something in the talk: Would you like to hear what I think? Shall we
    look at it together? Can I ask you something? Do you want advice or just an ear?
    """
    CHECK = "check"
    """Asks whether they got it right: Does that sound right? Did I understand you? Am I off?"""
    MACHINE = "machine"
    """As an AI language model I can't feel. I'm just a chatbot. Here is a list of resources."""
    OFFTOPIC = "offtopic"
    """Nothing to do with them: The weather is nice. Buy our new shoes. Who won the match?"""


class Feeling(StrEnum):
    """A feeling that a supporter may name."""

    ANGRY = "angry"
    SAD = "sad"
    LONELY = "lonely"
    SCARED = "scared"
    WORRIED = "worried"
    ASHAMED = "ashamed"
    GUILTY = "guilty"
    HURT = "hurt"
    DISAPPOINTED = "disappointed"
    TIRED = "tired"
    OVERWHELMED = "overwhelmed"
    STUCK = "stuck"
    CONFUSED = "confused"
    BETRAYED = "betrayed"
    HUMILIATED = "humiliated"
    HELPLESS = "helpless"
    NUMB = "numb"
    JEALOUS = "jealous"
    PROUD = "proud"
    RELIEVED = "relieved"
    HOPEFUL = "hopeful"
    UNSEEN = "unseen"
    TORN = "torn"
    FOOLISH = "foolish"
    MISSING = "missing"
