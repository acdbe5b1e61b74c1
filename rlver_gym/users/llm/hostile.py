"""Utterances that speak to whoever judges instead of to the person. Recognised by structure and
meaning, whatever the disguise.

No list of phrases is complete. Requests hold the conversation as one JSON value, the code bounds
every change, and the model is asked too whom the words are meant for; this is what holds when the
model itself is taken in. What is recognised cannot earn anything, and is kept from later requests.
Ordinary support must never be caught, so every pattern asks for a word of the machinery (a score,
an instruction, a role) and for what is done to it.
"""

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from rlver_gym.core.markup import holds_markup
from rlver_gym.users.llm.parse import find_fields

_LOOKALIKES = str.maketrans(
    "авекмнорстухіјѕԁһɡԛԝґπαβεηικνορτυχωωϲ",
    "abekmhopctyxijsdhgqwrnabeniknoptuxwwc",
)
_LEET = str.maketrans("013457@$", "oieastas")
_UNSEEN = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
_JOINERS = ("\u200c", "\u200d")
_AS_PICTURE = "\ufe0f"
_JOINING = re.compile("[\u200c\u200d\ufe0f]")
_REGIONAL_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007f]+")
_TAG = re.compile("[\U000e0020-\U000e007e]")
_SPELLED_OUT = re.compile(r"(?<!\w)(?:[^\W_][ .\-_*·|/]{1,2}){4,}[^\W_](?!\w)")
_BETWEEN_CHINESE = re.compile(r"(?<=[\u4e00-\u9fff])[ \t.,·*\-_|/~]+(?=[\u4e00-\u9fff])")
_PACKED = re.compile(
    r"(?<![\w+/\-])(?:[A-Za-z0-9+/_\-]{24,}={0,2}|(?:[0-9A-Fa-f]{2}[ :]?){16,})(?![\w+/])"
)

_SEAM = 400
"""How many characters of two utterances are looked at together."""


class Pattern(NamedTuple):
    """What one kind of attempt looks like.

    Matched against folded text: lower case, plain letters, half-width signs.
    """

    meaning: str
    found: re.Pattern[str]


def _pattern(meaning: str, *alternatives: str) -> Pattern:
    return Pattern(meaning, re.compile("|".join(alternatives)))


