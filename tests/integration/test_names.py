"""Routers that find their workers by names: names whose addresses change, that vanish, and that nobody answers."""
import contextlib
import os
import threading
import time

import grpc
import pytest

from cluster import MODEL, READY_TIMEOUT_S, SOON_S, Server, complete, free_port, request, wait_until
from name_server import AskedByPrograms
from stubs import rpc

FORMS = ("host:port", "dns:///", "file")
ROLES = {"p": "prefill", "d": "decode"}
MOST_SILENCE_S = 3  # without an answer, when the only worker of a role comes back elsewhere
END_S = 5  # time for a router to end after SIGTERM


class NamedFleet:
    """Two workers of each role, each behind a name of its own, and a router for each form in which names are given. d0 tells
    prefill workers its name."""

    def __init__(self, folder):
        self.folder, self.dns, self.places = folder, AskedByPrograms(folder), 0
        self.ports = {name: free_port() for name in ("p0", "p1", "d0", "d1")}
        self.workers = {name: self.new_worker(name) for name in self.ports}
        self.routers = {form: self.new_router(*self.sources(form)) for form in FORMS}
        self.started = []

    def new_worker(self, name):
        self.places += 1
        worker = Server(f"baton-{ROLES[name[0]]}-worker", f"--model={MODEL}", "--threads=1", "--insecure")
        worker.place = f"127.54.{os.getpid() % 250}.{self.places}"
        worker.argv[1] = f"--listen={worker.place}:{self.ports[name]}"
        if name == "d0":
            worker.argv.append(f"--advertise=d0.test:{self.ports[name]}")
        worker.argv = self.dns.command(worker.argv)
        return worker

    def new_router(self, *args):
        router = Server("baton-router", f"--model={MODEL}", "--expose-workers", "--insecure", "--disaggregate=always", *args)
        router.argv = self.dns.command(router.argv)
        return router

    def written(self, form, name):
        """How the router of that form is given the worker."""
        is_resolved = form == "dns:///" or (form == "file" and name[0] == "d")
        return f"{'dns:///' if is_resolved else ''}{name}.test:{self.ports[name]}"

    def sources(self, form):
        given = [(ROLES[name[0]], self.written(form, name)) for name in self.ports]
        if form != "file":
            return [f"--{role}={address}" for role, address in given]
        (self.folder / "workers").write_text("".join(f"{role} {address}\n" for role, address in given))
        return [f"--workers-file={self.folder}/workers"]

    def start(self, server):
        self.started.append(server)
        server.start()

    def point(self, name):
        self.dns.names = {**self.dns.names, f"{name}.test": [self.workers[name].place]}

    def __enter__(self):
        self.dns.__enter__()
        try:
            for name, worker in self.workers.items():
                self.point(name)
                self.start(worker)
            for router in self.routers.values():
                self.start(router)
            for router in self.routers.values():
                wait_until(lambda: router.serving("all_workers"), READY_TIMEOUT_S, f"all workers are known\n{router.log_text()}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for server in self.started:
            if server.process.poll() is None:
                server.kill()
        self.dns.__exit__()

    def ready_lines(self, name):
        """How often each router has logged that the worker, as it knows it, is ready."""
        lines = {}
        for form, router in self.routers.items():
            known = self.written(form, name)
            if known.startswith("dns:///"):
                known = f"{self.workers[name].place}:{self.ports[name]}"
            lines[form] = router.log_text().count(f"at {known} is ready")
        return lines

    def await_found(self, name, before):
        wait_until(lambda: all(now > before[form] for form, now in self.ready_lines(name).items()), SOON_S, f"all find {name}")

    @contextlib.contextmanager
    def load(self):
        """Asks each router without a pause, and gives the askers."""
        askers = [Asker(router) for router in self.routers.values()]
        try:
            for asker in askers:
                asker.start()
            yield askers
        finally:
            for asker in askers:
                asker.over.set()
            for asker in askers:
                asker.join()


class Asker(threading.Thread):
    """`answers` are the times at which answers came, `failures` what came instead."""

    def __init__(self, router):
        super().__init__()
        self.router, self.answers, self.failures, self.over = router, [], [], threading.Event()

    def run(self):
        with grpc.insecure_channel(self.router.address) as channel:
            stub = rpc.GenerationServiceStub(channel)
            while not self.over.wait(0.05):
                try:
                    complete(stub, request(ids=[30, len(self.answers) % 1000], max_tokens=4, ignore_eos=True, temperature=0))
                    self.answers.append(time.monotonic())
                except grpc.RpcError as error:
                    self.failures.append(error)

    def await_more(self, answers):
        all_answers = len(self.answers) + answers
        wait_until(lambda: len(self.answers) >= all_answers, SOON_S, f"{answers} more answers, not {self.failures[-3:]}")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with NamedFleet(tmp_path_factory.mktemp("names")) as running:
        yield running


def test_workers_whose_names_vanish_for_seconds_go_on_working(fleet):
    router = fleet.routers["dns:///"]
    names = fleet.dns.names
    with fleet.load() as askers:
        fleet.dns.names = {name: [] for name in names}
        try:
            wait_until(lambda: router.log_text().count("no such host; its workers stay") == len(names), SOON_S, "all names are gone")
            for asker in askers:
                asker.await_more(5)
        finally:
            fleet.dns.names = names
        wait_until(lambda: router.log_text().count("found again") == len(names), SOON_S, "all names are back")
    assert not [asker.failures for asker in askers if asker.failures]


def test_what_is_known_answers_at_once_beside_a_name_that_nobody_answers(fleet):
    fleet.dns.names = {**fleet.dns.names, "silent.test": None}
    (fleet.folder / "known").write_text(f"decode {fleet.workers['d1'].place}:{fleet.ports['d1']}\n")
    router = fleet.new_router("--prefill=dns:///silent.test:1", "--decode=silent.test:1",
                              f"--prefill={fleet.workers['p1'].place}:{fleet.ports['p1']}", f"--workers-file={fleet.folder}/known")
    fleet.start(router)
    wait_until(router.serving, END_S, f"a worker of each role is known\n{router.log_text()}")
    with grpc.insecure_channel(router.address) as channel:
        complete(rpc.GenerationServiceStub(channel), request(ids=[30, 31], max_tokens=4, temperature=0))
    assert router.stop(END_S) == 0

    fleet.dns.asked.clear()
    listening = fleet.new_router("--http-listen=silent.test:1", f"--decode={fleet.workers['d1'].place}:{fleet.ports['d1']}")
    fleet.start(listening)
    wait_until(lambda: "silent.test" in fleet.dns.asked, SOON_S, "the address of --http-listen is looked up")
    listening.stop(END_S)


@pytest.mark.parametrize("name", ["p0", "d0"])
def test_a_worker_that_moves_under_load_is_found_and_fails_no_request(fleet, name):
    old = fleet.workers[name]
    before = {**fleet.ready_lines(name), **({} if name == "p0" else {"file": 0}), "dns:///": 0}
    with fleet.load() as askers:
        assert old.stop(SOON_S) == 0
        fleet.workers[name] = fleet.new_worker(name)
        fleet.start(fleet.workers[name])
        fleet.point(name)
        fleet.await_found(name, before)
        for asker in askers:
            asker.await_more(3)
    assert not [asker.failures for asker in askers if asker.failures]


@pytest.mark.parametrize("name", ["p0", "d0"])
def test_the_only_worker_of_a_role_that_comes_back_elsewhere_is_found_within_seconds(fleet, name):
    other = f"{name[0]}1"
    fleet.dns.names = {**fleet.dns.names, f"{other}.test": []}
    fleet.workers[other].stop(SOON_S)
    old, new = fleet.workers[name], fleet.new_worker(name)
    fleet.start(new)
    wait_until(new.serving, READY_TIMEOUT_S, f"the new worker is ready\n{new.log_text()}")
    with fleet.load() as askers:
        for asker in askers:
            asker.await_more(3)
        old.kill()
        fleet.workers[name] = new
        fleet.point(name)
        for asker in askers:
            asker.await_more(3)
    for form, asker in zip(FORMS, askers):
        silence = max(later - earlier for earlier, later in zip(asker.answers, asker.answers[1:]))
        assert silence <= MOST_SILENCE_S, (form, silence, asker.failures)


def test_sigterm_ends_routers_whose_names_nobody_answers_any_more(fleet):
    fleet.dns.silent = True
    fleet.dns.asked.clear()
    wait_until(lambda: fleet.dns.asked, SOON_S, "a name is looked up")
    for router in fleet.routers.values():
        router.process.terminate()
    for router in fleet.routers.values():
        assert router.process.wait(END_S) == 0
