"""What happens to servers under load: each function is a thread's work, done until its event is set."""
import collections
import datetime
import random
import re
import signal
import threading
import time

from cluster import wait_until

READY_S = 60
LOST = re.compile(r"^(\S+) .*worker '[^']*' at (\S+) is lost: ", re.MULTILINE)


class Disturber(threading.Thread):
    """Every `every_s` seconds `how`, one of:
      kill     a worker, drawn at random, is killed (SIGKILL) and started again at once
      restart  it is ended (SIGTERM, and its exit code must be 0) and started again
      stop     it is stopped (SIGSTOP) for stopped_s seconds; for ever if that is None, as long as another one of its
               kind runs, and woken at the end
      rolling  every worker in turn is restarted, each once it and the router are ready again; then it is over
      router   the router is killed and started again
    """

    def __init__(self, cluster, how, every_s, seed, stopped_s=5):
        super().__init__(daemon=True)
        self.cluster, self.work, self.every_s, self.stopped_s = cluster, getattr(self, how), every_s, stopped_s
        self.random = random.Random(seed)
        self.ended = threading.Event()
        self.done, self.exit_codes = collections.Counter(), collections.Counter()
        self.stopped = []  # (time.time(), worker) of each SIGSTOP
        self.asleep = []  # workers that are stopped now
        self.back_s = []  # seconds from each start of the router until it was ready

    def run(self):
        if self.work == self.rolling:
            self.rolling()
            return
        while not self.ended.wait(self.every_s):
            if self.work == self.router:
                self.router()
            else:
                role = self.random.choice(["prefill", "decode"])
                self.work(role, self.random.choice(getattr(self.cluster, role)))

    def kill(self, role, worker):
        worker.kill()
        worker.start()
        self.done[role] += 1

    def restart(self, role, worker):
        self.exit_codes[worker.stop(60)] += 1
        worker.start()
        self.done[role] += 1

    def stop(self, role, worker):
        awake = [other for other in getattr(self.cluster, role) if other not in self.asleep]
        if worker in self.asleep or len(awake) == 1:
            return
        self.stopped.append((time.time(), worker))
        self.asleep.append(worker)
        worker.process.send_signal(signal.SIGSTOP)
        self.done[role] += 1
        if self.stopped_s is not None:
            self.ended.wait(self.stopped_s)
            self.wake()

    def wake(self):
        for worker in self.asleep:
            worker.process.send_signal(signal.SIGCONT)
        self.asleep = []

    def rolling(self):
        for role in ("prefill", "decode"):
            for worker in getattr(self.cluster, role):
                self.restart(role, worker)
                wait_until(worker.serving, READY_S, "the worker is back")
                wait_until(self.everybody_is_up, READY_S, "the router uses it")
        self.ended.set()

    def router(self):
        self.cluster.router.kill()
        self.cluster.router.start()
        begin = time.monotonic()
        wait_until(self.everybody_is_up, READY_S, "the router knows its workers again")
        self.back_s.append(time.monotonic() - begin)
        self.done["router"] += 1

    def everybody_is_up(self):
        try:
            up = self.cluster.router.metric("baton_worker_up")
        except (OSError, AssertionError):  # the router does not listen yet, or knows no worker
            return False
        return up == len(self.cluster.prefill) + len(self.cluster.decode)

    def end(self):
        self.ended.set()
        self.join()
        self.wake()
        self.cluster.wait_ready()

    def given_up(self):
        """(stopped, given up by the router), in seconds of time.time(), of each worker that was stopped."""
        lost = [(timestamp(match[0]), match[1]) for match in LOST.findall(self.cluster.router.log_text())]
        found = []
        for when, worker in self.stopped:
            later = [at for at, address in lost if address == worker.address and at > when]
            found.append((when, min(later, default=None)))
        return found


def timestamp(text):
    """The time of a line of the log, in seconds of time.time()."""
    return datetime.datetime.fromisoformat(text).timestamp()
