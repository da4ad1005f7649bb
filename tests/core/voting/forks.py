"""What the two certificates of a fork give away."""

from collections.abc import Iterator
from itertools import product

from p2pd.core.votes import NO_ROUND, Step
from p2pd.core.voting.events import Accuse, CertificateSeen, Effect, Forked
from p2pd.core.voting.evidence import check_evidence
from tests.core.voting.making import Bench
from tests.core.voting.search import VALUES, Said, Search, State


def single_votes(rounds: int) -> Iterator[tuple[Said, ...]]:
    """All ways to sign one vote of each step in each round, none of them for nil.

    More is a double vote, and names its author by itself. Less is no better for a liar: a vote beside it that gives
    nothing away is always to be found. Of two that differ only in the names of the decisions one is given.
    """
    places: list[list[Said]] = []
    for round_ in range(rounds):
        justs = range(NO_ROUND, round_)
        places.append([(Step.PREVOTE, round_, value, just) for value in VALUES for just in justs])
        places.append([(Step.PRECOMMIT, round_, value, NO_ROUND) for value in VALUES])
    places[0] = places[0][:1]
    yield from product(*places)


def caught(search: Search, fork: State) -> bool:
    """Whether somebody who counts only, and sees both certificates, accuses all liars and nobody else."""
    watcher = Bench(search.members, None)
    effects: list[Effect] = []
    for value in VALUES:
        seen = CertificateSeen(search.certificate(fork, value))
        effects += watcher.machine.handle(seen, 0.0)
    named = {
        check_evidence(search.members, effect.evidence)
        for effect in effects
        if isinstance(effect, Accuse)
    }
    told = any(isinstance(effect, Forked) for effect in effects)
    return told and named == {row.peer for row in search.members.rows[search.honest :]}
