"""A seed: the place where newcomers meet the others. Passes messages on, serves decisions and heads that it holds."""

from p2pd.ports import Role, Services
from roles.passive import Follower


class BootstrapPlugin:
    name = "bootstrap"
    needs_worker = False
    needs_math = False
    offers = ("bootstrap",)

    def at(self, services: Services) -> Role:
        return Follower("seeding")
