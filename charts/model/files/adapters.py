"""LoRA adapters: pull those of the approved list, verify them, keep the engine to the list.

    pull FOLDER LIST               before the engine starts; ends when all of them are there
    serve FOLDER LIST ENGINE PORT  beside the engine; follows the list until it is told to end

LIST is a file, or its text. An adapter that is not exactly what was approved is never put where
the engine reads, and one that is not on the list is unloaded.
"""

import hashlib
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
TAKEN = {WEIGHTS, CONFIG, *TOKENIZER, "added_tokens.json"}
# Read by people only, so left where it is.
IGNORED = re.compile(r"\.gitattributes|LICENSE|[^/]+\.(md|txt|png|jpg|svg)")
HUB = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
CLAIMS = Path(os.environ.get("ADAPTER_CLAIMS", "/claims"))
PERIOD = float(os.environ.get("ADAPTER_PERIOD", "5"))
PIECE = 1 << 20
TRIES = 5
AGAIN = "will try again"
PASSING = (OSError, ValueError, http.client.HTTPException)
# The engine is not serving now, or the hub is not: neither says anything about the adapter.
BUSY = (408, 429, 502, 503, 504)


class RefusedError(Exception):
    """The adapter is not what was approved; trying again soon does not help."""


class Beat:
    """When something last moved, and whether the list was dealt with."""

    def __init__(self):
        self.at, self.ready = time.monotonic(), False

    def __call__(self):
        self.at = time.monotonic()


def say(text):
    print(f"adapters: {text}", flush=True)


# The hub, and claims


class SameHost(urllib.request.HTTPRedirectHandler):
    """The hub hands large files to other hosts, which its token is no business of."""

    def redirect_request(self, req, *rest):
        new = super().redirect_request(req, *rest)
        places = [urllib.parse.urlsplit(url) for url in (req.full_url, rest[-1])]
        if new and len({(place.scheme, place.netloc) for place in places}) > 1:
            new.remove_header("Authorization")
        return new


def ask(path):
    request = urllib.request.Request(HUB + path)
    if token := os.environ.get("HF_TOKEN"):
        request.add_header("Authorization", f"Bearer {token}")
    try:
        return urllib.request.build_opener(SameHost).open(request, timeout=60)
    except urllib.error.HTTPError as error:
        if error.code in (408, 429) or error.code >= 500:
            raise
        raise RefusedError(f"{HUB}{path}: {error.code} {error.reason}") from None


class Hub:
    """A repository of the hub at one commit."""

    def __init__(self, place, revision):
        if not revision:
            raise RefusedError("it has no revision yet: write the commit into spec.lora")
        self.place, self.revision = place, revision

    def names(self):
        with ask(f"/api/models/{self.place}/revision/{self.revision}") as answer:
            found = json.load(answer)
        try:
            return [str(item["rfilename"]) for item in found["siblings"]]
        except (KeyError, TypeError):
            raise ValueError("the hub's answer lists no files") from None

    def open(self, name):
        return ask(f"/{self.place}/resolve/{self.revision}/{urllib.parse.quote(name)}")


class Claim:
    """A folder of a mounted claim."""

    def __init__(self, place):
        self.folder = CLAIMS / place

    def names(self):
        try:
            # Reading anything but a file may never end.
            return [item.name + "/" * (not item.is_file()) for item in self.folder.iterdir()]
        except OSError as error:
            raise RefusedError(f"{self.folder}: {error.strerror}") from None

    def open(self, name):
        return (self.folder / name).open("rb")


# One adapter


def chosen(names):
    """The files to take; one that could be run or unpickled spoils the adapter."""
    strange = sorted(n for n in names if n not in TAKEN and not IGNORED.fullmatch(n))
    if strange:
        raise RefusedError(
            f"{strange[0]} has no place in an adapter: give it a repository without it"
        )
    missing = sorted({WEIGHTS, CONFIG} - set(names))
    if missing:
        raise RefusedError(f"{missing[0]} is missing")
    return sorted(TAKEN & set(names))


