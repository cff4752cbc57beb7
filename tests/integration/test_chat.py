"""The chat of `baton run` on a terminal that can move its cursor: editing, history, pastes, Ctrl-C.

A played server keeps the talk that comes with each message, so that a test sees what was sent."""
import concurrent.futures
import os
import subprocess
import threading

import grpc
import pytest

from cluster import BIN, SOON_S, free_port, wait_until
from stubs import pb, rpc

PASTE, PASTED = "\x1b[200~", "\x1b[201~"  # what a terminal sends around a paste once it was asked to
LEFT, UP = "\x1b[D", "\x1b[A"


class Talks(rpc.GenerationServiceServicer):
    """Answers "answer N."; to the message "long" it says "begun" and then nothing until the call ends."""

    def __init__(self):
        self.talks = []

    def Generate(self, request, context):
        self.talks.append([f"{message.role}: {message.content}" for message in request.chat.messages])
        if request.chat.messages[-1].content == "long":
            ended = threading.Event()
            context.add_callback(ended.set)
            yield pb.GenerateResponse(chunk=pb.GenerateChunk(text="begun"))
            ended.wait(SOON_S)
            return
        yield pb.GenerateResponse(chunk=pb.GenerateChunk(text=f"answer {len(self.talks)}."))
        yield pb.GenerateResponse(complete=pb.GenerateComplete(finish_reason=pb.FINISH_REASON_STOP))


class Terminal:
    """`baton run` on a terminal. `talks` are those that the server got."""

    def __init__(self, address, service, kind):
        self.service = service
        self.reader, terminal = os.openpty()
        os.set_blocking(self.reader, False)
        environment = {**os.environ, "TERM": kind, "LC_ALL": "C"}
        self.process = subprocess.Popen([str(BIN / "baton"), "run", "--server", address], stdin=terminal, stdout=terminal,
                                        stderr=terminal, env=environment, start_new_session=True,
                                        preexec_fn=lambda: make_controlling(0))
        os.close(terminal)
        self.shown = ""

    def read(self):
        try:
            self.shown += os.read(self.reader, 65536).decode(errors="replace")
        except OSError:
            pass  # nothing to read yet, or the program has ended
        return self.shown

    def await_shown(self, text, times=1):
        wait_until(lambda: self.read().count(text) >= times, SOON_S, f"{text!r} {times} times in {self.shown!r}")

    def type(self, text):
        """Writes all of it; a terminal takes a few KB until the program reads."""
        rest = text.encode()

        def written():
            nonlocal rest
            self.read()
            try:
                rest = rest[os.write(self.reader, rest[:1024]):]
            except BlockingIOError:
                pass
            return not rest

        wait_until(written, SOON_S, "the terminal takes what is typed")

    def last_message(self, talks):
        """What the talk's last message is once the server got `talks` of them and the answer is shown."""
        self.await_shown(f"answer {talks}.")
        return self.service.talks[talks - 1][-1]


def make_controlling(fd):
    import fcntl
    import termios
    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)


@pytest.fixture(name="terminal", params=["xterm-256color"])
def _terminal(request):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        server, service = grpc.server(pool), Talks()
        rpc.add_GenerationServiceServicer_to_server(service, server)
        address = f"127.0.0.1:{free_port()}"
        server.add_insecure_port(address)
        server.start()
        terminal = Terminal(address, service, request.param)
        try:
            terminal.await_shown(">>> ")
            yield terminal
        finally:
            terminal.process.kill()
            terminal.process.wait()
            os.close(terminal.reader)
            server.stop(0)


def test_a_paste_of_many_lines_arrives_whole_and_as_one_message(terminal):
    text = "first\n\n/bye\n" + "\n".join(f"line {i} é 漢 \t of a long paste" for i in range(400))
    assert len(text.encode()) > 3 * 4096
    terminal.type(PASTE + text.replace("\n", "\r") + PASTED)
    terminal.type(" and this\r")
    assert terminal.last_message(1) == f"user: {text} and this"


def test_a_line_longer_than_a_terminal_keeps_is_sent_whole(terminal):
    terminal.type("word " * 1200 + "end\r")
    assert terminal.last_message(1) == "user: " + "word " * 1200 + "end"


def test_lines_can_be_edited_and_come_back_from_the_history(terminal):
    terminal.type("hallé" + LEFT * 3 + "\x7fe\r")
    assert terminal.last_message(1) == "user: hellé"
    terminal.type("two\r")
    assert terminal.last_message(2) == "user: two"
    terminal.type(UP + UP + " again\r")
    assert terminal.last_message(3) == "user: hellé again"


def test_ctrl_c_empties_the_line_and_on_an_empty_one_says_how_to_end(terminal):
    terminal.type("not this\x03this\r")
    assert terminal.last_message(1) == "user: this"
    terminal.type("\x03")
    terminal.await_shown("/bye or Ctrl-D ends the chat")
    terminal.type("\x04")
    assert terminal.process.wait(SOON_S) == 0


def test_ctrl_c_in_an_answer_keeps_what_was_said(terminal):
    terminal.type("long\r")
    terminal.await_shown("begun")
    terminal.type("\x03")
    terminal.await_shown(">>> ", times=2)
    terminal.type("go on\r")
    terminal.await_shown("answer 2.")
    assert terminal.service.talks[1] == ["user: long", "assistant: begun", "user: go on"]


@pytest.mark.parametrize("terminal", ["dumb"], indirect=True)
def test_a_terminal_without_a_cursor_to_move_says_that_it_cuts_a_line(terminal):
    terminal.type("word " * 1200 + "\r")
    terminal.await_shown("the terminal cuts lines at 4095 bytes, and this one is not sent")
    terminal.type("short\r")
    assert terminal.last_message(1) == "user: short"
