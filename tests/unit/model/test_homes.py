"""Whose a file is."""

from __future__ import annotations

import pytest

from ddetect.model.homes import MOST_FOLDERS, CodeHomes, Owner, join_homes, whose

SITE = "/venv/lib/python3.11/site-packages"
FRAMEWORKS = frozenset({"torch", "numpy"})
UNKNOWN = CodeHomes()


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        ("/job/train.py", Owner.USER),
        (f"{SITE}/acme_models/layers.py", Owner.LIBRARY),
        (f"{SITE}/six.py", Owner.LIBRARY),
        ("/usr/lib/python3/dist-packages/mpi4py/run.py", Owner.LIBRARY),
        (f"{SITE}/torch/nn/modules/module.py", Owner.FRAMEWORK),
        ("/usr/lib/python3.11/threading.py", Owner.STDLIB),
        ("/home/me/.pyenv/versions/3.12.1/lib/python3.12/queue.py", Owner.STDLIB),
        ("<frozen runpy>", Owner.STDLIB),
        ("<stdin>", Owner.USER),
        ("threading.py", Owner.STDLIB),
        ("torch/autograd/graph.py", Owner.FRAMEWORK),
        ("site-packages/torch/x.py", Owner.FRAMEWORK),
        ("train.py", Owner.USER),
        ("/x/site/ddetect_probe/beat.py", Owner.PROBE),
        ("/home/me/torch/train.py", Owner.USER),
    ],
)
def test_without_an_answer_of_the_interpreter_paths_tell(file, owner):
    """Nothing in site-packages is the user's; what lies outside of it and of the standard library is."""
    assert whose(file, UNKNOWN, FRAMEWORKS) is owner


TOLD = CodeHomes(
    stdlib=("/opt/python/Lib",),
    site=("/opt/python/extras", SITE),
    user=(f"{SITE}/acme", "/srv/project", "/opt/python/Lib/ours"),
)


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        ("/opt/python/Lib/threading.py", Owner.STDLIB),
        ("/opt/python/extras/torch/x.py", Owner.FRAMEWORK),
        ("/opt/python/extras/wds.py", Owner.LIBRARY),
        ("/opt/python/Lib/ours/train.py", Owner.USER),
        (f"{SITE}/acme/train.py", Owner.USER),
        (f"{SITE}/acme_data/io.py", Owner.LIBRARY),
        ("/srv/project/src/train.py", Owner.USER),
        ("/srv/project/.venv/lib/python3.11/site-packages/wds/tar.py", Owner.LIBRARY),
        ("/srv/project/.venv/lib/python3.11/queue.py", Owner.STDLIB),
        ("/elsewhere/lib/python3.11/queue.py", Owner.STDLIB),
        ("/elsewhere/train.py", Owner.USER),
    ],
)
def test_what_the_interpreter_told_goes_before_what_paths_look_like(file, owner):
    """Folders of any name are known; `__main__`'s distribution is the user's, a venv in his project is not."""
    assert whose(file, TOLD, FRAMEWORKS) is owner


def test_site_folder_inside_a_project_of_the_users_is_no_part_of_it():
    """The longer path tells, whatever the site folder is called."""
    homes = CodeHomes(site=("/srv/project/env/packages",), user=("/srv/project",))

    assert whose("/srv/project/env/packages/wds/tar.py", homes, FRAMEWORKS) is Owner.LIBRARY


def test_homes_of_several_nodes_are_joined_once_each_and_not_without_end():
    """Nodes that say the same say it once."""
    one = CodeHomes(("/usr/lib/python3.11",), (SITE,))
    many = [CodeHomes(site=(f"/node{number}/site-packages",)) for number in range(1000)]

    joined = join_homes([one, one, *many])

    assert (joined.stdlib, joined.site[0], len(joined.site)) == (one.stdlib, SITE, MOST_FOLDERS)
    assert not join_homes([])
