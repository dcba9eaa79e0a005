// One command of the program: its flags, and what it does.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "base/result.h"

namespace sluice::cli {

/// Filled in by the command line's parser, then executed once. The parser is gone by then: what it
/// holds must not count against a memory budget.
class Command {
 public:
  virtual ~Command() = default;
  virtual Status execute() = 0;
};

/// A command and the part of the command line that chooses it.
struct Registered {
  CLI::App* app = nullptr;
  std::unique_ptr<Command> command;
};

Registered add_info(CLI::App& program);
Registered add_run(CLI::App& program);
Registered add_chat(CLI::App& program);
Registered add_logits(CLI::App& program);
Registered add_tokenize(CLI::App& program);
Registered add_synth(CLI::App& program);
Registered add_pack(CLI::App& program);
Registered add_verify(CLI::App& program);
Registered add_perplexity(CLI::App& program);
Registered add_plan(CLI::App& program);
Registered add_bench(CLI::App& program);
Registered add_doctor(CLI::App& program);
Registered add_serve(CLI::App& program);
Registered add_batch(CLI::App& program);

}  // namespace sluice::cli
