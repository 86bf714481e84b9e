"""Send entries of the zoo to the Hugging Face Hub, or a server like it (`HF_ENDPOINT`), and fetch them from there.

A repository there is a folder of entries. What is fetched is checked in a temporary place before it is moved, and only
files with known names that an entry lists are fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from cbm.errors import ZOO_HINT, CBMError, UnknownChoice
from cbm.runs.zoo.entries import PREFIX, BadEntry, Entry, check_name, open_entry, pulled_folder, read_about, verify
from cbm.system.files import aside

if TYPE_CHECKING:
    from huggingface_hub import HfApi


def push(names: Sequence[str], repo: str, private: bool = False) -> str:
    """Put entries into a repository, which is created if missing, in one commit. Returns its address."""
    entries = [open_entry(name) for name in names]
    with _hub(repo, "push to") as api:
        from huggingface_hub import CommitOperationAdd

        api.create_repo(repo, exist_ok=True, private=private)
        operations: list[Any] = [
            CommitOperationAdd(f"{entry.name}/{file}", str(entry.root / file))
            for entry in entries
            for file in ("entry.json", *entry.about.files)
        ]
        message = f"Add {', '.join(entry.name for entry in entries)}"
        return str(api.create_commit(repo, operations, commit_message=message).commit_url)


def pull(names: Sequence[str], repo: str, revision: str | None = None, replace: bool = False) -> list[Entry]:
    """Fetch entries from a repository; all of them if none is named."""
    with _hub(repo, "pull from") as api:
        info = api.model_info(repo, revision=revision)
        files = [sibling.rfilename for sibling in info.siblings or ()]
    known = [file.removesuffix("/entry.json") for file in files if file.endswith("/entry.json")]
    if not known:
        raise CBMError(f"{repo} holds no entry of the zoo (no entry.json in a folder).")
    wanted = [name.removeprefix(PREFIX) for name in names] or known
    for name in wanted:
        if name not in known:
            raise UnknownChoice(f"agent of {repo}", name, known)
        check_name(name)
        if (pulled_folder() / name).exists() and not replace:
            raise CBMError(f"{pulled_folder() / name} already exists. To replace it, add --replace.")
    return [_pull(name, repo, str(info.sha)) for name in wanted]


def _pull(name: str, repo: str, commit: str) -> Entry:
    folder = pulled_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".pull-", dir=folder) as scratch:
        root = Path(scratch) / name
        try:
            with _hub(repo, "pull from") as api:
                api.hf_hub_download(repo, f"{name}/entry.json", revision=commit, local_dir=scratch)
                for file in read_about(root).files:
                    api.hf_hub_download(repo, f"{name}/{file}", revision=commit, local_dir=scratch)
            about = verify(root)
        except BadEntry as error:
            raise BadEntry(f"{name} of {repo} was not accepted. {str(error).replace(str(root), name)}") from None
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with aside(folder / name) as made:
            root.rename(made)
    return Entry(name, folder / name, about)


@contextmanager
def _hub(repo: str, what: str) -> Iterator[HfApi]:
    """The Hub's interface. Whatever it raises becomes one line."""
    if not repo:
        raise CBMError("name the repository: --repo USER/NAME.")
    if find_spec("huggingface_hub") is None:
        raise CBMError(f"cbm zoo push and pull need huggingface_hub: {ZOO_HINT}")
    from huggingface_hub import HfApi

    api = HfApi(library_name="cbm-rl")
    try:
        yield api
    except CBMError:
        raise
    except Exception as error:  # from the Hub, the connection or the disk: they have no common class
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = " ".join(lines[:2]) or type(error).__name__
        raise CBMError(
            f"could not {what} {repo} at {api.endpoint}: {reason}. A repository is called USER/NAME; to sign in, type: "
            "hf auth login"
        ) from error
