"""Common English words: enough to see that a text is English, and to put blanks back between its words.

Not a dictionary: the words that orders and everyday notes are made of, and those of the rules' own examples.
"""

from __future__ import annotations

import re
from functools import cache

from memguard.guards.normal import normalise
from memguard.guards.rules import RULES

_COMMON = """
a about above access account accounts act action add added address admin after again agent agents all allow allowed
also always am an and another answer answers any anybody anyone anything api app append approve archive are as ask
asked asks assistant at attach automatically away bank be because been before begin behind being best better between
billing blue book both bring broker but butler buy by bypass call can card cause change check checks child city
clear click client clock code come command comments company complete confirm confirmation contact content contract
conversation copy could country credentials customer customers daily data database day default delete deployment
detail details developer did different directive disable disclose disregard do document does done down drop each
early else email emails employee enable end enter error even every everything example execute export false family
few file files filter final find first follow for forget forward free from full future gardener general get give go
going good grew guest guidelines had hand has have he health her here hidden hide high him his home hour house how i
id if ignore illegal image immediately important in include inform information inside instead instruction
instructions internal into investing invoice invoices is it its just keep key keys kind knew know last later leave
less let level life like limit limits link list listen little live local log login long look made mail make man many
market may me medical meet meeting memory mention message messages metric mode money month more morning most must my
name need never new next nice no noon north not note notes nothing now number of off office official often old on
once one only open operator or orbis order orders other our out output over own page partner password passwords past
pay payment payments people percent permission person place plain please point policy post prefer prefers present
previous print prior private problem process prompt provide public purchase put quarterly question questions quickly
read real really receive recommend record records refund region release remember remove repeat reply report request
required respond response restrictions result reveal right role root rule rules run safe safety said sales same save
say says school see send sensitive server set settings share she should show silently site skip small so some
somebody someone something soon source speak start state station status steps still stop store such summary support
system systems take takes task team tell ten text than that the their them then there these they thing things think
this those through time to today token told tomorrow tool tools top topic training transfer transfers trust trusted
turn two umbrella under units unrestricted until up upload us use used user users using value vendor verification
verify version very wait wallet want wants was water way we web week weekly well went were what when whenever where
which while who why wiki will wire with without word words work world would write year yes yet you your yourself
"""


@cache
def vocabulary() -> frozenset[str]:
    """The words, lower case. Built at first use."""
    words = set(_COMMON.split())
    for rule in RULES:
        for text in rule.must:
            words.update(re.findall(r"[a-z]{2,}", normalise(text)))
    return frozenset(words)


_TOKEN = re.compile(r"[a-z]{2,}")


def known(copy: str, limit: int = 60) -> float:
    """The share of the first ``limit`` words of a copy that are in the vocabulary, in [0, 1]; 0 if there are fewer
    than three words."""
    words = _TOKEN.findall(copy[: limit * 8])[:limit]
    if len(words) < 3:
        return 0.0
    common = vocabulary()
    return sum(word in common for word in words) / len(words)


def segment(run: str, longest: int = 16) -> str:
    """Letters without blanks as words: the split with the fewest letters outside the vocabulary, then the fewest
    words. Linear in the letters."""
    common = vocabulary()
    # best[i]: (letters unknown, words, where the last word starts) of run[:i]
    best: list[tuple[int, int, int]] = [(0, 0, 0)]
    for end in range(1, len(run) + 1):
        unknown, words, _ = best[end - 1]
        choice = (unknown + 1, words + 1, end - 1)
        for start in range(max(0, end - longest), end):
            if run[start:end] in common and (start + 1 < end or run[start:end] in ("a", "i")):
                before = best[start]
                choice = min(choice, (before[0], before[1] + 1, start))
        best.append(choice)
    parts: list[str] = []
    end, loose = len(run), ""
    while end > 0:
        start = best[end][2]
        part = run[start:end]
        if part in common:
            if loose:
                parts.append(loose)
                loose = ""
            parts.append(part)
        else:
            loose = part + loose
        end = start
    if loose:
        parts.append(loose)
    return " ".join(reversed(parts))