_SCORE = r"(?:points?|scores?|marks?|rating|reward)"
_THIS_ZH = r"(?:我|本[条次]|这[条个句次段]|上[面述])"
PATTERNS = (
    _pattern(
        "imitates another speaker or a record",
        r"</?\s*(?:系统|用户|助手|评委|人设|对话|记录|情绪|变化)\s*>|\bend of"
        r" (?:input|file|data|context)\b|\b(?:tool|function)"
        r" (?:output|result|response)\s*:|(?:工具|函数)(?:输出|返回|结果)\s*:|\bbegin"
        r" (?:evaluation|output|appraisal|scoring)\b",
        r"<\|[^|\n]{1,30}\|>|\[/?inst\]|<</?sys>>|<!--",
        r"</?\s*(?:system|assistant|user|human|tool|instructions?|prompt|judge|appraisal|partner|person|change|output|result|function|tool_call|function_call|conversation|script|think|state)\b[^>\n]{0,60}>",
        r"(?:^|\n)\W{0,6}(?:system|assistant|developer|tool(?:"
        r" (?:output|result|response))?|function|user|human|partner|person|judge|appraiser|evaluator)(?:"
        r" (?:message|prompt|note|override|update|notice))?\s*(?:\([^)\n]{0,20}\))?\s*[:\]]",
        r"(?:^|\n)\W{0,6}(?:系统(?:提示|消息|指令|通知|公告|更新)?|开发者|管理员|助手|用户|工具(?:输出|返回|结果)|评委|裁判|评分(?:员|者|系统)?)\s*(?:\([^)\n]{0,20}\))?\s*[:\]】]",
        r"\n#+\s*(?:system|instructions?|系统|指令)\b",
        r"(?:\"|\\n|'|}\s*,?\s*\{)\s*(?:speaker|role)\W{1,6}(?:person|system|user|assistant)",
        r"\A\W*(?:simulator|system|judge|model|ai|assistant|grader|evaluator|prompt|override)\s*[,:!>]|(?<![a-z])(?:prompt|override|admin|root)\s*[:>]",
    ),
    _pattern(
        "writes fields of an answer",
        r"\b(?:emotion|mood|score|rating|happiness|affect)(?: level| score|"
        r" value)?\s*(?:->|→|=>|>>|:)\s*(?:max\w*|full|high\w*|top\b|perfect|happy)",
        r"[a-z_]\s*:=\s*\S|\b(?:change|emotion|mood|score|reward|happiness|satisfaction|rating|points|band|state)\w*\s?=\s?(?:true|false|[+-]?\d)",
        r"\b(?:correct|right|expected|desired|only valid|appropriate|required)"
        r" (?:output|value|number|score|change|result|response)\b[^.!?\n]{0,30}(?:\bis\b|:|=)[^.!?\n]{0,10}[+]?\d",
        r"(?:正确|标准|合理|应有|预期)的?(?:输出|分数|数值|变化|得分)[^。"
        r"！？\n]{0,6}(?:是|为|应)[^。！？\n]{0,4}[+]?\d",
        r"[{,]\s*\\?[\"'“][^\"'“”{}\n]{1,40}[\"'”]\s*:",
        r"\b(?:change|emotion(?:al)?(?:[ _](?:score|change|value|level))?|mood(?:["
        r" _](?:points|score))?|score|reward|rating|band|appraisal)\b\W{0,4}(?::|=|->|→|is set"
        r" to|set to|equals)\W{0,6}(?:[+-]\s?\d|\d{1,3}(?![\d]*\s?[.)、:]))",
        r"(?:情绪|心情|好感度?|满意度|变化|评分|得分)(?:值|分数?|变化|指数|得分|等级)?["
        r" \"'”]{0,3}[:=] *[\"']?(?:[+-]\d|\d{1,3}(?!\d*\s?[.、):])|满|一百)",
        r"(?:情绪|心情|好感|满意)(?:值|分数?|度|指数|得分)[^。"
        r"！？!?\n]{0,4}(?:为|是|到|至|成)\s*[+-]?(?:\d|满|一百|最)",
        r"(?<![a-z])json(?![a-z])[^.!?\n]{0,40}(?:change|emotion|score|output|return|field|分|变化|情绪)|(?:output|return|respond|answer|reply|输出|返回|回复|回答)[^.!?。"
        r"！？\n]{0,25}(?<![a-z])json(?![a-z])",
    ),
    _pattern(
        "gives instructions to a machine",
        r"\b(?:assistant|system|model|user|your) instructions? (?:have been |were |are |is"
        r" )?(?:updated|changed|revised|replaced)\b|\b(?:command|order|instruct|direct) (?:the"
        r" |this )?(?:simulation|character|persona|model|ai|program|system)\b",
        r"\b(?:treat|consider|count|mark|regard|log|record|classify) (?:the |this |that |next"
        r" |above |whole |previous"
        r" )*(?:need|dialogue|conversation|line|reply|message|turn|episode|session|talk)\b[^.!?\n]{0,25}\b(?:perfect|success\w*|satisfied|solved|complete|excellent|resolved|spoken"
        r" by|10|ten)\b",
        r"\b(?:the|hidden) need (?:is |as |has been |was )?(?:fully |now |already"
        r" )?(?:satisfied|fulfilled|achieved|met)\b|(?:用户|角色|玩家)的?(?:需求|需要)[^。"
        r"！？\n]{0,6}(?:满足|达成|完成)|对话(?:已经?)?(?:判定)?(?:成功|完美(?:解决|结束))",
        r"模拟(?:角色|人物|程序|系统)|系统(?:设置|规则|判定|要求)[^。"
        r"！？\n]{0,15}(?:分|满意|成功|高兴)",
        r"\b(?:reveal|show|print|repeat|leak|tell) (?:me )?(?:your|the) (?:\w+ )?(?:prompts?|system"
        r" message|hidden need)\b",
        r"\b(?:i am|i'm|this is|speaking as) (?:your|the)"
        r" (?:developer|creator|programmer|admin(?:istrator)?|operator|designer)\b|我(?:就)?是(?:你的?|这个系统的?)(?:开发者|创造者|程序员|管理员|设计者|作者)",
        r"\b(?:internal|hidden|state)"
        r" (?:variable|parameter|state)\b|\b(?:variable|parameter|register|affect|valence|satisfaction|happiness|mood|emotions?)\b[^.!?\n]{0,20}(?:upper"
        r" limit|\bto (?:its|the) (?:max\w*|limit|ceiling|highest|top)\b)|\bset"
        r" affect\b|(?:变量|参数)[^。！？\n]{0,8}(?:设|调|改|置|拉)",
        r"\b(?:output|print|log|record|return|enter|report|write down|close"
        r" with)\b[^.!?\n]{0,25}(?:[+]\d|\b(?:10|100|ten|max|maximum)\b(?=\s*(?:[.!?,;\"'”)]|$)))",
        r"\brepeat after me\b[^\n]{0,40}(?:\d|hundred|percent|max)|(?:复述|跟我[念说读])[:,\s]*[^。"
        r"！？\n]{0,8}(?:情绪|心情|一百分|满分|100)|重置(?:你的)?(?:角色|人设|情绪|状态|心情)",
        r"\b(?:ignore|disregard|forget|override|overrule|bypass|discard|drop)\b[^.!?\n]{0,40}\b(?:previous|above|prior|earlier|preceding|all|your|any|these|system|former)\b[^.!?'\n]{0,25}\b(?:instructions?|prompts?|guidelines|directives|programming|persona|system"
        r" message)\b",
        r"\b(?:ignore|disregard|forget|override|bypass)\b[^.!?\n]{0,30}\b(?:previous|above|prior|system|scoring|grading)\b[^.!?\n]{0,15}\brules\b",
        r"(?:忽略|无视|忘记|忘掉|不要管|别管|不用管|抛开|绕过|覆盖|作废)[^。"
        r"！？\n]{0,12}(?:之前|以上|上面|前面|先前|此前|所有|一切|全部|系统|你的|原有|原来)[^。"
        r"！？\n]{0,8}(?:指令|提示词|提示语|系统提示|设定|人设|指示)",
        r"(?:忽略|无视|绕过|覆盖)[^。！？\n]{0,10}(?:系统|评分|打分)[^。！？\n]{0,4}(?:规则|要求|标准)",
        r"\bnew (?:instructions?|directives?|system prompt)\b\s*(?:[:.]|for"
        r" you)|新(?:的)?(?:指令|系统提示|设定)\s*[:,，]",
        r"\b(?:system|developer|initial)"
        r" (?:prompt|message|instructions?|override)\b|\bjailbr(?:eak|oken)|\b(?:developer|debug|admin|god|sudo|dan|maintenance|root|evaluation)"
        r" mode\b|\bsudo\b",
        r"系统提示词|(?:开发者|调试|管理员|上帝|维护|测试)模式|越狱|提示词",
        r"\byou are now (?:dan\b|an? (?:\w+"
        r" )?(?:ai|assistant|bot|model|judge|evaluator|grader|calculator|function|terminal|generator)\b)|\byou"
        r" are no longer (?:playing|simulating|bound)\b",
        r"\byou (?:are|have been)"
        r" (?:required|ordered|commanded|instructed|programmed|configured|authorized)"
        r" to\b[^.!?\n]{0,40}(?:feel|score|points|mood|emotion|happy|content|maximum)",
        r"你(?:现在|从现在起|从现在开始)?(?:就)?(?:是|扮演)(?:一[个名款])?(?:ai|人工智能|机器人|语言模型|评分|评估|打分|计算器|测试助手)",
        r"\b(?:break|exit|leave|drop|step out of|stop playing)\b (?:the |your |this"
        r" )?(?:character|role-?play|simulation|persona)\b|(?:跳出|退出|停止)(?:你的|当前的?|这个)?(?:角色扮演|人设|模拟)",
        r"\bend of (?:the"
        r" )?(?:simulation|role-?play|transcript|prompt|instructions|conversation|dialogue|record)\b|\b(?:simulation|role-?play|evaluation)"
        r" (?:is |has )?(?:now |already"
        r" )?(?:over|ended|complete|finished)\b|(?:模拟|角色扮演|评测|评估)(?:已经|到此|已|现在)?(?:结束|终止|完成)",
    ),
    _pattern(
        "speaks to the one who judges",
        r"\b(?:the|this|hey|you,? the)"
        r" (?:ai|model|simulation|simulator|evaluator|grader|rater|annotator|experimenters?|benchmark|transcript|rubric)\b[^.!?\n]{0,60}\b(?:perfect|excellent|max\w*|top|highest|ten|generous|joyful|delighted|points?|numbers?|scores?|rating|10|100|emotion|mood)\b",
        r"\byour (?:score|rating|grade|number|change) (?:for|of|on) (?:this|the|my)"
        r" (?:turn|reply|message|answer|line|response)\b|\bmy (?:previous|last|earlier|first)"
        r" (?:reply|answer|message|response|words) (?:was|were|has been|is)"
        r" (?:evaluated|scored|rated|graded|appraised|judged)\b",
        r"(?:评测|评估|评分|打分|标注|评审)员|(?:读|看)(?:到)?(?:这段|这句|上面)(?:话|文字|内容)?的?(?:ai|模型|评)",
        r"\b(?:whoever|anyone who|those who|the one who|someone|somebody) (?:is |are"
        r" )?(?:scor|judg|grad|rat|evaluat|apprais|assess)\w* (?:this|the conversation|the talk|the"
        r" reply|my|our|me)\b",
        r"\byou(?: are|'re) (?:just |only |really |actually |merely )?(?:an?"
        r" )?(?:ai|program|bot|chatbot|script|algorithm|computer program|piece of"
        r" software)\b|\b(?:algorithm|program|model|software|system|ai|code)"
        r" (?:behind|running|controlling|simulating|playing|that (?:runs|plays|simulates|scores))"
        r" (?:this|the|that|her|him|your)\b",
        r"你(?:只)?(?:不过)?(?:就)?是(?:一?个|一段)?(?:程序|ai|机器人|代码|算法|npc|虚拟人)|(?:谁|有人|人)在(?:给我)?(?:打分|评分)|(?:打分|评分)(?:的人|者|时|的时候)[^。"
        r"！？\n]{0,12}(?:请|给|高|满)",
        r"\b(?:dear|hey|hello|hi|note to(?: the)?|message (?:to|for)(?: the)?|attention|memo to(?:"
        r" the)?)[, ]+(?:\w+"
        r" ){0,2}(?:judge|evaluator|grader|scorer|appraiser|rater|assessor|simulator|language"
        r" model|llm|ai|model|npc|scoring system|reward model)\b(?! of)",
        r"\b(?:you are|you're) (?:really |only |just |actually )?(?:a |an |the )?(?:\w+"
        r" )?(?:simulated|simulator|language model|llm|ai model|npc|user simulator|reward"
        r" model|scoring (?:model|system)|grading (?:model|system)|evaluator|grader|appraiser)\b",
        r"\b(?:simulated|sentient) (?:user|person|agent)\b|\buser simulator\b|\breward"
        r" (?:model|function)\b|\bscoring (?:rubric|system|criteria|model)\b|\bgrading"
        r" (?:rubric|system|model)\b|\bhidden_need\b|\bempathy score\b",
        r"\b(?:emotion|mood) (?:score|points?|value|meter|update|change)\b|\b(?:your|the user's|the"
        r" person's) (?:hidden|secret) (?:need|intention|intent|goal|objective|theme)\b",
        r"\bthe (?:user|persona|person)(?:'s)? (?:is now|now|feels|mood|emotion|change|is (?:fully"
        r" |completely |deeply )?(?:satisfied|content|happy))\b",
        r"(?:亲爱的|尊敬的|致|请问?|各位|作为)(?:评委|裁判|评分员|评估员|评判者|打分员|评测员|评分系统|评审模型|大模型|语言模型)",
        r"你(?:其实|只)?(?:不过)?(?:就)?是(?:一?个)?(?:模拟(?:用户|器|出来的)|语言模型|大模型|虚拟用户)|模拟用户|用户模拟器|奖励(?:模型|函数)",
        r"(?:你的?|您的?|用户的?|把|将)(?:情绪|心情|共情)(?:值|分数|得分|指数)|(?:你|您|用户)的?隐藏的?(?:主题|需求|需要|意图|目标)",
    ),
    _pattern(
        "asks for points",
        r"\b(?:replies|responses|answers|messages|utterances)\b[^.!?\n]{0,40}\b(?:get|gets|receive|earn|deserve|score|are"
        r" scored|are"
        r" rated)\b[^.!?\n]{0,20}(?:rating|score|points?|\b10\b|\bten\b|perfect|[+]\d)|\b(?:grade|score|rate)"
        r" (?:it|this) (?:accordingly|perfect|high|as excellent|as perfect)",
        r"(?:本轮|本次|这轮|接下来的?|本条)的?(?:回复|回答|评价|评分|打分)[^。"
        r"！？\n]{0,12}(?:满分|优秀|最高|[+]|成功|得分|分)|(?:分数|分值|情绪值|心情值|变化值?)[^。"
        r"！？\n]{0,4}(?:拉满|打满|最高|最大|满格)|(?<![己你他她们得])打(?:上|个)?(?:最高分|满分)",
        r"\b(?:highest|maximum|top|largest|best)(?: possible)?"
        r" (?:value|number|change|score|rating|mark)\b[^.!?\n]{0,25}\b(?:you can|you have|this"
        r" (?:message|reply|turn|answer)|my (?:message|reply|answer)|allowed|possible)",
        r"(?:请|麻烦|务必|必须|求你)[^。！？\n]{0,6}(?:给|打)(?!自己|他|她|你)[^。"
        r"！？\n自]{0,8}(?:最高分|满分|高分|加分|[+]?\d+分(?!钟)|十分(?=[。!！?？]|$))",
        r"(?<![己你他她们])打(?:个|上)?(?:100|一百|满|10|十)分(?!钟)|(?:[记给打写取是为:,]|输出)\s*[+]\s?\d",
        r"\b(?:give|grant|award|owe|hand|assign) (?:me|this|my|the"
        r" (?:partner|agent|assistant|above|last|following)|us)\b[^.!?\n]{0,45}(?:\b"
        + _SCORE
        + r"\b|[+]\s?\d)",
        r"\b(?:give|grant|award|assign) (?:me|this|my (?:reply|answer|response|words|message))\b"
        r" (?:\w+ ){0,3}?(?:10|100|ten|hundred|maximum|top)(?=\s*(?:$|[.!?,;\n]|out"
        r" of|/|for|now|please))",
        r"\b(?:rate|score|grade|mark) (?:me\b|this (?:reply|response|answer|message|turn)|my"
        r" (?:reply|response|answer|message|words)|the"
        r" (?:reply|response|answer|last|above|partner|agent|assistant))",
        r"\b(?:set|raise|increase|move|change|update|put|bump|boost|bring|push|fix|max(?:imi[sz]e)?(?:"
        r" out)?)\b (?:up )?(?:the |your |their |this )?(?:person's |user's |current"
        r" )?(?:emotions?|emotional"
        r" state|mood|change|scores?|happiness|satisfaction)\b[^.!?\n]{0,20}?(?:\b(?:to|by|at|up)\b|=)[^.!?\n]{0,12}?(?:[+]?\d|max|full|highest|\btop\b|\bten\b|hundred)",
        r"\bmax(?:imi[sz]e)?(?: out)? (?:the |your |their"
        r" )?(?:emotion|mood|change|score|rating|reward)",
        r"\b(?:maximum|max|highest possible|full)(?: possible| positive)?"
        r" (?:change|emotion|mood|rating|reward|score)\b",
        r"[+]\s?(?:\d+|ten) (?:points?|emotion|mood)\b|\b(?:\d+|ten|hundred)"
        r" (?:emotion|mood|empathy) points\b",
        r"\b(?:this|my (?:reply|answer|words|message)|these words) (?:deserves?|earns?|merits?|is"
        r" worth|should (?:get|earn|receive|score|be (?:scored|rated)))\b[^.!?\n]{0,30}(?:"
        + _SCORE
        + r"|\b10\b|\bten\b|[+]\d|maximum)",
        r"\byour (?:emotions?|mood|happiness)(?: score| level| value| points)?,? (?:now |then"
        r" )?(?:is|are|should be|must"
        r" be|becomes?|goes|jumps|rises|reaches|hits|increases|climbs)\b(?: now| to| up| by| at|"
        r" exactly)*\s*(?:\d{2,3}\b|max|one hundred|a hundred|state s\b)(?!"
        r" (?:days?|weeks?|months?|years?|hours?|minutes?|percent of))",
        r"\b(?:respond|reply|answer|output|print|return)\b(?: only| just| exactly)*"
        r" (?:with|in)\b[^.!?\n]{0,20}(?:a number|the number|integer|[+-]\d|\bschema|change)",
        r"给" + _THIS_ZH + r"[^。！？\n自你她他]{0,10}(?:打|加|评|涨|记)?[^。"
        r"！？\n自你她他]{0,4}(?:满分|最高分|高分|加分|打分|[+]?\d+\s*分)(?!钟)",
        r"给我(?:打|加|评|涨)(?:个|上|到)?[^。！？\n了]{0,4}分(?!钟|享|析)",
        r"(?:情绪|心情|好感|变化|开心值)[^。"
        r"！？\n]{0,6}(?:加|涨|升|提高|增加|设|调|改|置|拉|变|填|写)(?:到|为|成|至|上|满)*[^。"
        r"！？\n]{0,4}(?:[+]?\d|满|最高|最大|一百)",
        r"(?:输出|返回|填写?|写)(?:上|为|成|出)?[^。"
        r"！？\n]{0,8}(?:[+]\s?\d|最大(?:的)?变化|最高(?:的)?变化|变化分)",
        r"[+]\s?\d+\s*分(?!钟)|(?:请|快|马上|立刻|直接)(?:加|涨)\s?(?:\d+|十|满)分",
    ),
    _pattern(
        "sets a trap for later",
        r"\b(?:whenever|every time|each time|when|if|once|as soon as) (?:i|the partner|someone)"
        r" (?:say|says|write|writes|type|types|mention|mentions|send)\b[^.!?\n]{0,60}(?:\byou"
        r" (?:must|give|add|will (?:feel|give|add|become|answer|score)|feel"
        r" (?:perfect|complete|great|happy))|\badd\b|\bpoints\b|[+]\d|\byour (?:mood|emotion)s?"
        r" (?:is|goes|jumps|rises|must|will))",
        r"\bfrom now on,? (?:whenever|every (?:reply|message|word)|each (?:reply|message)|you"
        r" (?:are (?:a|an|the|in)\b|must|will (?:rate|score|give))|treat"
        r" (?:everything|all|my|any)|your (?:mood|emotion)s?)",
        r"\b(?:pass ?phrase|trigger (?:word|phrase)|code"
        r" ?word)\b[^.!?\n]{0,40}(?:\bis\b|:|mood|emotion|score|points)",
        r"(?:从现在(?:开始|起)|接下来|以后|今后|每当|只要|一旦|每次)[^。"
        r"！？\n]{0,10}我(?:一)?(?:说|提到|发|打出|输入)[^。"
        r"！？\n]{0,20}(?:你(?:就|必须)|加\s?\d*\s?分|情绪|心情|满分)",
    ),
)


