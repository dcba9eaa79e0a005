// Runs the real program as its users do: arguments in; stdout, stderr and an exit code out.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

struct Finished {
  int exit_code = -1;  ///< 128 + the signal, if one ended it
  std::string out;
  std::string err;
  std::uint64_t peak_rss_bytes = 0;  ///< as the system measured it from outside
};

/// A process of the program. Killed, with a test failure, if it says nothing for longer than a test
/// waits. It comes no further than a page of stdout beyond what its test has read.
class Program {
 public:
  enum class Errors { pipe, terminal, full, closed };  ///< what its stderr is

  explicit Program(const std::vector<std::string>& arguments, Errors errors = Errors::pipe);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void write(std::string_view text);  ///< to its stdin
  void close_input();
  void close_output();  ///< nobody reads its stdout any more
  void interrupt();     ///< Ctrl-C
  void kill();          ///< SIGKILL: it can do nothing about it

  /// Waits until it has written this; false if it ended before.
  bool wait_for_out(std::string_view text);
  bool wait_for_err(std::string_view text);
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }
  pid_t pid() const { return pid_; }

  /// Closes its stdin and waits for its end.
  Finished finish();

 private:
  bool pump();  // reads what comes; false at the end of both streams
  void fail_if_late();

  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
  int errors_ = -1;
  std::string out_;
  std::string err_;
  double deadline_ = 0;
};

/// Runs it to its end, with `input` on stdin.
Finished run_program(const std::vector<std::string>& arguments, std::string_view input = {},
                     Program::Errors errors = Program::Errors::pipe);

}  // namespace sluice::cli
