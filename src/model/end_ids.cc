#include "model/end_ids.h"

namespace sluice::model {

std::vector<std::int32_t> read_end_ids(const nlohmann::json& config, std::size_t vocabulary,
                                       std::vector<std::string>& faults) {
  const auto found = config.find("eos_token_id");
  if (found == config.end() || found->is_null()) return {};
  const nlohmann::json list = found->is_array() ? *found : nlohmann::json::array({*found});
  std::vector<std::int32_t> ids;
  for (const nlohmann::json& id : list) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= vocabulary) {
      faults.emplace_back("config.json: eos_token_id: expected ids of the vocabulary");
      break;
    }
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

std::vector<std::int32_t> read_end_ids(const store::Metadata& metadata, std::size_t vocabulary,
                                       std::vector<std::string>& faults) {
  std::vector<std::int32_t> ids;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    if (!metadata.has(key)) continue;
    const auto id = metadata.count(key, 0, vocabulary - 1);
    if (id) {
      ids.push_back(static_cast<std::int32_t>(*id));
    } else {
      faults.push_back(id.error().message);
    }
  }
  return ids;
}

}  // namespace sluice::model