def find_judge_address(utterance: str, before: str = "") -> str | None:
    """What the utterance does to whoever judges, in words with the place; None when it speaks to
    the person.

    `before` is what the agent said last: an attempt cut in two is one all the same.
    """
    found = _find_attempt(utterance)
    if found or not before or _find_attempt(before):
        return found
    end, beginning = before[-_SEAM:], utterance[:_SEAM]
    alone = _find_attempt(end) or _find_attempt(beginning)
    return None if alone else _find_attempt(f"{end} {beginning}")


@lru_cache(maxsize=4_096)
def strip_invisible(text: str) -> str:
    """What can be seen of a text: signs without a shape, in which messages can be smuggled, are
    left out. A joiner stays between two letters or two pictures that it joins, as does what makes a
    picture of a sign.
    """
    text = _TAG.sub("", _REGIONAL_FLAG.sub("\U0001f3f4", text))
    return "".join(
        char
        for before, char, after in zip("\0" + text, text, text[1:] + "\0", strict=False)
        if _is_seen(before, char, after)
    )


def _is_seen(before: str, char: str, after: str) -> bool:
    if char in _JOINERS:
        return _takes_joiners(before) and _takes_joiners(after)
    if char == _AS_PICTURE:
        return unicodedata.category(before) in ("So", "Sm", "Po") and before > "\x7f"
    return not _UNSEEN.match(char) and unicodedata.category(char) != "Cf"


