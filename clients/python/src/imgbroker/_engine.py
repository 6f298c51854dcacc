"""The connection of a client: one thread receives, any thread sends."""

from __future__ import annotations

import atexit
import os
import select
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Deque, List, Optional, Tuple

from . import _options
from ._errors import (
    ClientError, ClosedError, ConnectionLostError, ImageBrokerError, NoBrokerError, NotAnsweringError, forget_frames,
)
from ._image import Image
from ._kept import KeptImages
from ._memory import Lease
from ._segment import before_fork, copy_in_child, wait_for_child
from ._session import Effect, Form, Request, Session, cancellation
from ._wire import VERSION, ImageReply

if TYPE_CHECKING:
    from ._region import Region

#: The time between two attempts to connect to a broker that restarts, in seconds.
_PAUSE = 0.05
#: The time between two attempts to send a message that the kernel cannot send yet, in seconds.
_SEND_PAUSE = 0.01
#: The most messages that are received before other threads may use the connection.
_MOST_RECEIVED = 16
#: The time after which leases are released at the latest, in seconds.
_RELEASE_INTERVAL = 1.0


class Engine:
    """Owns the connection, and the thread that receives. The thread starts with the first request, and ends when the
    connection is lost and no request is in flight.

    Requests that were in flight when the connection was lost are sent once more, over a new connection. A client that
    was connected waits up to `reconnect` seconds for the broker to come back; otherwise the first failure counts.
    """

    def __init__(
        self, path: Optional[str], *, patience: Optional[float], reconnect: float, keep_images: int, keep_bytes: int,
        keep_descriptors: int,
    ) -> None:
        self._path = path
        self._patience = patience
        self._reconnect = reconnect
        self.kept = KeptImages(keep_images, keep_bytes, keep_descriptors)
        self._wants_page = keep_images > 0
        #: The number of forks between the process that made this object and this one.
        self.forks = 0
        # Held during a fork. Reentrant, because a collected client may close its engine while the same thread is using it.
        self._lock = threading.RLock()
        self._session: Optional[Session] = None
        #: The session of the receiving thread, also while it connects.
        self._owned: Optional[Session] = None
        self._queue: List[Request] = []
        #: Requests that are to be cancelled by the receiving thread.
        self._cancelled: Deque[Request] = deque()
        self._thread: Optional[threading.Thread] = None
        self._wake_read = self._wake_write = -1
        self._is_closed = False
        self._was_connected = False
        with _registration:
            _engines.add(self)

    # Any thread

    def submit(self, request: Request) -> None:
        """Sends a request; its future gets the result.

        Raises `ClosedError`, `MessageError` or `TypeError`; never blocks.
        """
        try:
            with self._lock:
                if self._is_closed:
                    raise ClosedError("the client was closed")
                if self._session is None:
                    self._queue.append(request)
                    self._start()
                    return
                self._send(self._session, request)
        except BaseException:
            request.close()
            raise

    def ask(self, request: Request) -> Any:
        """Sends a request and waits for its result."""
        self.submit(request)
        try:
            return request.future.result()
        except BaseException:
            if request.future.cancel():
                self.cancel(request)
            raise

    def update(self, request: Request, priority: Optional[str], detach: bool) -> None:
        """Sends `update` for a request that the broker has not answered; any other is left as it is."""
        with self._lock:
            session = self._session
            if session is None or request.id is None or session.pending.get(request.id) is not request:
                return
            fields: dict[str, Any] = {"type": "update", "request": request.id}
            if priority is not None:
                fields["priority"] = priority
            if detach:
                fields["detach"] = True
            self._send(session, Request(fields, features=frozenset({"update"}), is_repeatable=False))

    def _cancel_deferred(self) -> None:
        while self._cancelled:
            self.cancel(self._cancelled.popleft())

    def cancel(self, request: Request) -> None:
        """Sends `cancel` for a request; it ends with the code `cancelled`."""
        request.is_cancelled = True
        lock: Any = self._lock
        if lock._is_owned():
            # The collector, or a signal handler, calls this while the same thread is sending or receiving.
            self._cancelled.append(request)
            self._wake()
            return
        with self._lock:
            session = self._session
            if request in self._queue:
                self._queue.remove(request)
            elif session is not None and request in session.deferred:
                session.deferred.remove(request)
            elif session is not None and request.id is not None and session.pending.get(request.id) is request:
                self._send(session, Request({"type": "cancel", "request": request.id}, is_repeatable=False))
                return
            else:
                return
        request.finish(cancellation())

    def map_again(self, reply: ImageReply, lease: Lease, form: Form) -> Optional[Image]:
        """Returns another image of an earlier reply, which is not shared; None if its connection was lost."""
        with self._lock:
            return None if self._session is None else self._session.map_again(reply, lease, form)

    def map_into(self, region: "Region", position: int, reply: ImageReply, size: int, lease: Lease) -> bool:
        """Maps the first `size` bytes of an image that is unmapped into a region. Returns false if its connection was lost.
        Raises `OSError`."""
        with self._lock:
            return self._session is not None and self._session.map_into(region, position, reply, size, lease)

    def report(self) -> None:
        """Sends what is due: released leases, and the report of uses of kept images."""
        with self._lock:
            if self._session is not None:
                self._session.flush()

    def release_kept(self) -> None:
        """Releases the kept images."""
        with self._lock:
            self.kept.clear()

    def close(self) -> None:
        """Ends the connection and all requests in flight; a further request is a `ClosedError`."""
        with self._lock:
            self._is_closed = True
            self._wake()

    def join(self) -> None:
        """Waits until the receiving thread has ended."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _start(self) -> None:
        if self._thread is not None:
            return
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name="imgbroker", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self._thread = None
            self._queue.clear()
            self._close_wake()
            raise

    def _send(self, session: Session, request: Request) -> None:
        session.send(request)
        if session.has_outgoing:
            self._wake()

    def _wake(self) -> None:
        if self._wake_write >= 0:
            try:
                os.write(self._wake_write, b"\0")
            except BlockingIOError:
                pass

    def _close_wake(self) -> None:
        descriptors = self._wake_read, self._wake_write
        # First, because the collector may end an iterator in between, which calls `_wake`.
        self._wake_read = self._wake_write = -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)

    # The receiving thread

    def _run(self) -> None:
        retry_for = self._reconnect if self._was_connected else 0.0
        while True:
            error: ImageBrokerError
            try:
                error = self._serve(self._connect(retry_for))
            except ImageBrokerError as failure:
                error = failure
            except Exception as fault:  # A fault of this module: no request may wait for ever.
                error = ClientError(f"the client failed: {fault!r}")
                error.__cause__ = fault
            forget_frames(error)
            ends = self._leave(error)
            # The frames that the error's traceback had, and this one, would otherwise form a cycle.
            del error
            if ends:
                return
            retry_for = self._reconnect

    def _connect(self, retry_for: float) -> Session:
        """Connects, exchanges `hello`, and sends the waiting requests."""
        deadline = time.monotonic() + retry_for
        while True:
            try:
                session = self._connect_once()
                break
            except (NoBrokerError, ConnectionLostError):
                # A broker that exits may accept a connection that it does not serve.
                if time.monotonic() >= deadline:
                    raise
            self._cancel_deferred()
            self._poll(None, _PAUSE)
        with self._lock:
            self._session = session
            self._was_connected = True
            queue, self._queue = self._queue, []
            failed: List[Tuple[Request, Exception]] = []
            for request in queue:
                try:
                    session.send(request)
                except Exception as failure:
                    failed.append((request, failure))
        for request, reason in failed:
            request.finish(reason)
        return session

    def _connect_once(self) -> Session:
        path = self._path or _options.default_socket(os.environ, os.path.exists)
        with self._lock:
            # From here on, a forked process closes its copy of the socket.
            session = self._owned = Session(path)
            session.take_report = self.kept.take_report
            session.keep = self.kept.keep
            session.make_room = self.kept.make_room
            session.release_segment = self.kept.remove_segment
            session.wake = self._wake
        try:
            session.connect(self._patience)
            fields = {"type": "hello", "protocol": 1, "client": f"imgbroker-python/{VERSION}", "segments": True}
            hello = Request({**fields, "validity": True} if self._wants_page else fields, is_repeatable=False)
            session.send(hello)
            self._exchange(session, hello.future.done)
            hello.future.result()
        except BaseException:
            with self._lock:
                self._owned = None
                session.close()
            raise
        return session

    def _serve(self, session: Session) -> ImageBrokerError:
        """Receives until the connection ends. Returns the reason."""
        try:
            self._exchange(session, lambda: False)
        except ImageBrokerError as error:
            return error
        raise AssertionError

    def _exchange(self, session: Session, is_done: Callable[[], bool]) -> None:
        """Receives until `is_done`. Raises the error that ended the connection."""
        heard = time.monotonic()
        ping: Optional[Request] = None
        while not is_done():
            self._cancel_deferred()
            timeout = self._patience
            if session.holds_leases:
                timeout = _RELEASE_INTERVAL if timeout is None else min(timeout, _RELEASE_INTERVAL)
            if session.is_stalled:
                timeout = _SEND_PAUSE
            if self._poll(session, timeout):
                try:
                    with self._lock:
                        # Several, because the kernel returns one message with a descriptor at a time.
                        for _ in range(_MOST_RECEIVED):
                            if not session.receive():
                                break
                            heard = time.monotonic()
                            session.dispatch()
                            if not session.pending:
                                break
                finally:
                    self._perform(session.take_effects())
            with self._lock:
                if session.is_abandoned:
                    raise ConnectionLostError("a message was not sent, or in part")
                if session.is_flush_due:
                    session.flush()
                if self._patience is None:
                    continue
                if ping is not None and ping.future.done():
                    ping = None
                oldest = next(iter(session.pending.values()), None)
                if oldest is None:
                    continue
                since = max(heard, ping.sent_at if ping is not None else oldest.sent_at)
                if time.monotonic() - since < self._patience:
                    continue
                if ping is not None:
                    raise NotAnsweringError("the broker does not answer: it is stopped, or hangs")
                ping = Request({"type": "stats"}, is_repeatable=False)
                session.send(ping)

    def _poll(self, session: Optional[Session], timeout: Optional[float]) -> bool:
        """Waits for the socket or a wake-up. Returns whether the socket is readable or closed.

        Raises `ClosedError` when the client was closed.
        """
        poller = select.poll()
        poller.register(self._wake_read, select.POLLIN)
        if session is not None:
            is_writing = session.has_outgoing and not session.is_stalled
            poller.register(session.socket, select.POLLIN | (select.POLLOUT if is_writing else 0))
        ready = dict(poller.poll(None if timeout is None else max(1, int(timeout * 1000))))
        if ready.pop(self._wake_read, 0):
            try:
                os.read(self._wake_read, 4096)
            except BlockingIOError:
                pass
        if self._is_closed:
            raise ClosedError("the client was closed")
        return any(events & ~select.POLLOUT for events in ready.values())

    @staticmethod
    def _perform(effects: List[Effect]) -> None:
        # In a frame of its own, because the last effect may refer to an image.
        first: Optional[BaseException] = None
        for effect in effects:
            try:
                effect()
            except BaseException as error:  # Those of other requests are to be performed, too.
                first = first or error
        if first is not None:
            raise first

    def _leave(self, error: ImageBrokerError) -> bool:
        """Leaves the connection. Returns whether the thread ends; otherwise requests are to be sent again."""
        with self._lock:
            session, self._session, self._owned = self._session, None, None
            self.kept.clear()
            requests, self._queue = self._queue, []
            if session is not None:
                requests += [*session.deferred, *session.pending.values()]
                # An image in a segment keeps the connection open, and with it all leases that are not released now, and requests.
                session.flush()
                if session.is_in_segments:
                    for number in list(session.pending):
                        session.send(Request({"type": "cancel", "request": number}, is_repeatable=False))
                session.close()
                if isinstance(error, ConnectionLostError):
                    self._queue = [request for request in requests if request.may_repeat]
                    requests = [request for request in requests if request not in self._queue]
            ends = not self._queue
            if ends:
                self._thread = None
                self._close_wake()
        for request in requests:
            request.finish(error)
        return ends

    # Forks

    def after_fork_in_child(self) -> None:
        """Leaves the connection to the parent process: closes this process's copies of the descriptors, and sends
        nothing. The next request opens a connection of this process."""
        self.forks += 1
        self._lock = threading.RLock()
        self._cancelled.clear()
        session, self._session, self._owned = self._owned, None, None
        requests, self._queue = self._queue, []
        self._thread = None
        self._was_connected = False
        self._close_wake()
        self.kept.clear()
        if session is not None:
            requests += [*session.deferred, *session.pending.values()]
            session.close()
        for request in requests:
            # Only a thread of this process that asks for the result is notified.
            request.future.reset_after_fork()
            request.finish(ConnectionLostError("the request belongs to the parent process"))


@atexit.register
def _release_kept() -> None:
    """Releases the kept images while the interpreter runs. A thread that releases PyTorch's tensors of them afterwards would abort
    the process, because it cannot end within C++."""
    for engine in list(_engines):
        engine.release_kept()


_engines: "weakref.WeakSet[Engine]" = weakref.WeakSet()
#: Held while an engine is added, and during a fork.
_registration = threading.RLock()
_locked: List[Engine] = []
_pipe: Optional[Tuple[int, int]] = None


def _before_fork() -> None:
    # So that the child finds each engine in a consistent state. No lock is held while a thread waits.
    _registration.acquire()
    _locked[:] = list(_engines)
    for engine in _locked:
        engine._lock.acquire()
    global _pipe
    _pipe = before_fork()


def _after_fork_in_parent() -> None:
    wait_for_child(_pipe)
    while _locked:
        _locked.pop()._lock.release()
    _registration.release()


def _after_fork_in_child() -> None:
    while _locked:
        _locked.pop().after_fork_in_child()
    # Of the images that are in use: those that were kept have ended.
    copy_in_child(_pipe)
    _registration.release()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
