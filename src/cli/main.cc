// The program sluice: finds the command, runs it, and turns its error into an exit code.
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <variant>
#include <vector>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/interrupts.h"
#include "cli/output.h"
#include "cli/usage_error.h"
#include "cli/version.h"

namespace sluice::cli {
namespace {

constexpr int kUsageExit = exit_code(ErrorKind::usage);
constexpr int kFaultExit = 1;

/// The heap must not keep what was given back: resident memory is what a budget is held against.
void keep_heap_small() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 128 << 10);  // a set value no longer grows by itself
  mallopt(M_TRIM_THRESHOLD, 128 << 10);
}

/// A file that is opened later must not become stdin, stdout or stderr because one was closed.
void fill_standard_descriptors() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    // Takes the lowest free number, this one. Writing to it stays the error that it was.
    static_cast<void>(::open("/dev/null", O_RDONLY));
  }
}

int report(const Error& error) {
  if (error.kind == ErrorKind::interrupted) {
    write_to_stderr("sluice: interrupted\n");
  } else {
    write_to_stderr(fmt::format("sluice: error: {}\n", error.message));
  }
  return exit_code(error.kind);
}

/// Of an exception that none of our functions may let out.
int report_fault(const std::exception& error) {
  write_to_stderr(fmt::format(
      "sluice: error: a fault of Sluice itself: {}; please report it with the command\n",
      error.what()));
  return kFaultExit;
}

/// `sluice help [COMMAND]` is what other programs understand.
std::vector<const char*> with_help_as_flag(std::vector<const char*> words) {
  if (words.size() < 2 || std::string_view(words[1]) != "help") return words;
  words.erase(words.begin() + 1);
  words.push_back("--help");
  return words;
}

using Parsed = std::variant<std::unique_ptr<Command>, int>;

/// An argument that the parser took for a group of short flags, and a text to its user.
std::string dashed_text(int count, const char* const* arguments) {
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--" || argument == "-h" || argument == "--help") return "";
    if (argument.starts_with("-h")) return std::string(argument);
  }
  return "";
}

/// What the parser has to say when there is no command to run: help, the version or an error.
int explain(const CLI::App& app, const std::vector<Registered>& commands,
            const CLI::ParseError& error, int count, const char* const* arguments) {
  const std::string_view first = count > 1 ? arguments[1] : "";
  const CLI::App* scope = &app;
  for (const Registered& each : commands) {
    if (each.app->parsed()) scope = each.app;
  }
  const bool is_command = scope != &app;
  const std::string name = is_command ? "sluice " + scope->get_name() : "sluice";
  const std::string dashed = dashed_text(count, arguments);
  // Of a name that no command has, there is no help.
  const bool is_unknown = !is_command && !first.empty() && !first.starts_with('-');
  if (error.get_exit_code() == 0 && dashed.empty() && !is_unknown) {  // --help or --version
    const bool is_help = error.get_name() != "CallForVersion";
    const std::string text =
        is_help ? scope->help(is_command ? "sluice" : "") : std::string(error.what()) + "\n";
    const Status written = Output::standard().write(text);
    return written ? 0 : report(written.error());
  }
  std::string what = usage_error(error);
  if (!is_command && error.get_name() == "RequiredError") what = "no command is given";
  if (is_unknown) what = fmt::format("there is no command '{}'", first.substr(0, 40));
  if (error.get_exit_code() == 0 && !is_unknown)
    what = fmt::format("there is no flag {}", dashed.substr(0, 40));
  if (scope->get_name() == "tokenize" && (!dashed.empty() || error.get_name() == "ExtrasError")) {
    what += "; a text that begins with a dash comes after --";
  }
  return report({ErrorKind::usage, fmt::format("{}; see {} --help", what, name)});
}

Parsed parse_command_line(int count, const char* const* arguments) {
  CLI::App app("Runs language models that are far larger than memory: weights stream from disk.");
  app.name("sluice");
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.get_formatter()->label("Positionals", "Arguments");
  app.set_version_flag("--version", "sluice " + std::string(kVersion), "Print the version");
  app.set_help_flag("-h,--help", "Print this help");
  app.require_subcommand(1);
  app.footer(
      "Each command has its own help: sluice run --help\n"
      "stdout carries the answer only; notes and errors go to stderr.\n"
      "Sizes are powers of two: 64M, 6G, 1.5GiB.\n\n"
      "Exit codes: 0 done, 1 a fault of Sluice itself, 2 usage, 3 the model's files, 4 does not\n"
      "fit in memory or in the context, 5 a drive failed, 6 a number went bad (NaN or infinity),\n"
      "130 interrupted with Ctrl-C; a signal that ends the program gives 128 and its number, as\n"
      "143 for SIGTERM. sluice serve ends with 0 after either of them, and with 130 or 143 if\n"
      "another follows.");
  std::vector<Registered> commands;
  for (const auto add :
       {add_info, add_run, add_chat, add_logits, add_tokenize, add_synth, add_pack, add_verify,
        add_plan, add_bench, add_doctor, add_perplexity, add_serve, add_batch}) {
    commands.push_back(add(app));
    commands.back().app->group("Commands");
  }
  refuse_empty_names(app);
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return explain(app, commands, error, count, arguments);
  }
  for (Registered& each : commands) {
    if (each.app->parsed()) return std::move(each.command);
  }
  return kUsageExit;  // not reached: a command is required
}

int run(int count, char** arguments) {
  keep_heap_small();
  fill_standard_descriptors();
  std::signal(SIGPIPE, SIG_IGN);  // a reader that goes away is seen by write()
  if (const Status status = Interrupts::install(); !status) return report(status.error());
  const std::vector<const char*> words = with_help_as_flag({arguments, arguments + count});
  Parsed parsed = parse_command_line(static_cast<int>(words.size()), words.data());
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
    sluice::cli::write_to_stderr(
        "sluice: error: the system has no memory left for the program itself\n");
    return exit_code(ErrorKind::memory);
  } catch (const std::system_error& error) {
    return sluice::cli::report(
        {ErrorKind::drive, std::string("the system refused something: ") + error.what()});
  } catch (const std::exception& error) {
    return sluice::cli::report_fault(error);
  }
}
