"""Names of users, also where there are none."""

import os
import pwd
import threading
import time

import pytest

from dutycycle_exporter.attribution import users
from dutycycle_exporter.attribution.users import UserNames


def entry(name):
    return pwd.struct_passwd((name, "x", 5, 5, "", "/", "/bin/sh"))


@pytest.fixture
def patient(monkeypatch):
    """Who asks waits for as long as a busy machine takes to answer."""
    monkeypatch.setattr(users, "_WAIT", 60.0)
    monkeypatch.setattr(users, "_MOST_WAIT", 1e9)


@pytest.mark.usefixtures("patient")
def test_the_user_of_this_process_has_the_systems_name():
    assert UserNames()(os.getuid()) == pwd.getpwuid(os.getuid()).pw_name


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("uid", [2**32 - 2, 2**64])
def test_an_unknown_uid_is_its_number(uid):
    assert UserNames()(uid) == str(uid)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("name", ["", "a\nb", "x" * 300, "\udcff"])
def test_a_name_that_cannot_be_shown_is_the_number(monkeypatch, name):
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: entry(name))
    assert UserNames()(5) == "5"


@pytest.mark.usefixtures("patient")
def test_a_name_is_looked_up_once(monkeypatch):
    asked = []
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: asked.append(uid) or entry("ada"))
    names = UserNames()
    assert [names(5), names(5)] == ["ada", "ada"]
    assert asked == [5]


@pytest.mark.usefixtures("patient")
def test_a_name_that_was_unknown_is_asked_for_again_after_a_while(monkeypatch):
    now = 100.0
    known = {}
    asked = []

    def look_up(uid):
        asked.append(uid)
        return entry(known[uid])

    monkeypatch.setattr(pwd, "getpwuid", look_up)
    monkeypatch.setattr(users.time, "monotonic", lambda: now)
    names = UserNames()
    assert [names(5), names(5), len(asked)] == ["5", "5", 1]
    known[5] = "ada"
    now = 700.0
    assert names(5) == "ada"


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("known", [True, False])
def test_of_users_without_end_only_the_last_are_remembered(monkeypatch, known):
    """Pods with user namespaces of their own bring a new uid each."""
    asked = []

    def look_up(uid):
        asked.append(uid)
        if not known:
            raise KeyError(uid)
        return entry("ada")

    monkeypatch.setattr(pwd, "getpwuid", look_up)
    names = UserNames()
    for uid in range(3000):
        names(uid)
    asked.clear()
    for uid in (2999, 2500, 0):
        names(uid)
    assert asked == [0]


def test_a_directory_that_is_away_holds_up_nobody_and_its_names_come_when_it_answers(monkeypatch):
    back = threading.Event()
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: back.wait(60) and entry(f"user{uid}"))
    names = UserNames()
    began = time.monotonic()
    assert [names(uid) for uid in range(200)] == [str(uid) for uid in range(200)]
    assert time.monotonic() - began < 20
    back.set()
    deadline = time.monotonic() + 60
    while names(199) != "user199":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert names(0) == "user0"


def test_a_directory_that_is_slow_holds_up_for_a_moment_only_however_many_come(monkeypatch):
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: time.sleep(0.02) or entry("ada"))
    names = UserNames()
    began = time.monotonic()
    told = [names(uid) for uid in range(2000)]
    assert time.monotonic() - began < 20
    assert told[0] == "ada"
    assert told[-1] == "1999"


@pytest.mark.usefixtures("patient")
def test_names_are_one_threads_to_look_up(monkeypatch):
    threads = set()
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: threads.add(threading.current_thread().name) or entry("ada"))
    names = UserNames()
    assert [names(uid) for uid in range(5)] == ["ada"] * 5
    assert threads == {"users"}
