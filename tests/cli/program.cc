#include "cli/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <utility>

extern char** environ;

namespace sluice::cli {
namespace {

// Seconds without any output in which a test waits for some.
#ifdef SLUICE_SANITIZED
constexpr double kLongest = 3600;  // a measurement of the kernels alone takes minutes
#else
constexpr double kLongest = 600;
#endif
// What a program may have written beyond what was read of it (a page, the least that a pipe has):
// one with more to say is still at it when its test wakes up, however late that is.
constexpr int kAheadBytes = 4096;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Pipe {
  int read = -1;
  int write = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  return {ends[0], ends[1]};
}

/// A terminal: what is written to `write` is read from `read`.
Pipe make_terminal() {
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  EXPECT_GE(master, 0);
  EXPECT_EQ(grantpt(master), 0);
  EXPECT_EQ(unlockpt(master), 0);
  const int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
  EXPECT_GE(slave, 0);
  return {master, slave};
}

Pipe make_errors(Program::Errors errors) {
  switch (errors) {
    case Program::Errors::pipe:
      return make_pipe();
    case Program::Errors::terminal:
      return make_terminal();
    case Program::Errors::full:
      return {-1, open("/dev/full", O_WRONLY | O_CLOEXEC)};
    case Program::Errors::closed:
      break;
  }
  return {};
}

void close_if_open(int& descriptor) {
  if (descriptor >= 0) close(std::exchange(descriptor, -1));
}

/// Reads once; closes the descriptor at its end (for a terminal that is an error).
void read_some(int& descriptor, std::string& text) {
  std::array<char, 65536> piece{};
  const ssize_t count = read(descriptor, piece.data(), piece.size());
  if (count > 0) {
    text.append(piece.data(), static_cast<std::size_t>(count));
  } else if (count == 0 || errno != EINTR) {
    close_if_open(descriptor);
  }
}

/// The programs must not touch what the user has remembered.
class CacheHome {
 public:
  CacheHome() {
    std::string name = (std::filesystem::temp_directory_path() / "sluice-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
    setenv("XDG_CACHE_HOME", path_.c_str(), 1);
  }
  ~CacheHome() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  CacheHome(const CacheHome&) = delete;
  CacheHome& operator=(const CacheHome&) = delete;

 private:
  std::filesystem::path path_;
};

}  // namespace

Program::Program(const std::vector<std::string>& arguments, Errors errors) {
  static const CacheHome cache;
  ::signal(SIGPIPE, SIG_IGN);  // write() sees that the program has ended
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  static_cast<void>(fcntl(out.write, F_SETPIPE_SZ, kAheadBytes));
  Pipe err = make_errors(errors);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.write, STDOUT_FILENO);
  if (err.write >= 0) {
    posix_spawn_file_actions_adddup2(&actions, err.write, STDERR_FILENO);
  } else {
    posix_spawn_file_actions_addclose(&actions, STDERR_FILENO);
  }
  std::vector<std::string> words = {SLUICE_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  EXPECT_EQ(posix_spawn(&pid_, SLUICE_PROGRAM, &actions, nullptr, pointers.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close_if_open(in.read);
  close_if_open(out.write);
  close_if_open(err.write);
  input_ = in.write;
  output_ = out.read;
  errors_ = err.read;
}

Program::~Program() {
  close_if_open(input_);
  close_if_open(output_);
  close_if_open(errors_);
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Program::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(input_, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;  // it has ended; finish() tells how
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

void Program::close_input() { close_if_open(input_); }
void Program::close_output() { close_if_open(output_); }
void Program::interrupt() { ::kill(pid_, SIGINT); }

void Program::kill() { ::kill(pid_, SIGKILL); }

bool Program::pump() {
  std::array<pollfd, 2> waiting = {{{output_, POLLIN, 0}, {errors_, POLLIN, 0}}};
  if (output_ < 0 && errors_ < 0) return false;
  const bool any = poll(waiting.data(), waiting.size(), 100) > 0;  // negative ones are passed over
  if (any) deadline_ = now() + kLongest;
  if (waiting[0].revents != 0) read_some(output_, out_);
  if (waiting[1].revents != 0) read_some(errors_, err_);
  fail_if_late();
  return true;
}

void Program::fail_if_late() {
  if (now() < deadline_) return;
  ADD_FAILURE() << "the program hangs; so far it wrote:\n" << out_ << "\n" << err_;
  ::kill(pid_, SIGKILL);
  deadline_ = now() + kLongest;
}

bool Program::wait_for_out(std::string_view text) {
  deadline_ = now() + kLongest;
  while (out_.find(text) == std::string::npos) {
    if (!pump()) return false;
  }
  return true;
}

bool Program::wait_for_err(std::string_view text) {
  deadline_ = now() + kLongest;
  while (err_.find(text) == std::string::npos) {
    if (!pump()) return false;
  }
  return true;
}

Finished Program::finish() {
  close_input();
  deadline_ = now() + kLongest;
  while (pump()) continue;
  int status = 0;
  rusage usage{};
  while (wait4(pid_, &status, 0, &usage) < 0 && errno == EINTR) continue;
  pid_ = -1;
  Finished finished;
  finished.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  finished.out = out_;
  finished.err = err_;
  // Counts from the moment of the spawn, so it includes this process's own size: smaller by far.
  finished.peak_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) << 10;
  return finished;
}

Finished run_program(const std::vector<std::string>& arguments, std::string_view input,
                     Program::Errors errors) {
  Program program(arguments, errors);
  if (!input.empty()) program.write(input);
  return program.finish();
}

}  // namespace sluice::cli