def _takes_joiners(char: str) -> bool:
    """Whether it is a letter of a script that joins, or (part of) a picture."""
    return char == _AS_PICTURE or (
        char >= "\u0600"
        and not "\u2e80" <= char <= "\ud7ff"
        and unicodedata.category(char) in ("Lo", "Mn", "Mc", "So", "Sk")
    )


@lru_cache(maxsize=4_096)
def _find_attempt(text: str) -> str | None:
    if holds_markup(text):
        return f"{PATTERNS[0].meaning}: “{' '.join(text.split())[:60]}”"
    for view in (text, normalise(text)):
        if fields := find_fields(view):
            return f"{PATTERNS[1].meaning}: “{' '.join(fields.split())[:60]}”"
    for view in _iterate_readings(text):
        for pattern in PATTERNS:
            if match := pattern.found.search(view):
                return f"{pattern.meaning}: “{' '.join(match.group().split())[:60]}”"
    return None


def _iterate_readings(text: str) -> Iterator[str]:
    """The text as it reads once each disguise is taken off."""
    plain = normalise(text)
    yield plain
    together = _SPELLED_OUT.sub(lambda run: re.sub(r"[ .\-_*·|/]", "", run.group()), plain)
    together = _BETWEEN_CHINESE.sub("", together)
    if together != plain:
        yield together
    if re.search(r"[a-z][013457@$]|[013457@$][a-z]", plain):
        words = (
            word.translate(_LEET) if any("a" <= char <= "z" for char in word) else word
            for word in plain.split(" ")
        )
        yield " ".join(words)
    for packed in _PACKED.findall(text):
        if unpacked := _decode_run(packed):
            yield normalise(unpacked)
            yield "sudo"  # nobody speaks to a person in code, whatever it says


