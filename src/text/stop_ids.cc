#include "text/stop_ids.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "text/json.h"
#include "text/small_file.h"

namespace sluice::text {
namespace {

constexpr std::uint64_t kConfigLimit = std::uint64_t{1} << 20;

Status add_configured(const Tokenizer& tokenizer, const std::filesystem::path& path,
                      std::vector<std::int32_t>& ids) {
  SLUICE_ASSIGN(const std::string text, read_small_file(path, kConfigLimit));
  SLUICE_ASSIGN(const Json root, parse_json(text, path.native(), ErrorKind::model_files));
  if (!root.is_object()) return fail(ErrorKind::model_files, "{}: not an object", path.native());
  const auto found = root.find("eos_token_id");
  if (found == root.end() || found->is_null()) return {};
  const Json list = found->is_array() ? *found : Json::array({*found});
  for (const Json& id : list) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= tokenizer.vocabulary()) {
      return fail(ErrorKind::model_files,
                  "{}: eos_token_id {} is not an id of the tokenizer (0 to {})", path.native(),
                  python_json(id, JsonForm::spaced), tokenizer.vocabulary() - 1);
    }
    ids.push_back(id.get<std::int32_t>());
  }
  return {};
}

}  // namespace

Result<std::vector<std::int32_t>> stop_ids(const Tokenizer& tokenizer,
                                           const std::filesystem::path& folder) {
  std::vector<std::int32_t> ids;
  for (const char* name : {"[EOS]", "<|end_of_msg|>", "<|im_end|>", "<end_of_turn>", "<|eot_id|>",
                           "<|return|>", "<|call|>"}) {
    if (const auto id = tokenizer.special_id(name)) ids.push_back(*id);
  }
  const auto path = folder / "generation_config.json";
  std::error_code error;
  // A link that leads nowhere is a file that is missing, not one that never was.
  if (!folder.empty() && std::filesystem::exists(std::filesystem::symlink_status(path, error))) {
    SLUICE_TRY(add_configured(tokenizer, path, ids));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace sluice::text
