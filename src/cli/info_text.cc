#include <fmt/format.h>

#include <map>
#include <string>

#include "base/size.h"
#include "cli/info_report.h"
#include "cli/words.h"
#include "engine/machine.h"

namespace sluice::cli {
namespace {

constexpr double kSlowDrive = 3e9;  // bytes per second: a drive on PCIe 3
constexpr double kFastDrive = 7e9;  // on PCIe 4

std::string line(std::string_view name, std::string_view value) {
  return fmt::format("{:<16}{}\n", name, value);
}

std::string layer_kinds(const model::Shape& shape) {
  std::map<std::string, std::size_t> counts;
  for (const std::string& kind : shape.layer_kinds) ++counts[kind];
  std::string text = fmt::format("{}", shape.layers);
  for (const auto& [kind, count] : counts) {
    text += fmt::format("{} {} ({})", text.find(':') == std::string::npos ? ":" : ",", count, kind);
  }
  return text;
}

std::string experts(const ModelFacts& facts) {
  const std::uint64_t count = count_experts(facts.blueprint());
  if (count == 0) return "none: every weight is used by every token";
  const std::uint64_t bytes = facts.total(model::TensorClass::experts).bytes / count;
  return fmt::format("{} in all, {} per layer, of which a token uses {}; {} each", grouped(count),
                     facts.shape().experts, facts.shape().top_k, format_size(bytes));
}

std::string table_of_classes(const ModelFacts& facts) {
  std::string text = fmt::format("{:<16}{:>10}{:>22}\n", "class", "tensors", "bytes");
  for (std::size_t i = 0; i < model::kTensorClasses; ++i) {
    const auto tensor_class = static_cast<model::TensorClass>(i);
    const model::ClassTotal& total = facts.total(tensor_class);
    if (total.tensors == 0) continue;
    text += fmt::format("{:<16}{:>10}{:>22}  {}\n", name_of(tensor_class), grouped(total.tensors),
                        grouped(total.bytes), format_size(total.bytes));
  }
  text += fmt::format("{:<16}{:>10}{:>22}  {}\n", "together", grouped(facts.tensors),
                      grouped(facts.payload_bytes), format_size(facts.payload_bytes));
  for (const std::string& name : facts.blueprint().left_out) {
    text += fmt::format("left out, as text does not use it: {}\n", name);
  }
  return text;
}

/// Where the files lie, and where they lie again; nothing if that is in one folder.
std::string folders(const ModelFacts& facts) {
  struct Held {
    std::size_t files = 0;
    std::size_t copies = 0;
  };
  std::map<std::string, Held> held;
  for (const store::ShardFile& file : facts.files) {
    ++held[file.path.parent_path().string()].files;
    for (const auto& copy : file.copies) ++held[copy.parent_path().string()].copies;
  }
  std::string text;
  if (held.size() < 2) return text;
  for (const auto& [folder, what] : held) {
    std::string has;
    if (what.files > 0) has = fmt::format("{} of the files", what.files);
    if (what.copies > 0) {
      has += fmt::format("{}copies of {}", has.empty() ? "" : ", ", what.copies);
    }
    text += line("folder", fmt::format("{}: {}", folder, has));
  }
  return text;
}

std::string needs(const ModelFacts& facts) {
  const StateBytes state = state_of_a_sequence(*facts.architecture);
  const TokenBytes token = bytes_of_a_token(facts);
  std::string text =
      line("a sequence", fmt::format("keeps {}, and {} per position", format_size(state.fixed),
                                     format_size(state.per_position)));
  return text +
         line("a token", fmt::format("reads {} if nothing is in memory: trunk and head {}, "
                                     "experts {}, its row of the embedding {}",
                                     format_size(token.sum()), format_size(token.trunk),
                                     format_size(token.experts), format_size(token.embedding)));
}

std::string reading_time(double bytes, double drive) {
  const double seconds = bytes / drive;
  return seconds < 0.00005 ? "no time" : duration(seconds);
}

std::string one_line(const Forecast& forecast, const ModelFacts& facts) {
  const std::string flag = fmt::format("--ram {}", as_flag(forecast.ram));
  if (!forecast.fits) return line(flag, "too small for this model");
  std::string text =
      fmt::format("keeps {} of trunk and head", format_size(forecast.resident_bytes));
  if (const std::uint64_t count = count_experts(facts.blueprint()); count > 0) {
    text += fmt::format(", {} of {} experts", grouped(forecast.cached_experts), grouped(count));
  }
  const auto bytes = static_cast<double>(forecast.bytes_per_token);
  text += fmt::format("; a token reads up to {}: {} at 3 GB/s, {} at 7 GB/s",
                      format_size(forecast.bytes_per_token), reading_time(bytes, kSlowDrive),
                      reading_time(bytes, kFastDrive));
  if (forecast.is_smallest) text += " (the smallest that works)";
  return line(flag, text);
}

}  // namespace

Status write_info_text(const ModelFacts& facts, const std::vector<Forecast>& forecasts,
                       Output& output) {
  const model::Shape& shape = facts.shape();
  std::string text = line("model", facts.folder.string());
  text +=
      line("architecture", fmt::format("{}: hidden size {}, {} token ids, at most {} positions",
                                       shape.architecture, grouped(shape.hidden),
                                       grouped(shape.vocabulary), grouped(shape.max_positions)));
  text += line("layers", layer_kinds(shape));
  text += line("routed experts", experts(facts));
  text += line("files", fmt::format("{}, {} bytes; {} tensors", facts.files.size(),
                                    grouped(facts.file_bytes), grouped(facts.tensors)));
  text += folders(facts);
  for (const std::string& note : facts.notes) text += line("note", note);
  text += '\n' + table_of_classes(facts) + '\n' + needs(facts) + '\n';
  if (!forecasts.empty()) {
    text += fmt::format("for a sequence of up to {} positions (--ctx), with {} threads:\n",
                        grouped(forecasts.front().context), engine::usable_cores());
  }
  for (const Forecast& forecast : forecasts) text += one_line(forecast, facts);
  return output.write(text);
}

}  // namespace sluice::cli
