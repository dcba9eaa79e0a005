// The flags that say how an answer is written and where it ends.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "text/sampler.h"

namespace sluice::cli {

struct AnswerOptions {
  std::size_t max_new = 0;
  text::SamplingOptions sampling;
  std::vector<std::string> stops;
};

/// `max_new` is the command's default for --max-new.
void add_answer_options(CLI::App& app, std::size_t max_new, AnswerOptions& options);

}  // namespace sluice::cli
