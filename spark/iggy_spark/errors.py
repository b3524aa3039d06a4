"""What can go wrong on the Spark side, each with the exit code of the sink job.

Every message is one sentence for a person: what was found and what to do. No message holds a
secret. Spark carries exceptions between processes as text, so the sink job finds them again by
class name.
"""

from __future__ import annotations

import re
from typing import ClassVar

EXIT_DONE = 0
EXIT_FAILED = 1  # start me again
EXIT_CONFIGURATION = 2  # starting again cannot help
EXIT_FENCED = 3  # another driver holds the checkpoint or the consumer group
EXIT_DATA_LOSS = 4  # a person must decide
EXIT_STOPPED = 5  # asked to stop before all was written that was to be; start me again
EXIT_BAD_RECORDS = 6  # more messages are bad than is allowed; a person must decide


class IggySparkError(Exception):
    """Base of all errors that this package raises on purpose."""

    exit_code: ClassVar[int] = EXIT_FAILED


class OptionError(IggySparkError):
    """An option or setting is wrong; the message starts with its name."""

    exit_code = EXIT_CONFIGURATION


class BrokerUnavailable(IggySparkError):
    """The broker could not be reached for as long as `retryTimeoutMs` allows."""


class BrokerRefused(IggySparkError):
    """The broker answered, and said no: wrong password, missing stream or topic, no permission."""


class DataLoss(IggySparkError):
    """Messages that should be read are gone, and `failOnDataLoss` is true."""

    exit_code = EXIT_DATA_LOSS


class TopicRecreated(IggySparkError):
    """The topic has the name but not the incarnation that the offsets belong to."""

    exit_code = EXIT_DATA_LOSS


class OffsetFormatError(IggySparkError):
    """Offsets in a checkpoint or state file cannot be read by this version."""

    exit_code = EXIT_DATA_LOSS


class BadPayload(IggySparkError):
    """A message does not fit the declared payload, and such messages are to stop the read."""

    exit_code = EXIT_DATA_LOSS


class TooManyBadRecords(IggySparkError):
    """More messages are bad than `errors.deadLetter` allows."""

    exit_code = EXIT_BAD_RECORDS


class BadRow(IggySparkError):
    """A row that is to be written makes no message: a null, a wrong size, an unknown partition."""

    exit_code = EXIT_DATA_LOSS


class CorruptReply(IggySparkError):
    """The broker's bytes fail their checksum or do not tile."""


class ArchiveUnreadable(IggySparkError):
    """The archive does not answer, or says no, or holds what this version cannot read."""


class SinkError(IggySparkError):
    """The target of a sink cannot be written, or the system of a source not be read; the message
    names it.
    """


class SparkNotStarted(IggySparkError):
    """Java or Spark is missing or does not come up."""


class Fenced(IggySparkError):
    """Another job holds the same checkpoint, or another member the same consumer group."""

    exit_code = EXIT_FENCED


_TYPES: dict[str, type[IggySparkError]] = {
    kind.__name__: kind
    for kind in (
        OptionError,
        BrokerUnavailable,
        BrokerRefused,
        DataLoss,
        TopicRecreated,
        OffsetFormatError,
        BadPayload,
        TooManyBadRecords,
        BadRow,
        CorruptReply,
        ArchiveUnreadable,
        SinkError,
        SparkNotStarted,
        Fenced,
    )
}
_IN_TRACEBACK = re.compile(r"^(?:[\w.]*: )?iggy_spark\.errors\.(\w+): (.+)$", re.MULTILINE)


def find_in_text(text: str) -> IggySparkError | None:
    """The error of this package that a Spark exception's text carries; None if there is none.

    Spark 4.3 turns an exception of a Python data source into text with the Python traceback in it.
    The last one wins: it is the outermost of a chain.
    """
    found = [hit for hit in _IN_TRACEBACK.findall(text) if hit[0] in _TYPES]
    if not found:
        return None
    name, message = found[-1]
    return _TYPES[name](message.strip())
