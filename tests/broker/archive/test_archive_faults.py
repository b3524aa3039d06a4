"""A real broker whose archive is in trouble in ways that are no plain errors: of the way to a real
object store, and of a folder on a file system of its own.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, unquote

import pytest

from archive_content import objects_of, payloads_of
from archive_settings import NAME, of_bucket
from broker_process import BrokerProcess
from iggy_broker.archive.bucket import ATTEMPTS_MAX, PART_BYTES, BucketPlace, BucketStore
from iggy_broker.archive.folder import UNFINISHED, FolderStore
from iggy_broker.archive.staging import STAGED
from iggy_broker.archive.store import ArchiveError, put_bytes
from iggy_client.client import Client
from object_store import ACCESS_KEY, NEXT_ACCESS_KEY, SECRET_KEY, ObjectStore
from played_server import SILENT, PlayedServer, Reply, Request
from scraped import Scrape
from small_disk import small_disk
from store_front import StoreFront
from stored import logs, partition_folder, read_all, send
from waiting import wait_until

SEGMENT_BYTES = 1 << 20
SETTINGS = {
    f"{NAME}ENABLED": "true",
    f"{NAME}INTERVAL": "100ms",
    f"{NAME}READ_ENABLED": "false",  # what is polled is on the disk
    "IGGY_DATA_MAINTENANCE_MESSAGES_INTERVAL": "100ms",
    "IGGY_SYSTEM_PARTITION_MESSAGE_SAVER_INTERVAL": "100ms",
}
WITHIN_S = 60.0
ROLE = "arn:aws:iam::123456789012:role/archive"
SLOW_S = 0.1
ENDED = (
    b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
)
QUICK_S = 0.5
# A broker that waits less for a store: no setting is that short.
IMPATIENT = f"""
import runpy, sys
from iggy_broker.archive import bucket
bucket.READ_S = {QUICK_S}
sys.argv = ["iggy-broker"]
runpy.run_module("iggy_broker", run_name="__main__")
"""
KEY = "streams/0/topics/0/partitions/0/00000000000000000000.log"


class TroubledFront(StoreFront):
    """One that takes its time, tells tags that are not those of the objects, or says that the
    login of an access key has ended.
    """

    delay_s = 0.0
    wrong_tags = False
    ended_key = ""

    def answer(self, request: Request) -> Reply:
        time.sleep(self.delay_s)  # not a wait: it is the fault
        login = unquote(request.headers.get("Authorization", request.path))
        if self.ended_key and f"Credential={self.ended_key}/" in login:
            return Reply(400, ENDED)
        reply = super().answer(request)
        if self.wrong_tags and "ETag" in reply.headers:
            return Reply(reply.status, reply.data, {**reply.headers, "ETag": f'"{"0" * 32}"'})
        return reply


class Login(PlayedServer):
    """Gives a login as a container's role does: it is about to end, and so is asked for anew."""

    secret = SECRET_KEY

    def answer(self, request: Request) -> Reply:
        soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 60))
        login = {"AccessKeyId": ACCESS_KEY, "SecretAccessKey": self.secret, "Token": ""}
        return Reply(200, {**login, "Expiration": soon})


class TokenService(PlayedServer):
    """Amazon's service that takes an identity's token and gives a login, which is about to end."""

    def __init__(self, keys: dict[str, str]) -> None:
        super().__init__()
        self._keys = keys
        self.actions: set[str] = set()

    def answer(self, request: Request) -> Reply:
        asked = dict(parse_qsl(request.body.decode()))
        self.actions.add(f"{asked['Action']} {asked['RoleArn']}")
        soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 60))
        login = {
            "AccessKeyId": self._keys[asked["WebIdentityToken"]],
            "SecretAccessKey": SECRET_KEY,
            "SessionToken": "",
            "Expiration": soon,
        }
        fields = "".join(f"<{name}>{value}</{name}>" for name, value in login.items())
        for name in ("Credentials", f"{asked['Action']}Result", f"{asked['Action']}Response"):
            fields = f"<{name}>{fields}</{name}>"
        return Reply(200, fields.encode())


class StagedFront(StoreFront):
    """Looks into a folder whenever a segment arrives."""

    def __init__(self, store: ObjectStore, folder: Path) -> None:
        super().__init__(store)
        self._folder = folder
        self.unstaged: list[str] = []

    def answer(self, request: Request) -> Reply:
        if request.method == "PUT" and not staged_in(self._folder):
            self.unstaged.append(request.path)
        return super().answer(request)


def staged_in(folder: Path) -> list[str]:
    return [path.name for path in folder.glob(f"*{STAGED}")]


