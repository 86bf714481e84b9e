"""The page while training goes on."""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from PIL import Image

from cbm.cli import main
from cbm.report.server import LiveData, Server
from cbm.runs.directory import RunDir
from synthetic import _eval, write_run
from waiting import until


@contextmanager
def serving(*folders):
    with Server(LiveData(folders, "live"), 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection(*server.server_address[:2])
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def film_of(server):
    data = json.loads(ask(server, "/data.json")[1])
    media = data["runs"][0]["media"]
    return "/" + next(medium["url"] for medium in media if medium["kind"] == "film")


def test_films_are_served_in_ranges(tmp_path):
    path = write_run(tmp_path / "run", analysed=True)
    whole = next((path / "videos").iterdir()).read_bytes()
    with serving(tmp_path) as server:
        film = film_of(server)
        for asked, status, content in [
            (None, 200, whole),
            ("bytes=0-", 206, whole),
            ("bytes=100-199", 206, whole[100:200]),
            ("bytes=-50", 206, whole[-50:]),
            (f"bytes=10-{len(whole) * 2}", 206, whole[10:]),
            (f"bytes={len(whole)}-", 416, b""),
            ("rows=1-2", 200, whole),
        ]:
            answer, body = ask(server, film, **({} if asked is None else {"Range": asked}))
            assert (answer.status, body) == (status, content)
        assert ask(server, film, "HEAD")[0].headers["Content-Length"] == str(len(whole))
        assert ask(server, film)[0].headers["Content-Type"] == "video/mp4"


def test_a_film_has_a_still_and_other_files_have_none(tmp_path):
    write_run(tmp_path / "run", analysed=True)
    with serving(tmp_path) as server:
        media = json.loads(ask(server, "/data.json")[1])["runs"][0]["media"]
        (film,) = [medium for medium in media if medium["kind"] == "film"]
        answer, body = ask(server, f"/{film['poster']}")
        assert (answer.status, answer.headers["Content-Type"]) == (200, "image/webp")
        with Image.open(io.BytesIO(body)) as still:
            assert still.size == (360, 197)
        others = [medium for medium in media if medium["kind"] != "film"]
        assert not any("poster" in medium for medium in others)
        assert ask(server, "/" + others[0]["url"].replace("media/", "poster/", 1))[0].status == 404


def test_only_what_is_listed_is_served_and_only_to_this_machine(tmp_path):
    write_run(tmp_path / "run", analysed=True)
    (tmp_path / "secret.txt").write_text("secret")
    with serving(tmp_path) as server:
        assert server.server_address[0] == "127.0.0.1"
        film = film_of(server).partition("?")[0]
        folder = film.rpartition("/")[0]
        for path in (
            "/secret.txt",
            "/media/../secret.txt",
            f"{folder}/../../secret.txt",
            f"{folder}/%2e%2e/config.json",
        ):
            assert ask(server, path)[0].status == 404
        assert ask(server, "/", Host="evil.example:80")[0].status == 403
        assert ask(server, "/")[0].status == 200
        assert ask(server, "/", "POST")[0].status == 501


def test_numbers_are_sent_again_only_when_they_change(tmp_path, monkeypatch):
    monkeypatch.setattr("cbm.report.server._PAUSE", 0.0)
    path = write_run(tmp_path / "run", reached=50_000)
    with serving(tmp_path) as server:
        answer, body = ask(server, "/data.json")
        tag = answer.headers["ETag"]
        assert ask(server, "/data.json", **{"If-None-Match": tag})[0].status == 304
        with (path / "evals.jsonl").open("a") as file:
            file.write(json.dumps({"env_step": 60_000, "train": {"mean": 1.0}}) + "\n")
        answer, body = ask(server, "/data.json", **{"If-None-Match": tag})
        assert answer.status == 200
        assert json.loads(body)["runs"][0]["returns"]["train"]["steps"][-1] == 60_000


def test_it_follows_a_run_and_keeps_filter_zoom_and_film(tmp_path, open_page, monkeypatch):
    import numpy as np

    monkeypatch.setattr("cbm.report.server._PAUSE", 0.1)
    rng = np.random.default_rng(0)
    write_run(tmp_path / "done", "drqv2", analysed=True)
    path = write_run(tmp_path / "new", "drqv2+cbm", reached=50_000)
    with serving(tmp_path) as server, RunDir(path).locked():
        page = open_page(server.url)
        assert page.locator("#states").text_content().startswith("▶ 1 running")
        assert str(os.getpid()) in page.locator("#runs .why").first.text_content()
        page.locator("#curves svg.plot").first.focus()
        page.keyboard.press("+")
        page.locator("#films").scroll_into_view_if_needed()
        page.get_by_role("button", name="Play all").click()
        until(page, "document.querySelector('#films video').currentTime > 0")
        page.evaluate("document.querySelector('#films video').loop = true")
        zoom = page.locator("#curves svg.plot").first.get_attribute("data-x")
        assert zoom != "0 100000"
        page.locator("[data-filter=split] summary").click()
        page.get_by_role("button", name="only unseen", exact=True).click()
        for step in (60_000, 70_000):
            line = json.dumps(_eval(rng, "drqv2+cbm", step, 100_000, ("train", "unseen")))
            with (path / "evals.jsonl").open("a") as file:
                file.write(line[:40])
                file.flush()
                file.write(line[40:] + "\n")
        write_run(tmp_path / "third", "proto", seed=3)
        until(page, "document.querySelector('#runs').textContent.includes('70K of 100K')")
        assert page.locator("#runs [data-run]").count() == 3
        assert page.locator("#curves .panel h3").all_text_contents() == ["cartpole-swingup, unseen videos"]
        assert page.locator("#curves svg.plot").first.get_attribute("data-x") == zoom
        assert page.evaluate("!document.querySelector('#films video').paused")
        assert page.locator("#left-out").is_hidden()  # a line that is being written is no problem
        section = page.locator("#embedding")
        section.scroll_into_view_if_needed()
        section.get_by_text("Point at a dot to see its frame.").first.wait_for()


def test_an_empty_folder_waits_for_its_first_run(tmp_path, open_page, monkeypatch):
    monkeypatch.setattr("cbm.report.server._PAUSE", 0.1)
    with serving(tmp_path) as server:
        page = open_page(server.url)
        assert "is empty" in page.locator("#left-out").text_content()
        write_run(tmp_path / "first")
        until(page, "document.querySelectorAll('#runs [data-run]').length === 1")
        assert page.locator("#curves .panel").count() == 2


def test_the_command_says_where_it_is_and_ends_with_ctrl_c(tmp_path):
    command = [sys.executable, "-m", "cbm.cli", "watch", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(f"watching {tmp_path} at http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: does not exist. Name the folder that your runs are in: cbm watch runs"),
        (["--port", "0"], "runs: does not exist"),
        ([".", "--port", "99999"], "ports go from 1 to 65535"),
    ],
)
def test_bad_input_is_named(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["watch", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_a_port_that_is_taken_is_named_with_the_next(tmp_path, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["watch", str(tmp_path), "--port", str(port)]) == 1
        assert f"port {port} cannot be used (Address already in use). Type --port {port + 1}" in capsys.readouterr().err
