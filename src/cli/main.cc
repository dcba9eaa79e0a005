// The program sluice: finds the command, runs it, and turns its error into an exit code.
#include <malloc.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <variant>

#include "base/log.h"
#include "cli/command.h"
#include "cli/interrupts.h"
#include "cli/output.h"
#include "cli/version.h"

namespace sluice::cli {
namespace {

constexpr int kUsageExit = exit_code(ErrorKind::usage);

/// The heap must not keep what was given back: resident memory is what a budget is held against.
void keep_heap_small() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 128 << 10);  // a set value no longer grows by itself
  mallopt(M_TRIM_THRESHOLD, 128 << 10);
}

int report(const Error& error) {
  if (error.kind == ErrorKind::interrupted) {
    fmt::print(stderr, "sluice: interrupted\n");
  } else {
    fmt::print(stderr, "sluice: error: {}\n", error.message);
  }
  return exit_code(error.kind);
}

using Parsed = std::variant<std::unique_ptr<Command>, int>;

/// What the parser has to say when there is no command to run: help, the version or an error.
int explain(const CLI::App& app, const std::vector<Registered>& commands,
            const CLI::ParseError& error) {
  const CLI::App* scope = &app;
  for (const Registered& each : commands) {
    if (each.app->parsed()) scope = each.app;
  }
  const std::string name = scope == &app ? "sluice" : "sluice " + scope->get_name();
  if (error.get_exit_code() == 0) {  // --help or --version
    const bool is_help = error.get_name() != "CallForVersion";
    const std::string text = is_help ? scope->help(name) : std::string(error.what()) + "\n";
    const Status written = Output::standard().write(text);
    return written ? 0 : report(written.error());
  }
  return report({ErrorKind::usage, fmt::format("{}; see {} --help", error.what(), name)});
}

Parsed parse_command_line(int count, char** arguments) {
  CLI::App app("Runs language models that are far larger than memory: weights stream from disk.");
  app.name("sluice");
  app.get_formatter()->column_width(34);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.set_version_flag("--version", "sluice " + std::string(kVersion), "Print the version");
  app.set_help_flag("-h,--help", "Print this help");
  app.require_subcommand(1);
  app.footer(
      "Each command has its own help: sluice run --help\n"
      "stdout carries the answer only; notes and errors go to stderr.\n"
      "Sizes are powers of two: 64M, 6G, 1.5GiB.\n\n"
      "Exit codes: 0 done, 2 usage, 3 the model's files, 4 does not fit in memory,\n"
      "5 a drive failed, 6 a number went bad, 130 interrupted.");
  std::vector<Registered> commands;
  for (const auto add : {add_info, add_run, add_chat, add_logits, add_tokenize, add_synth, add_plan,
                         add_bench, add_doctor}) {
    commands.push_back(add(app));
  }
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return explain(app, commands, error);
  }
  for (Registered& each : commands) {
    if (each.app->parsed()) return std::move(each.command);
  }
  return kUsageExit;  // not reached: a command is required
}

int run(int count, char** arguments) {
  keep_heap_small();
  std::signal(SIGPIPE, SIG_IGN);  // a reader that goes away is seen by write()
  if (const Status status = Interrupts::install(); !status) return report(status.error());
  Parsed parsed = parse_command_line(count, arguments);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  malloc_trim(0);
  const Status status = std::get<std::unique_ptr<Command>>(parsed)->execute();
  return status ? 0 : report(status.error());
}

}  // namespace
}  // namespace sluice::cli

int main(int count, char** arguments) {
  using sluice::ErrorKind;
  try {
    return sluice::cli::run(count, arguments);
  } catch (const std::bad_alloc&) {
    std::fputs("sluice: error: the system has no memory left for the program itself\n", stderr);
    return exit_code(ErrorKind::memory);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sluice: error: %s\n", error.what());
    return 1;
  }
}
