"""Who may come in by name and password, how often, and what happens when the file changes."""

from __future__ import annotations

import base64
import http.client
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dutycycle_exporter.errors import ConfigError
from dutycycle_exporter.web import access, passwords
from dutycycle_exporter.web.access import Limiter
from dutycycle_exporter.web.config import RateLimit
from dutycycle_exporter.web.passwords import Passwords
from dutycycle_exporter.web.server import _MOST_REQUESTS
from tests.exporter.daemon import eventually
from tests.exporter.web_server import PAGE, basic, bcrypt, client_context, get, replace, tls_file
from tests.fakes.clock import FakeClock


@pytest.mark.parametrize("path", ["/metrics", "/-/healthy", "/-/ready", "/", "/nowhere"])
def test_with_users_everything_asks_for_one(serve, path):
    server = serve(f"basic_auth_users:\n  alice: {bcrypt('right')}\n")
    assert get(server, path)[0] == 401
    assert get(server, path, Authorization=basic("alice", "wrong"))[0] == 401
    assert get(server, path, Authorization=basic("alice", "right"))[0] in (200, 404)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic !!!",
        "Bearer abc",
        "Basic " + base64.b64encode(b"alice").decode(),
        "Basic " + base64.b64encode(b"\xff\xfe:\xff").decode(),
        "Basic " + "A" * 60_000,
        basic("bob", "right"),
        basic("", "right"),
        basic("alice", ""),
        basic("alice", "right\0"),
        basic("alice", "right\0more"),
        basic("Alice", "right"),
        basic("alice", "right "),
    ],
)
def test_what_is_not_the_user_and_password_is_turned_away(serve, header, capfd):
    server = serve(f"basic_auth_users:\n  alice: {bcrypt('right')}\n")
    assert get(server, Authorization=header)[0] == 401
    assert "Traceback" not in capfd.readouterr().err


def test_names_and_passwords_may_hold_anything_else(serve):
    server = serve(f"basic_auth_users:\n  zoë: {bcrypt('pass:wörd')}\n")
    assert get(server, Authorization=basic("zoë", "pass:wörd"))[0] == 200


def test_a_published_hash_is_verified():
    assert Passwords({"u": "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"}).right("u", "U*U")


