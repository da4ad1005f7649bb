"""The floor of everything that is signed: PyNaCl alone, on this machine, on one core."""

from nacl.signing import SigningKey

from p2pd.bench.floors import best_s
from p2pd.bench.rows import Row

MESSAGE_BYTES = 256
"""What a vote's signature is over, about."""
ROUNDS = 400
BEST_OF = 5


def signature_s() -> tuple[float, float]:
    """Seconds to sign, and to verify, one message."""
    key = SigningKey(bytes(32))
    message = bytes(MESSAGE_BYTES)
    signature = key.sign(message).signature

    def sign() -> None:
        for _ in range(ROUNDS):
            key.sign(message)

    def verify() -> None:
        for _ in range(ROUNDS):
            key.verify_key.verify(message, signature)

    return best_s(sign, BEST_OF) / ROUNDS, best_s(verify, BEST_OF) / ROUNDS


def decisions_row(name: str, per_s: float, *, validators: int, trainers: int, nodes: int) -> Row:
    """Certified decisions per second, beside the signatures alone that each of them must cost.

    Signed once: the proposal, two votes of each validator, a beacon and an update of each trainer.
    Verified by nodes validators, each what the others signed; nodes 1 is for those that share a
    process, and so its memory of signatures that were right: once is enough.
    """
    signed = 1 + 2 * validators + 2 * trainers
    own = (1 + 2 * validators) if nodes > 1 else 0
    verified = signed * nodes - own
    sign_s, verify_s = signature_s()
    floor = 1 / (signed * sign_s + verified * verify_s)
    return Row(name, per_s, "1/s", floor, f"PyNaCl, one core: {signed} signed, {verified} verified")
