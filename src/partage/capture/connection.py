"""The connection to a running cluster, with the requests that a capture sends.

Records of a Fetch response are returned as raw bytes, with the transaction markers that consumers
leave out. kafka-python handles connections, TLS, SASL and the messages' layouts.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from partage.errors import ClusterUnreachableError, InvalidConfigError, MissingExtraError

if TYPE_CHECKING:
    from kafka import KafkaAdminClient
    from typing_extensions import Self

__all__ = [
    "ClusterConnection",
    "FetchedPartition",
    "PartitionRequest",
    "client_error",
    "error_name",
    "error_reason",
    "unreachable_error",
]

_CONNECT_MS = 15_000
_REQUEST_MS = 30_000
_BETWEEN_TRIES = 0.3
#: The largest accepted response; a Fetch response is smaller (see `live`).
_LARGEST_FRAME = 256 << 20
#: Kafka's number of the operation DESCRIBE (AclOperation).
_DESCRIBE = 8


class FetchedPartition(NamedTuple):
    """Record batches and offsets of one partition in a Kafka Fetch response.

    A response has an entry for each requested partition.

    Attributes:
        partition: the partition's number.
        error: Kafka's error code, 0 for none.
        high_watermark: the offset after the last record that consumers may see.
        log_start: the first offset of the log.
        records: record batches, the last one perhaps incomplete.
        diverging: the diverging epoch (KIP-595) if the leader's log differs from the records read:
            the leader's greatest epoch up to the requested one, and the offset at which it ends.
    """

    partition: int
    error: int
    high_watermark: int
    log_start: int
    records: bytes
    diverging: tuple[int, int] | None = None


class PartitionRequest(NamedTuple):
    """Partition in a Kafka Fetch request, with the offset from which to read.

    A request has an entry for each partition to read.

    Attributes:
        partition: the partition's number.
        offset: the next offset to read.
        epoch: the leader epoch of the record before it, -1 if unknown. Brokers since Kafka 2.7
            compare it with their own log.
    """

    partition: int
    offset: int
    epoch: int = -1


class ClusterConnection:
    """Open connection to a Kafka cluster, with the requests that a recording needs.

    Use it in a with statement, which closes the connection. An error of kafka-python inside the
    block becomes a `ClusterUnreachableError`.

    Args:
        bootstrap: the bootstrap servers, ``host:port,...``.
        settings: kafka-python's settings, from `connection_settings`.
        connect_ms: maximum time to connect.

    Raises:
        ClusterUnreachableError: no broker accepts the connection; the error has the reason and
            what to check.
        InvalidConfigError: an address is not HOST:PORT, or no token can be fetched.
        MissingExtraError: kafka-python is not installed.
    """

    def __init__(
        self, bootstrap: str, settings: Mapping[str, Any], *, connect_ms: int = _CONNECT_MS
    ) -> None:
        try:
            from kafka import KafkaAdminClient
            from kafka.net.compat import KafkaNetClient
        except ImportError:
            raise MissingExtraError("kafka-python", extra="capture") from None
        self._bootstrap, self._settings = bootstrap, settings
        _check_reachable(bootstrap, settings)
        if (provider := settings.get("sasl_oauth_token_provider")) is not None:
            provider.token()  # an error of the token endpoint is clearer than one of the broker
        log = _attach_failure_log()
        opened: list[Any] = []

        def client(**configs: Any) -> Any:
            opened.append(KafkaNetClient(**configs))
            return opened[-1]

        def admin() -> KafkaAdminClient:
            return KafkaAdminClient(
                **{"client_id": "partage-capture", **settings},
                bootstrap_servers=bootstrap.split(","), bootstrap_timeout_ms=connect_ms,
                request_timeout_ms=_REQUEST_MS, receive_message_max_bytes=_LARGEST_FRAME,
                kafka_client=client,
            )  # fmt: skip

        # The client may pick a broker that is down, so try the others too.
        tries = 1 if "," not in bootstrap else 2 * len(bootstrap.split(","))
        try:
            while True:
                tries -= 1
                try:
                    self.admin: KafkaAdminClient = admin()
                    break
                except Exception as e:  # noqa: BLE001 - any error means that no broker was reached
                    for one in opened:
                        one.close()
                    opened.clear()
                    refused = "refused" in str(e).lower() or "ECONNREFUSED" in str(e)
                    if tries and refused:  # another broker may accept the connection
                        time.sleep(_BETWEEN_TRIES)
                        continue
                    raise unreachable_error(
                        bootstrap, settings, e, log.last, is_broker=log.is_broker
                    ) from None
        finally:
            log.close()
        self._manager = self.admin._manager  # noqa: SLF001 - the way to send requests of one's own

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.admin.close()
        from kafka.errors import KafkaError

        # An error that the caller did not handle becomes one line for the user.
        if isinstance(error, KafkaError):
            raise unreachable_error(self._bootstrap, self._settings, error, "") from None

    def request_response(self, request: Any, node: int | None = None) -> Any:
        """Send a Kafka request to a broker, wait for the response, and return it.

        The calling thread blocks until the response has arrived.

        Args:
            request: kafka-python's request object.
            node: id of the broker; None for any broker.
        """

        async def sent() -> Any:
            return await (await self._send_request(request, node))

        return self._manager.run(sent)

    def ask_each(self, requests: Mapping[int, Any]) -> dict[int, Any]:
        """Send a Kafka request to each of several brokers at once, and wait for all responses.

        The result is a dict from broker id to response. If the request to a broker fails, its value
        is the exception.

        Args:
            requests: dict from broker id to the request.
        """

        async def sent() -> dict[int, Any]:
            answers: dict[int, Any] = {}
            waiting: dict[int, Any] = {}
            for node, one in requests.items():
                try:
                    waiting[node] = await self._send_request(one, node)
                except Exception as e:  # noqa: BLE001 - the broker is not in the metadata
                    answers[node] = e
            for node, one in waiting.items():
                try:
                    answers[node] = await one
                except Exception as e:  # noqa: BLE001 - the caller looks at each
                    answers[node] = e
            return answers

        found: dict[int, Any] = self._manager.run(sent)
        return found

    async def _send_request(self, request: Any, node: int | None) -> Any:
        """Send a Kafka request to a broker without waiting; return a future of the response.

        If kafka-python does not know the broker yet, the list of brokers is read again.

        Args:
            request: kafka-python's request object.
            node: id of the broker; None for any broker.
        """
        # If the broker is not in the client's list, the list is read again first. kafka-python
        # reads it only every five minutes, so that a restarted broker would stay unknown for so
        # long.
        from kafka.errors import UnknownBrokerIdError

        try:
            return self._manager.send(request, node_id=node)
        except UnknownBrokerIdError:
            await self._manager.cluster.refresh_metadata()
            return self._manager.send(request, node_id=node)

    # --- requests --------------------------------------------------------------------------

    def fetch_metadata(self, topics: Sequence[str] | None = None) -> Any:
        """Fetch the metadata of some topics of the Kafka cluster (a MetadataResponse).

        ``topics`` are names of topics; None stands for all topics that the account may see.
        """
        from kafka.protocol.metadata import MetadataRequest

        asked = None
        if topics is not None:
            asked = [MetadataRequest.MetadataRequestTopic(name=one) for one in topics]
        return self.request_response(
            MetadataRequest(topics=asked, allow_auto_topic_creation=False, min_version=4)
        )

    def fetch_records(
        self, requests_by_broker: Mapping[int, Sequence[PartitionRequest]], topic: str, *,
        wait_ms: int, partition_bytes: int, most_bytes: int,
    ) -> tuple[list[FetchedPartition], dict[int, Exception]]:  # fmt: skip
        """Fetch records of several Kafka partitions from the brokers that lead them.

        The records are raw batches, because a recording also needs transaction markers.

        Args:
            requests_by_broker: dict from broker id to the requests for partitions that it leads.
                The response may leave out the last ones.
            topic: name of the topic.
            wait_ms: how long a broker may wait for the first byte.
            partition_bytes: maximum bytes of a partition, unless its first batch is larger.
            most_bytes: maximum bytes of a response.

        Returns:
            the partitions' responses, and the exceptions of brokers that did not respond.
        """
        from kafka.protocol.consumer import FetchRequest

        one_topic, one_partition = FetchRequest.FetchTopic, FetchRequest.FetchTopic.FetchPartition
        requests = {
            number: FetchRequest(
                max_wait_ms=wait_ms, min_bytes=1, max_bytes=most_bytes, isolation_level=0,
                session_id=0, session_epoch=-1, rack_id="", forgotten_topics_data=[],
                topics=[one_topic(topic=topic, partitions=[
                    one_partition(
                        partition=one.partition, current_leader_epoch=-1, fetch_offset=one.offset,
                        last_fetched_epoch=one.epoch, log_start_offset=-1,
                        partition_max_bytes=partition_bytes,
                    ) for one in wanted
                ])],
                min_version=4, max_version=12,
            ) for number, wanted in requests_by_broker.items() if wanted
        }  # fmt: skip
        answers = self.ask_each(requests)
        failures = {n: a for n, a in answers.items() if isinstance(a, Exception)}
        found = [
            FetchedPartition(
                p.partition_index, p.error_code, p.high_watermark,
                getattr(p, "log_start_offset", -1), bytes(p.records or b""), _diverging_epoch(p),
            )
            for a in answers.values() if not isinstance(a, Exception)
            for t in a.responses for p in t.partitions
        ]  # fmt: skip
        return found, failures

    def partition_bounds(
        self, topic: str, partitions: Sequence[int]
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Return the first offset and the end offset of each requested partition of a Kafka topic.

        The result is two dicts by partition number. The end offset is the partition's high
        watermark.

        Raises:
            ClusterUnreachableError: the broker does not return the offsets.
        """
        from kafka.errors import KafkaError
        from kafka.protocol.consumer import OffsetSpec
        from kafka.structs import TopicPartition

        found = []
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
            asked = {TopicPartition(topic, p): spec for p in partitions}
            try:
                response = self.admin.list_partition_offsets(asked)
            except KafkaError as e:
                raise unreachable_error(self._bootstrap, self._settings, e, "") from None
            found.append({tp.partition: int(one.offset) for tp, one in response.items()})
        return found[0], found[1]

    def may_describe_cluster(self) -> bool | None:
        """Return whether the connection's account has the permission DESCRIBE on the Kafka cluster.

        None if the brokers do not report permissions (before Kafka 2.3).
        """
        from kafka.errors import KafkaError
        from kafka.protocol.metadata import MetadataRequest

        try:
            response = self.request_response(MetadataRequest(
                topics=[], allow_auto_topic_creation=False,
                include_cluster_authorized_operations=True, min_version=8, max_version=10,
            ))  # fmt: skip
        except KafkaError:
            return None
        operations = response.authorized_operations
        return None if operations is None else _DESCRIBE in operations

    def quorum_leader(self) -> int | None:
        """Return the id of the KRaft controller that leads the quorum of the Kafka cluster.

        None if the account may not see it, or the cluster has no quorum.
        """
        from kafka.errors import KafkaError
        from kafka.protocol.admin import DescribeQuorumRequest

        asked = DescribeQuorumRequest.TopicData
        try:
            response = self.request_response(DescribeQuorumRequest(topics=[
                asked(topic_name="__cluster_metadata",
                      partitions=[asked.PartitionData(partition_index=0)])
            ]))  # fmt: skip
        except KafkaError:
            return None
        leaders = [p.leader_id for t in response.topics for p in t.partitions if not p.error_code]
        return leaders[0] if leaders and not response.error_code else None

    def broker_config(self, node: int) -> dict[str, str]:
        """Return a Kafka broker's settings for groups, offsets and transactions, as a dict by name.

        The dict is empty if the account may not read settings. ``node`` is the broker's id.
        """
        wanted = ("group.", "offsets.", "share.coordinator.", "transaction")
        found = self._resource_configs("BROKER", str(node))
        return {name: value for name, value in found.items() if name.startswith(wanted)}

    def topic_config(self, topic: str, names: Sequence[str]) -> dict[str, str]:
        """Return the values of some settings of a Kafka topic, as a dict by name.

        The dict is empty if the account may not read settings. ``names`` are the settings.
        """
        found = self._resource_configs("TOPIC", topic)
        return {name: found[name] for name in names if name in found}

    def _resource_configs(self, kind: str, resource: str) -> dict[str, str]:
        """Return all settings of a Kafka broker or topic, as a dict by name.

        The dict is empty if the account may not read them.

        Args:
            kind: "BROKER" or "TOPIC".
            resource: id of the broker or name of the topic.
        """
        from kafka.admin import ConfigResource, ConfigResourceType
        from kafka.errors import KafkaError

        try:
            response = self.admin.describe_configs(
                [ConfigResource(ConfigResourceType[kind], resource)], config_filter="all"
            )
        except (KafkaError, ValueError, TypeError, KeyError):
            return {}
        found: dict[str, str] = {}
        for by_name in dict(response).values():
            for settings in by_name.values():
                for name, entry in settings.items():
                    value = entry.get("value") if isinstance(entry, dict) else entry
                    if isinstance(value, str):
                        found[name] = value
        return found


