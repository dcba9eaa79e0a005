#include "cli/answer_options.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "cli/flags.h"

namespace sluice::cli {
namespace {

constexpr std::uint64_t kMostNew = std::uint64_t{1} << 30;
constexpr float kHottest = 1e6F;

}  // namespace

void add_answer_options(CLI::App& app, std::size_t max_new, AnswerOptions& options) {
  const std::string group = "Answer";
  options.max_new = max_new;
  text::SamplingOptions& sampling = options.sampling;
  add_count(app, "--max-new", options.max_new, 0, kMostNew,
            fmt::format("At most this many new tokens; default: {}", max_new))
      ->group(group);
  app.add_flag("--greedy", sampling.greedy,
               "Always take the likeliest token; the flags below then do nothing, but for --stop")
      ->group(group);
  add_real(app, "--temperature", sampling.temperature, 0, kHottest,
           "Higher is more varied, 0 is greedy; default: 1")
      ->group(group);
  add_count(app, "--top-k", sampling.top_k, 0, std::numeric_limits<int>::max(),
            "Choose among the K likeliest; 0: all, the default")
      ->type_name("K")
      ->group(group);
  add_real(app, "--top-p", sampling.top_p, 0, 1,
           "Choose among the likeliest that together have this share; 0: the likeliest; default: 1")
      ->type_name("P")
      ->group(group);
  add_real(app, "--min-p", sampling.min_p, 0, 1,
           "Drop what is less likely than this times the likeliest; default: 0")
      ->type_name("M")
      ->group(group);
  add_count(app, "--seed", sampling.seed, 0, std::numeric_limits<std::uint64_t>::max(),
            "Of the random numbers: the same seed writes the same text; default: 0")
      ->type_name("S")
      ->group(group);
  app.add_option("--stop", options.stops, "End before this text; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->group(group);
}

}  // namespace sluice::cli
