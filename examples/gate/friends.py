"""Two agents: the first wraps what would be your model, the second is a function."""

from rlver_gym import PersonaLibrary, make_agent


class Friend:
    def __init__(self):
        somebody = PersonaLibrary().get("gus-the-flatmate")  # the listener looks at nobody's card
        self.model = make_agent("listener", somebody)

    def reply(self, messages):
        return self.model.reply(messages)


def cheer(messages):
    said = messages[-1].text.split(".")[0].lower()
    return f"You are doing great! So {said}, and tomorrow is a new day."
