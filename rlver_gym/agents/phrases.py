"""Stock phrases for the things that a supporter can do. Each is to be said beside something that this person told; `{who}` is somebody in their story."""

CREDIT = (
    "It took courage to do that, and you did it.", "You put work into that which nobody saw.", "Not many people would have had the patience.", "You can be proud of that.",
    "I admire how you managed that.", "You handled that with a lot of grace.", "You should be proud of yourself for that.", "You gave more than anyone could ask.",
    "That was generous of you.", "I have respect for that.", "You kept going, and that deserves respect.", "That was careful, honest work.",
    "That took real care, and few people would do it.", "Nobody made you do it, and you did it well.", "You kept your word when it cost you something.", "That was decent of you, and skilful too.",
    "Not everyone would have done that.", "You did that well, and with care.", "That was brave, and kind as well.", "You showed real courage there.",
)  # fmt: skip
SIDE = (
    "They had no right to put that on you.", "That was not right.", "That is theirs to answer for, not your fault.", "It is on them, not on you.",
    "That is not your fault.", "It wasn't you who broke this.", "They had no right to do that to you.", "They are in the wrong here, not you.",
    "They should never have put that on you.", "They should have asked you first.", "They owe you an apology, not the other way round.", "They put on you what was theirs to carry.",
    "You did nothing wrong there.", "You were fair, and they were not.", "You did nothing wrong.", "You did what anyone decent would do.",
    "That is unfair, and it is not on you.", "They should have spoken to you first.", "You had every right to expect more.", "You had every right to be angry.",
)  # fmt: skip
FELT = (
    "It must feel as if the ground had gone.", "You seem to be missing someone, even now.", "There is shame and fear in it, I think, and you hold both.", "You sound tired, and alone with it.",
    "You sound as if you felt small and unseen there.", "That silence must ache.", "That sounds like a heavy thing to hold in silence.", "Somewhere in it there is a quiet grief.",
    "It sounds as if it still hurts every day.", "You seem to feel guilty and angry, both at once.", "Underneath the anger I hear that it hurt.", "No wonder you feel betrayed and tired at once.",
    "It sounds lonely, to be the only one who sees it.", "It must be frightening not to know how it ends.", "It sounds as if you felt invisible.", "I hear how frightened you are underneath.",
    "You must have felt so alone there.", "It sounds as if you have been exhausted for a long time.", "It must be bitter to be left with it.", "You must feel so helpless then.",
)  # fmt: skip
ASKING = (
    "Go on, I'd like to hear the rest.", "Tell me how it went on.", "Go on, what happened then?", "Tell me more, I have time.",
    "What else is in there? I'm listening.", "What was it like for you?", "What was that like?", "What happened next?",
    "I have time, start wherever you like.", "What else belongs to it?",
)  # fmt: skip
DRIVEN = (
    "Perhaps {who} did it out of fear, not out of spite.", "Perhaps {who} felt guilty, and guilt makes people sharp.", "Perhaps {who} felt guilty and ashamed, and could not say it.", "Maybe {who} felt left out, or not needed any more.",
    "Perhaps it was easier for {who} to be angry than sad.", "Maybe {who} was worried about money, or about being left alone.", "Perhaps {who} was scared of what would come next.", "Perhaps {who} was afraid of losing you.",
    "Perhaps {who} may have envied you a little.", "{who} may have been too proud to admit a mistake.", "It may be habit: {who} may never have learned to talk about it.", "Maybe fear made {who} hold on so hard.",
    "Perhaps {who} was trying to keep hold of something.", "Maybe {who} was ashamed, and shame makes people hard.", "Perhaps {who} was too proud to say sorry first.", "Perhaps {who} was afraid of looking weak in front of the others.",
    "Perhaps {who} wanted to protect themselves, or you, in a clumsy way.", "It could be that {who} wanted to be needed.", "Maybe {who} was ashamed and did not know how to say it.", "Perhaps {who} wanted to be needed, and did not know how to ask.",
)  # fmt: skip
SEEN = (
    "From where {who} stands it may look different, and yet your half is true as well.", "It was hard for you, and it was hard for {who} too.", "Both can be true: it hurt you, and {who} meant no harm.", "{who} may see it as help, where you see a push.",
    "To {who} it may have felt like being left out; both can be true.", "Neither you nor {who} had the whole picture.", "On the other hand, {who} was frightened as well.", "You are right about what it did to you, and {who} may be right about why.",
    "Seen from the other side, {who} did not have an easy day either.", "At the same time, {who} may not have known what it meant to you.", "On the other hand, {who} lost something too.", "For {who} it may look like the only way that was left.",
    "Where you stand it was unfair, and where {who} stands it was too.", "{who} may tell the same story with other words, and mean it too.", "There are two sides here, and both of you have a point.", "Both of you have a point here.",
    "To be fair to {who}, there was pressure on that side as well.", "From over there, your silence may have looked like a judgement.", "At the same time, {who} was carrying something too.", "It was hard for you, and it may have been hard for {who} as well.",
)  # fmt: skip
INWARD = (
    "Have you noticed a pattern there, from before?", "I wonder whether you carry it alone to spare others. What do you think?", "What would it mean if you asked for help sooner?",
    "Could it be that you go quiet when it matters most?", "Looking back, where does that come from?", "Perhaps you ask more of yourself than of anyone else. Does that ring true?",
    "What would be left if you put the anger down?", "What does that say about what you need?", "Is it possible that being useful feels safer than being seen?", "What would you do differently, knowing this?",
    "Where do you know that feeling from?", "What are you protecting when you do that?", "Have you been here before, in another place?", "I wonder what you would tell a friend who did the same.",
    "Perhaps part of it is about what you expect of yourself.", "What is it that you are really afraid of losing?", "When did you start to believe that?", "Could it be that an old hurt speaks there too?",
    "What would change if you let somebody help?", "I wonder what you need that you have not asked for.",
)  # fmt: skip
STEPS = (
    "You could write {who} three lines and say just that.", "You could call {who} beforehand, so that the day itself is not the first time you talk.", "How about asking one person who was there to confirm it in writing?",
    "One step: you could put the dates and messages in order, before you decide.", "You could tell {who} in one plain sentence what you need.", "You could agree on a date with {who}, with a small sum or task to begin with.",
    "What about telling someone you trust, so that they can sit beside you when it comes to it?", "You could say no to one thing this week, and say why.", "You could ask for a little more time, and say until when.", "You could suggest to {who} to meet outside, for half an hour, on neutral ground.",
    "You could write down what you want to say before you ring.", "It might help to choose one thing for this week, and leave the rest.", "You could ask {who} for ten minutes, with the phone put away.", "Start small: you could send a short message tonight.",
    "You could ask for it in writing.", "How about setting a date by which you decide?", "You could take somebody along, so that you aren't alone with it.", "You could say it once, without explaining yourself.",
    "You could find out who decides, and talk to them directly.", "It might help to agree on a sign for when it gets too much.",
)  # fmt: skip
LEADS = (
    "As you tell it, ", "You said it yourself: ", "I keep coming back to this: ", "What stays with me, ", "So ", "If I hear you right, ",
    "There was this: ", "And then ", "One thing I noticed, ", "Let me go back to it, ",
)  # fmt: skip
SHARING = (
    "I had something like it once, and for weeks I did not sleep.", "I know a little of that from my own life: I kept quiet far too long.", "Something like that happened to me years ago, and I still think of it.",
    "I was in such a place once, and nobody noticed.", "It makes me think of a time when I could not ask for help either.", "I remember how it was for me: I smiled all day and cried in the car.",
    "I have been there, in another way.", "My own answer back then was to work more, which did not help.",
)  # fmt: skip
HOPING = (
    "You have come through hard things before.", "You will find your way in this.", "I believe you can do this.", "It won't stay like this.",
    "You are stronger than it feels tonight.", "There will be better days.", "Don't give up on it.", "I am sure something good can still come of it.",
)  # fmt: skip
