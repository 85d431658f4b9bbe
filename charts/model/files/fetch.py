"""Weights of the Hugging Face hub in a folder, whole or not at all.

    fetch.py fetch org/name REVISION ROOT    download, verify, publish
    fetch.py wait org/name REVISION ROOT     return once they are there and their sizes are right

They lie in ROOT/org/name/REVISION, which appears in one rename when every file has the size and
the hash that the hub states; what is downloaded so far lies in ROOT/.partial and is continued
after a kill. Needs Python 3.9 or newer and nothing else, because it runs in the engine's image.
HF_ENDPOINT names another hub, HF_TOKEN is its token.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import json
import os
import shutil
import signal
import ssl
import stat
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

MARKER = "tokenworks.json"
CHUNK = 2**20
AT_ONCE = 4
TRIES = 8
TIMEOUT = 60
LONGEST_PAUSE = 60.0
PASSING = (408, 429, 500, 502, 503, 504)
PROGRESS_SECONDS = 10
NETWORK = (
    urllib.error.URLError,
    http.client.HTTPException,
    ssl.SSLError,
    ConnectionError,
    TimeoutError,
    json.JSONDecodeError,
)
OTHER_FORMATS = (".bin", ".pt", ".pth", ".h5", ".msgpack", ".onnx", ".ot", ".gguf")


class WeightsError(Exception):
    """Why the weights cannot be had, and what to do."""


@dataclass(frozen=True)
class File:
    """One file of the hub: its size, and the hash that the hub has of it."""

    name: str
    size: int
    sha256: str | None
    blob: str | None

    def hasher(self) -> Any:
        """What the contents are fed to."""
        if self.sha256:
            return hashlib.sha256()
        return hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False)

    @property
    def digest(self) -> str | None:
        """What it must come to; None: the hub states nothing."""
        return self.sha256 or self.blob


def say(text: str) -> None:
    """A line of the log, at once."""
    print(text, flush=True)


def shown(count: float) -> str:
    """Bytes for people."""
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.2f} MB"


def size_of(path: Path) -> int | None:
    """Bytes of a file, in one look; None: there is no such file."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


# The hub