def fetch(source, name, path, room, beat):
    """Copy one file; its size and SHA-256. Stops as soon as there is no room left."""
    digest, size = hashlib.sha256(), 0
    with source.open(name) as reader, path.open("wb") as writer:
        length = getattr(reader, "headers", {}).get("Content-Length")
        while piece := reader.read(PIECE):
            size += len(piece)
            if size > room:
                raise RefusedError(f"its files are larger than the approved size ({name})")
            digest.update(piece)
            writer.write(piece)
            beat()
    if length is not None and size != int(length):
        raise OSError(f"{name}: the connection ended after {size} of {length} bytes")
    return size, "sha256:" + digest.hexdigest()


def check_config(path, entry, base):
    """Rank and base model are those that were approved."""
    try:
        config = json.loads(path.read_text("utf-8"))
        ranks = [config["r"], *(config.get("rank_pattern") or {}).values()]
        rank = max(int(r) for r in ranks)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RefusedError(f"{CONFIG} is no configuration of an adapter: {error!r}") from None
    if rank > entry["rank"]:
        raise RefusedError(f"its rank is {rank}, approved is at most {entry['rank']}")
    if config.get("peft_type", "LORA") != "LORA":
        raise RefusedError(f"it is a {config['peft_type']} adapter, not LoRA")
    named = config.get("base_model_name_or_path") or ""
    # Paths of the machine it was trained on say nothing.
    if base and re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", named) and named != base:
        raise RefusedError(f"it was trained for {named}, and the model is {base}")


def make_up(folder, entry, base):
    """What a played engine loads: it looks for the folder and reads the rank."""
    config = {"peft_type": "LORA", "r": entry["rank"], "base_model_name_or_path": base}
    (folder / CONFIG).write_text(json.dumps(config), "utf-8")
    (folder / WEIGHTS).write_bytes((2).to_bytes(8, "little") + b"{}")


def fill(folder, entry, base, beat):
    """Put a verified adapter into an empty folder."""
    scheme, _, place = entry["uri"].partition("://")
    if scheme == "dummy":
        make_up(folder, entry, base)
        return
    if entry["digest"] == "unresolved":
        raise RefusedError(
            "its digest is unresolved: write the SHA-256 of its weights into spec.lora"
        )
    source = Hub(place, entry.get("revision")) if scheme == "hf" else Claim(place)
    room = entry["bytes"]
    for name in chosen(source.names()):
        size, digest = fetch(source, name, folder / name, room, beat)
        room -= size
        if name == WEIGHTS and digest != entry["digest"]:
            raise RefusedError(f"the digest of {name} is {digest}, approved is {entry['digest']}")
    check_config(folder / CONFIG, entry, base)


def check_limits(folder, entry, base):
    """What was verified once is held to what is approved now; its content has not changed."""
    size = sum(item.stat().st_size for item in folder.iterdir())
    if size > entry["bytes"]:
        raise RefusedError(f"its files take {size} bytes, approved are {entry['bytes']}")
    check_config(folder / CONFIG, entry, base)