class Growing:
    """A topic whose messages are due to go after a second."""

    def __init__(self, broker: BrokerProcess, client: Client) -> None:
        self._broker, self._client = broker, client
        self.sent: list[bytes] = []
        client.create_stream("s")
        options = {"segment_size": SEGMENT_BYTES, "message_expiry": 1_000_000}
        client.create_topic("s", "t", 1, options)

    def grow(self) -> None:
        """Two segments."""
        for _ in range(6):
            self.sent.append(os.urandom(SEGMENT_BYTES // 3 + 1))
            send(self._client, "s", "t", self.sent[-1])

    def wait_until_gone(self) -> None:
        """All but the segment that is written is copied, and goes."""
        folder = partition_folder(self._broker)
        wait_until(lambda: len(logs(folder)) == 1, "copied and gone", WITHIN_S)
        wait_until(lambda: not is_failing(self._broker), "all is well", WITHIN_S)

    def check_kept(self, count: int) -> None:
        """The last so many are on the disk."""
        first = len(self.sent) - count
        assert read_all(self._client, "s", "t", first=first) == self.sent[first:]


def test_slow_answers_wrong_tags_and_a_login_that_ends_lose_nothing(
    tmp_path: Path, object_store: ObjectStore, place: BucketPlace
) -> None:
    with TroubledFront(object_store) as front, Login() as login:
        settings = {
            **SETTINGS,
            f"{NAME}KIND": "s3",
            f"{NAME}S3_BUCKET": place.bucket,
            f"{NAME}S3_KEY_PREFIX": place.prefix,
            f"{NAME}S3_ENDPOINT": front.url,
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": login.url,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        broker = BrokerProcess(tmp_path, settings=settings, monitoring=True)
        try:
            broker.start()
            with broker.client() as client:
                topic = Growing(broker, client)

                front.delay_s = SLOW_S
                topic.grow()
                topic.check_kept(6)
                topic.wait_until_gone()
                front.delay_s = 0.0

                front.wrong_tags = True
                topic.grow()
                topic.wait_until_gone()
                front.wrong_tags = False

                login.secret = "one that has ended"
                asked = len(login.seen)
                topic.grow()
                wait_until(lambda: is_failing(broker), "the store says no", WITHIN_S)
                topic.check_kept(6)
                assert len(logs(partition_folder(broker))) == 3
                assert len(login.seen) > asked
                login.secret = SECRET_KEY
                topic.wait_until_gone()
            assert broker.stop() == 0, broker.text()
        finally:
            broker.end()
        assert "SignatureDoesNotMatch" in broker.text()
        assert SECRET_KEY not in broker.text()
    assert list(payloads_of(objects_of(BucketStore(place))).values()) == topic.sent


def of_front(front: StoreFront, place: BucketPlace) -> dict[str, str]:
    return {**SETTINGS, **of_bucket(place, front.url)}


def test_a_web_identity_whose_login_has_ended_goes_on_with_the_next_token(
    tmp_path: Path, object_store: ObjectStore, place: BucketPlace
) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    logins = TokenService({"first": ACCESS_KEY, "next": NEXT_ACCESS_KEY})
    with TroubledFront(object_store) as front, logins:
        settings = {
            **of_front(front, replace(place, access_key_id="", secret_access_key="")),
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
            "AWS_ROLE_ARN": ROLE,
            "AWS_ENDPOINT_URL_STS": logins.url,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        broker = BrokerProcess(tmp_path, settings=settings, monitoring=True)
        try:
            broker.start()
            with broker.client() as client:
                topic = Growing(broker, client)
                topic.grow()
                topic.wait_until_gone()

                front.ended_key = ACCESS_KEY
                topic.grow()
                wait_until(lambda: is_failing(broker), "the login has ended", WITHIN_S)
                topic.check_kept(6)
                assert len(logs(partition_folder(broker))) == 3
                token.write_text("next")
                topic.wait_until_gone()
            assert broker.stop() == 0, broker.text()
        finally:
            broker.end()
        assert "ExpiredToken" in broker.text()
        assert SECRET_KEY not in broker.text()
        assert logins.actions == {f"AssumeRoleWithWebIdentity {ROLE}"}
    assert list(payloads_of(objects_of(BucketStore(place))).values()) == topic.sent


def test_a_store_that_falls_silent_holds_nothing_up_for_longer_than_the_limit(
    tmp_path: Path, object_store: ObjectStore, place: BucketPlace
) -> None:
    with StoreFront(object_store) as front:
        broker = BrokerProcess(tmp_path, settings=of_front(front, place), monitoring=True)
        broker.wrapper = [sys.executable, "-c", IMPATIENT]
        try:
            broker.start()
            with broker.client() as client:
                topic = Growing(broker, client)
                front.only = ".log"
                front.faults += [SILENT] * ATTEMPTS_MAX
                topic.grow()
                wait_until(lambda: "Read timeout" in broker.text(), "it has waited", WITHIN_S)
                topic.check_kept(6)
                topic.wait_until_gone()
            assert broker.stop() == 0, broker.text()
        finally:
            broker.end()
        assert not front.faults
    assert list(payloads_of(objects_of(BucketStore(place))).values()) == topic.sent


def test_uploads_are_staged_where_it_is_asked_and_a_kill_leaves_none(
    tmp_path: Path, object_store: ObjectStore, place: BucketPlace
) -> None:
    uploads = tmp_path / "uploads"
    with StagedFront(object_store, uploads) as front:
        settings = {**of_front(front, place), f"{NAME}S3_TMP_UPLOAD_DIR": str(uploads)}
        broker = BrokerProcess(tmp_path, settings=settings, monitoring=True)
        try:
            broker.start()
            with broker.client() as client:
                topic = Growing(broker, client)
                topic.grow()
                topic.wait_until_gone()

                front.only = ".log"
                front.faults.append(SILENT)
                topic.grow()
                wait_until(lambda: not front.faults, "an upload is under way", WITHIN_S)
                broker.kill()
            left = staged_in(uploads)
            assert left
            broker.start()
            wait_until(lambda: left[0] not in staged_in(uploads), "it is removed", WITHIN_S)
            topic.wait_until_gone()
            assert broker.stop() == 0, broker.text()
        finally:
            broker.end()
        assert front.unstaged == []
        assert list(uploads.iterdir()) == []
    assert list(payloads_of(objects_of(BucketStore(place))).values()) == topic.sent


def is_failing(broker: BrokerProcess) -> bool:
    return Scrape(broker).sum("iggy_archiver_failing") == 1


def test_a_wrong_tag_of_a_part_makes_no_half_object(
    object_store: ObjectStore, place: BucketPlace
) -> None:
    data = os.urandom(PART_BYTES + 1)
    with TroubledFront(object_store) as front:
        store = BucketStore(replace(place, endpoint=front.url))
        front.wrong_tags = True
        with pytest.raises(ArchiveError, match="does not take"):
            put_bytes(store, KEY, data)
        assert store.size(KEY) is None
        front.wrong_tags = False
        put_bytes(store, KEY, data)
        assert store.size(KEY) == len(data)


def test_a_folder_on_another_mount_that_is_full_or_read_only_or_left_in_the_middle(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path) as disk:
        archive = disk.outside / "archive"
        settings = {**SETTINGS, f"{NAME}DISK_PATH": str(disk.inside / "archive")}
        broker = BrokerProcess(tmp_path, settings=settings, monitoring=True)
        broker.wrapper = disk.enter
        try:
            broker.start()
            with broker.client() as client:
                topic = Growing(broker, client)
                wait_until(archive.exists, "the missing folder is made", WITHIN_S)
                disk.fill(leave_bytes=SEGMENT_BYTES // 2)
                topic.grow()
                wait_until(lambda: is_failing(broker), "it is full", WITHIN_S)
                topic.check_kept(6)
                assert list(archive.rglob("*.log*")) == [], "not a half copy either"
                disk.free()
                topic.wait_until_gone()

                disk.forbid_writes("archive")
                topic.grow()
                wait_until(lambda: is_failing(broker), "it is read-only", WITHIN_S)
                topic.check_kept(6)
                disk.allow_writes("archive")
                topic.wait_until_gone()

                left = next_copy(broker, archive)
                os.mkfifo(left)  # who writes to it gets no further than the reader
                reader = os.open(left, os.O_RDONLY | os.O_NONBLOCK)
                topic.grow()
                wait_until(lambda: has_begun(reader), "the copy has begun", WITHIN_S)
                broker.kill()
                os.close(reader)
            assert list(payloads_of(objects_of(FolderStore(archive))).values()) == topic.sent[:12]
            broker.start()
            wait_until(lambda: not left.exists(), "what was left is removed", WITHIN_S)
            topic.wait_until_gone()
            assert broker.stop() == 0, broker.text()
        finally:
            broker.end()
        assert "No space left on device" in broker.text()
        assert list(payloads_of(objects_of(FolderStore(archive))).values()) == topic.sent


def has_begun(reader: int) -> bool:
    """Whether anybody has written to a pipe."""
    try:
        return bool(os.read(reader, 1))
    except BlockingIOError:
        return False


def next_copy(broker: BrokerProcess, archive: Path) -> Path:
    """Where the copy of the segment that is written now will be made, when nothing else is left."""
    folder = partition_folder(broker)
    (active,) = logs(folder)
    return archive / folder.relative_to(broker.data) / f"{active.name}{UNFINISHED}"
