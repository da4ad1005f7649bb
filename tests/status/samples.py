"""Made-up snapshots of the nodes of a small network."""

from hashlib import sha256

from p2pd.status.snapshot import (
    Count,
    DecisionInfo,
    LeaseInfo,
    MeasuredInfo,
    NodeInfo,
    PeerInfo,
    RevisionInfo,
    Snapshot,
    StandingInfo,
    TrainingInfo,
    TransferInfo,
    VotingInfo,
)

METRICS = (0.61, 0.72, 0.784, 0.781, 0.83, 0.86, 0.874, 0.89, 0.901, 0.899, 0.912, 0.921, 0.93)


def name(what: str) -> str:
    return sha256(what.encode()).hexdigest()


TRAINERS = [name(f"trainer {n}") for n in range(5)]


def busy() -> Snapshot:
    """A validator in the middle of a height."""
    return Snapshot(
        node=NodeInfo(
            name="validator-2",
            role="validator",
            peer=name("validator 2"),
            network="lab",
            version="p2pd/0.1.0",
            uptime_s=3907.2,
            address="127.0.0.1:40112",
            degraded=("workload stopped twice in the last ten minutes: out of memory",),
        ),
        peers=(
            PeerInfo(
                peer=name("seed"),
                roles=("bootstrap",),
                address="127.0.0.1:4700",
                linked=True,
                sent_bytes_s=2_100.0,
                sent_bytes=81_022,
                received_bytes=1_220_001,
            ),
            *(
                PeerInfo(
                    peer=peer,
                    roles=("trainer",),
                    address=f"127.0.0.1:{41_000 + n}",
                    linked=n != 3,
                    sent_bytes_s=13_000.0 * n,
                    sent_bytes=9_100_000 * n,
                    received_bytes=17 * 10**n,
                )
                for n, peer in enumerate(TRAINERS)
            ),
            PeerInfo(
                peer=name("validator 1"),
                roles=("validator", "reducer"),
                address="127.0.0.1:40111",
                linked=True,
                sent_bytes=12_345_678_901,
                received_bytes=7,
            ),
        ),
        revisions=(revision(),),
        transfers=(
            TransferInfo(
                artifact=name("a"), done_bytes=3_000_000, size_bytes=8_100_000, providers=2
            ),
            TransferInfo(artifact=name("b"), done_bytes=0, size_bytes=None, providers=1),
        ),
        heard=(Count(what="vote", count=211), Count(what="update", count=44)),
        refused=(Count(what="false signature on a vote", count=3),),
    )


def decisions() -> tuple[DecisionInfo, ...]:
    """A head at each height, and the newest one kept."""
    promoted = (
        DecisionInfo(
            height=n + 1,
            outcome="promoted",
            head=name(f"head {n + 1}"),
            accepted=4,
            rejected=1 if n % 4 == 0 else 0,
            metric=metric,
            train_s=31.0 + n,
            overhead_s=1.4 if n % 4 == 0 else 120.6,
            vote_s=0.6,
            leases=5,
        )
        for n, metric in enumerate(METRICS)
    )
    kept = DecisionInfo(
        height=14, outcome="kept(blocked-by-canary)", head=name("head 13"), accepted=4, rejected=0
    )
    return (*promoted, kept)


def revision() -> RevisionInfo:
    states = ("accepted", "accepted", "training", "rejected", "announced")
    return RevisionInfo(
        revision=name("r1"),
        study="digits",
        experiment="small",
        name="r1",
        metric="accuracy",
        higher_is_better=True,
        height=14,
        head=name("head 14"),
        plan="running",
        heads=13,
        epoch=3,
        samples=58_123,
        deadline_s=120.0,
        closes_in_s=41.0,
        voting=VotingInfo(
            round=0,
            step="prevote",
            proposer=name("validator 1"),
            prevoted=2,
            precommitted=0,
            quorum=3,
            weight=4,
        ),
        leases=tuple(
            LeaseInfo(peer=peer, samples=128 + 32 * n, state=states[n])
            for n, peer in enumerate(TRAINERS)
        ),
        decisions=decisions(),
        measured=MeasuredInfo(height=13, metric=METRICS[-1]),
        standing=tuple(
            StandingInfo(
                peer=peer,
                score=(1024, 1024, 960, 128, 700)[n],
                delivered=12 - n,
                missed=n,
                rejected=3 if n == 3 else 0,
                quarantined_until=44 if n == 3 else 0,
            )
            for n, peer in enumerate(TRAINERS)
        ),
        training=TrainingInfo(stage="training 160 samples", samples=160, elapsed_s=17.3),
    )
