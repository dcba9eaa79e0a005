#include "cli/tokens.h"

#include <optional>
#include <string>

#include "base/size.h"
#include "cli/model_facts.h"
#include "engine/model_text.h"
#include "store/checkpoint.h"

namespace sluice::cli {
namespace {

/// How long a text can be.
struct Bounds {
  std::size_t longest = 0;                        // bytes of a token; 0: there is no bound
  std::optional<std::size_t> context, positions;  // asked for, and the model's
};

Result<Bounds> bounds_of(const ComputeOptions& options, bool is_one_sequence) {
  Bounds bounds;
  SLUICE_ASSIGN(const text::Tokenizer tokenizer, load_tokenizer(options.model));
  bounds.longest = tokenizer.longest_token().value_or(0);
  if (!is_one_sequence) return bounds;
  bounds.context = options.context;
  if (bounds.context) return bounds;
  SLUICE_ASSIGN(const ModelFacts facts, gather_facts(options.model, options.model_folders));
  bounds.positions = facts.shape().max_positions;
  return bounds;
}

Status check_bytes(std::uint64_t bytes, const Bounds& bounds, std::optional<std::uint64_t> ram) {
  const std::uint64_t tokens =
      bounds.longest == 0 ? 0 : (bytes + bounds.longest - 1) / bounds.longest;
  const std::string what =
      fmt::format("{} of text are at least {} tokens, as none is longer than {} bytes",
                  format_size(bytes), tokens, bounds.longest);
  if (bounds.context && tokens > *bounds.context) {
    return fail(ErrorKind::memory, "{}, and do not fit into the context of {} (--ctx)", what,
                *bounds.context);
  }
  if (bounds.positions && tokens > *bounds.positions) {
    return fail(ErrorKind::memory,
                "{}, and do not fit: this model was made for at most {} positions; shorten the "
                "text, nothing of it is cut",
                what, *bounds.positions);
  }
  if (const std::uint64_t needs = bytes + tokens * sizeof(std::int32_t); ram && needs > *ram) {
    return fail(ErrorKind::memory, "{} of text with its ids do not fit into --ram {}",
                format_size(bytes), format_size(*ram));
  }
  return {};
}

SizeCheck check_with(const ComputeOptions& options, bool is_one_sequence) {
  return [&options, is_one_sequence,
          bounds = std::optional<Bounds>()](std::uint64_t bytes) mutable -> Status {
    if (!bounds) {
      SLUICE_ASSIGN(bounds, bounds_of(options, is_one_sequence));
    }
    return check_bytes(bytes, *bounds, options.ram);
  };
}

}  // namespace

SizeCheck memory_check(const ComputeOptions& options) { return check_with(options, false); }
SizeCheck size_check(const ComputeOptions& options) { return check_with(options, true); }

Result<text::Tokenizer> load_tokenizer(const std::filesystem::path& model) {
  auto tokenizer = engine::load_tokenizer(model);
  if (tokenizer) return tokenizer;
  if (const auto checkpoint = store::Checkpoint::open(model); !checkpoint) {
    return tl::unexpected(checkpoint.error());
  }
  return tokenizer;
}

Result<std::vector<std::int32_t>> end_ids(const text::Tokenizer* tokenizer,
                                          const std::filesystem::path& folder,
                                          const model::Shape& shape) {
  std::vector<std::int32_t> ids;
  if (tokenizer != nullptr) {
    SLUICE_ASSIGN(ids, text::stop_ids(*tokenizer, folder));
  }
  ids.insert(ids.end(), shape.end_ids.begin(), shape.end_ids.end());
  return ids;
}

Result<std::vector<std::int32_t>> prompt_ids(const PromptOptions& prompt,
                                             const std::filesystem::path& model,
                                             const SizeCheck& check) {
  SLUICE_ASSIGN(const std::string text, read_prompt(prompt, check));
  if (!prompt.has_text()) return prompt.ids;
  SLUICE_ASSIGN(const text::Tokenizer tokenizer, load_tokenizer(model));
  return tokenizer.encode_prompt(text);
}

}  // namespace sluice::cli
