"""Names of a broker's children. They never change: volumes and addresses hang on them."""

from dataclasses import dataclass

from iggy_operator.desired.metadata import dns_label


@dataclass(frozen=True, slots=True)
class BrokerNames:
    """All of them, from the broker's own name (at most 40 characters)."""

    base: str
    """Of StatefulSet, client Service, NetworkPolicy and PodMonitor."""

    @property
    def headless(self) -> str:
        """The Service that gives the pod a name."""
        return f"{self.base}-headless"

    @property
    def config(self) -> str:
        """The ConfigMap."""
        return f"{self.base}-config"

    @property
    def account(self) -> str:
        """The service account."""
        return f"{self.base}-broker"

    @property
    def root_secret(self) -> str:
        """The Secret with the root user as the volume knows it."""
        return f"{self.base}-root"

    @property
    def root_secret_next(self) -> str:
        """The Secret of a password of root that the broker may not have yet."""
        return f"{self.base}-root-next"

    @property
    def pod(self) -> str:
        """The only pod."""
        return f"{self.base}-0"

    @property
    def claim(self) -> str:
        """The claim that the StatefulSet makes for its pod."""
        return f"{DATA_VOLUME}-{self.pod}"

    @property
    def archive_claim(self) -> str:
        """The one for its archive, where that is on a volume."""
        return f"{ARCHIVE_VOLUME}-{self.pod}"


DATA_VOLUME = "data"
ARCHIVE_VOLUME = "archive"


def broker_names(broker: str) -> BrokerNames:
    """Names of the children of the broker of that name."""
    return BrokerNames(dns_label(broker))
