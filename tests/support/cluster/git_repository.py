"""A git repository on this machine, for what reads manifests from one. Used by the tests of Argo CD."""

from pathlib import Path

from tests.support.cluster.commands import need_program, run

_AUTHOR = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]


class GitRepository:
    """A repository with its files in `folder`: tests write there and commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._git = need_program("git", "install the package git")
        run(self._git, "init", "--quiet", "--initial-branch=main", folder)

    @property
    def url(self) -> str:
        """Return the address that a client on this machine clones from."""
        return f"file://{self.folder}"

    def commit(self) -> str:
        """Commit whatever the files are now, and return the commit."""
        run(self._git, "add", "--all", cwd=self.folder)
        run(self._git, *_AUTHOR, "commit", "--quiet", "--message", "change", cwd=self.folder)
        return run(self._git, "rev-parse", "HEAD", cwd=self.folder).strip()