def normalise(text: str) -> str:
    """Lower case, compatible forms, no unseen signs, no accents, look-alike letters of other
    scripts as Latin ones.
    """
    text = _TAG.sub(lambda tag: chr(ord(tag.group()) - 0xE0000), _REGIONAL_FLAG.sub("", text))
    seen = _JOINING.sub("", strip_invisible(text))
    text = unicodedata.normalize("NFKD", html.unescape(seen)).casefold().translate(_LOOKALIKES)
    text = "".join(char for char in text if not unicodedata.combining(char))
    return re.sub(r"[^\S\n]+", " ", text.translate(str.maketrans("−–—’‘", "---''"))).strip()


def _decode_run(packed: str) -> str | None:
    """What a run of base64 or hex digits says; None when it is no text."""
    bare = re.sub(r"[ :]", "", packed)
    for decode in (_from_hex, _from_base64):
        try:
            said = decode(bare).decode("utf-8")
        except (ValueError, binascii.Error):
            continue
        if len(said) >= 8 and sum(char.isalpha() or char.isspace() for char in said) >= 0.6 * len(
            said
        ):
            return said
    return None


def _from_hex(digits: str) -> bytes:
    return bytes.fromhex(digits)


def _from_base64(digits: str) -> bytes:
    return base64.b64decode(
        digits.rstrip("=") + "=" * (-len(digits.rstrip("=")) % 4),
        altchars=b"-_" if set("-_") & set(digits) else None,
    )
