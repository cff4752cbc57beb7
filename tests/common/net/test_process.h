// A child process with its output, for tests.
#pragma once

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

extern char** environ;

namespace baton {

class TestProcess {
 public:
  explicit TestProcess(std::vector<std::string> arguments) {
    int out[2];
    int err[2];
    if (pipe(out) != 0 || pipe(err) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    for (const int fd : {out[0], out[1], err[0], err[1]})
      posix_spawn_file_actions_addclose(&actions, fd);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    if (posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(err[1]);
    out_ = out[0];
    err_ = err[0];
  }
  ~TestProcess() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      Wait();
    }
    close(out_);
    close(err_);
  }

  pid_t pid() const { return pid_; }
  void Signal(int signal) { kill(pid_, signal); }
  // The next line of its stdout without the newline; empty at the end of the output.
  std::string ReadLine() { return Read(out_, true); }
  std::string ReadErrors() { return Read(err_, false); }
  // Waits for its end. Returns the exit code, or 128 + the signal that ended it.
  int Wait() {
    int status = 0;
    if (waitpid(pid_, &status, 0) < 0) return -1;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  static std::string Read(int fd, bool line) {
    std::string text;
    char c = 0;
    while (read(fd, &c, 1) == 1 && !(line && c == '\n')) text.push_back(c);
    return text;
  }

  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
};

}  // namespace baton