def _diverging_epoch(answer: Any) -> tuple[int, int] | None:
    found = getattr(answer, "diverging_epoch", None)
    return None if found is None or found.end_offset < 0 else (found.epoch, found.end_offset)


def _check_reachable(bootstrap: str, settings: Mapping[str, Any]) -> None:
    """Check that at least one bootstrap address of a Kafka cluster accepts a connection.

    The check gives a clear error at once; kafka-python would try for 15 seconds.

    Args:
        bootstrap: the addresses, ``host:port,...``.
        settings: kafka-python's settings, for the error message.

    Raises:
        InvalidConfigError: an address is not HOST:PORT.
        ClusterUnreachableError: no broker listens at any of them.
    """
    # The client itself would try for 15 seconds.
    refused = None
    for address in bootstrap.split(","):
        host, colon, port = address.strip().rpartition(":")
        if not (host and colon and port.isdigit() and 0 < int(port) < 65_536):
            what = "must be HOST:PORT, several with commas"
            raise InvalidConfigError("--bootstrap-server", what, bootstrap)
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=2):
                return
        except ConnectionRefusedError as e:
            refused = e
        except OSError:
            return  # an unknown name or a timeout: the client's own error is better
    if refused is not None:
        raise unreachable_error(bootstrap, settings, refused, "")


