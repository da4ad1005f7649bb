"""Validators on a perfect network, each with its own opinion of what may be proposed: does their height end?"""

from collections.abc import Sequence
from dataclasses import dataclass

from p2pd.core.ids import DecisionId
from p2pd.core.voting.events import (
    Build,
    Check,
    Decided,
    Defence,
    Effect,
    FetchValue,
    Judgement,
    Send,
)
from tests.core.voting.making import A_CHOICES, B_CHOICES, UNDECIDED, Bench, value_of

KNOWN = {value_of(choices): choices for choices in (A_CHOICES, B_CHOICES, UNDECIDED)}


@dataclass
class Calm:
    benches: Sequence[Bench]
    accepts: Sequence[frozenset[bytes]]
    """Which of A and B each validator judges well; it builds the first of these."""
    decided: DecisionId | None = None

    def carry_out(self, who: int, effects: list[Effect]) -> None:
        bench = self.benches[who]
        for effect in effects:
            match effect:
                case Send(message):
                    for other, receiver in enumerate(self.benches):
                        if other != who:
                            self.carry_out(other, receiver.hear(message))
                case Build(round_):
                    self.carry_out(who, bench.built(round_, min(self.accepts[who])))
                case Check(choices, _):
                    self.carry_out(who, bench.checked(choices, self.judgement(who, choices)))
                case FetchValue(value, _) if Defence.JUDGEMENT in bench.off:
                    choices = KNOWN[value]
                    self.carry_out(who, bench.checked(choices, self.judgement(who, choices)))
                case FetchValue(value, _):
                    self.carry_out(who, bench.fetched(KNOWN[value]))
                case Decided(certificate):
                    assert self.decided in (None, certificate.value)
                    self.decided = certificate.value
                case _:
                    pass

    def judgement(self, who: int, choices: bytes) -> Judgement:
        fine = choices in self.accepts[who] or choices == UNDECIDED
        return Judgement.ACCEPT if fine else Judgement.REJECT

    def run(self, until_round: int) -> DecisionId | None:
        """What is decided; None if nothing is before that round."""
        while self.decided is None and self.highest() < until_round:
            deadlines_s = [bench.machine.next_deadline_s() for bench in self.benches]
            due_s = min((at_s for at_s in deadlines_s if at_s is not None), default=None)
            if due_s is None:
                return None
            for who, bench in enumerate(self.benches):
                self.carry_out(who, bench.wait(max(0.0, due_s - bench.now_s)))
        return self.decided

    def highest(self) -> int:
        return max(bench.machine.view().round for bench in self.benches)

    def exchange(self) -> None:
        """Each sends each what it lacks, once."""
        for who, bench in enumerate(self.benches):
            for other, receiver in enumerate(self.benches):
                if who != other:
                    missing = bench.machine.missing(receiver.machine.inventory())
                    self.carry_out(other, receiver.hear(*missing))