def test_a_verdict_is_computed_once_for_everybody_who_asks_and_for_nobody_alike(monkeypatch):
    computed = []
    real = passwords._crypt

    def counted(password, setting):
        computed.append(setting[:7])
        return real(password, setting)

    users = Passwords({"alice": bcrypt("right", cost="05")})
    monkeypatch.setattr(passwords, "_crypt", counted)
    threads = [threading.Thread(target=users.right, args=("alice", "right")) for _ in range(passwords._MOST_WAITING)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(computed) == 1
    assert not users.right("alice", "wrong")
    assert not users.right("alice", "wrong")
    assert not users.right("nobody", "right")
    # A user that there is not costs what one that there is does.
    assert computed == [b"$2y$05$", b"$2y$05$", b"$2b$05$"]


def test_guesses_are_forgotten_and_do_not_push_out_who_is_known(monkeypatch):
    monkeypatch.setattr(passwords, "_MOST_WRONG", 8)
    users = Passwords({"alice": bcrypt("right")})
    assert users.right("alice", "right")
    for guess in range(40):
        assert not users.right("alice", str(guess))
    assert (len(users._wrong), len(users._right)) == (8, 1)
    monkeypatch.setattr(passwords, "_crypt", lambda *_: pytest.fail("computed again"))
    assert users.right("alice", "right")


def test_a_known_scraper_does_not_wait_for_guesses(monkeypatch):
    users = Passwords({"alice": bcrypt("right")})
    assert users.right("alice", "right")
    with users._hashing:  # as while a guess is computed
        assert users.right("alice", "right")


def test_few_guesses_wait_for_their_turn_and_the_others_are_refused(serve, monkeypatch):
    """Each that waits has a thread, and bcrypt takes seconds where that was asked for."""
    gate, real = threading.Event(), passwords._crypt

    def slow(password, setting):
        gate.wait(60)
        return real(password, setting)

    server = serve(f"basic_auth_users:\n  alice: {bcrypt('right')}\n")
    assert get(server, Authorization=basic("alice", "right"))[0] == 200
    monkeypatch.setattr(passwords, "_crypt", slow)
    with ThreadPoolExecutor(_MOST_REQUESTS) as pool:
        asked = [
            pool.submit(lambda guess=guess: get(server, Authorization=basic("alice", str(guess)))[0])
            for guess in range(_MOST_REQUESTS - 1)
        ]
        eventually(lambda: sum(one.done() for one in asked) == len(asked) - passwords._MOST_WAITING)
        assert get(server, Authorization=basic("alice", "right"))[0] == 200, "who is known goes past them"
        gate.set()
    statuses = sorted(one.result() for one in asked)
    assert statuses == [401] * passwords._MOST_WAITING + [503] * (len(asked) - passwords._MOST_WAITING)


def test_a_changed_file_is_read_at_the_next_request_and_a_wrong_one_changes_nothing(serve, web_file, caplog):
    caplog.set_level("INFO")
    server = serve(f"basic_auth_users:\n  alice: {bcrypt('one')}\n")
    assert get(server, Authorization=basic("alice", "one"))[0] == 200
    replace(web_file, f"basic_auth_users:\n  alice: {bcrypt('two')}\n")
    assert get(server, Authorization=basic("alice", "one"))[0] == 401
    assert get(server, Authorization=basic("alice", "two"))[0] == 200
    replace(web_file, "basic_auth_user: {}")
    for _ in range(3):
        assert get(server)[0] == 401
        assert get(server, Authorization=basic("alice", "two"))[0] == 200
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    assert "did you mean basic_auth_users?" in errors[0]
    web_file.unlink()
    assert get(server)[0] == 401, "a file that is gone opens nothing"


NOTHING = ["", "# nothing\n", "{}\n", "---\n...\n", "null\n"]


@pytest.mark.parametrize("text", NOTHING)
def test_a_file_that_has_become_empty_opens_nothing(serve, web_file, monkeypatch, caplog, text):
    """As a full disk leaves it, and as it is for a moment where it is written in place."""
    monkeypatch.setattr(access, "_RETRY", 0.0)
    server = serve(f"basic_auth_users:\n  alice: {bcrypt('one')}\n")
    for write in (web_file.write_text, lambda text: replace(web_file, text)):
        write(text)
        assert get(server)[0] == 401
        assert get(server, Authorization=basic("alice", "one"))[0] == 200
    with pytest.raises(ConfigError, match="has no key any more, as if it had been cut short"):
        server._access.reload()
    assert get(server)[0] == 401
    assert caplog.text.count("has no key any more") == 1, "said once"
    replace(web_file, f"basic_auth_users:\n  alice: {bcrypt('two')}\n")
    assert get(server, Authorization=basic("alice", "two"))[0] == 200
    replace(web_file, "basic_auth_users: {}\n")
    assert get(server)[0] == 200, "it says so"


@pytest.mark.parametrize("text", NOTHING)
def test_a_file_that_was_empty_may_stay_so_until_it_says_something(serve, web_file, text):
    server = serve(text)
    assert get(server)[0] == 200
    replace(web_file, "# still nothing\n")
    server._access.reload()
    replace(web_file, "rate_limit: {interval: 1h, burst: 1}\n")
    assert [get(server)[0] for _ in range(2)] == [200, 429]
    replace(web_file, text)
    assert get(server)[0] == 429


def test_a_file_that_has_become_empty_leaves_tls_on(serve, web_file, authority):
    server = serve(tls_file(authority.issue("server")))
    web_file.write_text("")
    assert get(server, context=client_context(authority)) == (200, PAGE)


def test_a_defect_in_reading_the_files_again_keeps_nobody_out_and_tells_no_secret(
    serve, web_file, monkeypatch, caplog, capfd
):
    monkeypatch.setattr(access, "_RETRY", 0.0)
    server = serve(f"basic_auth_users:\n  alice: {bcrypt('one')}\n")

    def fail(path, **_):
        raise ZeroDivisionError(path.read_text())

    with monkeypatch.context() as patch:
        patch.setattr(access.web_config, "load", fail)
        replace(web_file, "basic_auth_users: {alice: hunter2}\n")
        for _ in range(3):
            assert get(server)[0] == 401
            assert get(server, Authorization=basic("alice", "one"))[0] == 200
    (error,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert error == f"--web.config.file={web_file}: cannot be used: ZeroDivisionError; what held before goes on"
    assert "hunter2" not in caplog.text + capfd.readouterr().err


def test_headers_are_on_every_answer(serve):
    server = serve("http_server_config:\n  headers:\n    X-Content-Type-Options: nosniff\n")
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request("GET", "/nowhere")
    assert connection.getresponse().headers["X-Content-Type-Options"] == "nosniff"
    connection.close()


def test_beyond_the_rate_limit_the_answer_is_429(serve):
    server = serve("rate_limit: {interval: 1h, burst: 2}")
    assert [get(server)[0] for _ in range(4)] == [200, 200, 429, 429]


def test_the_rate_limit_gives_one_request_every_interval():
    clock = FakeClock()
    limiter = Limiter(RateLimit(interval=10, burst=2), clock)
    assert [limiter.allows() for _ in range(3)] == [True, True, False]
    clock.advance(10)
    assert [limiter.allows() for _ in range(2)] == [True, False]
    clock.advance(1000)
    assert [limiter.allows() for _ in range(3)] == [True, True, False]