class Redirects(urllib.request.HTTPRedirectHandler):
    """The token goes to the hub alone, not to the stores that it leads to."""

    def redirect_request(  # noqa: PLR0917 - the library calls it so
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """The next request; with the token if it is to the same host."""
        found = super().redirect_request(req, fp, code, msg, headers, newurl)
        token = req.unredirected_hdrs.get("Authorization")
        if found is not None and token and found.host == req.host:
            found.add_unredirected_header("Authorization", token)
        return found


OPENER = urllib.request.build_opener(Redirects)


def endpoint() -> str:
    """Where the hub is."""
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def ask(path: str, offset: int = 0) -> Any:
    """A response of the hub, from a byte on."""
    request = urllib.request.Request(endpoint() + path, headers={"Accept-Encoding": "identity"})
    if offset:
        request.add_header("Range", f"bytes={offset}-")
    if os.environ.get("HF_TOKEN"):
        request.add_unredirected_header("Authorization", f"Bearer {os.environ['HF_TOKEN']}")
    return OPENER.open(request, timeout=TIMEOUT)


def refusal(error: urllib.error.HTTPError, what: str) -> WeightsError:
    """What an answer that will not change means."""
    meaning = {
        401: "the token is missing or wrong: mend the Secret (spec.model.tokenSecret)",
        403: "the token may not read it: accept the model's licence on the hub with its account",
        404: "the hub knows no such model, revision or file, or hides it from this token",
    }.get(error.code, error.reason)
    return WeightsError(f"{what}: HTTP {error.code}: {meaning}")


def retried(what: str, step: Any) -> Any:
    """The step's result; an error of the network is tried again, later each time."""
    pause = 1.0
    for tries in range(1, TRIES + 1):
        try:
            return step()
        except urllib.error.HTTPError as error:
            if error.code not in PASSING:
                raise refusal(error, what) from error
            problem: Exception = error
        except NETWORK as error:
            problem = error
        if tries == TRIES:
            raise WeightsError(f"{what}: gave up after {TRIES} tries: {problem}")
        say(f"{what}: {problem}; again in {pause:.0f} s")
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
    raise AssertionError


def listed(repository: str, revision: str) -> list[File]:
    """Files of the model at the revision that an engine loads."""
    path = f"/api/models/{repository}/revision/{urllib.parse.quote(revision, safe='')}?blobs=true"

    def step() -> Any:
        with ask(path) as response:
            return json.load(response)

    found = retried(f"{repository} at {revision}", step)["siblings"]
    return [described(item) for item in wanted(found)]


def wanted(items: list[Any]) -> list[Any]:
    """Without what is there a second time beside safetensors, in other formats."""
    names = [str(item["rfilename"]) for item in items]
    if not any(name.endswith(".safetensors") for name in names):
        return items
    double = [n for n in names if n.endswith(OTHER_FORMATS) or n.startswith("original/")]
    return [item for item in items if item["rfilename"] not in double]


def described(item: dict[str, Any]) -> File:
    """One entry of the hub's list."""
    name: str = item["rfilename"]
    lfs: dict[str, Any] = item.get("lfs") or {}
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or path.parts[0] == MARKER:
        raise WeightsError(f"the hub lists a file outside the model's folder: {name}")
    size = lfs.get("size", item.get("size"))
    if size is None:
        raise WeightsError(f"the hub states no size of {name}")
    return File(name, int(size), lfs.get("sha256"), None if lfs else item.get("blobId"))


# One file


@dataclass(frozen=True)
class Download:
    """Files on their way into a folder."""

    files: list[File]
    path: str
    folder: Path
    start: float = field(default_factory=time.monotonic)
    had: list[int] = field(default_factory=list[int])
    stop: threading.Event = field(default_factory=threading.Event)

    def there(self, file: File) -> int:
        """Bytes of the file that are on the disk."""
        whole, part = self.folder / file.name, self.folder / f"{file.name}.part"
        # The part first: another thread renames it to the whole meanwhile, never back.
        return size_of(part) or size_of(whole) or 0

    def progress(self) -> str:
        """Bytes, percent, rate."""
        done, total = sum(map(self.there, self.files)), sum(file.size for file in self.files)
        rate = (done - sum(self.had)) / max(0.001, time.monotonic() - self.start)
        percent = 100 * done // max(1, total)
        return f"{shown(done)} of {shown(total)} ({percent}%), {shown(rate)}/s"

    def tell(self) -> None:
        """Say it every few seconds until the end."""
        while not self.stop.wait(PROGRESS_SECONDS):
            say(self.progress())

    def load(self, file: File) -> None:
        """The file, verified; what is there of it is continued."""
        target = self.folder / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if size_of(target) == file.size:
            return
        part = target.with_name(f"{target.name}.part")
        for _ in range(2):
            digest = retried(file.name, lambda: self.complete(file, part))
            if file.digest in (None, digest):
                part.rename(target)
                say(f"{file.name}: verified; {self.progress()}")
                return
            say(f"{file.name}: its hash is {digest}, not {file.digest}; from the beginning")
            part.unlink()
        raise WeightsError(f"{file.name}: hub or network deliver other bytes than the hub states")

    def complete(self, file: File, part: Path) -> str:
        """Hash of the file, after the bytes that are missing came."""
        hasher, had = file.hasher(), 0
        with part.open("ab+", buffering=0) as out:
            if out.tell() > file.size:
                out.truncate(0)
            out.seek(0)
            while chunk := out.read(CHUNK):
                hasher.update(chunk)
                had += len(chunk)
            if had < file.size:
                self.receive(file, had, out, hasher)
            os.fsync(out.fileno())
        return str(hasher.hexdigest())

    def receive(self, file: File, had: int, out: Any, hasher: Any) -> None:
        """The rest of the file, from one answer."""
        with ask(self.path + urllib.parse.quote(file.name), had) as response:
            if had and response.status != 206:
                out.truncate(0)
                raise ConnectionError("the server does not continue files: from the beginning")
            while chunk := response.read(CHUNK):
                if self.stop.is_set():
                    raise WeightsError("stopped, because another file failed")
                out.write(chunk)
                hasher.update(chunk)
                had += len(chunk)
        if had != file.size:
            raise ConnectionError(f"the answer ended after {had} of {file.size} bytes")


# All of them


def place(repository: str, revision: str, root: Path) -> Path:
    """Where the weights lie when they are whole."""
    return root / repository / revision


def wrong(folder: Path) -> str | None:
    """What is wrong with published weights; None: nothing."""
    try:
        files: dict[str, int] = json.loads((folder / MARKER).read_text())["files"]
    except FileNotFoundError:
        return f"{folder} is not there yet"
    for name, size in files.items():
        path = folder / name
        found = size_of(path)
        if found != size:
            return f"{path} has {found} bytes, not {size}"
    return None


def fetch(repository: str, revision: str, root: Path) -> None:
    """Download what is missing, verify, publish. One process at a time; the others find it done."""
    final = place(repository, revision, root)
    partial = root / ".partial" / "--".join((*repository.split("/"), revision))
    partial.parent.mkdir(parents=True, exist_ok=True)
    with partial.with_name(f"{partial.name}.lock").open("w") as lock:
        say(f"{final}: waiting for whoever downloads it now")
        fcntl.flock(lock, fcntl.LOCK_EX)
        problem = wrong(final)
        if problem is None:
            say(f"{final}: complete already")
            return
        reclaim(final, partial, problem)
        partial.mkdir(exist_ok=True)
        files = listed(repository, revision)
        download(files, f"/{repository}/resolve/{revision}/", partial)
        publish(repository, revision, files, partial, final)
    say(f"{final}: {len(files)} files, complete")


def reclaim(final: Path, partial: Path, problem: str) -> None:
    """Take back weights that were damaged after they had been published."""
    if not final.exists():
        return
    if not (final / MARKER).is_file():
        raise WeightsError(f"{final} is there, but was not made by this program: move it away")
    say(f"{problem}: it is repaired")
    if partial.exists():
        shutil.rmtree(partial)
    final.rename(partial)
    (partial / MARKER).unlink()


def download(files: list[File], path: str, folder: Path) -> None:
    """Every file, several at once, if the disk has room."""
    work = Download(files, path, folder)
    work.had.extend(map(work.there, files))
    missing, free = sum(file.size for file in files) - sum(work.had), shutil.disk_usage(folder).free
    if missing > free:
        raise WeightsError(
            f"{shown(missing)} are missing, but the disk has only {shown(free)} left"
        )
    threading.Thread(target=work.tell, daemon=True).start()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = [pool.submit(work.load, file) for file in files]
        try:
            for job in as_completed(jobs):
                job.result()
        finally:
            work.stop.set()
            pool.shutdown(cancel_futures=True)


def publish(repository: str, revision: str, files: list[File], partial: Path, final: Path) -> None:
    """One rename, after everything is on the disk."""
    sizes = {file.name: file.size for file in files}
    marker = {"repository": repository, "revision": revision, "files": sizes}
    with (partial / MARKER).open("w") as out:
        json.dump(marker, out)
        out.flush()
        os.fsync(out.fileno())
    final.parent.mkdir(parents=True, exist_ok=True)
    partial.rename(final)


def wait(repository: str, revision: str, root: Path) -> None:
    """Return when the weights are there; fail if they are damaged."""
    folder, tries = place(repository, revision, root), 0
    while not (folder / MARKER).is_file():
        if tries % 30 == 0:
            say(f"waiting for {folder}: the Job that downloads it has not finished")
        tries += 1
        time.sleep(2)
    problem = wrong(folder)
    if problem:
        raise WeightsError(f"{problem}: it was changed after it was verified; run the Job again")
    say(f"{folder} is complete")


def leave(*_: object) -> None:
    """End at SIGTERM; what was downloaded stays."""
    os._exit(143)


def main(arguments: list[str]) -> int:
    """0: the weights are there. 1: they are not, and the last line says why."""
    # The first process of a container ignores signals that it does not ask for.
    signal.signal(signal.SIGTERM, leave)
    try:
        command, repository, revision, root = arguments
        {"fetch": fetch, "wait": wait}[command](repository, revision, Path(root))
    except (WeightsError, OSError) as error:
        print(f"weights: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
