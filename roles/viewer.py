"""Watches: follows the certified chain, and nothing else."""

from p2pd.ports import Role, Services
from roles.passive import Follower


class ViewerPlugin:
    name = "viewer"
    needs_worker = False
    needs_math = False
    offers = ("viewer",)

    def at(self, services: Services) -> Role:
        return Follower("watching")