class _FailureLog(logging.Handler):
    """Log handler that remembers the reason why kafka-python could not connect to a broker.

    kafka-python logs the reason, but does not put it into its exceptions.

    Attributes:
        last: the reason. An authentication failure is not replaced by a later "connection closed".
        is_broker: whether a connection got past ApiVersions, which only a Kafka broker answers.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""
        self.is_broker = False
        self.logger = logging.getLogger("kafka")

    def emit(self, record: logging.LogRecord) -> None:
        """Remember the reason of a connection failure that kafka-python has logged.

        The logging module calls this method for each log record. A timeout does not replace a
        better reason.
        """
        for one in record.args if isinstance(record.args, tuple) else ():
            self.is_broker |= getattr(one, "broker_version", None) is not None
            # The caller raises a timeout itself.
            known = "SASL" in self.last.upper()
            if isinstance(one, Exception) and "Timeout" not in type(one).__name__ and not known:
                self.last = error_reason(one)

    def close(self) -> None:
        self.logger.removeHandler(self)
        super().close()


def _attach_failure_log() -> _FailureLog:
    log = _FailureLog()
    log.logger.addHandler(log)
    # Its debug lines contain passwords, and its warnings repeat each second what we report once.
    log.logger.setLevel(logging.WARNING)
    log.logger.propagate = False
    return log


def client_error() -> type[Exception]:
    """Return the base class of kafka-python's exceptions, for use in ``except``.

    kafka-python is imported only in this call, because it is optional.
    """
    from kafka.errors import KafkaError

    kind: type[Exception] = KafkaError
    return kind


def error_reason(error: BaseException) -> str:
    """Return the part of a kafka-python exception's message that explains the error to a user.

    Error numbers and repeated class names are left out.

    >>> error_reason(ValueError("[Error 58] SaslError: SaslError: no"))
    'SaslError: no'
    """
    text = (str(error).strip().splitlines() or [""])[0]
    if text.startswith("[Error "):
        text = text.partition("] ")[2]
    head, _, rest = text.partition(": ")
    if rest.startswith(f"{head}: "):
        text = rest
    if text.partition(": ")[0] == "NodeNotReadyError":
        return f"no connection to broker {rest}".rstrip() + "; is it running?"
    return text[:300] or type(error).__name__


def error_name(code: int) -> str:
    """Return Kafka's name of an error code, such as GROUP_AUTHORIZATION_FAILED for 30.

    The name is shown in messages to the user.
    """
    from kafka.errors import for_code

    kind = for_code(code)
    return str(getattr(kind, "message", kind.__name__))


_LOGIN = "look at user name and password in sasl.jaas.config, and at sasl.mechanism"
#: The same for tokens: OAUTHBEARER, and IAM of Amazon MSK, which uses it.
_OAUTH_LOGIN = (
    "look at the token's scope, and at the issuer and the claim aud that the broker expects "
    "(Amazon MSK: at the IAM policy of the account)"
)
_HINTS = (
    (("ILLEGAL_SASL_STATE", "IllegalSaslState"),
     "the listener at this port expects no SASL: look at security.protocol and the port"),
    (("SASL_AUTHENTICATION_FAILED", "AuthenticationFailed"),
     _LOGIN),
    (("UNSUPPORTED_SASL_MECHANISM", "UnsupportedSaslMechanism"),
     "the broker has another sasl.mechanism"),
    (("CERTIFICATE_VERIFY_FAILED", "certificate verify failed"),
     "the broker's certificate is not trusted: look at ssl.truststore.location"),
    (("WRONG_VERSION_NUMBER", "wrong version number", "Handshake failed", "SSL"),
     "the listener does not speak TLS like that: look at security.protocol and the port"),
    (("refused", "ECONNREFUSED", "Errno 111"), "no broker listens there: look at host and port"),
    (("Name or service not known", "getaddrinfo", "nodename", "name resolution", "DNS"),
     "there is no such host"),
    (("IncompatibleBrokerVersion", "UNSUPPORTED_VERSION", "UnrecognizedBroker"),
     "the broker is too old: Partage needs 0.11 or later"),
)  # fmt: skip


_CLOSED = ("disconnect", "closed", "reset", "Timeout")


def unreachable_error(
    bootstrap: str,
    settings: Mapping[str, Any],
    error: Exception,
    logged_reason: str,
    *,
    is_broker: bool = False,
) -> ClusterUnreachableError:
    """Build the error for a Kafka cluster that cannot be reached.

    Its message has the reason and says what to check, for example the security protocol.

    Args:
        bootstrap: the addresses of the brokers.
        settings: kafka-python's settings.
        error: the exception that kafka-python raised.
        logged_reason: the reason that kafka-python logged.
        is_broker: whether a broker answered before the connection broke.
    """
    own = f"{type(error).__name__} {error}"
    timed_out = "Timeout" in type(error).__name__
    why = logged_reason if timed_out and logged_reason else error_reason(error)
    login = _OAUTH_LOGIN if settings.get("sasl_mechanism") == "OAUTHBEARER" else _LOGIN
    for words, hint in _HINTS:
        if any(word in f"{own} {logged_reason}" for word in words):
            return ClusterUnreachableError(bootstrap, why, login if hint is _LOGIN else hint)
    protocol = str(settings.get("security_protocol", "PLAINTEXT"))
    with_login = protocol.startswith("SASL")
    if with_login and is_broker and any(word in f"{why} {own}" for word in _CLOSED):
        # A broker that refuses a login closes the connection, often before its answer is read.
        why = f"authentication failed: the broker closed the connection during the login, {why}"
        return ClusterUnreachableError(bootstrap, why, login)
    hint = f"is it a broker, and is security.protocol={protocol} right for this port?"
    if with_login:
        hint += f" If it is, {login}"
    return ClusterUnreachableError(bootstrap, why, hint)
