"""Stock phrases for the things that a supporter can do.

They presume nothing that was not told; `{who}` is somebody in their story by name, or "they".
"""

QUOTING = ("“{}.”", "You said: “{}.”", "I'm still with one sentence of yours: “{}.”")
CHECKING = (
    "Have I got that right?",
    "Is that how it is?",
    "I want to be sure that I understand it.",
    "That's what I heard.",
    "Is there more to it?",
    "Did I hear that right?",
    "Tell me if I'm missing something.",
    "I'm trying to see it as you do.",
    "Is that the heart of it?",
)
CREDIT = (
    "That can't have been easy, and you did it anyway.",
    "I think well of you for that.",
    "Not everybody would have managed that.",
    "That took courage, even if it didn't feel like it.",
    "Has anybody told you that you did that well?",
    "You did that with real care.",
    "You can be proud of that.",
    "I noticed that, and I respect it.",
    "That says something good about you.",
    "You kept at it when you could have walked away.",
)
SIDE = (
    "That's not your fault, I think.",
    "I'm on your side in this.",
    "You did nothing wrong there, as I see it.",
    "I can't see what you should have done differently.",
    "You had every right to be upset by that.",
    "That wasn't fair on you.",
    "That's not all yours to carry.",
    "You shouldn't have had to deal with that.",
    "From all you've told me, you acted fairly.",
    "I understand completely why you're angry about it.",
)
FELT = (
    "That sounds painful.",
    "I can hear how much it weighs on you.",
    "I imagine that feels lonely.",
    "It sounds as if part of you is still hurt by that.",
    "That must be hard to live with from day to day.",
    "I'd guess you're tired of carrying it.",
    "There's some sadness in how you tell it.",
    "It sounds as if you're angry and sad about it at once.",
    "No wonder it doesn't let you go.",
    "I can feel how much it matters to you.",
)
LISTENING = (
    "I'm here. Take your time.",
    "Go on, I'm listening.",
    "Tell me as much as you like, I'm not in a hurry.",
    "I won't interrupt. How did it go on?",
    "You don't have to put it neatly for me.",
    "I'd like to hear the rest, whatever it is.",
    "Just say it as it comes.",
    "I'm still with you.",
    "There's no rush. What else is on your mind?",
    "Keep going, I want to understand it.",
)
ASKING = (
    "What was that like for you?",
    "What happened then?",
    "What's the hardest part of it?",
    "How do you feel when you think of it now?",
    "What has it been like since?",
    "What do you wish somebody had asked you about it?",
    "What goes through your head at night?",
    "What did you hope for?",
    "Who knows about this besides me?",
    "What would you want me to understand about it?",
)
DRIVEN = (
    "Perhaps {who} felt afraid of something there.",
    "Perhaps {who} felt hurt, and couldn't say it.",
    "What do you think {who} felt at the time?",
    "Maybe {who} felt ashamed, and that's how it came out.",
    "Perhaps {who} wanted something else altogether, and couldn't say so.",
    "Maybe {who} felt left out.",
    "Maybe {who} simply didn't know what to do.",
    "Perhaps {who} wanted to protect something.",
    "Perhaps {who} thought it was the right thing, clumsy as it was.",
    "What might {who} have been hoping for?",
)
SEEN = (
    "From where {who} stood it may have looked different.",
    "What you feel about it is fair, and {who} may have had reasons as well.",
    "How would {who} tell it, do you think?",
    "At the same time, {who} may have had a hard time too.",
    "I can see your side, and {who} may see another one.",
    "Both can be true: it hurt you, and {who} didn't mean it to.",
    "If {who} were sitting here, what would we hear?",
    "Neither you nor {who} saw the whole of it, I think.",
    "On the other hand, {who} may have understood it differently.",
    "What might {who} not know about how it was for you?",
)
INWARD = (
    "What does that stir up in you?",
    "Does that remind you of anything earlier in your life?",
    "What do you make of it yourself, looking back?",
    "I wonder what you needed just then.",
    "What is it about this that gets to you most?",
    "If a friend told you the same, what would you say to them?",
    "What are you most afraid it means?",
    "What would you like to be different in how you handle it?",
    "Is there something in it that surprises you about yourself?",
    "What do you think you've been trying to hold together?",
)
STEPS = (
    "You could say just that, in one plain sentence.",
    "You could write it down first, only for yourself.",
    "You could write down the smallest piece of it, and start there.",
    "Is there one person you could ask to help with it?",
    "You could ask for a little more time before you decide.",
    "You could ask to meet somewhere neutral, for half an hour.",
    "You could say no to one thing this week.",
    "You could say when you will decide, and give yourself until then.",
    "You could ask somebody to come along, so that you aren't alone with it.",
    "What would be a first step that feels possible?",
)
SHARING = (
    "I went through something a little like it once, and I didn't talk about it for a long time.",
    "I know a bit of that from my own life.",
    "Something like that happened to me years ago, and I still think of it sometimes.",
    "I remember a time when I couldn't ask anybody for help either.",
    "I've been in such a place, in another way.",
    "It was different for me, but I remember how alone I felt with it.",
    "I once kept something like that to myself for far too long.",
    "I lost sleep over something like it, a few years ago.",
)
HOPING = (
    "I don't think it will stay like this.",
    "You've got through hard things before this, I imagine.",
    "There's a way through this, even if you can't see it yet.",
    "I have some faith in you here.",
    "It's a lot right now, and it won't always be this much.",
    "I hope tomorrow is a bit kinder to you.",
    "You're still trying, and that counts for something.",
    "One day this may hurt less than it does tonight.",
)