def pull(name, entry, base, beat):
    """Have the adapter in its folder, which is there only when all of it was verified."""
    path = Path(entry["path"])
    if path.is_dir():
        if not entry["uri"].startswith("dummy:"):
            check_limits(path, entry, base)
        return
    part = path.with_name(f"{path.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    started = time.monotonic()
    try:
        fill(part, entry, base, beat)
        part.rename(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    say(f"{name}: pulled {entry['uri']} in {time.monotonic() - started:.1f} s")


# The engine


class Engine:
    """The engine in the same pod."""

    def __init__(self, url):
        self.url = url

    def adapters(self):
        """Name: folder of what is loaded."""
        with urllib.request.urlopen(self.url + "/v1/models", timeout=10) as answer:
            found = json.load(answer)
        try:
            return {card["id"]: card.get("root") for card in found["data"] if card.get("parent")}
        except (KeyError, TypeError, AttributeError):
            raise ValueError("its list of models has no names") from None

    def change(self, what, body):
        """Load or unload; the engine's words when it will not."""
        request = urllib.request.Request(
            f"{self.url}/v1/{what}_lora_adapter",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            urllib.request.urlopen(request, timeout=120).close()
        except urllib.error.HTTPError as error:
            if error.code in BUSY:
                raise
            text = error.read(500).decode("utf-8", "replace")
            raise RefusedError(f"the engine will not {what} it: {error.code} {text}") from None


def is_down(error):
    """Nothing listens at its port; an engine that is only slow still serves."""
    return isinstance(getattr(error, "reason", error), ConnectionRefusedError)


class Book:
    """What must outlive this process, as the engine's caches may."""

    def __init__(self, folder):
        self.path = folder / ".book"
        kept = json.loads(self.path.read_text("utf-8")) if self.path.exists() else {}
        # The folder that each name was loaded from first; whether a whole list was dealt with.
        self.first, self.dealt = kept.get("first", {}), kept.get("dealt", False)

    def write(self):
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({"first": self.first, "dealt": self.dealt}), "utf-8")
        new.rename(self.path)


class Rests:
    """Names that are left alone for a while, each time for longer: refusals are not asked for
    again at once, because a file that is not the approved one may be large."""

    def __init__(self):
        self.kept = {}

    def of(self, name, approved):
        """Whether it was refused, while it rests; None when it is time. What is approved
        otherwise is another matter."""
        known, until, _, refused = self.kept.get(name, (None, 0, 0, None))
        return refused if known == approved and time.monotonic() < until else None

    def add(self, name, approved, refused):
        known, _, before, _ = self.kept.get(name, (None, 0, 0, None))
        least, most = (12, 720) if refused else (1, 12)
        periods = min(most, max(least, 2 * before if known == approved else 0))
        self.kept[name] = (approved, time.monotonic() + periods * PERIOD, periods, refused)


class Keeper:
    """Keeps one engine to the approved list."""

    def __init__(self, folder, engine, beat):
        self.folder, self.engine, self.beat = folder, engine, beat
        self.book, self.rests = Book(folder), Rests()
        self.said, self.loaded, self.mine = {}, {}, {}

    def once(self, name, text):
        """Say what changed, not what is still so."""
        if self.said.get(name) != text:
            self.said[name] = text
            say(f"{name}: {text}")

    def tend(self, wanted):
        """One pass."""
        asked = self.ask()
        # What must go goes first; pulling may take long.
        if asked:
            for name in self.loaded.keys() - wanted["adapters"].keys():
                self.unload(name)
        self.tidy(wanted)
        settled = {n: self.settle(n, e, wanted, asked) for n, e in wanted["adapters"].items()}
        self.said = {n: t for n, t in self.said.items() if n in wanted["adapters"] or n == "engine"}
        if asked:
            self.judge(wanted, settled)

    def ask(self):
        """Whether the engine said what it has loaded; not ready while there is no engine."""
        try:
            self.loaded = self.engine.adapters()
        except PASSING as error:
            self.once("engine", f"does not answer yet: {error}")
            if is_down(error):
                self.loaded, self.beat.ready = {}, False
            return False
        self.said.pop("engine", None)
        return True

    def judge(self, wanted, settled):
        """Ready once the whole list was dealt with, and unready while an engine that was started
        again lacks what the one before had; never for a change of the list."""
        if all(settled.values()) and not self.book.dealt:
            self.book.dealt = True
            self.book.write()
        lost = [
            name
            for name, entry in wanted["adapters"].items()
            if self.mine.get(name) == entry["path"] and not settled[name]
        ]
        self.beat.ready = self.book.dealt and not lost

    def settle(self, name, entry, wanted, asked):
        """Have one adapter loaded; whether it is, or was refused."""
        self.beat()
        approved = (entry, wanted.get("base"), wanted["replace"])
        refused = self.rests.of(name, approved)
        try:
            if refused is None:
                self.bring(name, entry, wanted, asked)
                return asked
        except RefusedError as error:
            self.once(name, f"refused: {error}")
            self.rests.add(name, approved, True)
            refused = True
        except PASSING as error:
            self.once(name, f"{AGAIN}: {error}")
            self.rests.add(name, approved, False)
        if asked and name in self.loaded and (refused or not self.was_ours(name)):
            self.unload(name)
        return bool(refused)

    def bring(self, name, entry, wanted, asked):
        path = entry["path"]
        pull(name, entry, wanted.get("base"), self.beat)
        if not asked:
            return
        if self.loaded.get(name) != path:
            if name in self.loaded:
                self.drop(name)
                self.tidy(wanted)
            self.load(name, path, wanted["replace"])
            self.loaded[name] = path
        self.mine[name] = path
        self.said.pop(name, None)
        self.rests.kept.pop(name, None)

    def was_ours(self, name):
        """Whether what is loaded was verified under this name: it serves until the next one of
        the name is there. What somebody else loaded does not."""
        root = Path(self.loaded[name] or "")
        return root.parent == self.folder and root.name.rpartition("-")[0] == name

    def load(self, name, path, replace):
        new = name not in self.book.first
        before = self.book.first.setdefault(name, path)
        if before != path and not replace:
            raise RefusedError(
                "this engine would take its cached prompts for those of the adapter that had the "
                "name before: give it a new name, or replace the pods"
            )
        self.book.write()
        try:
            self.engine.change("load", {"lora_name": name, "lora_path": path})
        except RefusedError:
            if new:
                # It has answered nobody, so nothing of it is cached.
                del self.book.first[name]
                self.book.write()
            raise
        say(f"{name}: loaded {path}")

    def drop(self, name):
        self.engine.change("unload", {"lora_name": name})
        del self.loaded[name]
        say(f"{name}: unloaded")

    def unload(self, name):
        try:
            self.drop(name)
        except (RefusedError, *PASSING) as error:
            self.once(name, f"cannot be unloaded, {AGAIN}: {error}")

    def tidy(self, wanted):
        """Nothing is left of what is neither on the list nor loaded, so that the volume has room
        for what comes."""
        kept = {entry["path"] for entry in wanted["adapters"].values()} | {*self.loaded.values()}
        for item in self.folder.iterdir():
            if item.is_dir() and str(item) not in kept:
                shutil.rmtree(item, ignore_errors=True)


class Health(http.server.BaseHTTPRequestHandler):
    """/live: it moved within two minutes. /ready: the list was dealt with."""

    def do_GET(self):
        beat = self.server.beat
        good = beat.ready if self.path == "/ready" else time.monotonic() - beat.at < 120
        self.send_response(200 if good else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


# Commands


def read(text):
    if not text.startswith("{"):
        text = Path(text).read_text("utf-8")
    return json.loads(text)


def pull_all(text):
    wanted = read(text)
    for name, entry in wanted["adapters"].items():
        for left in reversed(range(TRIES)):
            try:
                pull(name, entry, wanted.get("base"), Beat())
                break
            except RefusedError as error:
                sys.exit(f"adapters: {name}: refused: {error}")
            except PASSING as error:
                if not left:
                    sys.exit(f"adapters: {name}: {error}")
                say(f"{name}: {AGAIN}: {error}")
                time.sleep(PERIOD)


def serve(folder, text, url, port):
    beat = Beat()
    server = http.server.ThreadingHTTPServer(("", int(port)), Health)
    server.beat = beat
    threading.Thread(target=server.serve_forever, daemon=True).start()
    keeper = Keeper(Path(folder), Engine(url), beat)
    while True:
        beat()
        try:
            # A change half written is read again.
            keeper.tend(read(text))
        except (OSError, ValueError, KeyError) as error:
            keeper.once("list", f"cannot be read: {error!r}")
        time.sleep(PERIOD)


if __name__ == "__main__":
    # At once, whatever it waits for: the engine has the time that the pod has left.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if sys.argv[1] == "pull":
        pull_all(sys.argv[3])
    else:
        serve(*sys.argv[2:6])
