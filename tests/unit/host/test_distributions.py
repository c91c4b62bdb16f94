"""Installed code that is the user's, found in made-up site folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddetect.host.distributions import code_of_main, distributions, editable_code

SCRIPTS = "[console_scripts]\n"


class Site:
    """A site folder with what pip would leave there."""

    def __init__(self, prefix: Path) -> None:
        self.bin = prefix / "bin"
        self.folder = prefix / "lib/python3.11/site-packages"
        self.folder.mkdir(parents=True)
        self.path = str(self.folder)

    def install(self, name: str, *files: str, scripts: str = "", **metadata: str) -> None:
        info = self.folder / f"{name}-1.0.dist-info"
        info.mkdir()
        for file in files:
            (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / file).write_text("")
        record = [*files, *([f"../../../bin/{scripts}"] if scripts else []), f"{info.name}/RECORD"]
        (info / "RECORD").write_text("".join(f"{file},sha256=x,1\n" for file in record))
        for key, text in metadata.items():
            (info / key.replace("_json", ".json").replace("_txt", ".txt")).write_text(text)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path / "venv")
    made.install(
        "torch",
        "torch/__init__.py",
        entry_points_txt=f"{SCRIPTS}torchrun = torch.distributed.run:main\n",
    )
    made.install("AAA", "aaa/__init__.py", entry_points_txt="[acme.plugins]\nacme-train = aaa.plugin:add\n")
    made.install(
        "Acme.Train", "acme/__init__.py", "acme/cli.py", "acme/data/io.py", "acme_tools.py", scripts="acme-prepare",
        entry_points_txt=f"{SCRIPTS}acme-train = acme.cli:main [gpu]\n",
    )  # fmt: skip
    return made


def test_module_of_a_distribution_makes_all_its_packages_the_users(site: Site):
    """`python -m acme.cli`: the other packages of that distribution too."""
    assert code_of_main((site.path,), f"{site.path}/acme/cli.py") == (
        f"{site.path}/acme",
        f"{site.path}/acme_tools.py",
    )


@pytest.mark.parametrize("script", ["acme-train", "acme-prepare"])
def test_script_belongs_to_the_distribution_that_installed_it(site: Site, script):
    """By its entry point, or as a plain script in the record."""
    assert f"{site.path}/acme" in code_of_main((site.path,), f"{site.bin}/{script}")


@pytest.mark.parametrize("main", ["", "/job/train.py", "/job/acme-train", "{bin}/torchrun", "{bin}/unknown"])
def test_program_of_nobody_and_one_that_runs_others_makes_nothing_the_users(site: Site, main):
    """A script outside is the user's anyway; what torchrun is installed with is not."""
    assert code_of_main((site.path,), main.format(bin=site.bin)) == ()


def test_main_of_a_runner_in_the_site_folder_makes_nothing_the_users(site: Site):
    """A Ray worker's `__main__` is Ray's, and its program somebody else's."""
    site.install("ray", "ray/__init__.py", "ray/_private/workers/default_worker.py")

    assert code_of_main((site.path,), f"{site.path}/ray/_private/workers/default_worker.py") == ()


def test_of_a_shared_namespace_only_its_own_part_is_the_users(site: Site):
    """`google` is not one company's."""
    site.install("corp-train", "corp/train/__init__.py", "corp/train/run.py", "corp/run_all.py")
    site.install("corp-data", "corp/data/__init__.py")

    found = code_of_main((site.path,), f"{site.path}/corp/train/run.py")

    assert f"{site.path}/corp/train" in found
    assert f"{site.path}/corp/data" not in found


def test_package_that_no_record_names_is_the_users_alone(site: Site):
    """Copied there by hand, or its metadata was removed."""
    (site.folder / "mine").mkdir()
    (site.folder / "mine/train.py").write_text("")

    assert code_of_main((site.path,), f"{site.path}/mine/train.py") == (f"{site.path}/mine",)


def test_distribution_without_a_record_is_told_by_its_top_level_names(site: Site):
    """An egg-info of old, or of a distribution's package."""
    info = site.folder / "old-1.0.egg-info"
    info.mkdir()
    (info / "top_level.txt").write_text("oldpkg\noldmore\n")

    assert f"{site.path}/oldmore" in code_of_main((site.path,), f"{site.path}/oldpkg/train.py")


def test_editable_project_and_the_link_to_it_are_the_users(site: Site, tmp_path: Path):
    """Whoever linked a single module out of a cache has no editable install."""
    project, cache = tmp_path / "my project", tmp_path / "cache"
    (project / "src/mine").mkdir(parents=True)
    cache.mkdir()
    (site.folder / "mine").symlink_to(project / "src/mine")
    (site.folder / "six.py").symlink_to(cache / "six.py")
    url = project.as_uri()
    site.install("mine", direct_url_json=f'{{"url": "{url}", "dir_info": {{"editable": true}}}}')
    site.install("plain", direct_url_json=f'{{"url": "{cache.as_uri()}", "dir_info": {{}}}}')

    assert editable_code((site.path,)) == (str(project), f"{site.path}/mine")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"url": 3, "dir_info": {"editable": true}}',
        '{"url": "https://x/y/z", "dir_info": {"editable": true}}',
        '{"url": "file:///", "dir_info": {"editable": true}}',
        '{"url": "file:///home", "dir_info": {"editable": true}}',
    ],
)
def test_metadata_that_is_not_as_it_should_be_says_nothing(site: Site, text):
    """A whole disk is nobody's project."""
    site.install("odd", direct_url_json=text)

    assert editable_code((site.path,)) == ()


def test_files_are_read_through_the_root_of_a_container(tmp_path: Path):
    """The answer has the paths that its stacks have."""
    inner = Site(tmp_path / "root/venv")
    inner.install("acme", "acme/__init__.py", "acme/train.py", "acme_tools.py")
    seen_inside = "/venv/lib/python3.11/site-packages"

    found = code_of_main((seen_inside,), f"{seen_inside}/acme/train.py", str(tmp_path / "root"))

    assert found == (f"{seen_inside}/acme", f"{seen_inside}/acme_tools.py")


def test_folder_that_is_not_there_holds_nothing():
    """And is no error."""
    assert list(distributions(("/nowhere/site-packages",))) == []
