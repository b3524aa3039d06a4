"""Why an object is in its state: a closed set, since programs depend on these words.

Each word says what it means and what a person does about it: the reference page is made from here.
"""

from enum import StrEnum


class Reason(StrEnum):
    """`reason` of a condition and of an event. Some are for parts that are still to come."""

    meaning: str
    remedy: str
    """Empty where nothing is to be done."""

    def __new__(cls, word: str, meaning: str, remedy: str = "") -> "Reason":
        """The word itself, with its two sentences beside it."""
        reason = str.__new__(cls, word)
        reason._value_ = word
        reason.meaning = meaning
        reason.remedy = remedy
        return reason

    PENDING = (
        "Pending",
        "No operator has looked at the object yet, or what it needs is being made",
        "If it stays, see whether the operator runs and watches this namespace",
    )
    SYNCED = "Synced", "As the spec says"
    RECONCILING = (
        "Reconciling",
        "A change is being carried out; the message names the step",
    )
    PAUSED = (
        "Paused",
        "An annotation tells the operator not to act; only Ready keeps its last value",
        "Take the annotation `paused` or `unmanaged` away to go on",
    )
    HIBERNATED = (
        "Hibernated",
        "`hibernate: true`: no pod runs, the volume is kept",
        "Set `hibernate` to false to start the broker again",
    )
    BROKER_NOT_FOUND = (
        "BrokerNotFound",
        "There is no IggyBroker of that name, or it is being deleted",
        "Make it, or correct `brokerRef`",
    )
    BROKER_UNREACHABLE = (
        "BrokerUnreachable",
        "The broker has not answered for a minute; it is tried again with growing pauses",
        "Look at the IggyBroker, its pod and its log. A deletion that must not wait: "
        "annotation `force-release`",
    )
    BROKER_NOT_READY = (
        "BrokerNotReady",
        "The broker exists and does not serve yet",
        "Wait, or see the conditions of the IggyBroker",
    )
    UNAUTHORIZED = (
        "Unauthorized",
        "The broker refuses the operator's login, or what it asks for",
        "Correct the Secret with the broker's credentials",
    )
    NOT_ALLOWED = (
        "NotAllowed",
        "The broker of another namespace does not admit this one; nothing was read",
        "Ask its owner to add the namespace to `allowedNamespaces`",
    )
    STREAM_NOT_FOUND = (
        "StreamNotFound",
        "There is no IggyStream of that name, or its stream does not exist yet",
        "Make the IggyStream, or correct `streamRef`",
    )
    TOPIC_NOT_FOUND = (
        "TopicNotFound",
        "There is no IggyTopic of that name, or its topic does not exist yet",
        "Make the IggyTopic, or correct `topicRef`",
    )
    CONFLICT = (
        "Conflict",
        "An older object stands for the same entity; the message names it",
        "Delete one of the two; the younger one inherits",
    )
    NAME_CONFLICT = (
        "NameConflict",
        "An object that the operator wants to make exists and is not its own; it is left alone",
        "Remove or rename that object, or choose another name",
    )
    ALREADY_EXISTS = (
        "AlreadyExists",
        "The broker has an entity of that name that this object may not take over",
        "Set `adoptionPolicy: Adopt`, a user's password, or choose another name",
    )
    MISSING = (
        "Missing",
        "Somebody deleted it in the broker, and `missingPolicy` is Report or the object is paused",
        "Set `missingPolicy: Recreate` for an empty one, or restore the broker's volume",
    )
    RECREATED = (
        "Recreated",
        "The entity is not the one first seen: it was deleted and made again",
        "Find out who did it; then annotate `acknowledge-recreation` with the incarnation",
    )
    DRIFTED = (
        "Drifted",
        "The broker has it otherwise, and `driftPolicy` is Report or the object is paused",
        "See `status.drift`; change the spec, or set `driftPolicy: Revert`",
    )
    IMMUTABLE_MISMATCH = (
        "ImmutableMismatch",
        "What cannot change differs from the spec; it is left as it is",
        "Write what is there into the spec, or make a new object",
    )
    MORE_PARTITIONS = (
        "MorePartitions",
        "The topic has more partitions than the spec asks for",
        "Raise `partitions`, or set `partitionDecreasePolicy: DeleteData`",
    )
    INVALID_NAME = (
        "InvalidName",
        "The broker refuses the name",
        "Make a new object with another name",
    )
    UNSUPPORTED = (
        "Unsupported",
        "This cannot be done; the message says what",
        "Change the field that the message names",
    )
    SECRET_NOT_FOUND = (
        "SecretNotFound",
        "A Secret that the spec names is not there",
        "Make the Secret, or correct its name",
    )
    SECRET_INVALID = (
        "SecretInvalid",
        "A Secret lacks a key, or its value cannot be used",
        "Correct the Secret; the message names the key",
    )
    UNRESOLVED_GRANTS = (
        "UnresolvedGrants",
        "Permissions name streams or topics that do not exist yet; the rest is granted",
        "Nothing, if they are still to come; else correct the names in `status.unresolved`",
    )
    MISSING_GRANTS = (
        "MissingGrants",
        "The job must send to a topic where its user may not; the message says which",
        "Grant it to the user of `userRef`; without one, make an IggyTopic for it in the namespace",
    )
    VOLUME_PENDING = (
        "VolumePending",
        "The volume is not there yet, or it grows",
        "If it stays, see the events of the claim",
    )
    EXPANSION_UNSUPPORTED = (
        "ExpansionUnsupported",
        "The storage class does not let the volume grow; everything else is applied",
        "Take the wish back, or move to another storage class by a new broker",
    )
    DISK_PRESSURE = (
        "DiskPressure",
        "85 % or more of the volume are in use",
        "Let `storage.size` grow, or shorten the retention of topics",
    )
    RESTART_PENDING = (
        "RestartPending",
        "A change waits for a restart; `status.restart.reasons` names what",
        "Annotate `restart-at` when it suits you",
    )
    ROLLING_OUT = (
        "RollingOut",
        "The pod is being replaced, or starts",
    )
    ARCHIVE_FAILING = (
        "ArchiveFailing",
        "The broker cannot copy to its archive, or falls behind; no segment is removed meanwhile",
        "See the broker's log; correct the bucket, its credentials or its volume",
    )
    ARCHIVER_OFF = (
        "ArchiverOff",
        "There is no archive: what a lost volume had is lost",
        "Set `archiver`, where that matters",
    )
    SUBMISSION_FAILED = (
        "SubmissionFailed",
        "The Spark application was refused",
        "Correct what the message names",
    )
    DRIVER_PENDING = (
        "DriverPending",
        "The driver's pod waits, in Kubernetes' own words",
        "Give it room, or correct image or volume, as the message says",
    )
    RUNNING = (
        "Running",
        "The driver runs. With Ready False it has carried nothing of what waits for a while",
        "With Ready False: see the log of `status.application.driverPod`",
    )
    DRIVER_FAILED = (
        "DriverFailed",
        "The job ended; it is started again, unless its exit code asks for a person (2 and 4)",
        "See `status.application.error` and the driver's log; a changed spec starts it anew",
    )
    TOO_MANY_BAD_RECORDS = (
        "TooManyBadRecords",
        "More messages of a batch are bad than `errors.deadLetter` allows, so the job has stopped "
        "before it set them aside",
        "Correct payload, transforms or target, or raise `maxPerBatch` and `maxRatio`; a changed "
        "sink starts anew",
    )
    RETRIES_EXHAUSTED = (
        "RetriesExhausted",
        "The job failed `restart.maxRetries` times in a row",
        "Remove the cause, then change the spec or annotate `restart-at`",
    )
    CHECKPOINT_UNAVAILABLE = (
        "CheckpointUnavailable",
        "The checkpoint's claim or location cannot be used; the message says why",
        "Correct `checkpoint`",
    )
    TOPIC_RECREATED = (
        "TopicRecreated",
        "The topic is not the one that the checkpoint belongs to, and `onTopicRecreated` is Pause",
        "Annotate the IggyTopic with `acknowledge-recreation`, or set Restart",
    )
    SUSPENDED = (
        "Suspended",
        "`suspend: true`: the job is stopped, its place is kept",
        "Set `suspend` to false to go on",
    )
    COMPLETED = (
        "Completed",
        "An `AvailableNow` job has carried what was there",
        "Annotate `restart-at` to run it again",
    )
    SPARK_OPERATOR_MISSING = (
        "SparkOperatorMissing",
        "The Spark operator that `spark.launcher` names is not installed",
        "Install it, or set the launcher to Native or Auto",
    )
    SERVICE_ACCOUNT_NOT_FOUND = (
        "ServiceAccountNotFound",
        "The driver's service account is not there",
        "Make it, or leave `serviceAccountName` out",
    )
    LAGGING = (
        "Lagging",
        "The sink is further behind than `lag` allows",
        "Give it more cores, or larger batches; look for a slow target",
    )
    DELETING = (
        "Deleting",
        "The object is being deleted and waits; the message says for what",
        "Do what the message says, or annotate `force-release`",
    )
    INTERNAL_ERROR = (
        "InternalError",
        "A bug of the operator, by definition",
        "Report it with the operator's log",
    )
